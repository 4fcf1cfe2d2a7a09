package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/source"
)

// openEngine connects to the sandbox engine and removes what dead runs left
// on it. What the engine reports is appended to logFile, if it is not "".
func openEngine(ctx context.Context, cfg config.Sandbox, logFile string, warn func(string, ...any)) (*docker.Engine, error) {
	if cfg.Engine == config.EngineNative {
		return nil, coded(exitConfig, errors.New("sandbox.engine native is not there yet: write docker or auto"))
	}
	helper, err := helperBinary()
	if err != nil {
		return nil, err
	}
	log, err := openEngineLog(logFile)
	if err != nil {
		return nil, coded(exitRefused, err)
	}
	e, err := docker.New(ctx, docker.Config{Helper: helper, Runtime: cfg.Runtime, Getenv: os.Getenv, Log: log})
	if err != nil {
		return nil, coded(exitEngine, fmt.Errorf("%w (start Docker or set DOCKER_HOST; in a checkout: make engine)", err))
	}
	n, err := e.Reap(ctx)
	if err != nil {
		warn("clean-up after former runs: %v", err)
	}
	if n > 0 {
		warn("removed %d containers and volumes that dead runs had left", n)
	}
	return e, nil
}

// helperBinary is the static binary that holds workspaces: this one, unless
// SECUREBENCH_HELPER names another build of it.
func helperBinary() (string, error) {
	if path := os.Getenv("SECUREBENCH_HELPER"); path != "" {
		f, err := source.Open(path)
		if err != nil {
			return "", coded(exitConfig, fmt.Errorf("opening the program that SECUREBENCH_HELPER names: %w", err))
		}
		return path, f.Close()
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the securebench binary: %w", err)
	}
	return self, nil
}

// resolveImages looks every image up once; the run then uses these very ones.
// Missing images are reported together, with what brings them.
func resolveImages(ctx context.Context, e sandbox.Engine, refs map[string]source.Pos) (map[string]sandbox.Image, error) {
	names := make([]string, 0, len(refs))
	for ref := range refs {
		names = append(names, ref)
	}
	sort.Strings(names)
	out := make(map[string]sandbox.Image, len(names))
	var missing []error
	for _, ref := range names {
		img, err := e.Image(ctx, ref)
		switch {
		case errors.Is(err, sandbox.ErrImageMissing):
			missing = append(missing, fmt.Errorf("image %s is not on the engine (first needed at %s): %s", ref, refs[ref], obtain(ref)))
		case err != nil:
			return nil, coded(exitEngine, fmt.Errorf("looking for image %s: %w", ref, err))
		default:
			out[ref] = img
		}
	}
	if len(missing) > 0 {
		return nil, coded(exitEngine, errors.Join(missing...))
	}
	return out, nil
}

// obtain is the command that brings an image: the project's own is made, any
// other is pulled.
func obtain(ref string) string {
	if strings.HasPrefix(ref, "securebench-") && !strings.Contains(ref, "@") {
		return "make it with: make image"
	}
	return "get it with: docker pull " + ref
}

// sandboxLimits are the configured limits of every sandbox; time limits differ
// by what runs in it.
func sandboxLimits(l config.Limits) sandbox.Limits {
	return sandbox.Limits{Memory: l.Memory, CPUs: l.CPUs, Pids: l.Pids, Disk: l.Disk, Files: l.Files, Output: l.Output}
}

// newVerifiers makes the verifiers of the families that have one.
func newVerifiers(reg family.Registry, r family.Resources) map[string]family.Verifier {
	out := map[string]family.Verifier{}
	for name, f := range reg {
		if f.NewVerifier != nil {
			out[name] = f.NewVerifier(r)
		}
	}
	return out
}

// closeVerifiers releases what verifiers kept warm.
func closeVerifiers(ctx context.Context, vs map[string]family.Verifier) error {
	var errs []error
	for name, v := range vs {
		if err := v.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("closing the %s verifier: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// resolveUsers finds the users that rows name, once for each image. One that
// an image does not have is the pack's fault.
func resolveUsers(ctx context.Context, e *docker.Engine, images map[string]sandbox.Image, users map[imageUser]source.Pos) (map[imageUser]sandbox.User, error) {
	out := make(map[imageUser]sandbox.User, len(users))
	var ps source.Problems
	for key, at := range users {
		u, err := e.User(ctx, images[key.image], key.user)
		if err != nil {
			ps.Add(at, "name a user of the image, or UID:GID", "environment.user: %v", err)
			continue
		}
		out[key] = u
	}
	return out, coded(exitPack, ps.Err())
}
