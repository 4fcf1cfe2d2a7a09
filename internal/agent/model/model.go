// Package model asks a model, from this process: one question for each attempt, by
// one of three APIs. All attempts of a run share one client, and with it the
// patience that a provider asks for. What the model answers is untrusted: it is
// bounded, and nothing here acts on it.
package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/digest"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay"
	"securebench/internal/redact"
)

// Config is shared by all questions of a client. Settings are required.
type Config struct {
	// Who asks, if not the agent of the run: clients with different names can share a
	// journal.
	Who      string
	Settings harness.Model
	Keys     access.Keys // what opens the provider
	// Total is what all attempts of the run together may use; nil is no bound.
	Total *allowance.Allowance
	// Paces has the provider's, which the client shares with others who ask it.
	Paces *pace.Set
	// Transport makes the requests; nil is the default.
	Transport http.RoundTripper
	// Notice gets a line for the operator now and then while attempts wait for the
	// provider; nil drops it.
	Notice func(string)
}

// Client asks the configured model. It is safe for concurrent use.
type Client struct {
	who       string
	set       harness.Model
	api       api
	endpoint  *access.Endpoint
	transport http.RoundTripper // which follows no redirect
	secrets   redact.Registry
	journal   *Journal // nil keeps nothing
	accounts  Accounts // nil keeps nothing
	total     *allowance.Allowance
	notice    notice
	pace      *pace.Pace
	firstWait time.Duration

	confirming sync.Mutex
	rejected   error
	confirmed  time.Time // when the last question of our own that was answered began
}

// Question is what one attempt asks.
type Question struct {
	harness.Question
	Task    string
	Attempt int // from 1
	// Used is what the attempt has used before, for other questions. It is part of its
	// budget.
	Used map[string]int64
	// Context is how many tokens the beginning of a text has after which its likelihood is
	// asked for, by [access.Completions]; 0 asks how many the text has.
	Context int
	// Form is what the answer has to be; nil leaves it to the model.
	Form *Form
	// Seed is that of this question, where the API has one; nil is that of the settings.
	Seed *int64
	// Keep reports whether an answer is kept for a resume; nil keeps all.
	Keep func(Answer) bool
}

// Form is the form of an answer: a JSON text that meets a schema in the strict subset
// that providers take.
type Form struct {
	Name   string
	Schema jsontext.Value
}

// Files describes the files of a question in their order, by their digests: neither a
// journal nor a record of what was asked holds their content.
func (q Question) Files() (out []map[string]string) {
	for _, p := range q.Parts {
		if p.Type != "" {
			out = append(out, map[string]string{"type": p.Type, "digest": digest.Bytes(p.Data)})
		}
	}
	return out
}

// Answer is what the model says.
type Answer struct {
	Text string `json:"text"`
	// Called is what the only call of a tool has as arguments, as it came: the answer to a
	// question with a form, by the API that has no other way.
	Called string `json:"called,omitzero"`
	// Declined says that the model refuses, in the form that its API has for it.
	Declined bool   `json:"declined,omitzero"`
	Stop     string `json:"stop,omitzero"`  // why it ended, in the API's word
	Model    string `json:"model,omitzero"` // that answered, as the provider names it
	// Beside is what it says beside calls of tools, which are the text then.
	Beside string `json:"beside,omitzero"`
	calls  []called
	// Replaced says that bytes of the text that are not UTF-8 were replaced.
	Replaced bool `json:"invalid_utf8_replaced,omitzero"`
	// Reasoning is the part of what the model thought before it that the provider
	// shows. It is not scored.
	Reasoning string `json:"reasoning,omitzero"`
	Usage     Usage  `json:"usage"`
	// Likelihood is that of the text of the question, if it was asked for; nil otherwise.
	Likelihood *Likelihood `json:"likelihood,omitzero"`
	echoed     *echoed
}

