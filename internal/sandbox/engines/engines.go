// Package engines opens sandbox engines by name, or chooses one. It is the only
// package that knows all of them.
package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"securebench/internal/redact"
	"securebench/internal/sandbox"
)

// The names of engines.
const (
	Auto   = "auto" // native where all that it needs is there, else Docker
	Docker = "docker"
	Native = "native"
)

// Errors that callers distinguish.
var (
	// ErrUnknown is wrapped by the error for a name that is no engine.
	ErrUnknown = errors.New("write auto, docker or native")
	// ErrOther is wrapped by the error for a named engine that is not
	// [Config.Former].
	ErrOther = errors.New("a resume keeps the engine")
)

// Config says which engine to open.
type Config struct {
	Name string // "" is [Auto]
	// Former is the engine that the run has used so far, "" for a new run. Auto
	// is that engine then, and no other may be named.
	Former string
	// Helper is the path of the static helper binary; see [docker.Config].
	Helper string
	// Runtime names the engine's OCI runtime. Empty is its default.
	Runtime string
	// Getenv reads the operator's environment. Nil is an empty one.
	Getenv func(string) string
	// Log gets the engine's own messages. Nil discards.
	Log *slog.Logger
	// Say gets a line about what takes long. Nil discards.
	Say func(string)
}

// Why an engine was taken; see [sandbox.Info].
const (
	configured = "as configured"
	former     = "auto: the run began on it"
	complete   = "auto: all that it needs is here"
)

// Open opens an engine. The caller closes it.
func Open(ctx context.Context, cfg Config) (sandbox.Engine, error) {
	return all().open(ctx, cfg)
}

// kind is one kind of engine.
type kind struct {
	name string
	// hint is what the operator can do if it cannot be opened because of an error.
	hint    func(error) string
	require func(context.Context, Config) []sandbox.Requirement
	open    func(ctx context.Context, cfg Config, choice string) (sandbox.Engine, error)
}

// kinds are all engines, the best first.
type kinds []kind

func all() kinds {
	return kinds{
		{Native, func(error) string { return "see securebench doctor" }, nativeRequirements, openNative},
		{Docker, dockerHint, dockerRequirements, openDocker},
	}
}

func (k kinds) open(ctx context.Context, cfg Config) (sandbox.Engine, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	name := cmp.Or(cfg.Name, Auto)
	switch {
	case name != Auto && k.find(name) == nil:
		return nil, fmt.Errorf("sandbox.engine %q is not known: %w", name, ErrUnknown)
	case cfg.Former == "" && name == Auto:
		return k.choose(ctx, cfg)
	case cfg.Former == "" || cfg.Former == name:
		return k.find(name).named(ctx, cfg, configured)
	case name != Auto:
		return nil, fmt.Errorf("the run began on the %s engine and cannot continue with %s: %w", redact.Quote(cfg.Former), name, ErrOther)
	}
	was := k.find(cfg.Former)
	if was == nil {
		return nil, fmt.Errorf("the run began on the engine %s, which this version does not have: %w", redact.Quote(cfg.Former), ErrOther)
	}
	e, err := was.named(ctx, cfg, former)
	if err != nil {
		return nil, fmt.Errorf("the run began on the %s engine: %w", was.name, err)
	}
	return e, nil
}

func (k kinds) find(name string) *kind {
	for i := range k {
		if k[i].name == name {
			return &k[i]
		}
	}
	return nil
}

// named opens the engine, and says what the operator can do if that fails.
func (k *kind) named(ctx context.Context, cfg Config, choice string) (sandbox.Engine, error) {
	e, err := k.open(ctx, cfg, choice)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, k.hint(err))
	}
	return e, nil
}

// choose opens the first engine whose requirements hold. The last one is not
// examined before: opening it is as good.
func (k kinds) choose(ctx context.Context, cfg Config) (sandbox.Engine, error) {
	choice, failed := complete, []error{}
	for i := range k {
		last := i == len(k)-1
		if !last {
			if lacks := Lacking(k[i].require(ctx, cfg)); len(lacks) > 0 {
				choice = "auto: " + k[i].name + " lacks " + lacks[0].Name
				failed = append(failed, shortage(k[i].name, lacks))
				continue
			}
		}
		e, err := k[i].open(ctx, cfg, choice)
		switch {
		case err == nil:
			return e, nil
		case ctx.Err() != nil:
			return nil, err
		}
		choice = fmt.Sprintf("auto: %s cannot be opened: %s", k[i].name, oneLine(err.Error()))
		failed = append(failed, fmt.Errorf("%s: %w (%s)", k[i].name, err, k[i].hint(err)))
	}
	return nil, &noneError{failed}
}

// Lacking returns the requirements without which an engine cannot run.
func Lacking(all []sandbox.Requirement) (out []sandbox.Requirement) {
	for _, r := range all {
		if !r.Holds && !r.Optional {
			out = append(out, r)
		}
	}
	return out
}

// shortage says what an engine lacks, and how to get the first of it.
func shortage(name string, lacks []sandbox.Requirement) error {
	first, more := lacks[0], ""
	if n := len(lacks) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("%s lacks %s: %s (to fix: %s)%s", name, first.Name, oneLine(first.Found), first.Fix, more)
}

// noneError is why no engine can run, on one line.
type noneError struct{ reasons []error }

// Error names each engine and what it lacks.
func (e *noneError) Error() string {
	text := make([]string, len(e.reasons))
	for i, r := range e.reasons {
		text[i] = oneLine(r.Error())
	}
	return "no sandbox engine can run here: " + strings.Join(text, "; ") + "; see securebench doctor"
}

// Unwrap returns the reasons.
func (e *noneError) Unwrap() []error { return e.reasons }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Examination is what one engine needs of this machine.
type Examination struct {
	Engine       string
	Requirements []sandbox.Requirement
}

// Examine examines all engines, the best first. [Config.Name] does not matter.
func Examine(ctx context.Context, cfg Config) []Examination {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	var out []Examination
	for _, k := range all() {
		out = append(out, Examination{k.name, k.require(ctx, cfg)})
	}
	return out
}
