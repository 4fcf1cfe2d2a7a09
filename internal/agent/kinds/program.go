package kinds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/programs"
	"securebench/internal/agent/setup"
	"securebench/internal/fault"
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/workload"
)

// program is an agent's program that is brought into the sandbox, such as Codex.
type program struct {
	boxed
	brought
	cache    *programs.Cache // nil until the programs are installed
	programs *programs.Set
}

// openProgram sets up an agent whose program is brought into the sandbox.
func openProgram(h harness.Harness) setup.Opener {
	return func(a setup.Around) (setup.Agent, error) {
		if named, ok := h.(harness.Aliaser); ok && named.Alias() != "" && a.Model != "" {
			h = named.Pinned(a.Model)
		}
		if v, ok := h.(harness.Versioned); ok && a.Release != "" {
			h = v.Ran(a.Release)
		}
		return inBox(h, func(b boxed) setup.Agent { return &program{boxed: b} })(a)
	}
}

// Loaded reads the files of the operator's that the agent finds beside it.
func (p *program) Loaded(ctx context.Context, w *workload.Workload) error {
	return p.read(ctx, p.configured, w)
}

// Prepare sees that the program is on the engine and starts in every image that the
// agent gets, and which model it asks for.
func (p *program) Prepare(ctx context.Context, on setup.Ground) error {
	if err := p.reach(ctx); err != nil {
		return err
	}
	if err := p.lay(ctx, p.configured, on.Engine); err != nil {
		return err
	}
	if err := p.install(ctx, on); err != nil {
		return err
	}
	if v, ok := p.harness.(harness.Versioned); ok {
		p.harness = v.Ran(p.programs.Ran(p.needs.Overlays[0].Program))
	}
	if a, ok := p.harness.(harness.Aliaser); ok && a.Alias() != "" {
		model, err := p.model(ctx, on, a)
		if err != nil {
			return err
		}
		p.harness = a.Pinned(model)
		p.needs = p.harness.Needs()
	}
	return p.openRelay()
}

// Agent returns what runs the program.
func (p *program) Agent(on setup.Ground) (agent.Agent, error) {
	bring := p.programs.Overlay
	if p.Tree != nil {
		bring = func(o harness.Overlay, img sandbox.Image) (sandbox.Overlay, error) { return p.Tree(o.Program, img) }
	}
	return p.run(on, p.source(p.configured), produce.Gateway{Overlay: bring})
}

// Close closes the cache of programs, and the files.
func (p *program) Close() error {
	err := p.close()
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close())
	}
	p.cache, p.files = nil, nil
	return err
}

// Facts adds the programs.
func (p *program) Facts() setup.Facts {
	f := p.boxed.Facts()
	f.Programs, f.Spared = p.programs.List(), true
	for _, at := range p.programs.Placed() {
		f.Trees = append(f.Trees, setup.Tree{OverlaySpec: at.Spec(), Program: string(at.Program), Images: at.Images,
			Write: func(w io.Writer) error { return p.cache.WriteTar(at.Release, w) }})
	}
	p.add(&f)
	return f
}

// install puts the program on the engine.
func (p *program) install(ctx context.Context, on setup.Ground) error {
	engine, ok := on.Engine.(sandbox.Overlays)
	if !ok {
		return fault.Errorf(fault.Config, "%s: the engine cannot mount the program of the %s harness", p.Config.Harness.Pos, p.harness.Name())
	}
	for _, img := range images(on) {
		if img.Absent {
			return fault.Errorf(fault.Refused, "image %s is not on this machine, on which the program of the %s harness is tried in it: get it (securebench image pull, docker pull)", img.Ref, p.harness.Name())
		}
	}
	var err error
	if p.cache, err = programs.OpenCache("", p.Getenv); err != nil {
		return err
	}
	p.programs = programs.NewSet(p.cache, engine, on.Former, p.Config.Harness.At("version"), p.Notice)
	return scoring.Each(ctx, on.Workers, each(images(on)), func(ctx context.Context, img sandbox.Image) error {
		return p.prepareImage(ctx, on, img)
	})
}

// images lists the images that agents run in, those of the rows.
func images(on setup.Ground) (out []sandbox.Image) {
	refs := map[string]bool{}
	for _, row := range on.Work.Rows {
		refs[row.Image] = true
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if on.ImageFault(ref) == nil {
			out = append(out, on.Images[ref])
		}
	}
	return out
}