// New checks the configuration.
func New(cfg Config) (_ *Client, err error) {
	c := &Client{who: cfg.Who, set: cfg.Settings, total: cfg.Total, transport: cfg.Transport, firstWait: firstWait, notice: notice{tell: cfg.Notice}}
	if c.api, err = apiOf(c.set.API); err != nil {
		return nil, err
	}
	if c.endpoint, err = access.New(c.set.Address, cfg.Keys); err != nil {
		return nil, err
	}
	c.pace = cfg.Paces.At(c.endpoint.String(), c.set.Connections)
	if err := cfg.Keys.Hide(&c.secrets, "provider_key"); err != nil {
		return nil, fmt.Errorf("the provider's key: %w", err)
	}
	if c.transport == nil {
		c.transport = c.endpoint.Transport()
	}
	return c, nil
}

// Keep keeps what is answered from now on, and asks nothing again that is
// answered there. It also keeps what attempts use, for the run's allowance. It comes
// before the first question.
func (c *Client) Keep(j *Journal, a Accounts) { c.journal, c.accounts = j, a }

// String returns the name of the type: the key must not be printed.
func (c *Client) String() string { return "model.Client" }

// GoString is String, for %#v.
func (c *Client) GoString() string { return c.String() }

// End says how a question ended.
type End int

// The ends.
const (
	Answered   End = iota
	TimedOut       // the answer was not complete in time
	OverBudget     // no request was left to ask with
	Refused        // the model or the provider refuses this question
)

// Result is what came of a question.
type Result struct {
	Answer
	Spending
	End    End
	Why    string // it was refused, in short
	whole  bool   // there is an answer
	Reused bool   // the answer, and what it took, are of an earlier part of the run
}

// Spending is what a question took.
type Spending struct {
	Requests int64         `json:"requests"`
	Spent    Usage         `json:"spent"` // of all requests
	Latency  time.Duration `json:"-"`     // of the last request
	First    time.Duration `json:"-"`     // of its first text
	Waited   time.Duration `json:"-"`     // for the provider, which is no part of the time limit
	Queued   time.Duration `json:"-"`     // for its turn beside other questions, likewise
	Tries    []Try         `json:"tries"`
}

// Asked is how long the requests took that count for the time limit.
func (s Spending) Asked() (sum time.Duration) {
	for _, t := range s.Tries {
		if !t.Own {
			sum += time.Duration(t.Took)
		}
	}
	return sum
}

// Try is one request.
type Try struct {
	Began time.Time `json:"began"`
	Took  int64     `json:"took_ns"`
	Error string    `json:"error,omitzero"`
	// Own says that it asked a question of our own, to see whether the provider
	// rejects any.
	Own bool `json:"own,omitzero"`
}

// ErrForm is wrapped by the error of [Client.Ask] if what the provider sends can be no
// answer, however often it is asked.
var ErrForm = errors.New("the provider's answer has a form that cannot be read")

// maxFailures is how often a provider may fail a question without asking for
// patience.
const maxFailures = 4

// again is shown where an answer that has begun is asked for again.
const again = "\n[the answer was cut off, and is asked for again]\n"

// Ask asks until there is an answer. limit bounds the time that the requests may
// take in all. say gets the text as it comes. An error is a failure of the
// provider's or of the network. It wraps [relay.ErrRejected] if no question can
// be answered, [relay.ErrWaited] if there was no end of waiting, and [ErrForm] if
// what the provider sends is no answer in a form that will do.
func (c *Client) Ask(ctx context.Context, q Question, limit time.Duration, say io.Writer) (res Result, err error) {
	key := c.journalKey(q)
	if former, ok := c.journal.find(key); ok {
		res.Reused, res.Spending = true, former.spending()
		return res.answered(former.Answer), nil
	}
	res.Spending = c.journal.cut(key)
	former := res.Requests
	paid := c.account(q, res.Spending)
	defer func() { err = c.leave(ctx, key, paid, res.Spending, err) }()
	place := c.pace.Place()
	left, wait := limit, time.Duration(0)
	for failures := 0; ; {
		if err := c.patience(ctx, &res, wait); err != nil {
			return res, err
		}
		// A question that was cut short by a kill may be asked once more: else a resume
		// would end with another verdict than an undisturbed run.
		if c.exhausted(res.Spending, q.Used) && (former == 0 || res.Requests > former) {
			res.End = OverBudget
			return res, nil
		}
		var t try
		if t, wait, err = c.inTurn(ctx, place, &res, func() (try, error) {
			return c.pay(ctx, q, key, res.Spending, paid, func() try { return c.try(ctx, q, left, say) })
		}); err != nil {
			return res, err
		}
		left -= t.took
		res.add(t)
		switch {
		case t.err == nil:
			c.keep(q, key, t.answer, res.Spending)
			return res.answered(t.answer), nil
		case ctx.Err() != nil:
			return res, context.Cause(ctx)
		case t.late && t.heard:
			res.End = TimedOut
			return res, nil
		case t.late:
			return res, fmt.Errorf("the provider did not begin to answer within the time limit of %s", limit)
		case t.failure.form:
			return res, fmt.Errorf("%w: %s", ErrForm, t.failure.why)
		case !t.failure.temporary:
			return c.refused(ctx, res, t)
		case !t.failure.overloaded:
			if failures++; failures == maxFailures {
				return c.failed(ctx, res, t)
			}
		}
		if t.answer.Text != "" {
			_, _ = io.WriteString(say, again)
		}
		c.notice.waiting(t.failure)
	}
}

