package run

import (
	"errors"
	"fmt"

	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
)

// What a run can be asked for while it goes on.
const (
	look    = "look" // changes nothing
	workers = "workers"
)

// steered takes orders for the pipeline until the function that it returns is called. A
// run that cannot take any goes on without.
func (r *Run) steered(config *pipeline.Config) (end func()) {
	if r.Steer == nil {
		return func() {}
	}
	config.Control = &pipeline.Control{}
	stop, err := r.Steer(r.dir.Path(), func(act string, n int) (pipeline.ControlState, error) {
		err := r.obey(config.Control, act, n)
		return config.Control.State(), err
	})
	if err != nil {
		r.warn(fmt.Sprintf("the run cannot be changed while it goes on: %v", err))
		return func() {}
	}
	return func() {
		if err := stop(); err != nil {
			r.warn(fmt.Sprintf("closing the socket of the run: %v", err))
		}
	}
}

// obey does what an order asks for, and writes it down before: what a run cannot write
// down it does not do.
func (r *Run) obey(c *pipeline.Control, act string, n int) error {
	said := map[string]string{
		"pause": "paused from outside: attempts under way go on, and no other begins", "resume": "resumed from outside",
		"drain": "drained from outside: attempts under way go on, then the run ends", "stop": "stopped from outside",
		workers: fmt.Sprintf("set to %d workers from outside", n),
	}[act]
	switch {
	case act == look:
		return nil
	case said == "":
		return fmt.Errorf("%q is no order", act)
	}
	if err := r.writeDown(c, act, n); err != nil {
		return err
	}
	r.warn(said)
	return map[string]func() error{"pause": c.Pause, "resume": c.Resume, "drain": c.Drain, "stop": c.Stop,
		workers: func() error { return c.SetWorkers(n) }}[act]()
}

// writeDown adds an order to the manifest of the run.
func (r *Run) writeDown(c *pipeline.Control, act string, n int) error {
	was, is := record.Steered{At: now(), Act: act}, c.State()
	switch {
	case is.Workers == 0:
		return errors.New("no attempt is made yet, or any more")
	case act == workers && (n < 1 || n > is.Most):
		return fmt.Errorf("%d workers: want 1 to %d", n, is.Most)
	case act == workers:
		was.Workers = n
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if len(r.manifest.Steered) >= record.MaxSteered {
		return fmt.Errorf("the run was changed %d times: it takes no other order", record.MaxSteered)
	}
	r.manifest.Steered = append(r.manifest.Steered, was)
	return r.dir.WriteManifest(&r.manifest)
}
