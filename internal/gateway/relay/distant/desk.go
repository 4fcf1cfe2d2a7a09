package distant

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/relay"
	"securebench/internal/redact"
)

// Desk serves the attempts of a run whose agents are elsewhere.
type Desk struct {
	relay *relay.Relay

	mu     sync.Mutex
	visits map[string]*Visit // the last by ticket
	open   map[*Visit]*relay.Attempt
	cost   int64 // of the visits that have ended
}

// NewDesk returns a desk of a run's relay.
func NewDesk(r *relay.Relay) *Desk {
	return &Desk{relay: r, visits: map[string]*Visit{}, open: map[*Visit]*relay.Attempt{}}
}

// Visit is an attempt at the desk, which the bearer of its ticket opens.
type Visit struct {
	desk   *Desk
	ticket string
	before *Visit // with the same ticket; nil for the first
	begin  func() (former map[string]int64, note func(map[string]int64) error)
	life   context.Context // until the agent, or the visit, has ended
	stop   context.CancelFunc
	ledger ledger.Ledger

	mu      sync.Mutex
	attempt *relay.Attempt // nil until it is opened
	former  int64          // what its attempt had cost before
	handler *relay.Handler
	holds   int64
	answers map[int64]chan error // to holds
	queue   []event
	queued  chan struct{} // has room for one signal
	told    bool          // that the budget is spent
}

// Admit makes a ticket valid for one visit, until its end. begin is called when the
// agent is about to begin; see [relay.Options]. Further visits with a ticket are for the
// further agents of its attempt: each begins when the one before has ended, and all of
// them share one budget.
func (d *Desk) Admit(ticket string, begin func() (former map[string]int64, note func(map[string]int64) error)) *Visit {
	v := &Visit{desk: d, ticket: ticket, begin: begin, answers: map[int64]chan error{}, queued: make(chan struct{}, 1)}
	v.life, v.stop = context.WithCancel(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	v.before, d.visits[ticket] = d.visits[ticket], v
	return v
}

// current returns the first visit of a ticket that has not ended, or its last one.
func (d *Desk) current(ticket string) *Visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.visits[ticket]
	for v != nil && v.before != nil && v.before.life.Err() == nil {
		v = v.before
	}
	return v
}

// used is what the visits before, of the same ticket, have used.
func (v *Visit) used() map[string]int64 {
	sum := map[string]int64{}
	for b := v.before; b != nil; b = b.before {
		b.mu.Lock()
		a := b.attempt
		b.mu.Unlock()
		if a == nil {
			continue
		}
		for name, n := range a.Usage() {
			sum[name] += n
		}
	}
	return sum
}

// Known is what a run knows of an agent's provider when the agent has ended.
type Known struct {
	*relay.Attempt
	Network []byte           // what was decided, as lines
	Counts  map[string]int64 // of that
}

// End makes the ticket invalid and ends what is under way. It returns what is known, nil
// if the agent never began. It is idempotent.
func (v *Visit) End() *Known {
	v.desk.mu.Lock()
	delete(v.desk.visits, v.ticket)
	v.desk.mu.Unlock()
	v.stop()
	v.mu.Lock()
	a, h := v.attempt, v.handler
	v.mu.Unlock()
	if a == nil {
		return nil
	}
	h.End()
	v.count(a)
	return &Known{Attempt: a, Network: v.ledger.Lines(), Counts: v.ledger.Counts()}
}

// cost is what an attempt costs that has the prices of models.
func cost(usage map[string]int64) int64 { return usage["cost_microusd"] }

// count adds the cost of a visit that has ended to those of its desk, once.
func (v *Visit) count(a *relay.Attempt) {
	v.desk.mu.Lock()
	defer v.desk.mu.Unlock()
	if v.desk.open[v] != nil {
		delete(v.desk.open, v)
		v.desk.cost += cost(a.Usage()) - v.former
	}
}

// MicroUSD is what the visits of this part of the run have cost, in millionths of a US
// dollar: 0 for models without a price.
func (d *Desk) MicroUSD() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := d.cost
	for v, a := range d.open {
		sum += cost(a.Usage()) - v.former
	}
	return sum
}