// keep keeps an answer for a resume. Of one that is not kept, a resume counts what it took.
func (c *Client) keep(q Question, key string, a Answer, s Spending) {
	var err error
	if q.Keep != nil && !q.Keep(a) {
		err = c.journal.asking(key, s)
	} else {
		err = c.journal.add(key, keep(a, s), c.clean)
	}
	if err != nil {
		c.notice.say("the answers of the model cannot be kept for a resume: " + err.Error())
	}
}

// answered ends a question with an answer.
func (r Result) answered(a Answer) Result {
	r.Answer, r.whole = a, true
	if a.Declined {
		r.End, r.Why = Refused, "the model declines to answer"
	}
	return r
}

// add counts a try.
func (s *Spending) add(t try) {
	s.Latency, s.First = t.took, t.first
	s.count(t, false)
}

// count counts a request and what it used.
func (s *Spending) count(t try, own bool) {
	s.Requests++
	s.Spent.add(t.answer.Usage)
	s.Tries = append(s.Tries, Try{Began: t.began.UTC(), Took: t.took.Nanoseconds(), Error: t.failure.why, Own: own})
}

// exhausted reports whether the budget of an attempt is spent.
func (c *Client) exhausted(r Spending, used map[string]int64) bool {
	s := c.set
	return s.Requests > 0 && r.Requests+used["requests"] >= s.Requests ||
		s.Tokens > 0 && r.Spent.Input+r.Spent.Output+used["input_tokens"]+used["output_tokens"] >= s.Tokens ||
		s.Cost > 0 && c.price(r.Spent)+float64(used["cost_microusd"])/1e6 >= s.Cost
}

// failed decides whose fault it is that the provider failed a question again and
// again: the question's, if it answers any other.
func (c *Client) failed(ctx context.Context, res Result, t try) (Result, error) {
	err := fmt.Errorf("the provider failed %d times, at last because %s", maxFailures, t.failure.why)
	switch {
	case t.failure.event: // which is its answer
		return res, fmt.Errorf("%w: %w", ErrForm, err)
	case t.heard: // and broke off, which says little about the question
		return res, err
	}
	if asked := c.confirm(ctx, time.Now(), &res.Spending); asked != nil {
		if errors.Is(asked, relay.ErrRejected) || ctx.Err() != nil {
			err = asked
		}
		return res, err
	}
	res.End, res.Why = Refused, err.Error()+", though it answers others"
	return res, nil
}

// refused decides whose fault it is that the provider rejects a question: the
// configuration's, if it rejects any other as well.
func (c *Client) refused(ctx context.Context, res Result, t try) (Result, error) {
	if err := c.confirm(ctx, t.began, &res.Spending); err != nil {
		return res, err
	}
	res.End, res.Why = Refused, "the provider rejects the question: "+t.failure.why
	return res, nil
}

// size is the length of a form in a question.
func (f *Form) size() int {
	if f == nil {
		return 0
	}
	return len(f.Schema)
}
