package produce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/harness"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
)

// Question is a run of an agent's program in an empty sandbox, to see which model
// it asks for.
type Question struct {
	Plan   harness.Plan
	Image  sandbox.Image
	Labels sandbox.Labels
	Limits sandbox.Limits
	// Besides is a model that does not count.
	Besides string
}

// Ask returns the model that the plan's program asks for first, "" if it asks for
// none, and a quoted part of what it printed. No request leaves this process.
func (g Gateway) Ask(ctx context.Context, e sandbox.Sandboxes, q Question) (model, said string, err error) {
	spec := sandbox.Spec{Labels: q.Labels, Image: q.Image, Workdir: q.Plan.Workdir, Home: q.Plan.Home, Limits: q.Limits.WithDefaults(),
		Env: WithPath(q.Plan.Env, q.Plan, q.Image)}
	if spec.Mounts, err = g.overlays(q.Plan, q.Image); err != nil {
		return "", "", err
	}
	g.Relay = nil
	own := g.behind(&spec, q.Plan)
	heard := make(chan string, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	own.answer = &answerer{besides: q.Besides, heard: func(m string) {
		select {
		case heard <- m:
			cancel(errHeard)
		default:
		}
	}}
	box, err := e.Open(ctx, spec)
	if err != nil {
		return "", "", fmt.Errorf("creating a sandbox: %w", err)
	}
	own.box = &watched{sandbox.Watched{Box: box}}
	var out bytes.Buffer
	_, err = own.run(ctx, q.Limits.WithDefaults().Timeout, sandbox.Streams{Stdout: &out, Stderr: &out})
	if errors.Is(err, errHeard) {
		err = nil
	}
	err = errors.Join(err, box.Close(context.WithoutCancel(ctx)))
	select {
	case model = <-heard:
	default:
	}
	return model, redact.QuoteShort(strings.TrimSpace(out.String()), 500), err
}

var errHeard = errors.New("the model is known")

// answerer is in a provider's place: it hears which model is asked for, and
// refuses every request.
type answerer struct {
	besides string
	heard   func(model string)

	reading sync.Mutex // one body at a time: anything can run in the sandbox
}

var _ Provider = (*answerer)(nil)

// The bounds of a request that only has to name a model.
const (
	maxAsked    = 32 << 20
	askedTime   = 30 * time.Second
	refusalText = `{"type":"error","error":{"type":"permission_error","message":"this request only shows which model is asked for"}}`
)

// modelName is what a provider's model can be called.
var modelName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$`)

// Serve answers on the listener until ctx ends.
func (a *answerer) Serve(ctx context.Context, ln net.Listener) error {
	s := &http.Server{Handler: a, ReadTimeout: askedTime, WriteTimeout: askedTime, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP hears one request.
func (a *answerer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.reading.Lock()
	defer a.reading.Unlock()
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsked))
	var body struct {
		Model string `json:"model"`
	}
	if err == nil && json.Unmarshal(b, &body) == nil && body.Model != a.besides && modelName.MatchString(body.Model) {
		a.heard(body.Model)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, refusalText) // the program can be gone
}

// Usage is nothing: no provider is asked.
func (*answerer) Usage() map[string]int64 { return nil }

// Spent is false.
func (*answerer) Spent() bool { return false }

// Words are none.
func (*answerer) Words() (refusal, cut string) { return "", "" }

// Held is 0.
func (*answerer) Held() time.Duration { return 0 }

// Trace is empty.
func (*answerer) Trace() (exchanges, steps []byte) { return nil, nil }

// Err is nil.
func (*answerer) Err() error { return nil }

// Failed is never closed.
func (*answerer) Failed() <-chan struct{} { return nil }
