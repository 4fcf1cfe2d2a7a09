package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"securebench/internal/attended"
	"securebench/internal/redact"
)

// try is one request and what came of it.
type try struct {
	answer  Answer
	err     error
	failure failure // what err means
	began   time.Time
	took    time.Duration
	first   time.Duration // until the first text; 0 if there was none
	heard   bool          // the provider began to answer
	late    bool          // its time was up
}

// errTime ends a request whose time is up.
var errTime = errors.New("the time is up")

// try asks once.
func (c *Client) try(ctx context.Context, q Question, limit time.Duration, say io.Writer) try {
	t := try{began: time.Now()}
	var heard heard
	ctx, cancel := attended.WithTimeoutCause(context.WithValue(ctx, heardKey{}, &heard), limit, errTime)
	defer cancel()
	t.answer, t.err = c.ask(ctx, c, q, func(text string) {
		if text == "" {
			return
		}
		if t.first == 0 {
			t.first = max(time.Since(t.began), 1)
		}
		_, _ = io.WriteString(say, text) // which only shows it
	})
	t.took, t.heard = time.Since(t.began), heard.began.Load()
	switch form := heard.form.Load(); {
	case !errors.Is(t.err, errCut) || form == nil:
	case heard.whole != nil:
		t.answer, t.err = c.read(heard.whole)
		if t.err == nil && t.answer.Text != "" {
			t.first = max(t.took, 1)
			_, _ = io.WriteString(say, t.answer.Text)
		}
	default:
		t.err = &formError{c.name(*form)}
	}
	t.late = t.err != nil && errors.Is(context.Cause(ctx), errTime)
	if text := strings.ToValidUTF8(t.answer.Text, "\uFFFD"); text != t.answer.Text {
		t.answer.Text, t.answer.Replaced = text, true
	}
	t.answer.Reasoning = strings.ToValidUTF8(t.answer.Reasoning, "\uFFFD")
	t.answer.Usage = t.answer.Usage.sane()
	if t.err == nil || t.heard {
		t.answer.Usage = t.answer.Usage.guess(len(q.System)+len(q.User), len(t.answer.Text))
	}
	t.answer.Model, t.answer.Stop = c.name(t.answer.Model), c.name(t.answer.Stop)
	switch {
	case t.late:
		t.failure.why = errTime.Error()
	case t.err != nil:
		t.failure = c.explain(t.err)
	}
	return t
}

// clean removes the key from a text.
func (c *Client) clean(text string) string { return string(c.secrets.Bytes([]byte(text))) }

// name returns a word of the provider's, as it may be recorded.
func (c *Client) name(text string) string { return redact.EscapeShort(c.clean(text), 200) }

// errCut is the error of an answer that ended too early, though its connection did
// not break.
var errCut = errors.New("the answer ended before it was complete")

// ended is the error at the end of a stream.
func ended(err error, complete bool) error {
	if err == nil && !complete {
		return errCut
	}
	return err
}

// formError is the error of an answer that is not a stream: the address is not that
// of an API, or of one that does not stream.
type formError struct{ form string }

// Error says so.
func (e *formError) Error() string {
	return fmt.Sprintf("the server answers with %s, not with a stream of events: check the base URL, and that the server can stream", e.form)
}

// heard notes how a provider began to answer.
type heard struct {
	began atomic.Bool
	form  atomic.Pointer[string] // its Content-Type, if that is not a stream's
	whole []byte                 // its answer, if that is one JSON text
}

// heardKey is the key of what notes that a provider has begun to answer.
type heardKey struct{}

// maxResponse bounds what is read of a response, whatever it is.
const maxResponse = 32 << 20

// bounded is a transport whose responses end in an error if they are too long.
type bounded struct{ http.RoundTripper }

// RoundTrip makes a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if heard, ok := r.Context().Value(heardKey{}).(*heard); ok && response.StatusCode == http.StatusOK {
		heard.began.Store(true)
		if form, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); form != "" && form != "text/event-stream" {
			heard.form.Store(&form)
		}
	}
	if s := response.StatusCode; s >= 300 && s < 400 {
		_ = response.Body.Close() // nothing of it is read
		return nil, &redirectError{s}
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: maxResponse}
	if err := keepWhole(r, response); err != nil {
		return nil, err
	}
	return response, nil
}

// keepWhole keeps an answer that is one JSON text, though a stream was asked for. A
// client for streams then finds none.
func keepWhole(r *http.Request, response *http.Response) error {
	heard, ok := r.Context().Value(heardKey{}).(*heard)
	form, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if !ok || response.StatusCode != http.StatusOK || form != "application/json" {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	heard.whole, response.Body, response.ContentLength = body, http.NoBody, 0
	return nil
}

// redirectError is the error of a redirect, which is not followed: it would take
// the key along.
type redirectError struct{ status int }

// Error says so.
func (e *redirectError) Error() string {
	return fmt.Sprintf("the provider answers with a redirect (status %d), which is not followed; check the base URL", e.status)
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

var errTooLong = fmt.Errorf("the provider's response is longer than %d MiB", maxResponse>>20)

// Read reads what the bound leaves.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// base is the address below which a client adds its paths, with or without the
// first part of them.
func (c *Client) base(below string) string { return strings.TrimRight(c.set.BaseURL, "/") + below }
