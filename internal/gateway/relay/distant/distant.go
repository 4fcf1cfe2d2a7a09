// Package distant leads agents on other machines to their provider. The relay, with its
// key, its pace and all that it counts, stays with the run: a [Desk] there serves the
// bearers of tickets. A [Provider] beside the agent forwards its requests, and holds the
// agent when the relay says so.
//
// What the agent sends is one request of the desk's, with the agent's method and target
// in headers: no path of an agent's leads to what only its provider may ask for.
package distant

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/relay"
	"securebench/internal/redact"
)

// Prefix is where a [Desk] is served, with a ticket behind it.
const Prefix = "/relay/"

// What a provider asks for, behind its ticket.
const (
	forAgent  = "agent"  // POST: a request of the agent's
	forEvents = "events" // GET: what the relay wants of the agent
	forHold   = "held"   // POST: a hold is carried out, or cannot be
	forEnd    = "end"    // POST: the agent has ended
)

// The headers of requests.
const (
	tokenHeader  = "Securebench-Token"  // that the agent has
	methodHeader = "Securebench-Method" // of the agent's request
	targetHeader = "Securebench-Target" // of the agent's request, as it was written
	lengthHeader = "Securebench-Length" // of the agent's body, -1 if it is not known
)

// The headers of answers.
const (
	stateHeader = "Securebench-State" // of the attempt, in every answer of the relay's
	cutHeader   = "Securebench-Cut"   // the answer is not whole; in the end or a trailer
)

// HeaderRoom is how much longer the headers of a desk's requests are than those of an
// agent.
const HeaderRoom = 4 << 10

// The times of the stream of events.
const (
	beatEvery = 15 * time.Second // without another event
	silence   = time.Minute      // after which the other side is gone
)

// event is a line of the stream of events. An empty one says that the desk is there.
type event struct {
	Opened  bool   `json:"opened,omitzero"` // the first
	Hold    int64  `json:"hold,omitzero"`   // stop the agent, and answer
	Release int64  `json:"release,omitzero"`
	State   *state `json:"state,omitzero"`
}

// answer says what came of a hold.
type answer struct {
	Hold  int64  `json:"hold"`
	Error string `json:"error,omitzero"`
}

// state is what becomes of an attempt at the relay.
type state struct {
	Spent  bool     `json:"spent,omitzero"`
	Failed *failure `json:"failed,omitzero"`
}

// stateOf returns the state of an attempt.
func stateOf(a *relay.Attempt) state {
	s := state{Spent: a.Spent()}
	if err := a.Err(); err != nil {
		s.Failed = &failure{Message: err.Error()}
		for name, kind := range kinds() {
			if errors.Is(err, kind) {
				s.Failed.Kind = name
			}
		}
	}
	return s
}

// text returns a state as a line of ASCII.
func (s state) text() string {
	b, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return "{}" // never: it has texts and truth values
	}
	return string(redact.ASCII(b))
}

// kinds are the errors that have consequences of their own.
func kinds() map[string]error {
	return map[string]error{"rejected": relay.ErrRejected, "refused": relay.ErrRefused, "waited": relay.ErrWaited, "spent": relay.ErrSpent}
}

// failure is why the provider failed an attempt, as it is carried.
type failure struct {
	Kind    string `json:"kind,omitzero"` // of [kinds], "" for another
	Message string `json:"message"`
}

// Error says what went wrong.
func (f *failure) Error() string { return f.Message }

// Is reports whether it is an error of the target's kind.
func (f *failure) Is(target error) bool {
	kind, ok := kinds()[f.Kind]
	return ok && kind == target
}
