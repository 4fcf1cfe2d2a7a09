package scoring

import (
	"context"
	"fmt"
	"runtime"

	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// Plan decides how many tasks take place at the same time on the engine's machine,
// as far as that is known. It refuses tasks that the machine cannot hold.
func (s *Scorer) Plan(ctx context.Context, w *workload.Workload, cfg *config.Tester) (*capacity.Plan, error) {
	r := capacity.Request{Limits: Limits(cfg.Limits), Asked: cfg.MaxWorkers, Cores: runtime.GOMAXPROCS(0), Loads: w.Loads}
	if s.Engine != nil {
		info := s.Engine.Info()
		r.OnDisk, r.Sockets = info.DiskSampled, info.Sockets
		if e, ok := s.Engine.(sandbox.Sizer); ok {
			var err error
			if r.Size, err = e.Size(ctx); err != nil {
				return nil, fault.As(fault.Engine, fmt.Errorf("measuring the engine's machine: %w", err))
			}
		}
	}
	p, err := capacity.Choose(r)
	return p, fault.As(fault.Config, err)
}

// AgentFootprint is what an agent in a sandbox has on the engine. home says that
// it has one.
func AgentFootprint(t task.Task, home bool) capacity.Footprint {
	f := capacity.Footprint{Boxes: 1, Spaces: 1}
	env := t.Agent().Environment()
	if env.WritableRoot {
		f.Boxes, f.Roots = 0, 1
	}
	if env.Checkout.Dir != "" || t.Agent().Extraction().Kind == task.Workspace { // what is said of the task
		f.Spaces++
	}
	if home {
		f.Spaces++
	}
	return f
}

// ProgramFootprint is what the solution of a task has on the engine: nothing,
// unless it is a program.
func ProgramFootprint(fam family.Family, t task.Task) capacity.Footprint {
	if !hasProgram(fam, t) {
		return capacity.Footprint{}
	}
	f := AgentFootprint(t, false)
	f.Spaces++ // the program's files
	return f
}
