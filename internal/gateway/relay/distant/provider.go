package distant

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attended"
	"securebench/internal/gateway/relay"
	"securebench/internal/redact"
)

// Way is how the desk of a run is reached.
type Way struct {
	// Transport makes the requests. It should speak HTTP/1.1, so that an agent that
	// does not read holds up nobody but itself.
	Transport http.RoundTripper
	Base      string // the desk's scheme, host and port
	Ticket    string
}

// Provider is the provider of an agent on this machine, as a [relay.Attempt] is that of
// one beside its relay. What the agent uses, and what it asked for, only the run knows.
type Provider struct {
	way     Way
	o       relay.Options
	proxy   *httputil.ReverseProxy
	handler *relay.Handler
	slots   chan struct{} // of requests at the same time

	mu     sync.Mutex
	spent  bool
	err    error
	failed chan struct{}    // closed when err is set
	holds  map[int64]func() // what lets the agent go on
}

// maxRequests bounds an agent's requests at the same time; others wait.
const maxRequests = 64

// Open prepares the provider of an agent. Of the options, Hold and Token are used.
func (w Way) Open(o relay.Options) *Provider {
	p := &Provider{way: w, o: o, slots: make(chan struct{}, maxRequests), failed: make(chan struct{}), holds: map[int64]func(){}}
	p.handler = relay.NewHandler(p.forward)
	p.proxy = &httputil.ReverseProxy{Rewrite: p.rewrite, Transport: w.Transport, FlushInterval: -1, ModifyResponse: p.received,
		ErrorHandler: p.broken, ErrorLog: log.New(io.Discard, "", 0)}
	return p
}

// Usage is nothing: the run knows it.
func (*Provider) Usage() map[string]int64 { return nil }

// Words are none: the run knows them.
func (*Provider) Words() (refusal, cut string) { return "", "" }

// Held is 0: the run knows it.
func (*Provider) Held() time.Duration { return 0 }

// Trace is empty: the run has it.
func (*Provider) Trace() (exchanges, steps []byte) { return nil, nil }

// Spent is as that of [relay.Attempt].
func (p *Provider) Spent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// Err is as that of [relay.Attempt]. It is also set when the run cannot be reached.
func (p *Provider) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Failed is closed as soon as [Provider.Err] returns an error.
func (p *Provider) Failed() <-chan struct{} { return p.failed }

// know takes what the relay says of the attempt.
func (p *Provider) know(text []byte) error {
	var s state
	if err := json.Unmarshal(text, &s, json.RejectUnknownMembers(true)); err != nil {
		return errors.New("the run says what cannot be read")
	}
	p.mu.Lock()
	p.spent = p.spent || s.Spent
	p.mu.Unlock()
	if s.Failed != nil {
		p.fail(s.Failed)
	}
	return nil
}

// fail ends the attempt; the first error stays.
func (p *Provider) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.failed)
	}
}

// lost ends the attempt because the run is not there.
func (p *Provider) lost(err error) {
	p.fail(fmt.Errorf("the relay of the run cannot be reached: %w", err))
}

// Serve answers on the listener until ctx ends, and returns when every request is done
// with and the run knows that.
func (p *Provider) Serve(ctx context.Context, ln net.Listener) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	events, err := p.listen(ctx, life)
	if err != nil && ctx.Err() != nil { // the agent has ended before the run has answered
		p.leave(life)
		return nil
	}
	if err != nil {
		p.lost(err)
		<-ctx.Done() // which the gate ends for that
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.follow(life, events, stop)
	}()
	err = p.handler.Serve(ctx, ln)
	p.leave(life)
	stop()
	<-ended
	return err
}

// endTime bounds the end of a visit.
const endTime = 30 * time.Second

