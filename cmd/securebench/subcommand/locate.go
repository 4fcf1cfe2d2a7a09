package subcommand

import (
	"fmt"

	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
)

// Locate finds the files of a PACK argument: a folder, a manifest, or a tester
// YAML, whose configuration is then returned as well.
func Locate(arg string, checks ...config.Check) (pack.Location, *config.Tester, error) {
	if config.IsTester(arg) {
		t, err := config.LoadTester(arg, checks...)
		if err != nil {
			return pack.Location{}, nil, fault.As(fault.Config, err)
		}
		return pack.Location{Manifest: t.Manifest, Tasks: t.Tasks}, t, nil
	}
	loc, err := pack.Locate(arg)
	if err != nil {
		err = fmt.Errorf("%w (PACK is a folder with manifest.yaml and tasks.jsonl, a manifest, or a tester YAML)", err)
	}
	return loc, nil, fault.As(fault.Pack, err)
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

// NeedsImage selects the families whose verification runs in the row's image.
func NeedsImage(f family.Family) bool { return f.NeedsImage }
