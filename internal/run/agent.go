package run

import (
	"fmt"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/harness"
	"securebench/internal/ownagent"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// builtinAgent returns the built-in agent with the given name, or nil for "".
func builtinAgent(name, replay string, bounds agent.Bounds) (agent.Agent, error) {
	switch name {
	case agent.OracleName:
		return &agent.Oracle{Limit: bounds.Bytes}, nil
	case agent.NullName:
		return agent.Null{}, nil
	case agent.ReplayName:
		a, err := agent.OpenReplay(replay, bounds)
		if err != nil {
			return nil, fault.As(fault.Config, err)
		}
		return a, nil
	}
	return nil, nil
}

// openAgent makes what runs agents in sandboxes: the configured harness, or
// the programs that are the solutions of an oracle's rows. A model is only asked.
func (r *Run) openAgent() error {
	if r.asks() {
		return r.openModelAgent()
	}
	if replay, ok := r.agent.(*agent.Replay); ok {
		replay.Users = r.scorer.User
	}
	oracle, isOracle := r.agent.(*agent.Oracle)
	if r.agent != nil && !isOracle || r.scorer.Engine == nil {
		return nil
	}
	runner := r.scorer.Runner(r.work, r.Config, r.Config.RunID)
	runner.Secrets, runner.Producer.Env = &r.secrets, r.LookupEnv
	if isOracle {
		oracle.Runner = runner
		return nil
	}
	runner.Producer.Harness, runner.Producer.Gateway, runner.Producer.Files = r.Harness, r.gateway(), r.own.Tree()
	if r.relay != nil {
		accounts, err := r.dir.Accounts()
		if err != nil {
			return classify(err)
		}
		runner.Producer.Gateway.Accounts = accounts
	}
	h := &agent.Harness{Runner: *runner}
	if img, ok := r.scorer.Images[r.needs().Image]; ok {
		h.Image = &img
	}
	r.agent = h
	return nil
}

// agentImageFault refuses an image of the operator's in which nothing can run.
func (r *Run) agentImageFault() error {
	ref := r.needs().Image
	if err := r.scorer.ImageFault(ref); ref != "" && err != nil {
		return fault.As(fault.Config, fmt.Errorf("%s: %w", r.at("image"), err))
	}
	return nil
}

// openOwn begins to prepare the agent of the configured harness.
func (r *Run) openOwn() error {
	if r.Harness == nil || r.Agent != "" {
		return nil
	}
	r.own = ownagent.Agent{Needs: r.needs(), At: r.at}
	if len(r.own.Needs.Overlays) == 0 { // programs are tried instead
		r.own.Argv = harness.Command(r.Harness)
	}
	return r.own.Variables(r.Config.Harness, r.LookupEnv, r.warn)
}

// checkPolicy refuses a harness whose command the operator's policy blocks.
func (r *Run) checkPolicy() error {
	d := scoring.Policy(r.Config.Sandbox).Decide(harness.Command(r.Harness))
	if d.Allowed {
		return nil
	}
	return fault.As(fault.Config, fmt.Errorf("%s: %w (see sandbox.commands)", r.at("command"), &sandbox.PolicyError{Decision: d}))
}

// fits returns an error for a task that the harness cannot run or whose
// workspace would exceed the limits.
func (r *Run) fits(row pack.Row, t task.Task) error {
	v := t.Agent()
	if err := r.keyInTask(v); err != nil {
		return err
	}
	if err := scoring.CheckCapabilities(r.Config.Sandbox, v); err != nil {
		return err
	}
	opts, err := r.Harness.Check(v)
	if err != nil {
		return err
	}
	r.own.Note(v)
	layout, err := workspace.ForAgent(v, opts)
	if err != nil {
		return err
	}
	return tooLarge(v, layout.Need(row.AssetNeed), r.Config.Limits, row.AssetNeed)
}

// tooLarge returns an error that names the limit that a workspace would
// exceed, and the asset that needs most of it.
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
// the run writes: providers' keys, and those of forwarded variables whose names look
// secret.
func (r *Run) registerSecrets() {
	if r.Harness == nil || r.Agent != "" {
		return
	}
	r.registerKeys()
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
