// Package engine opens the sandbox engine that a configuration names.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/source"
)

// HelperVar is the environment variable that names another build of the
// helper binary.
const HelperVar = "SECUREBENCH_HELPER"

// Engine is a sandbox engine that commands open and close.
type Engine interface {
	sandbox.Engine
	// User looks a user up in an image.
	User(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error)
	// Info describes the engine for the run manifest, as JSON.
	Info(ctx context.Context) (any, error)
	// Close releases the connection.
	Close() error
}

// Opener opens the engine that a configuration names.
type Opener func(ctx context.Context, cfg config.Sandbox, warn func(string)) (Engine, error)

// New returns an opener that connects to the engine and removes what killed
// runs left on it. It calls warn for what does not prevent the engine from being
// used.
func New(getenv func(string) string) Opener {
	return func(ctx context.Context, cfg config.Sandbox, warn func(string)) (Engine, error) {
		return open(ctx, cfg, getenv, warn)
	}
}

func open(ctx context.Context, cfg config.Sandbox, getenv func(string) string, warn func(string)) (Engine, error) {
	if cfg.Engine == config.EngineNative {
		return nil, fault.As(fault.Config, errors.New("sandbox.engine native is not implemented yet: use docker or auto"))
	}
	helper, err := helperBinary(getenv)
	if err != nil {
		return nil, err
	}
	e, err := docker.New(ctx, docker.Config{Helper: helper, Runtime: cfg.Runtime, Getenv: getenv})
	if err != nil {
		return nil, fault.As(fault.Engine, fmt.Errorf("%w (start Docker or set DOCKER_HOST; in a checkout: make engine)", err))
	}
	n, err := e.Reap(ctx)
	if err != nil {
		warn(fmt.Sprintf("removing what killed runs left on the engine: %v", err))
	}
	if n > 0 {
		warn(fmt.Sprintf("removed %d containers and volumes that killed runs left behind", n))
	}
	return dockerEngine{e}, nil
}

// dockerEngine gives Info the type that other engines have.
type dockerEngine struct{ *docker.Engine }

// Info describes the daemon.
func (e dockerEngine) Info(ctx context.Context) (any, error) { return e.Engine.Info(ctx) }

// helperBinary is the static binary that is put into sandboxes: this one,
// unless the environment names another.
func helperBinary(getenv func(string) string) (string, error) {
	if path := getenv(HelperVar); path != "" {
		f, err := source.Open(path)
		if err != nil {
			return "", fault.As(fault.Config, fmt.Errorf("opening the helper binary that %s names: %w", HelperVar, err))
		}
		return path, f.Close()
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("locating the securebench binary: %w", err)
	}
	return self, nil
}
