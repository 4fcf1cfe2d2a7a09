package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"securebench/internal/attended"
	"securebench/internal/gateway/access"
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
	ctx, cancel := attended.WithTimeoutCause(ctx, limit, errTime)
	defer cancel()
	response, err := c.send(ctx, http.MethodPost, strings.Replace(c.api.path, "MODEL", c.modelPath(), 1), c.api.query, c.api.ask(c.set, q))
	if t.heard, t.err = err == nil, err; t.heard {
		t.answer, t.err = c.read(response, func(text string) {
			if text == "" {
				return
			}
			if t.first == 0 {
				t.first = max(time.Since(t.began), 1)
			}
			_, _ = io.WriteString(say, text) // which only shows it
		})
		_ = response.Body.Close()
		if t.err == nil && c.set.API == access.Completions {
			t.answer, t.err = t.answer.weighed(q)
		}
	}
	t.took = time.Since(t.began)
	t.late = t.err != nil && errors.Is(context.Cause(ctx), errTime)
	if text := strings.ToValidUTF8(t.answer.Text, "\uFFFD"); text != t.answer.Text {
		t.answer.Text, t.answer.Replaced = text, true
	}
	t.answer.Called = strings.ToValidUTF8(t.answer.Called, "\uFFFD")
	t.answer.Reasoning = strings.ToValidUTF8(t.answer.Reasoning, "\uFFFD")
	t.answer.Usage = t.answer.Usage.sane()
	if t.err == nil || t.heard {
		t.answer.Usage = t.answer.Usage.guess(q.Size(), len(t.answer.Text)+len(t.answer.Called))
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
