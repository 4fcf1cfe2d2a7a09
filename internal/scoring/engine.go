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

// NewEngineOpener returns an opener that connects to the engine and removes what killed
// runs left on it. It calls warn for what does not prevent the engine from being
// used. log makes the logger for what the engine reports.
func NewEngineOpener(getenv func(string) string, log func() (*slog.Logger, error)) EngineOpener {
	return func(ctx context.Context, cfg config.Sandbox, warn func(string)) (sandbox.Engine, error) {
		logger, err := log()
		if err != nil {
			return nil, fault.As(fault.Config, err)
		}
		return openEngine(ctx, cfg, getenv, logger, warn)
	}
}

func openEngine(ctx context.Context, cfg config.Sandbox, getenv func(string) string, log *slog.Logger, warn func(string)) (sandbox.Engine, error) {
	helper, err := helperBinary(getenv)
	if err != nil {
		return nil, err
	}
	e, err := engines.Open(ctx, engines.Config{Name: cfg.Engine, Helper: helper, Runtime: cfg.Runtime, Getenv: getenv, Log: log})
	if errors.Is(err, engines.ErrUnavailable) {
		return nil, fault.As(fault.Config, err)
	}
	if err != nil {
		return nil, fault.As(fault.Engine, fmt.Errorf("%w (start Docker or set DOCKER_HOST; in a checkout: make engine)", err))
	}
	n, err := e.Reap(ctx)
	if err != nil {
		warn(fmt.Sprintf("removing leftovers of killed runs from the engine: %v", err))
	}
	if n > 0 {
		warn(fmt.Sprintf("removed %d containers and volumes that killed runs left behind", n))
	}
	return e, nil
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
