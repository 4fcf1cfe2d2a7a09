package machine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/bench"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/bare"
	"securebench/internal/sandbox/engines"
	"securebench/internal/sandbox/owner"
	"securebench/internal/source"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	engines         []string
	image, out, old string
	quick           bool
}

const benchHelp = `Measure what securebench costs on this machine, for each sandbox engine that is
there: the parts of a sandbox's life, whole sandboxes beside the bare runtime
with the same options, tasks like those of HumanEval beside their bare sandboxes
and processes, and the memory of this program while agents run. Then how many
rows a second are loaded, scored and verified without an engine.

Times say little about another machine, so the ratios compare what one run
measured. Run it on a machine that does nothing else. It takes about ten minutes;
with --quick, which tells less, about one.

A table goes to standard output. --output-dir also writes bench.json and plots,
which do not identify the machine. --from draws an earlier bench.json again and
measures nothing.`

func (g group) benchCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use: "bench", Short: "Measure what securebench costs on this machine", Args: cobra.NoArgs, Long: benchHelp,
		Example: "  securebench bench --quick\n  securebench bench -o docs/bench",
		RunE:    func(c *cobra.Command, _ []string) error { return g.bench(c.Context(), f) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.engines, "engine", []string{engines.Native, engines.Docker}, "`NAME` of each engine to measure")
	fl.StringVar(&f.image, "image", "securebench-python:3", "`IMAGE` with python3")
	fl.StringVarP(&f.out, "output-dir", "o", "", "`DIR` for bench.json and plots, which are replaced")
	fl.StringVar(&f.out, "out", "", "`DIR`, as --output-dir")
	subcommand.Hide(fl, "out")
	fl.StringVar(&f.old, "from", "", "draw this `FILE`, a bench.json, instead of measuring")
	fl.BoolVar(&f.quick, "quick", false, "fewer samples, in about a minute")
	g.AddLogFlag(c)
	return c
}

func (g group) bench(ctx context.Context, f benchFlags) error {
	for _, name := range f.engines {
		if name != engines.Docker && name != engines.Native {
			return subcommand.UsageError(fmt.Errorf("--engine is %q, want %s or %s", name, engines.Native, engines.Docker))
		}
	}
	if len(f.engines) == 0 {
		return subcommand.UsageError(fmt.Errorf("--engine is empty, want %s or %s", engines.Native, engines.Docker))
	}
	result, err := g.result(ctx, f)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := result.Save(f.out); err != nil {
			return fault.As(fault.Refused, err)
		}
	}
	return result.Table(g.Stdout)
}

// result measures, or reads what was measured.
func (g group) result(ctx context.Context, f benchFlags) (*bench.Result, error) {
	if f.old != "" {
		file, err := source.Open(f.old)
		if err != nil {
			return nil, fault.As(fault.Config, err)
		}
		defer file.Close()
		r, err := bench.Read(file)
		return r, fault.As(fault.Config, err)
	}
	r, err := g.measure(ctx, f)
	if ctx.Err() != nil {
		return nil, fault.As(fault.Interrupted, errors.Join(errors.New("the benchmark was interrupted"), err))
	}
	return r, err
}

func (g group) measure(ctx context.Context, f benchFlags) (_ *bench.Result, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("locating the securebench binary: %w", err)
	}
	dir, err := owner.MakeFolder("bench")
	if err != nil {
		return nil, fmt.Errorf("making a folder for keys: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	open := g.Engine()
	return bench.Run(ctx, bench.Config{Engines: f.engines, Image: f.image, Quick: f.quick, Version: g.Version,
		Program: &program{path: self, dir: dir},
		Open: func(ctx context.Context, name string) (sandbox.Engine, error) {
			cfg := config.Default().Sandbox
			cfg.Engine = name
			return open(ctx, cfg, g.Notice)
		},
		Bare: func(name string, img sandbox.Image) (bare.Floor, error) {
			return engines.OpenBare(name, img, g.Getenv)
		},
		Progress: g.Notice,
	})
}