// leave tells the run that the agent has ended. If the run cannot be reached, it hears
// of that with the result.
func (p *Provider) leave(ctx context.Context) {
	ctx, stop := attended.WithTimeout(ctx, endTime)
	defer stop()
	res, err := p.ask(ctx, http.MethodPost, forEnd, nil)
	if err != nil {
		return
	}
	_ = p.know([]byte(res.Header.Get(stateHeader)))
	_ = res.Body.Close() // the answer is in the header
}

// ask asks the desk for something that is not the agent's.
func (p *Provider) ask(ctx context.Context, method, what string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.way.Base+Prefix+p.way.Ticket+"/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address of the run is not valid") // it has the ticket in it
	}
	r.Header.Set(tokenHeader, p.o.Token)
	res, err := p.way.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		why, err := io.ReadAll(io.LimitReader(res.Body, maxReason))
		return nil, errors.Join(errors.New(redact.EscapeShort(string(bytes.TrimSpace(why)), maxReason)), err, res.Body.Close())
	}
	return res, nil
}

// maxEvent bounds a line of the stream of events.
const maxEvent = 64 << 10

// events are the lines of the stream of events.
type events struct {
	lines *bufio.Scanner
	body  io.Closer
	quiet *attended.Timer // ends the stream if the run is silent
	drop  context.CancelFunc
}

// next returns the next event.
func (e *events) next() (out event, err error) {
	e.quiet = attended.AfterFunc(silence, e.drop)
	defer e.quiet.Stop()
	if !e.lines.Scan() {
		return out, cmp.Or(e.lines.Err(), errors.New("it has ended the conversation"))
	}
	if err := json.Unmarshal(e.lines.Bytes(), &out, json.RejectUnknownMembers(true)); err != nil {
		return out, errors.New("it says what cannot be read")
	}
	return out, nil
}

// listen opens the attempt at the run, within ctx; the events end with life.
func (p *Provider) listen(ctx, life context.Context) (*events, error) {
	life, drop := context.WithCancel(life)
	defer context.AfterFunc(ctx, drop)()
	quiet := attended.AfterFunc(silence, drop)
	res, err := p.ask(life, http.MethodGet, forEvents, nil)
	quiet.Stop()
	if err != nil {
		drop()
		return nil, err
	}
	e := &events{lines: bufio.NewScanner(res.Body), body: res.Body, drop: drop}
	e.lines.Buffer(nil, maxEvent)
	first, err := e.next()
	if err == nil && !first.Opened {
		err = errors.New("it does not open the attempt")
	}
	if err != nil {
		drop()
		return nil, errors.Join(err, res.Body.Close())
	}
	return e, nil
}

// follow does what the run says until life ends. A run that says nothing more is lost.
func (p *Provider) follow(life context.Context, e *events, stop context.CancelFunc) {
	defer e.body.Close()
	defer e.drop()
	defer p.releaseAll()
	for {
		next, err := e.next()
		if life.Err() != nil {
			return
		}
		if err == nil {
			err = p.do(life, next)
		}
		if err != nil {
			if !p.handler.Ended() {
				p.lost(err)
			}
			stop()
			return
		}
	}
}

// do does what an event says.
func (p *Provider) do(ctx context.Context, e event) error {
	switch {
	case e.State != nil:
		return p.know([]byte(e.State.text()))
	case e.Release > 0:
		if release := p.holds[e.Release]; release != nil {
			delete(p.holds, e.Release)
			release()
		}
	case e.Hold > 0:
		a := answer{Hold: e.Hold}
		release, err := p.o.Hold(ctx)
		if err != nil {
			a.Error = err.Error()
		} else {
			p.holds[e.Hold] = release
		}
		b, err := json.Marshal(a, json.Deterministic(true))
		if err != nil {
			return err
		}
		res, err := p.ask(ctx, http.MethodPost, forHold, b)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}
	return nil
}

// releaseAll lets the agent go on, whatever holds it.
func (p *Provider) releaseAll() {
	for id, release := range p.holds {
		delete(p.holds, id)
		release()
	}
}
