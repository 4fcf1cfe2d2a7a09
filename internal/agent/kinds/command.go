package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/fault"
	"securebench/internal/pathname"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/wheels"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// command is the operator's own agent: a command, and what it has beside it, which is
// files on the engine and an image of its own. It sees before the first task that both
// fit the tasks and that the command is there.
type command struct {
	boxed
	brought
	python requirements   // empty for none
	misfit string         // the first task whose agent cannot run in another image
	places map[place]bool // where the command has to be found
}

// Command sets up an agent that is the operator's own command.
func Command(h harness.Harness) setup.Opener {
	return inBox(h, func(b boxed) setup.Agent { return &command{boxed: b, places: map[place]bool{}} })
}

func (c *command) Demands() workload.Demands {
	d := c.boxed.Demands()
	d.Task = func(row pack.Row, t task.Task) error {
		err := c.fits(row, t)
		if err == nil {
			c.note(t.Agent())
		}
		return err
	}
	return d
}

// place is where a command is looked for.
type place struct{ image, user, path string }

// note takes note of where a task's agent and its command will be.
func (c *command) note(v task.AgentView) {
	env := v.Environment()
	if c.needs.Image != "" && !harness.ReplacesImage(v) && c.misfit == "" {
		c.misfit = v.ID()
	}
	for _, dir := range []string{workspace.DefaultTarget, env.Workdir, env.Checkout.Dir} {
		if len(c.needs.Argv) == 0 || dir != "" && pathname.Within(c.needs.Argv[0], dir) {
			return
		}
	}
	p := place{image: cmp.Or(c.needs.Image, env.Image), user: env.User}
	if slices.Contains(c.needs.Env, "PATH") { // the operator's
		p.path = c.Getenv("PATH")
	}
	for _, variable := range env.Env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok && p.path == "" {
			p.path = value
		}
	}
	c.places[p] = true
}

// Loaded reads the files of the agent, and checks what has been noted. It refuses what
// an agent must not see.
func (c *command) Loaded(ctx context.Context, w *workload.Workload) error {
	if c.misfit != "" {
		return fault.Errorf(fault.Config, "%s: harness.config.image replaces the row's image only in text families and code_completion, but task %s needs what is in its row's image (remove it)",
			c.Config.Harness.At("image"), redact.Quote(c.misfit))
	}
	if err := c.read(ctx, c.configured, w); err != nil {
		return err
	}
	if c.needs.Requirements != "" {
		if err := c.require(); err != nil {
			return err
		}
	}
	for _, arg := range c.needs.Argv {
		name, ok := strings.CutPrefix(path.Clean(arg), harness.FilesDir+"/")
		if ok && (c.files == nil || !c.files.has(name)) {
			return fault.Errorf(fault.Config, "%s: harness.config.command names %s, and harness.config.files has no %s (list it there; of a single folder, only its content is there)",
				c.Config.Harness.At("command"), redact.Quote(arg), redact.Quote(name))
		}
	}
	return nil
}

// Close releases the files.
func (c *command) Close() error { return c.close() }

// Agent returns what runs the command.
func (c *command) Agent(on setup.Ground) (agent.Agent, error) {
	return c.run(on, c.source(c.configured), produce.Gateway{Overlay: c.bring})
}

// Facts adds the files and the image.
func (c *command) Facts() setup.Facts {
	f := c.boxed.Facts()
	f.Image, f.ImageAt = c.needs.Image, c.Config.Harness.At("image")
	if len(c.python.all) > 0 {
		f.Settings["agent_requirements"] = wheels.DigestOf(c.python.all)
		f.Trees = c.pythonTrees()
	}
	c.add(&f)
	return f
}

// Prepare puts the agent's files on the engine, and sees that the command is in every
// image.
func (c *command) Prepare(ctx context.Context, on setup.Ground) (err error) {
	if err := c.reach(ctx); err != nil {
		return err
	}
	if err := c.layPython(ctx, on); err != nil {
		return err
	}
	if err := c.lay(ctx, c.configured, on.Engine); err != nil {
		return err
	}
	var mu sync.Mutex
	var missing []error
	err = scoring.Each(ctx, on.Workers, c.known(on), func(ctx context.Context, p place) error {
		name, err := c.missing(ctx, on, p)
		if name != "" {
			mu.Lock()
			defer mu.Unlock()
			if file, own := strings.CutPrefix(name, harness.FilesDir+"/"); own { // which is there, or the run had been refused
				missing = []error{fault.Errorf(fault.Config, "%s: harness.config.command: the agent's user cannot execute %s (chmod +x that file of harness.config.files, or begin the command with what runs it, such as python3)",
					c.Config.Harness.At("command"), redact.Quote(file))}
				return err
			}
			missing = append(missing, fault.Errorf(fault.Config, "%s: harness.config.command: image %s has no command %s that its user can execute (name one that is there, set harness.config.image, or bring it with harness.config.files)",
				c.Config.Harness.At("command"), p.image, redact.Quote(name)))
		}
		return err
	})
	slices.SortFunc(missing, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if err := errors.Join(append([]error{err}, missing[:min(len(missing), maxMissing)]...)...); err != nil {
		return err
	}
	return c.openRelay()
}

// maxMissing is in how many images a missing command is reported.
const maxMissing = 3

// known yields the places in images that the engine has.
func (c *command) known(on setup.Ground) func(func(place, error) bool) {
	return func(yield func(place, error) bool) {
		for p := range c.places {
			if img, ok := on.Images[p.image]; ok && !img.Absent && on.ImageFault(p.image) == nil && !yield(p, nil) {
				return
			}
		}
	}
}

// missing returns the command that is not at a place, "" if it is there.
func (c *command) missing(ctx context.Context, on setup.Ground, p place) (string, error) {
	q := initproc.Lookup{Image: on.Images[p.image], Argv: c.needs.Argv, Labels: sandbox.Labels{Run: c.Config.RunID, Role: "preflight"}}
	if user, ok := on.User(p.image, p.user); ok {
		q.User = &user
	}
	if p.path != "" {
		q.Env = []string{"PATH=" + p.path}
	}
	if c.tree != nil {
		q.Mounts = []sandbox.Mount{{Overlay: c.tree, Target: harness.FilesDir, ReadOnly: true}}
	}
	if tree, ok := c.python.trees[q.Image.ID]; ok {
		o := harness.Requirements()
		q.Mounts = append(q.Mounts, sandbox.Mount{Overlay: tree.on, Target: o.Target, ReadOnly: true})
		q.Env = produce.WithPath(q.Env, harness.Plan{Overlays: []harness.Overlay{o}}, q.Image)
	}
	name, err := initproc.Missing(ctx, on.Engine, q)
	if err != nil {
		err = fault.As(fault.Engine, fmt.Errorf("looking for the agent's command in image %s: %w", p.image, err))
	}
	return name, err
}
