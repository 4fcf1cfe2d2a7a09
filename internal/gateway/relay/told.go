package relay

import (
	"net/http"
	"time"

	"securebench/internal/trajectory"
)

// told adds to the agent's steps what is new in a request, while the provider reads it,
// and prepares to hear the answer. The returned function waits until the body is free.
func (a *Attempt) told(x *exchange, body []byte) (wait func()) {
	if x.kind != asks {
		return func() {}
	}
	d, done := x.dialect.steps, make(chan struct{})
	x.said = d.Answer(a.telling)
	go func() {
		defer close(done)
		a.steps.AskedParts(x.began, d.Asked(body))
	}()
	return func() { <-done }
}

// tell adds what came of a request to the agent's steps.
func (a *Attempt) tell(x *exchange, took time.Duration) {
	if x.kind == counts || x.kind == lists && x.Reason == "" {
		return
	}
	end := trajectory.Step{At: x.began.Add(took), By: trajectory.Relay, Kind: trajectory.Error, Model: x.Model, Status: x.Status,
		Reason: string(x.Reason), Text: x.why, Took: took.Milliseconds(), Waited: time.Duration(x.Waited).Milliseconds()}
	var said []trajectory.Step
	if x.said != nil {
		defer x.said.Close()
		said = x.said.Steps()
	}
	if x.Status == http.StatusOK {
		end.By, end.Kind = trajectory.Model, trajectory.Answer
		end.Usage = &trajectory.Usage{Input: x.usage.Input, Cached: x.usage.Cached, Output: x.usage.Output}
		end.Estimated = !x.exact
	}
	a.steps.Answered(said, end)
}
