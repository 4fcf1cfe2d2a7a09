// Package engines opens sandbox engines by name. It is the only package that
// knows all of them.
package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
)

// The names of engines.
const (
	Auto   = "auto" // the engine that this version has
	Docker = "docker"
	Native = "native" // reserved
)

// ErrUnavailable is wrapped by the error for an engine that does not exist in
// this version.
var ErrUnavailable = errors.New("write docker or auto")

// Config says which engine to open.
type Config struct {
	Name string // "" is [Auto]
	// Helper is the path of the static helper binary; see [docker.Config].
	Helper string
	// Runtime names the engine's OCI runtime. Empty is its default.
	Runtime string
	// Getenv reads the operator's environment. Nil is an empty one.
	Getenv func(string) string
	// Log gets the engine's own messages. Nil discards.
	Log *slog.Logger
}

// Open connects to an engine. The caller closes it.
func Open(ctx context.Context, cfg Config) (sandbox.Engine, error) {
	switch cfg.Name {
	case "", Auto, Docker:
		e, err := docker.New(ctx, docker.Config{Helper: cfg.Helper, Runtime: cfg.Runtime, Getenv: cfg.Getenv, Log: cfg.Log})
		if err != nil {
			return nil, err // not a nil *docker.Engine in an interface
		}
		return e, nil
	case Native:
		return nil, fmt.Errorf("sandbox.engine native is not available yet: %w", ErrUnavailable)
	}
	return nil, fmt.Errorf("sandbox.engine %q is not known: %w", cfg.Name, ErrUnavailable)
}
