package subcommand

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
)

// Locate finds the files of a PACK argument: a folder, a manifest, or a tester
// YAML, whose configuration is then returned as well.
func Locate(arg string, checks ...config.Check) (pack.Location, *config.Tester, error) {
	if config.IsTester(arg) {
		t, err := config.LoadTester(arg, checks...)
		if err != nil {
			return pack.Location{}, nil, fault.As(fault.Config, err)
		}
		loc, err := PackOf(t)
		return loc, t, err
	}
	loc, err := pack.Locate(arg)
	if err != nil {
		err = fmt.Errorf("%w (PACK is a folder with manifest.yaml and tasks.jsonl or a folder of tasks, a manifest, or a tester YAML)", err)
	}
	return loc, nil, fault.As(fault.Pack, err)
}

// PackOf returns the pack that a tester YAML names, whose files must be there.
func PackOf(t *config.Tester) (pack.Location, error) {
	for _, f := range []struct {
		key, name string
		at        source.Pos
	}{{"manifest", t.Manifest, t.ManifestPos}, {"tasks", t.Tasks, t.TasksPos}} {
		if _, err := os.Stat(f.name); errors.Is(err, fs.ErrNotExist) {
			return pack.Location{}, fault.As(fault.Config, &source.Problem{Pos: f.at, Message: fmt.Sprintf("benchmark.%s: no such file: %s", f.key, f.name),
				Fix: "paths are relative to the tester YAML"})
		}
	}
	return pack.Location{Manifest: t.Manifest, Tasks: t.Tasks}, nil
}

// LocateForScoring is [Locate] for scoring candidates outside a run: it
// returns the configuration of the tester YAML or the default one. workers
// overrides its number of workers unless it is 0.
func LocateForScoring(arg string, workers int) (pack.Location, *config.Tester, error) {
	loc, tester, err := Locate(arg)
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
