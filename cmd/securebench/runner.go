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

// fits refuses, before the first task, a row that the harness cannot run on or
// whose workspace would be larger than the limits.
func (r *runner) fits(row pack.Row, v task.AgentView) error {
	plan, err := r.harn.Plan(v)
	if err != nil {
		return err
	}
	layout, err := workspace.ForAgent(v, workspace.Options{TaskFile: plan.TaskFile, ArtifactPath: plan.ArtifactPath})
	if err != nil {
		return err
	}
	return tooLarge(v, layout.Need(row.AssetNeed), r.tester.Limits, row.AssetNeed)
}

// tooLarge says which limit a workspace would be beyond, and the asset that
// takes most of it.
func tooLarge(v task.AgentView, need workspace.Need, limits config.Limits, asset func(string) workspace.Need) error {
	var what string
	var of func(workspace.Need) int64
	switch {
	case need.Files > limits.Files:
		what, of = fmt.Sprintf("%d files and folders, limits.files is %d", need.Files, limits.Files), func(n workspace.Need) int64 { return n.Files }
	case need.Bytes > limits.Disk:
		what, of = fmt.Sprintf("%d bytes, limits.disk is %d", need.Bytes, limits.Disk), func(n workspace.Need) int64 { return n.Bytes }
	default:
		return nil
	}
	most, name := int64(0), ""
	for _, a := range v.Assets() {
		if n := of(asset(a.Path)); n > most {
			most, name = n, a.Path
		}
	}
	if name != "" {
		what += fmt.Sprintf("; the most, %d, is of the asset %q", most, name)
	}
	return fmt.Errorf("task %q would begin with a workspace of %s (raise the limit or make the pack smaller)", v.ID(), what)
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
