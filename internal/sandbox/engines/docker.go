package engines

import (
	"context"
	"strings"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/imagestore"
)

// asides bounds the wait for a Docker engine that another engine could do without.
const asides = 3 * time.Second

func dockerConfig(cfg Config, patience time.Duration) docker.Config {
	return docker.Config{Helper: cfg.Helper, Runtime: cfg.Runtime, Getenv: cfg.Getenv, Patience: patience, Log: cfg.Log}
}

func dockerRequirements(ctx context.Context, cfg Config) []sandbox.Requirement {
	return docker.Requirements(ctx, dockerConfig(cfg, asides))
}

// chosenDocker is a Docker engine that knows why it was chosen.
type chosenDocker struct {
	*docker.Engine
	choice string
}

func openDocker(ctx context.Context, cfg Config, choice string) (sandbox.Engine, error) {
	e, err := docker.New(ctx, dockerConfig(cfg, 0))
	if err != nil {
		return nil, err // not a nil *docker.Engine in an interface
	}
	return &chosenDocker{e, choice}, nil
}

// Info implements [sandbox.Service].
func (e *chosenDocker) Info() sandbox.Info {
	info := e.Engine.Info()
	info.Choice, info.Obtain = e.choice, "docker pull"
	return info
}

// DockerImages are the images of a Docker engine.
type DockerImages interface {
	imagestore.Exporter
	Close() error
}

// OpenDockerImages connects to a Docker engine only for its images. The caller
// closes it.
func OpenDockerImages(ctx context.Context, getenv func(string) string) (DockerImages, error) {
	return openImages(ctx, Config{Getenv: getenv})
}

func openImages(ctx context.Context, cfg Config) (dockerImages, error) {
	d, err := docker.OpenImages(ctx, dockerConfig(cfg, asides))
	if err != nil {
		return nil, err // not a nil *docker.Images in an interface
	}
	return d, nil
}

// dockerHint says what makes a Docker engine answer. Its client's errors keep the
// system's word only, not its error.
func dockerHint(err error) string {
	if strings.Contains(err.Error(), "permission denied") {
		return docker.LetUserIn
	}
	return "start Docker or set DOCKER_HOST; in a checkout: make engine"
}
