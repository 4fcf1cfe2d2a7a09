package relay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/relay/wire"
)

// The bounds of bodies: of one request, and of what an attempt's requests and
// responses keep at a time. What is read ahead of an agent is counted apart.
const (
	MaxBody      = 32 << 20
	maxBodies    = 64 << 20
	maxResponses = 64 << 20
	maxAhead     = 16 << 20
	maxTelling   = 16 << 20 // of what answers say; what is longer is cut
)

// stall is how long an agent that is not held may pause within a body.
const stall = 2 * time.Minute

// serve answers one request.
func (a *Attempt) serve(w http.ResponseWriter, r *http.Request) {
	x := &exchange{began: time.Now(), Method: r.Method}
	x.Path, _, _ = strings.Cut(r.RequestURI, "?")
	defer a.finish(x)
	if refused := a.exchange(w, r, x); refused != nil {
		refused.status = cmp.Or(refused.status, x.dialect.stops)
		a.answers.refuse(refused)
		x.Status, x.Reason, x.why = refused.status, refused.reason, refused.message
		x.dialect.write(w, refused)
	}
}

// exchange answers a request, or returns how to refuse it.
func (a *Attempt) exchange(w http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	if refused := a.gate(r, x); refused != nil {
		return refused
	}
	if x.kind == lists {
		return a.listModels(w, x)
	}
	if err := a.Err(); err != nil {
		return a.ended(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	req, release, refused := a.read(ctx, w, r, x)
	defer release()
	if refused != nil {
		return refused
	}
	settle, refused := a.admit(ctx, req)
	if refused != nil {
		return refused
	}
	// What the provider never got costs nothing.
	defer func() {
		if r.Context().Err() != nil {
			x.abandoned(req)
		}
		settle(x.usage)
	}()
	told := a.told(x, req.Body)
	defer told()
	response, refused := a.sendSpared(ctx, x, req, a.relay.header(x.dialect, r.Header, req.Stream))
	if refused != nil {
		return refused
	}
	defer response.Body.Close()
	told()
	release() // no try needs the body again
	return a.answer(ctx, w, response, x)
}

// gate decides by what comes before the body.
func (a *Attempt) gate(r *http.Request, x *exchange) *refusal {
	var ok bool
	if x.endpoint, ok = a.relay.route(r.Method, x.Path); !ok || r.Header.Get("Upgrade") != "" {
		return a.relay.notServed(r.Method, x.Path)
	}
	query, more, ok := x.dialect.query(x.endpoint, r.URL.RawQuery)
	if !a.authorized(r.Header, more) {
		return refuse(wrongToken, "the request does not have the token of this attempt")
	}
	if !ok && x.kind != lists {
		return refuse(queryRefused, "the query is not allowed"+x.dialect.needs)
	}
	x.query = query
	return nil
}

// authorized reports whether every credential of the request is the token. Some have it
// in their query.
func (a *Attempt) authorized(h http.Header, given []string) bool {
	given = slices.Concat(given, h.Values("X-Api-Key"), h.Values("X-Goog-Api-Key"))
	for _, v := range h.Values("Authorization") {
		given = append(given, strings.TrimPrefix(v, "Bearer "))
	}
	for _, v := range given {
		if a.token == "" || subtle.ConstantTimeCompare([]byte(v), []byte(a.token)) != 1 {
			return false
		}
	}
	return len(given) > 0
}

// listModels answers a request for the models, or for one of them.
func (a *Attempt) listModels(w http.ResponseWriter, x *exchange) *refusal {
	if name := x.asked.Model; name != "" && !slices.Contains(a.relay.models, name) {
		return refuse(notAllowed, "there is no such model here")
	}
	body, _ := json.Marshal(x.dialect.list(a.relay.models, x.asked.Model), json.Deterministic(true))
	x.Status = http.StatusOK
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the agent may have left
	return nil
}

// read returns the request, once all of it is here and was checked. The memory
// is given back by release, which can be called more than once.
func (a *Attempt) read(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) (
	req wire.Request, release func(), refused *refusal) {
	size, encoding := r.ContentLength, r.Header.Get("Content-Encoding")
	if encoding != "" && encoding != "identity" && encoding != "gzip" || len(r.Header["Content-Encoding"]) > 1 {
		return req, func() {}, refuse(bodyEncoding, "the encoding of the body is not supported")
	}
	if size < 0 || encoding == "gzip" {
		size = MaxBody
	}
	if size > MaxBody {
		return req, func() {}, x.tooLarge()
	}
	if a.room.take(ctx, size) != nil {
		return req, func() {}, refuse(agentLeft, "the agent has left")
	}
	release = func() {
		a.room.give(size)
		size = 0
	}
	body, refused := a.readBody(w, r, x, encoding == "gzip", size)
	if refused != nil {
		return req, release, refused
	}
	if rest := size - int64(len(body)); rest > 0 {
		size -= rest
		a.room.give(rest)
	}
	x.request.add(body)
	policy := wire.Policy{Models: a.relay.models, External: a.relay.cfg.AllowExternalTools}
	req, err := x.dialect.wire.Request(body, x.asked, policy)
	var bad *wire.Refusal
	if errors.As(err, &bad) {
		return req, release, refuse(reason(bad.Reason), bad.Message)
	}
	x.Model, x.Stream, x.Dropped, x.hidden = req.Model, req.Stream, req.Dropped, req.Hidden
	return req, release, nil
}

func (x *exchange) tooLarge() *refusal {
	return &refusal{x.dialect.tooLarge, bodyTooLarge, "the request is too large"}
}

// readBody reads and unpacks the body.
func (a *Attempt) readBody(w http.ResponseWriter, r *http.Request, x *exchange, packed bool, size int64) ([]byte, *refusal) {
	progress := &progress{r: r.Body}
	defer a.watch(http.NewResponseController(w), progress)()
	incomplete := refuse(bodyCut, "the body did not arrive whole")
	from := io.Reader(progress)
	if packed {
		unpacked, err := gzip.NewReader(progress)
		if err != nil {
			return nil, incomplete
		}
		from = unpacked
	}
	var body bytes.Buffer
	body.Grow(int(min(size, 1<<20)) + bytes.MinRead)
	if _, err := body.ReadFrom(io.LimitReader(from, MaxBody+1)); err != nil {
		return nil, incomplete
	}
	if body.Len() > MaxBody {
		return nil, x.tooLarge()
	}
	return body.Bytes(), nil
}

// progress notes that a body continues.
type progress struct {
	r     io.Reader
	reads atomic.Int64
}

// Read reads from the body.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.reads.Add(1)
	return n, err
}

// watch ends the reading of a body that has stopped, unless the agent is
// still, until the returned function is called.
func (a *Attempt) watch(control *http.ResponseController, p *progress) (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(stall)
		defer t.Stop()
		reads, held := p.reads.Load(), a.holds.time()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			if n, h := p.reads.Load(), a.holds.time(); n != reads || h != held {
				reads, held = n, h
				continue
			}
			_ = control.SetReadDeadline(time.Unix(1, 0)) // an error means that it has ended
			return
		}
	}()
	return func() { close(done) }
}
