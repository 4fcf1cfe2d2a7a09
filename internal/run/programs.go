package run

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/agentcli"
	"securebench/internal/fault"
	"securebench/internal/harness"
	"securebench/internal/pipeline/record"
	"securebench/internal/programs"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
)

// prepareImages sees that the agent's programs are on the engine and start in
// every image that the agent gets.
func (r *Run) prepareImages(ctx context.Context, overlays []harness.Overlay) error {
	if len(overlays) == 0 {
		return nil
	}
	engine, ok := r.scorer.Engine.(sandbox.Overlays)
	if !ok {
		return fault.Errorf(fault.Config, "%s: the engine cannot mount the program of the %s harness", r.Config.Harness.Pos, r.Harness.Name())
	}
	cache, err := agentcli.OpenCache("", r.getenv)
	if err != nil {
		return err
	}
	defer cache.Close()
	var former []record.Program
	if r.resumes() { // which goes on with the versions that it has
		if m, _, err := record.ReadManifest(r.dir.FS()); err == nil {
			former = m.Programs
		}
	}
	r.programs = programs.New(cache, engine, former, r.at("version"), r.Notice)
	return scoring.Each(ctx, r.plan.Workers, each(r.agentImages()), func(ctx context.Context, img sandbox.Image) error {
		return r.prepareImage(ctx, img, overlays)
	})
}

// getenv returns a variable of the environment or the env file, "" if there is
// none.
func (r *Run) getenv(name string) string {
	v, _ := r.LookupEnv(name)
	return v
}

// agentImages lists the images that agents run in.
func (r *Run) agentImages() (out []sandbox.Image) {
	if img, ok := r.scorer.Images[r.needs().Image]; ok {
		return []sandbox.Image{img}
	}
	refs := map[string]bool{}
	for _, row := range r.work.Rows {
		refs[row.Image] = true
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if r.scorer.ImageFault(ref) == nil {
			out = append(out, r.scorer.Images[ref])
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

func (r *Run) prepareImage(ctx context.Context, img sandbox.Image, overlays []harness.Overlay) error {
	on, err := r.platform(ctx, img)
	if err != nil {
		return err
	}
	for _, o := range overlays {
		rel, tree, err := r.programs.Install(ctx, o, img, on)
		if err != nil {
			return err
		}
		if err := r.starts(ctx, img, rel, o.Binary(), sandbox.Mount{Overlay: tree, Target: o.Target, ReadOnly: true}); err != nil {
			return err
		}
	}
	return nil
}

// The exit codes of libraries.
const (
	hasGlibc   = 10
	hasMusl    = 11
	hasNeither = 12
	hasNoShell = 127
)

// libraries finds out which C library an image has.
const libraries = `for f in /lib64/ld-linux-* /lib/ld-linux-*; do [ -e "$f" ] && exit 10; done
for f in /lib/ld-musl-*; do [ -e "$f" ] && exit 11; done
exit 12`

// platform returns what programs for an image are built for. An image needs a
// shell, with which agents run commands.
func (r *Run) platform(ctx context.Context, img sandbox.Image) (agentcli.Platform, error) {
	on := agentcli.Platform{OS: img.OS, Arch: img.Arch}
	out, said, err := r.try(ctx, sandbox.Spec{Image: img, Command: []string{"/bin/sh", "-c", libraries}})
	switch {
	case err != nil:
		return on, err
	case out.ExitCode == hasNoShell || out.ExitCode == hasNoShell-1:
		return on, fault.Errorf(fault.Config, "%s: image %s has no shell at /bin/sh, with which the agents of the %s harness run commands",
			r.work.Images[img.Ref], img.Ref, r.Harness.Name())
	case out.End != sandbox.Exited || out.ExitCode < hasGlibc || out.ExitCode > hasNeither:
		return on, fault.Errorf(fault.Config, "%s: image %s cannot be looked at: %s", r.work.Images[img.Ref], img.Ref, ended(out, said))
	}
	on.Musl = out.ExitCode == hasMusl
	return on, nil
}

// starts sees that a program starts in an image by the path that agents have it at.
func (r *Run) starts(ctx context.Context, img sandbox.Image, rel agentcli.Release, command string, at sandbox.Mount) error {
	out, said, err := r.try(ctx, sandbox.Spec{Image: img, Command: []string{command, "--version"}, Env: []string{"HOME=/tmp"}, Mounts: []sandbox.Mount{at}})
	if err != nil {
		return err
	}
	if out.End != sandbox.Exited || out.ExitCode != 0 || !strings.Contains(said, rel.Version) {
		return fault.Errorf(fault.Config, "%s: %s does not start in image %s: %s --version %s", r.work.Images[img.Ref], rel.Title(), img.Ref, command, ended(out, said))
	}
	return nil
}

// The bounds of a command before the first task.
const (
	tryTime   = 2 * time.Minute
	tryOutput = 1 << 20
)

// try runs a command in an empty sandbox.
func (r *Run) try(ctx context.Context, spec sandbox.Spec) (out sandbox.Outcome, said string, err error) {
	spec.Labels = sandbox.Labels{Run: r.Config.RunID, Role: "preflight"}
	spec.Limits = scoring.Limits(r.Config.Limits)
	spec.Limits.Timeout, spec.Limits.Output = tryTime, tryOutput
	box, err := r.scorer.Engine.Open(ctx, spec)
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
