package service

import (
	"strings"
	"sync"

	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/remote"
	"securebench/internal/remote/hub"
)

// seen passes events of a run on, with the workers that make its calls.
type seen struct {
	progress.Reporter
	hub     *hub.Hub
	planned int

	mu              sync.Mutex
	begun, recorded int // attempts; begun are those without a record
}

// attempts counts the attempts of the run.
func (s *seen) attempts() (planned, begun, recorded int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planned, s.begun, s.recorded
}

// count notes that attempts have begun or ended.
func (s *seen) count(begun, recorded int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.recorded = s.begun+begun, s.recorded+recorded
}

// Event adds the worker to an event. A verification begins when a worker has it, which
// the hub reports.
func (s *seen) Event(e progress.Event) {
	switch event := e.(type) {
	case progress.TaskStart:
		s.count(1, 0)
	case progress.TaskDone:
		s.count(-1, 1)
	case progress.VerifierStart:
		return
	case progress.ProducerDone:
		event.Worker = s.hub.By(record.AttemptKey{Task: event.TaskID, Attempt: event.Attempt}).Produce
		e = event
	case progress.VerifierDone:
		event.Worker = s.hub.By(record.AttemptKey{Task: event.TaskID, Attempt: event.Attempt}).Verify
		e = event
	}
	s.Reporter.Event(e)
}

// report shows what a hub sees of its workers.
func report(to progress.Reporter, o *hub.Options) {
	o.Starts = func(r remote.Role, key record.AttemptKey, worker string) {
		if r == remote.Produce {
			to.Event(progress.ProducerStart{TaskID: key.Task, Attempt: key.Attempt, Worker: worker})
		} else {
			to.Event(progress.VerifierStart{TaskID: key.Task, Attempt: key.Attempt, Worker: worker})
		}
	}
	o.Came = func(w hub.Worker) {
		roles := make([]string, len(w.Roles))
		for i, r := range w.Roles {
			roles[i] = string(r)
		}
		to.Event(progress.WorkerJoined{Worker: w.ID, Roles: strings.Join(roles, ", ")})
	}
	o.Gone = func(id string, lost bool, why string) {
		to.Event(progress.WorkerLeft{Worker: id, Lost: lost, Why: why})
	}
}
