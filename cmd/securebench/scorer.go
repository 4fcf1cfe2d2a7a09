package main

import (
	"context"
	"errors"
	"time"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
)

// locateForScoring is [locate] with the configuration that candidates are
// scored under outside of a run: the tester YAML's or the defaults. workers
// wins over it where it is not 0.
func locateForScoring(arg string, workers int) (pack.Location, *config.Tester, error) {
	loc, tester, err := locate(arg)
	if err != nil {
		return loc, nil, err
	}
	if tester == nil {
		tester = config.Default()
	}
	if workers > 0 {
		tester.MaxWorkers = workers
	}
	return loc, tester, nil
}

// needsImage asks for the images that verification runs in.
func needsImage(f family.Family) bool { return f.NeedsImage }

// scorer scores candidates outside of a run.
type scorer struct {
	docker    *docker.Engine // nil where no row needs one
	images    map[string]sandbox.Image
	verifiers map[string]family.Verifier
}

// openScorer makes the verifiers of a pack and connects to the engine where
// its rows need one. name stands in the labels of sandboxes.
func (a *app) openScorer(ctx context.Context, name string, in *inputs, tester *config.Tester) (s *scorer, err error) {
	s = &scorer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	res := family.Resources{RunID: name, Workers: tester.MaxWorkers}
	if len(in.images) > 0 {
		if s.docker, err = openEngine(ctx, tester.Sandbox, a.logFile, a.say); err != nil {
			return s, err
		}
		res.Engine = s.docker
		if s.images, err = resolveImages(ctx, s.docker, in.images); err != nil {
			return s, err
		}
	}
	salt, err := digest.NewSalt()
	if err != nil {
		return s, err
	}
	res.Seed = salt.Derive
	s.verifiers = newVerifiers(in.families, res)
	return s, nil
}

// close releases what is kept warm, and the engine.
func (s *scorer) close() error {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	err := closeVerifiers(ctx, s.verifiers)
	if s.docker != nil {
		err = errors.Join(err, s.docker.Close())
	}
	return err
}

// scoringError gives an error of scoring its exit code; nil stays nil.
func scoringError(err error) error {
	if errors.Is(err, pipeline.ErrInterrupted) {
		return coded(exitInterrupted, err)
	}
	return coded(exitInfra, err)
}
