package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/harness"
	"securebench/internal/pipeline/pack"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// runner is one run on its way from flags to records.
type runner struct {
	app    *app
	flags  runFlags
	tester *config.Tester
	loc    pack.Location
	harn   harness.Harness // nil with --agent
	redact *redact.Registry
	report *progress.Renderer
}

// newRunner checks everything that can be checked without reading the pack.
func (a *app) newRunner(c *cobra.Command, f runFlags, args []string) (*runner, error) {
	if err := f.check(c); err != nil {
		return nil, err
	}
	r := &runner{app: a, flags: f, redact: &redact.Registry{}}
	if err := r.resolve(args); err != nil {
		return nil, err
	}
	if err := r.environment(); err != nil {
		return nil, err
	}
	return r, r.checkHarness()
}

// resolve finds the configuration and the pack that the arguments name.
func (r *runner) resolve(args []string) (err error) {
	switch {
	case len(args) == 1 && r.flags.config != "":
		return coded(exitUsage, errors.New("give PACK or --config, not both"))
	case len(args) == 1:
		r.loc, r.tester, err = locate(args[0], r.checkConfig)
	case r.flags.config != "":
		r.tester, err = config.LoadTester(r.flags.config, r.checkConfig)
		if err == nil {
			r.loc = pack.Location{Manifest: r.tester.Manifest, Tasks: r.tester.Tasks}
		}
		err = coded(exitConfig, err)
	default:
		return coded(exitUsage, errors.New("give a PACK or --config TESTER.yaml"))
	}
	if err != nil {
		return err
	}
	if r.tester == nil {
		r.tester = config.Default()
		r.tester.RunID = runID(r.loc.Manifest)
		r.tester.OutputDir = filepath.Join("runs", r.tester.RunID)
	}
	r.override()
	return nil
}

// checkConfig lets the harness's own package judge its section.
func (r *runner) checkConfig(h config.Harness) source.Problems {
	var ps source.Problems
	r.harn, ps = harness.Parse(h.Type, h.Env, h.Config)
	return ps
}

// fits refuses, before the first task, a row that the harness cannot run on.
func (r *runner) fits(v task.AgentView) error {
	plan, err := r.harn.Plan(v)
	if err != nil {
		return err
	}
	_, err = workspace.Layout(v, workspace.Options{TaskFile: plan.TaskFile, ArtifactPath: plan.ArtifactPath})
	return err
}

// checkPolicy refuses a harness whose command the operator's policy blocks.
func (r *runner) checkPolicy() error {
	d := r.policy().Decide(harness.Command(r.harn))
	if d.Allowed {
		return nil
	}
	at := r.tester.Harness.Pos
	if n := r.tester.Harness.Config.Get("command"); n != nil {
		at = n.Pos
	}
	return coded(exitConfig, fmt.Errorf("%s: %w (see sandbox.commands)", at, &sandbox.PolicyError{Decision: d}))
}

// runID names a run that has no tester YAML after its pack's folder.
func runID(manifest string) string {
	abs, err := filepath.Abs(manifest)
	if err != nil {
		return "run"
	}
	return workspace.DirName(filepath.Base(filepath.Dir(abs)))
}

// override lets the flags win.
func (r *runner) override() {
	f, t := r.flags, r.tester
	if f.outputDir != "" {
		t.OutputDir = f.outputDir
	}
	if f.workers > 0 {
		t.MaxWorkers = f.workers
	}
	if f.attempts > 0 {
		t.Attempts = f.attempts
	}
	if f.retries >= 0 {
		t.Retries = f.retries
	}
}

// environment loads the env file; what is set already stays.
func (r *runner) environment() error {
	vars, err := config.LoadEnv(r.flags.envFile)
	if err != nil {
		return coded(exitConfig, err)
	}
	for _, v := range vars {
		if _, ok := os.LookupEnv(v.Name); ok {
			continue
		}
		if err := os.Setenv(v.Name, v.Value); err != nil {
			return coded(exitConfig, fmt.Errorf("setting %s from %s: %w", v.Name, r.flags.envFile, err))
		}
	}
	return nil
}