// Counts are those of the provider's pace, as [relay.Relay.Counts] has them.
func (d *Desk) Counts() (limit, open, waiting int) { return d.relay.Counts() }

// ServeHTTP serves the bearers of tickets below [Prefix].
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, _ := strings.CutPrefix(r.URL.Path, Prefix)
	ticket, what, _ := strings.Cut(rest, "/")
	v := d.current(ticket)
	switch {
	case v == nil:
		http.Error(w, "no such ticket", http.StatusForbidden)
	case what == forEvents && r.Method == http.MethodGet:
		v.serveEvents(w, r)
	case what == forAgent && r.Method == http.MethodPost:
		v.serveAgent(w, r)
	case what == forHold && r.Method == http.MethodPost:
		v.takeAnswer(w, r)
	case what == forEnd && r.Method == http.MethodPost:
		v.serveEnd(w)
	default:
		http.Error(w, "there is nothing here", http.StatusNotFound)
	}
}

// open begins the attempt of an agent that has a token.
func (v *Visit) open(token string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.attempt != nil || v.life.Err() != nil || token == "" {
		return false
	}
	v.account(token)
	return true
}

// Ran notes that the agent has run. One that ends at once may be gone before its machine
// has asked for anything: it has used nothing, which is known as of any other.
func (v *Visit) Ran() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.attempt == nil {
		v.account(rand.Text()) // which nobody has
	}
}

// account begins to count what the agent uses. The caller holds the lock.
func (v *Visit) account(token string) {
	o := relay.Options{Ledger: &v.ledger, Hold: v.hold, Token: token, Used: v.used()}
	if v.begin != nil {
		o.Former, o.Note = v.begin()
	}
	v.attempt, v.former = v.desk.relay.Open(o), cost(o.Former)
	v.desk.mu.Lock()
	v.desk.open[v] = v.attempt
	v.desk.mu.Unlock()
	v.handler = v.attempt.Handler(v.life)
}

// serveEvents opens the attempt and says what the relay wants of the agent. When the
// stream ends, so does the agent's way to the provider.
func (v *Visit) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !v.open(r.Header.Get(tokenHeader)) {
		http.Error(w, "the ticket was used", http.StatusConflict)
		return
	}
	defer v.stop()
	control := http.NewResponseController(w)
	tell := func(e event) bool {
		line, err := json.Marshal(e, json.Deterministic(true))
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		return errors.Join(err, control.Flush()) == nil
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	failed := v.attempt.Failed()
	for next := []event{{Opened: true}}; ; {
		for _, e := range next {
			if !tell(e) {
				return
			}
		}
		select {
		case <-v.queued:
			next = v.take()
		case <-failed:
			s := stateOf(v.attempt)
			next, failed = []event{{State: &s}}, nil
		case <-beat.C:
			next = []event{{}}
		case <-v.life.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// push queues an event.
func (v *Visit) push(e event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue = append(v.queue, e)
	select {
	case v.queued <- struct{}{}:
	default:
	}
}

// take returns the events that are queued.
func (v *Visit) take() []event {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := v.queue
	v.queue = nil
	return out
}

// errGone: the agent's provider is not there any more.
var errGone = errors.New("the agent has ended")

// hold has the agent stopped, until release.
func (v *Visit) hold(ctx context.Context) (release func(), err error) {
	held := make(chan error, 1)
	v.mu.Lock()
	v.holds++
	id := v.holds
	v.answers[id] = held
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.answers, id)
	}()
	v.push(event{Hold: id})
	release = sync.OnceFunc(func() { v.push(event{Release: id}) })
	select {
	case err = <-held:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-v.life.Done():
		err = errGone
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// maxAnswer bounds an answer to a hold.
const maxAnswer = 64 << 10

// takeAnswer takes the answer to a hold.
func (v *Visit) takeAnswer(w http.ResponseWriter, r *http.Request) {
	var a answer
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(b, &a, json.RejectUnknownMembers(true))
	}
	v.mu.Lock()
	held := v.answers[a.Hold]
	delete(v.answers, a.Hold)
	v.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, "the answer cannot be read", http.StatusBadRequest)
	case held == nil: // nobody waits for it any more
	case a.Error != "":
		held <- errors.New(redact.EscapeShort(a.Error, maxReason))
	default:
		held <- nil
	}
}

