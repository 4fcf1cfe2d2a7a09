// Package relay passes an agent's requests on to the provider of its model. It
// runs in the parent and holds the provider's key, which the agent never sees.
//
// A request reaches the provider only if its method, path, query and body are of
// a form that is allowed; its headers are copied by name and its credentials
// replaced. What the provider answers is bounded, and the key is removed from it
// in all encodings that [redact.Registry] knows, unless it is shorter than
// [redact.MinKey].
package relay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"securebench/internal/gateway/access"
	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay/wire"
	"securebench/internal/redact"
	"securebench/internal/trajectory"
)

// API is a provider's protocol.
type API string

// The protocols.
const (
	Responses API = access.Responses
	Messages  API = access.Messages
	Chat      API = access.Chat
	Gemini    API = access.Gemini
)

// Config is shared by all attempts of a run. API, BaseURL and Model are required.
type Config struct {
	API  API
	Also []API // further protocols that agents may speak with the same provider
	// BaseURL and PlainHTTP are as those of an [access.Address], and Keys are what opens it.
	BaseURL   string
	PlainHTTP bool
	Keys      access.Keys
	Model     string // the full name; every other one is refused
	// SmallModel is the second model that Claude Code may use; "" is Model.
	SmallModel         string
	AllowExternalTools bool
	Budget             Budget
	// Total is what all attempts together may use; nil is no bound.
	Total     *allowance.Allowance
	Prices    map[string]Price // by model
	Transport http.RoundTripper
	// Paces has the provider's, which the relay shares with others who ask it, and
	// Connections bounds the requests under way; 0 is no bound.
	Paces       *pace.Set
	Connections int
	// Notice gets a line for the operator now and then while agents wait for the
	// provider; nil drops it.
	Notice func(string)
}

// Budget bounds one attempt; a zero field is no bound.
type Budget struct {
	Requests int64
	Tokens   int64   // input and output together
	Cost     float64 // USD; needs a price for every model
}

// Price is what a model costs, in USD per million tokens.
type Price struct{ Input, CachedInput, CacheWrite, Output float64 }

// MaxHold is how long the waits of one attempt for a provider may be in all.
const MaxHold = 30 * time.Minute

// Relay is the run's part: the client of the provider and the pace that all attempts
// share.
type Relay struct {
	cfg       Config
	endpoints map[API]*access.Endpoint
	models    []string
	dialects  []*dialect
	secrets   redact.Registry
	transport http.RoundTripper
	pace      *pace.Pace
	notice    notice

	// spare says that the provider refuses to be asked for the usage of a stream.
	spare atomic.Bool

	asking    chan struct{}     // has room for who uses what follows
	rejected  error             // that the provider rejects the configuration
	confirmed map[API]time.Time // when the last request of the relay's own that went through began
}

// keyName replaces what is secret in what a provider sends.
const keyName = "provider_key"

// New checks the configuration.
func New(cfg Config) (*Relay, error) {
	if cfg.Model == "" {
		return nil, errors.New("a provider needs a model")
	}
	r := &Relay{cfg: cfg, endpoints: map[API]*access.Endpoint{}, models: []string{cfg.Model}, transport: cfg.Transport,
		asking: make(chan struct{}, 1), confirmed: map[API]time.Time{}}
	for _, api := range append([]API{cfg.API}, cfg.Also...) {
		d := dialectOf(api)
		if d == nil {
			return nil, fmt.Errorf("unknown API %q of a provider", api)
		}
		r.dialects = append(r.dialects, d)
		to, err := access.New(access.Address{API: string(api), BaseURL: cfg.BaseURL, PlainHTTP: cfg.PlainHTTP}, cfg.Keys)
		if err != nil {
			return nil, err
		}
		r.endpoints[api] = to
	}
	if cfg.SmallModel != "" {
		r.models = append(r.models, cfg.SmallModel)
	}
	if err := cfg.Keys.Hide(&r.secrets, keyName); err != nil {
		return nil, fmt.Errorf("the provider's key: %w", err)
	}
	if err := checkMoney(cfg, r.models); err != nil {
		return nil, err
	}
	r.pace = cfg.Paces.At(r.endpoints[cfg.API].String(), cfg.Connections)
	if r.transport == nil {
		r.transport = r.endpoints[cfg.API].Transport()
	}
	return r, nil
}

// Counts are those of the provider's pace, as [pace.Pace.Counts] has them.
func (r *Relay) Counts() (limit, open, waiting int) { return r.pace.Counts() }

// String returns the name of the type: the key must not be printed.
func (r *Relay) String() string { return "relay.Relay" }

// GoString is String, for %#v.
func (r *Relay) GoString() string { return r.String() }

// checkMoney checks the budget and the prices.
func checkMoney(cfg Config, models []string) error {
	bad := func(f float64) bool { return f < 0 || math.IsNaN(f) || math.IsInf(f, 0) }
	if cfg.Budget.Requests < 0 || cfg.Budget.Tokens < 0 || bad(cfg.Budget.Cost) {
		return errors.New("a budget must not be negative")
	}
	for model, p := range cfg.Prices {
		if bad(p.Input) || bad(p.CachedInput) || bad(p.CacheWrite) || bad(p.Output) {
			return fmt.Errorf("the price of %q must not be negative", model)
		}
	}
	for _, model := range models {
		if _, ok := cfg.Prices[model]; cfg.Budget.Cost > 0 && !ok {
			return fmt.Errorf("a budget in USD needs the price of %q", model)
		}
	}
	return nil
}

// ErrRejected is wrapped by the error of [Attempt.Err] when the provider
// rejects the key or does not know the model, and a request of the relay's own
// confirmed it. No attempt of the run can succeed then.
var ErrRejected = errors.New("the provider rejects the configuration")

// ErrRefused is wrapped by the error of [Attempt.Err] when the provider rejects
// what this agent asks for, and accepts a request of the relay's own. That is the
// agent's failure: it could have brought it about.
var ErrRefused = errors.New("the provider refuses this agent's request")

// ErrSpent is wrapped by the error of [Attempt.Err] when a request was refused because
// all attempts together have used what they may.
var ErrSpent = allowance.ErrSpent

// Options are those of an attempt.
type Options struct {
	Ledger *ledger.Ledger
	// Hold stops the agent and its clock while the provider makes it wait; it
	// returns what lets both go on. Holds can overlap.
	Hold func(ctx context.Context) (release func(), err error)
	// Token is what the agent has instead of a key; requests without it are
	// refused.
	Token string
	// Former is what the attempt used before its run was killed, as [Attempt.Usage]
	// counts it: it is part of the attempt's usage and of its budget.
	Former map[string]int64
	// Used is what the attempt has used before, by another way: it is part of its budget,
	// and of nothing else that is told of it here.
	Used map[string]int64
	// Note is told, before each request and after it, what the attempt has used at
	// most; nil is told nothing.
	Note func(usage map[string]int64) error
}

// Open begins an attempt.
func (r *Relay) Open(o Options) *Attempt {
	a := &Attempt{relay: r, place: r.pace.Place(), hold: o.Hold, token: o.Token, failed: make(chan struct{}), turn: make(chan struct{}, 1)}
	if o.Ledger != nil {
		a.record = o.Ledger.Add
	}
	a.budget = newBudget(r.cfg, o)
	a.pool, a.ahead, a.telling = wire.NewPool(maxResponses), wire.NewPool(maxAhead), wire.NewPool(maxTelling)
	a.room = room{free: maxBodies, changed: make(chan struct{})}
	a.trace.secrets, a.steps = &r.secrets, trajectory.NewRecorder(&r.secrets)
	return a
}
