package kinds

import (
	"context"
	"fmt"

	"securebench/internal/agent"
	"securebench/internal/agent/answers"
	"securebench/internal/agent/setup"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// given is what the built-in agents have in common, and all of the null agent: their
// candidates exist already.
type given struct {
	agent agent.Agent
	facts setup.Facts
}

// openNull sets the null agent up.
func openNull(setup.Around) (setup.Agent, error) { return newGiven(agent.Null{}, setup.Facts{}), nil }

func newGiven(a agent.Agent, f setup.Facts) *given {
	f.Name, f.BuiltIn = a.Name(), true
	return &given{a, f}
}

func (*given) Demands() workload.Demands { return workload.Demands{Image: family.Family.RunsIn} }

func (*given) Loaded(context.Context, *workload.Workload) error { return nil }

func (*given) Prepare(context.Context, setup.Ground) error { return nil }

func (g *given) Agent(setup.Ground) (agent.Agent, error) { return g.agent, nil }

func (g *given) Facts() setup.Facts { return g.facts }

func (*given) Close() error { return nil }

// oracle submits the rows' own solutions. Those that are programs run in the agent's
// place.
type oracle struct {
	*given
	setup.Around
}

// openOracle sets the oracle up.
func openOracle(a setup.Around) (setup.Agent, error) {
	return &oracle{newGiven(&agent.Oracle{}, setup.Facts{Users: true}), a}, nil
}

func (o *oracle) Demands() workload.Demands {
	return workload.Demands{Image: family.Family.RunsIn, Agent: scoring.ProgramFootprint, Task: func(_ pack.Row, t task.Task) error {
		return scoring.CheckProgram(o.Config.Sandbox, o.Families[t.Family()], t)
	}}
}

func (o *oracle) Agent(on setup.Ground) (agent.Agent, error) {
	a := &agent.Oracle{Limit: scoring.Bounds(o.Config.Limits).Bytes}
	if on.Engine != nil {
		a.Runner = runner(o.Around, on)
	}
	return a, nil
}

// runner returns what runs agents in sandboxes.
func runner(a setup.Around, on setup.Ground) *agent.Runner {
	r := on.Runner(on.Work, a.Config, a.Config.RunID)
	r.Secrets, r.Producer.Env = a.Secrets, a.LookupEnv
	return r
}

// replay submits what a file has.
type replay struct {
	*given
	setup.Around
	agent *agent.Replay
}

// openReplay sets the agent of a replay file up.
func openReplay(file string, columns answers.Map) setup.Opener {
	return func(a setup.Around) (setup.Agent, error) {
		r, err := agent.OpenReplay(file, columns, scoring.Bounds(a.Config.Limits))
		if err != nil {
			return nil, fault.As(fault.Config, err)
		}
		settings := map[string]any{"replay": r.Digest()}
		if columns.Given() {
			settings["replay_map"] = columns.String()
		}
		return &replay{newGiven(r, setup.Facts{Users: true, Settings: settings}), a, r}, nil
	}
}

func (r *replay) Demands() workload.Demands {
	return workload.Demands{Image: family.Family.RunsIn, Seen: r.agent.Seen}
}

func (r *replay) Loaded(context.Context, *workload.Workload) error {
	if err := r.agent.Matches(); err != nil {
		return fault.As(fault.Config, err)
	}
	if n, tasks := r.agent.Unmatched(r.Config.Attempts); n > 0 {
		r.Warn(fmt.Sprintf("replay file: lines without a matching attempt: %d; they are for %s", n, tasks))
	}
	return nil
}

func (r *replay) Agent(on setup.Ground) (agent.Agent, error) {
	r.agent.Users = on.User
	return r.agent, nil
}
