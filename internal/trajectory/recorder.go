package trajectory

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/redact"
)

// The bounds of one recorder, for each that speaks, so that an agent's requests cannot
// crowd out its model's answers.
const (
	maxSteps = 10_000
	maxBytes = 4 << 20 // of lines
)

// Recorder collects the steps of one attempt. A request has all of the conversation in
// it: what it repeats of earlier ones, or of the model's answers, is no step. It is safe
// for concurrent use.
type Recorder struct {
	secrets *redact.Registry // nil redacts nothing

	mu      sync.Mutex
	seed    maphash.Seed
	seen    map[uint64]int      // how often a step was in one request, or among the answers
	known   map[uint64][]uint64 // the steps of parts that were read, by the digest of these
	size    int                 // of what is known, in digests
	lines   []byte
	room    map[By]*room
	omitted int64
}

// room is what may still be added.
type room struct{ steps, bytes int }

// NewRecorder returns a recorder that redacts what a registry knows; nil is nothing.
func NewRecorder(secrets *redact.Registry) *Recorder {
	return &Recorder{secrets: secrets, seed: maphash.MakeSeed(), seen: map[uint64]int{}, known: map[uint64][]uint64{},
		room: map[By]*room{Model: {maxSteps, maxBytes}, Agent: {maxSteps, maxBytes}, Relay: {maxSteps, maxBytes}}}
}

// Asked adds what is new in a request that was made at a time. Steps, which tell all that
// the request says in its order, ends when it is refused.
func (r *Recorder) Asked(at time.Time, steps func(add func(Step) bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := map[uint64]int{}
	steps(func(s Step) bool {
		_, more := r.asked(at, s, times)
		return more
	})
}

// Part is a part of a request, such as a message of it.
type Part struct {
	// Place tells parts apart whose bytes mean something else elsewhere. It is no JSON.
	Place string
	Raw   []byte
	// Steps calls add with what the part says, in its order, until that returns false, and
	// reports whether it never did.
	Steps func(add func(Step) bool) bool
}

// AskedParts is [Recorder.Asked] for a request that comes in parts. One that an earlier
// request had is not read again.
func (r *Recorder) AskedParts(at time.Time, parts iter.Seq[Part]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := map[uint64]int{}
	for p := range parts {
		digest := maphash.String(r.seed, p.Place) ^ maphash.Bytes(r.seed, p.Raw)
		keys, ok := r.known[digest]
		if ok && r.repeats(keys, times) {
			continue
		}
		keys = nil
		if !p.Steps(func(s Step) bool {
			k, more := r.asked(at, s, times)
			keys = append(keys, k)
			return more
		}) {
			return
		}
		r.know(digest, keys)
	}
}

// asked adds a step of a request unless it is a repetition. Times counts the steps of the
// request.
func (r *Recorder) asked(at time.Time, s Step, times map[uint64]int) (key uint64, more bool) {
	s.By, s.At = Agent, at
	k := r.key(s)
	if times[k]++; times[k] <= r.seen[k] {
		return k, true
	}
	if !r.add(s) {
		return k, false
	}
	r.seen[k] = times[k]
	return k, true
}

// repeats counts the steps of a part in times, if none of them is new.
func (r *Recorder) repeats(keys []uint64, times map[uint64]int) bool {
	for i, k := range keys {
		if times[k]++; times[k] > r.seen[k] {
			for _, k := range keys[:i+1] {
				times[k]--
			}
			return false
		}
	}
	return true
}

// maxKnown bounds what is known of parts, in digests. A conversation has a few thousand.
const maxKnown = 1 << 16

// know notes the steps of a part. What was known is forgotten when it is too much.
func (r *Recorder) know(digest uint64, keys []uint64) {
	n := 1 + len(keys)
	if n > maxKnown {
		return
	}
	if _, ok := r.known[digest]; ok {
		return
	}
	if r.size+n > maxKnown {
		clear(r.known)
		r.size = 0
	}
	r.known[digest] = slices.Clip(keys)
	r.size += n
}

// Answered adds what the model said, and how its answer, or the lack of one, came about.
func (r *Recorder) Answered(steps []Step, end Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range steps {
		s.By, s.At = Model, end.At
		if s.Kind == Message {
			s.Role = assistant
		}
		r.seen[r.key(s)]++
		s.Role = ""
		if !r.add(s) {
			break
		}
	}
	r.add(end)
}

// assistant is the role of the model's messages in a request.
const assistant = "assistant"

// key is the same for a step of an answer and for what a later request repeats of it.
func (r *Recorder) key(s Step) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	text := strings.TrimSpace(s.Text)
	switch {
	case s.Kind == Call && s.Call != "":
		text = "" // programs complete the arguments; what the model said of this call is told
	case s.Kind == Call:
		text = sameJSON(cmp.Or(text, "{}"))
	}
	for _, part := range []string{string(s.Kind), s.Role, s.Call, s.Name, text} {
		_, _ = h.WriteString(part)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// add adds a step's line, and reports whether there was room.
func (r *Recorder) add(s Step) bool {
	left := r.room[s.By]
	if left == nil || left.steps == 0 {
		r.omitted++
		return false
	}
	s.At = s.At.UTC().Truncate(time.Millisecond)
	s.shorten()
	if r.secrets != nil { // before it is cut: half of a secret is none that would be found
		for _, text := range []*string{&s.Text, &s.Call, &s.Name, &s.Role, &s.Model, &s.Reason} {
			*text = string(r.secrets.Bytes([]byte(*text)))
		}
	}
	s.bound()
	line, err := json.Marshal(&s, json.Deterministic(true))
	if err != nil {
		r.omitted++
		return false
	}
	if line = redact.ASCII(line); len(line) >= left.bytes {
		left.steps = 0 // and all later ones, so that the lines are the first steps
		r.omitted++
		return false
	}
	left.steps--
	left.bytes -= len(line) + 1
	r.lines = append(append(r.lines, line...), '\n')
	return true
}

// Lines returns the steps, with a line that says if some were left out: how many were
// refused, and no more came of their request.
func (r *Recorder) Lines() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.lines[:len(r.lines):len(r.lines)]
	if r.omitted > 0 {
		out = fmt.Appendf(out, "{\"omitted\":%d}\n", r.omitted)
	}
	return out
}

// valid replaces bytes that are no text.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
