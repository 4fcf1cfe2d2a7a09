package progress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"

	"securebench/internal/verdict"
)

// shownFailures is how many of the last failures the display keeps.
const shownFailures = 3

// status is what the display shows of a run. Counts are of attempts.
type status struct {
	started        time.Time                       // of this part of the run
	total, earlier int                             // earlier: done in an earlier session
	finished       int                             // in all sessions, as the counts
	counts         verdict.ByBasis[verdict.Counts] // in all sessions
	running        []attempt                       // in the order of their start
	failures       []failure                       // the last ones, oldest first
	over           bool
	// away is set if workers make the calls of attempts. workers are those that serve the
	// run.
	away    bool
	workers map[string]bool
	// paces are how many requests may be under way at providers at which that is bounded.
	paces map[string]int
}

// attempt is an attempt that runs.
type attempt struct {
	id     string
	number int
	phase  string
	since  time.Time
	worker string // that has it; "" for none
}

// failure is an attempt that did not pass.
type failure struct {
	id, word, reason string
	color            ansi.Attr
}

// The phases of an attempt, as the display names them.
const (
	preparing = "prepare"
	producing = "agent"
	capturing = "capture"
	verifying = "verify"
	repeating = "retry"
)

func (s *status) update(e Event, now time.Time) {
	if s.started.IsZero() {
		s.started = now
	}
	switch e := e.(type) {
	case RunStart:
		s.total = e.Total
	case Resume:
		s.earlier, s.finished, s.counts = e.Completed, e.Completed, e.Counts
	case TaskStart:
		s.total = max(s.total, e.Total)
		s.running = append(s.running, attempt{id: e.TaskID, number: e.Attempt, phase: preparing, since: now})
	case WorkerJoined:
		if s.workers == nil {
			s.workers = map[string]bool{}
		}
		s.away, s.workers[e.Worker] = true, true
	case WorkerLeft:
		s.left(e.Worker)
	case ProviderPace:
		s.paced(e)
	case ProducerStart:
		s.enter(e.TaskID, e.Attempt, producing, e.Worker)
	case ProducerDone:
		s.enter(e.TaskID, e.Attempt, capturing, "")
	case VerifierStart:
		s.enter(e.TaskID, e.Attempt, verifying, e.Worker)
	case VerifierDone:
		s.enter(e.TaskID, e.Attempt, verifying, "")
	case Retry:
		s.enter(e.TaskID, e.Attempt, repeating, "")
	case TaskDone:
		s.end(e)
	case RunDone, Interrupted:
		s.over = true
	}
}

// paced notes how many requests may be under way at a provider.
func (s *status) paced(e ProviderPace) {
	if s.paces == nil {
		s.paces = map[string]int{}
	}
	if s.paces[e.Provider] = e.Requests; e.Requests == 0 {
		delete(s.paces, e.Provider)
	}
}

// enter notes that an attempt is in another phase, and which worker has it.
func (s *status) enter(id string, number int, phase, worker string) {
	if i := s.find(id, number); i >= 0 {
		s.running[i].phase, s.running[i].worker = phase, worker
	}
}

// left notes that a worker is gone. What it had is queued again.
func (s *status) left(worker string) {
	delete(s.workers, worker)
	for i, a := range s.running {
		if a.worker == worker {
			s.running[i].phase, s.running[i].worker = preparing, ""
		}
	}
}

// active returns the attempts that a worker has, or whose agent works in this process.
func (s *status) active() []attempt {
	if !s.away {
		return s.running
	}
	var out []attempt
	for _, a := range s.running {
		if a.worker != "" || a.phase == producing {
			out = append(out, a)
		}
	}
	return out
}

// busy names the workers, those with the most attempts first, and how many each has.
func (s *status) busy() []string {
	has := make(map[string]int, len(s.workers))
	for id := range s.workers {
		has[id] = 0
	}
	for _, a := range s.running {
		if s.workers[a.worker] {
			has[a.worker]++
		}
	}
	ids := slices.SortedFunc(maps.Keys(has), func(a, b string) int {
		return cmp.Or(cmp.Compare(has[b], has[a]), cmp.Compare(a, b))
	})
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%s %d", name(id), has[id])
	}
	return ids
}

func (s *status) find(id string, number int) int {
	return slices.IndexFunc(s.running, func(a attempt) bool { return a.id == id && a.number == number })
}

// end counts an attempt that is done.
func (s *status) end(e TaskDone) {
	if i := s.find(e.TaskID, e.Attempt); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
	}
	s.finished++
	r := verdict.Result{Basis: e.Basis, Status: e.Status, Outcome: e.Outcome, Reason: e.Reason}.ByRule(e.Read)
	s.counts.Of(r.Basis).Add(r.Status, r.Outcome)
	f := failure{attemptName(e.TaskID, e.Attempt), "pending", string(e.Reason), yellow}
	switch {
	case e.Outcome == verdict.Infrastructure:
		f.word = "infra"
	case e.Status == verdict.StatusPassed:
		return
	case e.Status == verdict.StatusFailed:
		f.word, f.color = "fail", red
	}
	if s.failures = append(s.failures, f); len(s.failures) > shownFailures {
		s.failures = slices.Delete(s.failures, 0, 1)
	}
}

// done is how many attempts have a record.
func (s *status) done() int { return s.finished }

// here is how many of them this session made.
func (s *status) here() int { return max(s.done()-s.earlier, 0) }

// pace returns how many attempts a second this session makes, and how long the
// rest takes at that pace; 0 if nothing is known yet.
func (s *status) pace(now time.Time) (perSecond float64, left time.Duration) {
	elapsed := s.elapsed(now)
	if s.here() == 0 || elapsed <= 0 {
		return 0, 0
	}
	perAttempt := elapsed / time.Duration(s.here())
	return float64(s.here()) / elapsed.Seconds(), time.Duration(max(s.total-s.done(), 0)) * perAttempt
}

func (s *status) elapsed(now time.Time) time.Duration {
	return max(now.Sub(s.started), 0) // a clock can be set back
}
