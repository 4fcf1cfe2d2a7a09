package setup

import (
	"securebench/internal/gateway/pace"
	"securebench/internal/progress"
)

// Pace gives a run the paces of its providers, whose changes are reported.
func (o *Outside) Pace(to progress.Reporter) {
	o.Paces = &pace.Set{Tell: func(provider string, s pace.State) {
		to.Event(progress.ProviderPace{Provider: provider, Requests: s.Limit, Overloaded: s.Cut, Lowest: s.Lowest})
	}}
}
