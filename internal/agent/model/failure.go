package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/attended"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/upstream"
	"securebench/internal/redact"
)

// failure is what an error of a request means.
type failure struct {
	why        string // in one line, without the key
	temporary  bool   // the same request may succeed later
	form       bool   // of the answer, which another request does not mend
	event      bool   // by which the provider ended an answer
	overloaded bool   // the provider has too much to do
	after      time.Duration
}

// explain says what an error means.
func (c *Client) explain(err error) failure {
	if r, ok := errors.AsType[*refusal](err); ok {
		return c.status(r)
	}
	if e, ok := errors.AsType[*eventError](err); ok {
		return c.event(e.data)
	}
	if e, ok := errors.AsType[*redirectError](err); ok {
		return failure{why: e.Error()}
	}
	f := failure{why: redact.EscapeShort(c.clean(err.Error()), 300), temporary: true}
	_, form := errors.AsType[*formError](err)
	_, long := errors.AsType[*http.MaxBytesError](err)
	if long {
		f.why = fmt.Sprintf("the provider's response is longer than %d MiB", maxResponse>>20)
	}
	_, weightless := errors.AsType[*likelihoodError](err)
	f.form = form || long || weightless || errors.Is(err, errCut)
	return f
}

// status explains an answer with a status.
func (c *Client) status(r *refusal) failure {
	status, code := r.status, upstream.Code(r.body)
	f := failure{why: fmt.Sprintf("status %d", status), overloaded: upstream.Overloaded(status), after: cmp.Or(upstream.RetryAfter(r.header, relay.MaxHold), upstream.RetryDelay(r.body, relay.MaxHold))}
	f.temporary = upstream.Temporary(status) && code != upstream.NoCredit && code != upstream.TooMuch
	switch {
	case upstream.Rejects(status, code):
		f.why = fmt.Sprintf("%s (status %d)", upstream.Complaint(status, code, c.set.Model), status)
	}
	f.why += c.quote(r.body)
	return f
}

// event explains an event that ends an answer.
func (c *Client) event(data []byte) failure {
	text := string(data)
	return failure{why: "the provider ended the answer with an error" + c.quote(data), temporary: upstream.Code(data) != upstream.NoCredit, event: true,
		overloaded: strings.Contains(text, "overloaded") || strings.Contains(text, "rate_limit")}
}

// quote quotes what an error says. What is told to a judge may be in it, and is hidden.
func (c *Client) quote(body []byte) string {
	if c.who != "" {
		return ""
	}
	return c.endpoint.Quote(body)
}

// How long and how often a question of our own is asked.
const (
	confirmTime  = time.Minute
	confirmTries = 4
)

// confirm asks a question of our own, unless one was answered that was asked
// after a time. The error wraps [relay.ErrRejected] if the provider rejects it,
// too. One at a time asks, so that many attempts that fail at once cost one. What
// it takes is spent by the attempt that asks. It is asked once even if the budget
// has no request left, because what it shows decides about the whole run.
func (c *Client) confirm(ctx context.Context, since time.Time, spent *Spending) error {
	c.confirming.Lock()
	defer c.confirming.Unlock()
	if c.rejected != nil || c.confirmed.After(since) {
		return c.rejected
	}
	own := Question{Question: harness.Question{System: c.set.System, User: "Say OK."}, Attempt: 1}
	last := "it was not asked"
	for n := range confirmTries {
		if n > 0 && c.exhausted(*spent, nil) {
			break
		}
		if n > 0 && attended.Pause(ctx, c.firstWait<<n) != nil {
			return context.Cause(ctx)
		}
		t := c.try(ctx, own, confirmTime, io.Discard)
		spent.count(t, true)
		c.total.Add(c.amount(t.answer.Usage))
		switch {
		case t.err == nil, t.heard: // what comes of the answer does not matter
			c.confirmed = t.began
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !t.late && !t.failure.temporary:
			c.rejected = fmt.Errorf("%w: %s", relay.ErrRejected, t.failure.why)
			return c.rejected
		}
		last = t.failure.why
	}
	return fmt.Errorf("the provider rejected a question, and cannot be asked whether it accepts others: %s", last)
}
