package distant

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// errCut is the end of an answer that the relay has broken off.
var errCut = errors.New("the answer is not whole")

// passage is a request of the agent's on its way to the run.
type passage struct {
	method string
	body   *body // nil if there is none
}

type passageKey struct{}

// forward forwards a request of the agent's.
func (p *Provider) forward(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // an answer may come before the request is whole
	p.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, &passage{method: r.Method})))
}

// rewrite makes a request of the agent's one to the desk.
func (p *Provider) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	target, err := url.Parse(p.way.Base + Prefix + p.way.Ticket + "/" + forAgent)
	if err != nil {
		target = &url.URL{} // to which no request can be made
	}
	out.Method, out.URL, out.Host = http.MethodPost, target, ""
	for _, name := range []string{tokenHeader, methodHeader, targetHeader, lengthHeader} {
		out.Header.Del(name)
	}
	out.Header.Set(methodHeader, in.Method)
	out.Header.Set(targetHeader, in.RequestURI)
	out.Header.Set(lengthHeader, strconv.FormatInt(in.ContentLength, 10))
	if out.Body == nil || out.Body == http.NoBody {
		return
	}
	b := &body{ReadCloser: out.Body, left: maxBody}
	if ride, ok := in.Context().Value(passageKey{}).(*passage); ok {
		ride.body = b
	}
	if out.Body = b; out.ContentLength > maxBody {
		out.ContentLength = -1 // the rest stays here
	}
}

// body is the body of an agent's request: no more of it is sent than shows that it is
// too long.
type body struct {
	io.ReadCloser
	left int64
	bad  atomic.Bool // what the agent sends is no body
}

// broken reports whether it could not be read to its end.
func (b *body) broken() bool { return b.bad.Load() }

// Read reads what the agent sends.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.bad.Store(true)
	}
	return n, err
}

// received looks at an answer before the agent gets it.
func (p *Provider) received(res *http.Response) error {
	text := res.Header.Get(stateHeader)
	if text == "" {
		why, err := io.ReadAll(io.LimitReader(res.Body, maxReason))
		return errors.Join(errors.New(strings.TrimSpace(string(why))), err)
	}
	if err := p.know([]byte(text)); err != nil {
		return err
	}
	cut := res.Header.Get(cutHeader) != ""
	res.Header.Del(stateHeader)
	res.Header.Del(cutHeader)
	if cut {
		return errCut
	}
	ride, _ := res.Request.Context().Value(passageKey{}).(*passage)
	if ride != nil && ride.method == http.MethodHead {
		err := res.Body.Close()
		res.Body = http.NoBody
		return err
	}
	res.Body = &arriving{ReadCloser: res.Body, res: res, provider: p}
	return nil
}

// arriving is the body of an answer.
type arriving struct {
	io.ReadCloser
	res      *http.Response
	provider *Provider
}

// Read reads the answer, whose end is an error if it is not whole.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if a.res.Trailer.Get(cutHeader) != "" {
			return n, errCut
		}
	default:
		a.provider.parted(a.res.Request.Context(), err)
	}
	return n, err
}

// broken ends a request that could not be carried. The agent sees that its connection
// breaks.
func (p *Provider) broken(_ http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, errCut) {
		p.parted(r.Context(), err)
	}
	panic(http.ErrAbortHandler)
}

// parted ends the attempt because a request of the agent's was not carried to its end,
// unless the agent has left, or sent what is no request.
func (p *Provider) parted(ctx context.Context, err error) {
	ride, _ := ctx.Value(passageKey{}).(*passage)
	if ctx.Err() != nil || ride != nil && ride.body != nil && ride.body.broken() {
		return
	}
	p.lost(err)
}
