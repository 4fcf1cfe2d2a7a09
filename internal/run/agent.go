package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/harness"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// builtinAgent returns the agent of that name, or nil for "".
func builtinAgent(name, replay string, limit int64) (pipeline.Agent, error) {
	switch name {
	case pipeline.OracleName:
		return pipeline.Oracle{Limit: limit}, nil
	case pipeline.NullName:
		return pipeline.Null{}, nil
	case pipeline.ReplayName:
		a, err := pipeline.OpenReplay(replay, limit)
		if err != nil {
			return nil, fault.As(fault.Config, err)
		}
		return a, nil
	}
	return nil, nil
}

// harnessAgent runs the configured harness in sandboxes.
func (r *Run) harnessAgent() (pipeline.Agent, error) {
	assets, err := os.OpenRoot(r.work.PublicRoot())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.As(fault.Pack, fmt.Errorf("opening the pack's public assets: %w", err))
	}
	r.assets = assets
	limits := scoring.Limits(r.Config.Limits)
	limits.Timeout = r.Config.Limits.Produce
	audited := sandbox.WithPolicy(r.scorer.Engine, r.policy())
	return &pipeline.HarnessAgent{
		Producer: &produce.Producer{
			Engine: audited, Harness: r.Harness, Assets: assets, Expect: r.work.PublicFiles, Env: r.LookupEnv,
			Users: func(image, name string) (sandbox.User, bool) {
				u, ok := r.scorer.Users[workload.User{Image: image, Name: name}]
				return u, ok
			},
			Limits: limits,
		},
		Audit: func(taskID string, attempt int) (allowed, denied int) {
			a := audited.Take(taskID, attempt)
			return a.Allowed, a.Denied
		},
		RunID: r.Config.RunID, Redact: r.secrets.Split, Limit: r.Config.Limits.Candidate,
	}, nil
}

// policy is the operator's command policy for agents.
func (r *Run) policy() sandbox.Policy {
	return sandbox.Policy{Allow: r.Config.Sandbox.Allow, Deny: r.Config.Sandbox.Deny}
}

// checkPolicy refuses a harness whose command the operator's policy blocks.
func (r *Run) checkPolicy() error {
	d := r.policy().Decide(harness.Command(r.Harness))
	if d.Allowed {
		return nil
	}
	at := r.Config.Harness.Pos
	if n := r.Config.Harness.Config.Get("command"); n != nil {
		at = n.Pos
	}
	return fault.As(fault.Config, fmt.Errorf("%s: %w (see sandbox.commands)", at, &sandbox.PolicyError{Decision: d}))
}

// fits refuses a task that the harness cannot run, or whose workspace would
// exceed the limits.
func (r *Run) fits(row pack.Row, t task.Task) error {
	v := t.Agent()
	opts, err := r.Harness.Check(v)
	if err != nil {
		return err
	}
	layout, err := workspace.Layout(v, opts)
	if err != nil {
		return err
	}
	return tooLarge(v, layout.Need(row.AssetNeed), r.Config.Limits, row.AssetNeed)
}

// tooLarge names the limit that a workspace would exceed, and the asset that
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
		what += fmt.Sprintf("; the asset %q takes %d of it", name, most)
	}
	return fmt.Errorf("task %q would start with a workspace of %s (raise the limit or make the pack smaller)", v.ID(), what)
}

// registerSecrets registers the values that must not appear in anything that
// the run writes: those of forwarded variables whose names look secret.
func (r *Run) registerSecrets() {
	if r.Harness == nil || r.Agent != "" {
		return
	}
	for _, w := range harness.Warnings(r.Harness) {
		r.warn(w)
	}
	for _, name := range r.Config.Harness.Env {
		value, ok := r.LookupEnv(name)
		if !ok || !harness.LooksSecret(name) {
			continue
		}
		if err := r.secrets.Add(name, []byte(value)); err != nil {
			r.warn(err.Error())
		}
	}
}
