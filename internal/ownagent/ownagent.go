// Package ownagent prepares what an operator's own agent has beside its command: its
// files on the engine, and an image of its own. It sees before the first task that
// both fit the tasks and that the command is there.
package ownagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"securebench/internal/agentfiles"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/harness"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/lookup"
	"securebench/internal/scoring"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// Agent is what the agent of a run has. Its zero value is one that has nothing, whose
// command is not looked for.
type Agent struct {
	Needs harness.Needs
	Argv  []string // of the command; nil for the programs of [harness.Overlay]
	Path  string   // the operator's PATH, if it is forwarded
	// At returns where a key of the harness's configuration stands.
	At func(key string) source.Pos

	files  *agentfiles.Files // nil for none
	tree   sandbox.Overlay   // of the files, once they are on the engine
	misfit string            // the first task whose agent cannot run in another image
	places map[place]bool    // where the command has to be found
}

// place is where a command is looked for.
type place struct{ image, user, path string }

// Note takes note of where a task's agent and its command will be.
func (a *Agent) Note(v task.AgentView) {
	env := v.Environment()
	if a.Needs.Image != "" && !harness.ReplacesImage(v) && a.misfit == "" {
		a.misfit = v.ID()
	}
	for _, dir := range []string{workspace.DefaultTarget, env.Workdir, env.Checkout.Dir} {
		if len(a.Argv) == 0 || dir != "" && sandbox.Within(a.Argv[0], dir) {
			return
		}
	}
	p := place{image: env.Image, user: env.User, path: a.Path}
	if a.Needs.Image != "" {
		p.image = a.Needs.Image
	}
	for _, variable := range env.Env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok && p.path == "" {
			p.path = value
		}
	}
	if a.places == nil {
		a.places = map[place]bool{}
	}
	a.places[p] = true
}

// Read reads the files of the agent, and checks what has been noted. It refuses what
// an agent must not see.
func (a *Agent) Read(ctx context.Context, dir string, forbidden map[string]string, secrets *redact.Registry) (err error) {
	if a.misfit != "" {
		return fault.Errorf(fault.Config, "%s: harness.config.image replaces the row's image in text families and code_completion alone, and task %s is about what is in its row's image (remove it)",
			a.At("image"), redact.Quote(a.misfit))
	}
	if f := a.Needs.Files; f != nil {
		o := agentfiles.Options{Dir: dir, Paths: f.Paths, Content: f.Content, Forbidden: forbidden}
		if !secrets.Empty() {
			o.Clean = func(w io.Writer) io.WriteCloser { return secrets.Writer(w) }
		}
		if a.files, err = agentfiles.Open(ctx, o); err != nil {
			return fault.Errorf(fault.Config, "%s: harness.config.files: %w", a.At("files"), err)
		}
	}
	for _, arg := range a.Argv {
		name, ok := strings.CutPrefix(path.Clean(arg), harness.FilesDir+"/")
		if ok && (a.files == nil || !a.files.Has(name)) {
			return fault.Errorf(fault.Config, "%s: harness.config.command names %s, and harness.config.files has no %s (list it there; a folder that is named alone stands for what is in it)",
				a.At("command"), redact.Quote(arg), redact.Quote(name))
		}
	}
	return nil
}

// Close releases the files.
func (a *Agent) Close() error {
	if a.files == nil {
		return nil
	}
	return a.files.Close()
}

// Digest returns the digest of the agent's files, "" if it has none.
func (a *Agent) Digest() string {
	if a.files == nil {
		return ""
	}
	return a.files.Digest
}

// Tree returns the agent's files on the engine, nil before [Agent.Prepare] and if
// there are none.
func (a *Agent) Tree() sandbox.Overlay { return a.tree }

// Prepare puts the agent's files on the engine, and sees that the command is in every
// image.
func (a *Agent) Prepare(ctx context.Context, s *scoring.Scorer, runID string, workers int) (err error) {
	if a.files != nil {
		if a.tree, err = a.lay(ctx, s.Engine); err != nil {
			return err
		}
	}
	var mu sync.Mutex
	var missing []error
	err = scoring.Each(ctx, workers, a.known(s), func(ctx context.Context, p place) error {
		name, err := a.missing(ctx, s, p, runID)
		if name != "" {
			mu.Lock()
			defer mu.Unlock()
			if file, own := strings.CutPrefix(name, harness.FilesDir+"/"); own { // which is there, or the run had been refused
				missing = []error{fault.Errorf(fault.Config, "%s: harness.config.command: the agent's user cannot execute %s (chmod +x that file of harness.config.files, or begin the command with what runs it, such as python3)",
					a.At("command"), redact.Quote(file))}
				return err
			}
			missing = append(missing, fault.Errorf(fault.Config, "%s: harness.config.command: image %s has no command %s that its user can execute (name one that is there, set harness.config.image, or bring it with harness.config.files)",
				a.At("command"), p.image, redact.Quote(name)))
		}
		return err
	})
	slices.SortFunc(missing, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(append([]error{err}, missing[:min(len(missing), maxMissing)]...)...)
}

// maxMissing is in how many images a missing command is reported.
const maxMissing = 3

// known yields the places in images that the engine has.
func (a *Agent) known(s *scoring.Scorer) func(func(place, error) bool) {
	return func(yield func(place, error) bool) {
		for p := range a.places {
			if _, ok := s.Images[p.image]; ok && s.ImageFault(p.image) == nil && !yield(p, nil) {
				return
			}
		}
	}
}

// lay makes the overlay of the agent's files. Runs with the same files share it.
func (a *Agent) lay(ctx context.Context, e sandbox.Engine) (sandbox.Overlay, error) {
	engine, ok := e.(sandbox.Overlays)
	sum, err := digest.Hex(a.files.Digest)
	if !ok || err != nil {
		return nil, fault.Errorf(fault.Config, "%s: the engine cannot mount the agent's files", a.At("files"))
	}
	tree, err := engine.Overlay(ctx, sandbox.OverlaySpec{Key: KeyPrefix + sum[:32], Title: "files of an own agent, " + sum[:12]}, a.files.WriteTar)
	if err != nil {
		return nil, fault.As(fault.Engine, fmt.Errorf("%s: putting the agent's files on the engine: %w", a.At("files"), err))
	}
	return tree, nil
}

// KeyPrefix begins the keys of overlays with agents' files.
const KeyPrefix = "agent-files-"

// missing returns the command that is not at a place, "" if it is there.
func (a *Agent) missing(ctx context.Context, s *scoring.Scorer, p place, runID string) (string, error) {
	q := lookup.Question{Image: s.Images[p.image], Argv: a.Argv, Labels: sandbox.Labels{Run: runID, Role: "preflight"}}
	if user, ok := s.User(p.image, p.user); ok {
		q.User = &user
	}
	if p.path != "" {
		q.Env = []string{"PATH=" + p.path}
	}
	if a.tree != nil {
		q.Mounts = []sandbox.Mount{{Overlay: a.tree, Target: harness.FilesDir, ReadOnly: true}}
	}
	name, err := lookup.Missing(ctx, s.Engine, q)
	if err != nil {
		err = fault.As(fault.Engine, fmt.Errorf("looking for the agent's command in image %s: %w", p.image, err))
	}
	return name, err
}
