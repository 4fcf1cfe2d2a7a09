package scoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/engines"
	"securebench/internal/source"
)

// helperVar is the environment variable that names another build of the
// helper binary.
const helperVar = "SECUREBENCH_HELPER"

// EngineOpener opens the engine that a configuration names.
type EngineOpener func(ctx context.Context, cfg config.Sandbox, warn func(string)) (sandbox.Engine, error)

// WithRegistries opens an engine that also knows images which it does not have, from
// their registries. No sandbox can be made of those.
func WithRegistries(open EngineOpener) EngineOpener {
	return func(ctx context.Context, cfg config.Sandbox, warn func(string)) (sandbox.Engine, error) {
		e, err := open(ctx, cfg, warn)
		if err != nil {
			return nil, err
		}
		return engines.WithRegistries(e), nil
	}
}

// Surroundings are what an engine needs besides its configuration.
type Surroundings struct {
	Getenv func(string) string
	// Log makes the logger for what the engine reports; nil discards.
	Log func() (*slog.Logger, error)
	// Say gets a line about what takes long; nil discards.
	Say func(string)
}

// NewEngineOpener returns an opener that connects to the engine and removes what killed
// runs left on it. It calls warn for what does not prevent the engine from being
// used.
func NewEngineOpener(around Surroundings) EngineOpener {
	return func(ctx context.Context, cfg config.Sandbox, warn func(string)) (sandbox.Engine, error) {
		return openEngine(ctx, cfg, around, warn)
	}
}

// ExamineEngines says what each engine needs of this machine.
func ExamineEngines(ctx context.Context, cfg config.Sandbox, around Surroundings) ([]engines.Examination, error) {
	c, err := around.config(cfg)
	if err != nil {
		return nil, err
	}
	return engines.Examine(ctx, c), nil
}

func (s Surroundings) config(cfg config.Sandbox) (c engines.Config, err error) {
	c = engines.Config{Name: cfg.Engine, Former: cfg.Former, Runtime: cfg.Runtime, Getenv: s.Getenv, Say: s.Say}
	if s.Log != nil {
		if c.Log, err = s.Log(); err != nil {
			return c, fault.As(fault.Config, err)
		}
	}
	c.Helper, err = helperBinary(s.Getenv)
	return c, err
}

func openEngine(ctx context.Context, cfg config.Sandbox, around Surroundings, warn func(string)) (sandbox.Engine, error) {
	c, err := around.config(cfg)
	if err != nil {
		return nil, err
	}
	e, err := engines.Open(ctx, c)
	switch {
	case errors.Is(err, engines.ErrUnknown):
		return nil, fault.As(fault.Config, err)
	case errors.Is(err, engines.ErrOther):
		return nil, fault.As(fault.Refused, err)
	case err != nil:
		return nil, fault.As(fault.Engine, err)
	}
	if notice := e.Info().Notice; notice != "" {
		warn(notice + " (see securebench doctor)")
	}
	n, err := e.Reap(ctx)
	if err != nil {
		warn(fmt.Sprintf("removing leftovers of killed runs from the engine: %v", err))
	}
	if n > 0 {
		warn(fmt.Sprintf("removed %s that killed runs left behind", leftovers(n)))
	}
	return e, nil
}

// leftovers counts what was removed.
func leftovers(n int) string {
	if n == 1 {
		return "1 sandbox or workspace"
	}
	return fmt.Sprintf("%d sandboxes and workspaces", n)
}

// helperBinary returns the static binary that is put into sandboxes: the
// running one, unless the environment names another.
func helperBinary(getenv func(string) string) (string, error) {
	if path := getenv(helperVar); path != "" {
		f, err := source.Open(path)
		if err != nil {
			return "", fault.As(fault.Config, fmt.Errorf("opening the helper binary that %s names: %w", helperVar, err))
		}
		return path, f.Close()
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("locating the securebench binary: %w", err)
	}
	return self, nil
}
