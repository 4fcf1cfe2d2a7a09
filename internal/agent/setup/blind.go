package setup

import (
	"maps"
	"slices"

	"securebench/internal/pipeline/produce"
	"securebench/internal/workload"
)

// Blind returns an opener of agents that get no public files of a row.
func Blind(open Opener) Opener {
	return func(a Around) (Agent, error) {
		agent, err := open(a)
		if err != nil {
			return nil, err
		}
		return blindfolded{agent}, nil
	}
}

// An agentOf is an [Agent], under a name that its method Agent leaves free.
type agentOf = Agent

// blindfolded is an agent that gets no files.
type blindfolded struct{ agentOf }

// Demands adds that there are none.
func (b blindfolded) Demands() workload.Demands {
	d := b.agentOf.Demands()
	d.Blind = true
	return d
}

// Facts adds what is recorded of that.
func (b blindfolded) Facts() Facts {
	f := b.agentOf.Facts()
	f.Settings = maps.Clone(f.Settings)
	if f.Settings == nil {
		f.Settings = map[string]any{}
	}
	f.Settings["without_assets"] = true
	f.Labels = append(slices.Clone(f.Labels), produce.Ablated)
	return f
}