// each yields every item, without an error.
func each[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func (p *program) prepareImage(ctx context.Context, on setup.Ground, img sandbox.Image) error {
	platform, err := p.platform(ctx, on, img)
	if err != nil {
		return err
	}
	var first programs.Release
	var mounts []sandbox.Mount
	for i, o := range p.needs.Overlays {
		rel, tree, err := p.programs.Install(ctx, o, img, platform)
		if err != nil {
			return err
		}
		if i == 0 {
			first = rel
		}
		mounts = append(mounts, sandbox.Mount{Overlay: tree, Target: o.Target, ReadOnly: true})
	}
	return p.starts(ctx, on, img, first, mounts)
}

// The exit codes of libraries.
const (
	hasGlibc   = 10
	hasMusl    = 11
	hasNeither = 12
)

// libraries finds out which C library an image has.
const libraries = `for f in /lib64/ld-linux-* /lib/ld-linux-*; do [ -e "$f" ] && exit 10; done
for f in /lib/ld-musl-*; do [ -e "$f" ] && exit 11; done
exit 12`

// platform returns what programs for an image are built for. An image needs a
// shell, with which agents run commands.
func (p *program) platform(ctx context.Context, on setup.Ground, img sandbox.Image) (programs.Platform, error) {
	of := programs.Platform{OS: img.OS, Arch: img.Arch}
	out, said, err := p.try(ctx, on, sandbox.Spec{Image: img, Command: []string{"/bin/sh", "-c", libraries}})
	switch {
	case err != nil:
		return of, err
	case sandbox.MissingCommand(out.ExitCode):
		return of, fault.Errorf(fault.Config, "%s: image %s has no shell at /bin/sh, with which the agents of the %s harness run commands",
			on.Work.Images[img.Ref], img.Ref, p.harness.Name())
	case out.End != sandbox.Exited || out.ExitCode < hasGlibc || out.ExitCode > hasNeither:
		return of, fault.Errorf(fault.Config, "%s: image %s cannot be inspected: %s", on.Work.Images[img.Ref], img.Ref, ended(out, said))
	}
	of.Musl = out.ExitCode == hasMusl
	return of, nil
}

// starts sees that the agent starts in an image, with all that agents have there.
func (p *program) starts(ctx context.Context, on setup.Ground, img sandbox.Image, rel programs.Release, mounts []sandbox.Mount) error {
	argv := p.needs.Version
	out, said, err := p.try(ctx, on, sandbox.Spec{Image: img, Command: argv, Env: []string{"HOME=/tmp"}, Mounts: mounts})
	if err != nil {
		return err
	}
	if out.End != sandbox.Exited || out.ExitCode != 0 || !strings.Contains(said, rel.Version) {
		return fault.Errorf(fault.Config, "%s: %s does not start in image %s: %s %s", on.Work.Images[img.Ref], rel.Title(), img.Ref, strings.Join(argv, " "), ended(out, said))
	}
	return nil
}

// The bounds of a command before the first task.
const (
	tryTime   = 2 * time.Minute
	tryOutput = 1 << 20
)

// try runs a command in an empty sandbox.
func (p *program) try(ctx context.Context, on setup.Ground, spec sandbox.Spec) (out sandbox.Outcome, said string, err error) {
	spec.Labels = sandbox.Labels{Run: p.Config.RunID, Role: "preflight"}
	spec.Limits = p.tryLimits()
	box, err := on.Engine.Open(ctx, spec)
	if err != nil {
		return out, "", fault.As(fault.Engine, fmt.Errorf("trying image %s: %w", spec.Image.Ref, err))
	}
	defer func() { err = joinEngine(err, box.Close(context.WithoutCancel(ctx))) }()
	var text strings.Builder
	out, err = box.Run(ctx, sandbox.Streams{Stdout: &text, Stderr: &text})
	return out, text.String(), joinEngine(err)
}

// ended describes a command that did not do what it should.
func ended(out sandbox.Outcome, said string) string {
	if out.End != sandbox.Exited {
		return fmt.Sprintf("ran into a limit (%s)", out.End)
	}
	return fmt.Sprintf("exited with %d and printed %s", out.ExitCode, redact.QuoteShort(strings.TrimSpace(said), 500))
}

// joinEngine joins errors, which are the engine's unless they say otherwise.
func joinEngine(errs ...error) error { return fault.As(fault.Engine, errors.Join(errs...)) }

// tryLimits are the limits of a command before the first task.
func (p *program) tryLimits() sandbox.Limits {
	l := scoring.Limits(p.Config.Limits)
	l.Timeout, l.Output = tryTime, tryOutput
	return l
}

// model asks the agent's program which model an alias means: it runs in an empty
// sandbox, whose provider notes the model and refuses the request.
func (p *program) model(ctx context.Context, on setup.Ground, a harness.Aliaser) (string, error) {
	images := images(on)
	if len(images) == 0 {
		return a.Alias(), nil // nothing is asked
	}
	gateway := produce.Gateway{Overlay: p.programs.Overlay, Proxy: p.Proxy}
	asked, said, err := gateway.Ask(ctx, on.Engine, produce.Question{Plan: a.Probe(), Image: images[0], Limits: p.tryLimits(),
		Labels: sandbox.Labels{Run: p.Config.RunID, Role: "preflight"}, Besides: harness.ProbeSmallModel})
	switch at, name := p.Config.Harness.Pos, p.harness.Name(); {
	case err != nil:
		return "", fault.As(fault.Engine, fmt.Errorf("asking the %s program what the model %s is: %w", name, a.Alias(), err))
	case asked == "":
		return "", fault.Errorf(fault.Config, "%s: the %s program does not say which model %q is; name one in full in harness.config.model (it printed %s)",
			at, name, a.Alias(), said)
	case !a.Means(asked): // an image can say what it likes, and models differ in price
		return "", fault.Errorf(fault.Config, "%s: in image %s the %s program asks for the model %s, which %q does not mean; name one in full in harness.config.model",
			at, images[0].Ref, name, asked, a.Alias())
	}
	return asked, nil
}