// maxReason bounds what is taken of another side's words.
const maxReason = 1000

// serveEnd ends the agent's way to the provider, and says what became of it.
func (v *Visit) serveEnd(w http.ResponseWriter) {
	v.stop()
	v.mu.Lock()
	a, h := v.attempt, v.handler
	v.mu.Unlock()
	if a == nil {
		http.Error(w, "the agent has not begun", http.StatusConflict)
		return
	}
	h.End()
	w.Header().Set(stateHeader, stateOf(a).text())
}

// serveAgent serves a request of the agent's.
func (v *Visit) serveAgent(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	a, h := v.attempt, v.handler
	v.mu.Unlock()
	if a == nil || v.life.Err() != nil {
		http.Error(w, "the agent is not there", http.StatusConflict)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(v.life, cancel)()
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // an answer may come before the request is whole
	out := &outgoing{ResponseWriter: w, attempt: a}
	in := &incoming{ReadCloser: r.Body, over: r.Body == http.NoBody}
	r = agentsOwn(r.WithContext(ctx))
	r.Body = in
	defer v.tellSpent(a)
	defer in.drain(control)
	defer out.end()
	h.ServeHTTP(out, r)
}

// incoming is the body of a request of the agent's.
type incoming struct {
	io.ReadCloser
	over bool
}

// Read reads a part of the body.
func (i *incoming) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	i.over = i.over || err != nil
	return n, err
}

// agentsOwn returns the request as the agent made it.
func agentsOwn(r *http.Request) *http.Request {
	h := r.Header.Clone()
	r.Method, r.RequestURI, r.URL = h.Get(methodHeader), h.Get(targetHeader), &url.URL{}
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		r.URL = u
	}
	if n, err := strconv.ParseInt(h.Get(lengthHeader), 10, 64); err == nil {
		r.ContentLength = n
	}
	for _, name := range []string{methodHeader, targetHeader, lengthHeader} {
		h.Del(name)
	}
	r.Header = h
	return r
}

// tellSpent says once that the attempt's budget is spent.
func (v *Visit) tellSpent(a *relay.Attempt) {
	s := stateOf(a)
	v.mu.Lock()
	tell := s.Spent && !v.told
	v.told = v.told || tell
	v.mu.Unlock()
	if tell {
		v.push(event{State: &s})
	}
}

// drainTime is how long the rest of a request is read whose answer is there.
const drainTime = 5 * time.Second

// drain reads the rest of a request whose answer is there, so that the other side, which
// is writing it, sees the answer and no broken connection.
func (i *incoming) drain(control *http.ResponseController) {
	if i.over {
		return
	}
	_ = control.Flush() // an error means that nobody is there
	_ = control.SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, i, maxBody)
}

// maxBody is how much of a request's body is carried: more is refused.
const maxBody = relay.MaxBody + 1

// outgoing is an answer of the relay's on its way to the agent.
type outgoing struct {
	http.ResponseWriter
	attempt *relay.Attempt
	begun   bool
}

// Unwrap lets the relay flush and set deadlines.
func (o *outgoing) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// WriteHeader adds what became of the attempt: whoever passes the answer on knows it
// before the agent does.
func (o *outgoing) WriteHeader(status int) {
	o.begun = true
	o.Header().Set(stateHeader, stateOf(o.attempt).text())
	o.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer.
func (o *outgoing) Write(p []byte) (int, error) {
	if !o.begun {
		o.WriteHeader(http.StatusOK)
	}
	return o.ResponseWriter.Write(p)
}

// end says of an answer that the relay breaks off that it is not whole. That would
// otherwise look as if the run could not be reached.
func (o *outgoing) end() {
	p := recover()
	switch {
	case p == nil:
	case p != http.ErrAbortHandler: //nolint:errorlint // as net/http compares it
		panic(p)
	case o.begun:
		o.Header().Set(http.TrailerPrefix+cutHeader, "1")
	default:
		o.Header().Set(cutHeader, "1")
		o.WriteHeader(http.StatusBadGateway)
	}
}
