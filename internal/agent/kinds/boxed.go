package kinds

import (
	"context"
	"fmt"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/gateway/relay"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// boxed is what the agents in sandboxes have in common.
type boxed struct {
	*configured
	relay *relay.Relay // to the provider, once it is open
}

// box begins the setup of an agent in a sandbox. It refuses a command that the
// operator's policy blocks.
func box(h harness.Harness, a setup.Around) (boxed, error) {
	c, err := configure(h, a)
	if err != nil {
		return boxed{}, err
	}
	if d := scoring.Policy(a.Config.Sandbox).Decide(c.needs.Argv); !d.Allowed {
		return boxed{}, fault.Errorf(fault.Config, "%s: %w (see sandbox.commands)", a.Config.Harness.At("command"), &sandbox.PolicyError{Decision: d})
	}
	return boxed{configured: c}, nil
}

// inBox sets up an agent in a sandbox.
func inBox(h harness.Harness, agent func(boxed) setup.Agent) setup.Opener {
	return func(a setup.Around) (setup.Agent, error) {
		b, err := box(h, a)
		if err != nil {
			return nil, err
		}
		return agent(b), nil
	}
}

// Demands returns what every agent in a sandbox asks of rows.
func (b *boxed) Demands() workload.Demands {
	return workload.Demands{Task: b.fits,
		Image: func(f family.Family, t task.Task) bool { return b.needs.Image == "" || f.RunsIn(t) },
		Agent: func(_ family.Family, t task.Task) capacity.Footprint {
			return scoring.AgentFootprint(t, b.needs.Relay != nil)
		}}
}

// fits returns an error for a task that the harness cannot run or whose
// workspace would exceed the limits.
func (b *boxed) fits(row pack.Row, t task.Task) error {
	v := t.Agent()
	if err := b.keys.InTask(v); err != nil {
		return err
	}
	if err := scoring.CheckCapabilities(b.Config.Sandbox, v); err != nil {
		return err
	}
	opts, err := b.harness.Check(v)
	if err != nil {
		return err
	}
	layout, err := workspace.ForAgent(v, opts)
	if err != nil {
		return err
	}
	return tooLarge(v, layout.Need(row.AssetNeed), b.Config.Limits, row.AssetNeed)
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

// reach sees that there is a provider, if the agent needs one.
func (b *boxed) reach(ctx context.Context) error {
	if b.provider == nil {
		return nil
	}
	return b.provider.Reach(ctx)
}

// openRelay opens the way to the provider, if the agent needs one.
func (b *boxed) openRelay() (err error) {
	if b.provider != nil {
		b.provider.Settings = *b.needs.Relay
		b.relay, err = b.provider.Relay()
	}
	return err
}

// run returns the agent, nil if no row can be attempted. gateway is what it reaches
// and files returns what is mounted for it, nil for nothing.
func (b *boxed) run(on setup.Ground, files func() (sandbox.Overlay, error), gateway produce.Gateway) (_ agent.Agent, err error) {
	if on.Engine == nil {
		return nil, nil
	}
	r := runner(b.Around, on)
	gateway.Relay, gateway.Provider, gateway.Proxy = b.relay, b.Provider, b.Proxy
	if b.relay != nil {
		if gateway.Accounts, err = b.provider.Accounts(on); err != nil {
			return nil, err
		}
	}
	r.Producer.Harness, r.Producer.Gateway, r.Producer.Files = b.harness, gateway, files
	h := &agent.Harness{Runner: *r}
	if img, ok := on.Images[b.needs.Image]; ok {
		h.Image = &img
	}
	return h, nil
}

// Facts adds what the agent reaches.
func (b *boxed) Facts() setup.Facts {
	f := b.configured.Facts()
	f.Users, f.Sandboxed = true, true
	if r := b.needs.Relay; r != nil && r.AllowExternalTools {
		f.Labels = append(f.Labels, produce.ExternalTools)
	}
	if len(b.needs.Domains) > 0 {
		f.Labels = append(f.Labels, produce.NetworkEnabled)
	}
	if len(b.needs.Private) > 0 {
		f.Labels = append(f.Labels, produce.PrivateNetwork)
	}
	return f
}
