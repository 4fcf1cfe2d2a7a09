package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/upstream"
)

// Likelihood is how likely a model holds a text to be that it was given.
type Likelihood struct {
	Tokens int `json:"tokens"` // of the whole text
	// Sum is the sum of the log-probabilities of the tokens after the context.
	Sum float64 `json:"sum,omitzero"`
}

// ErrNoLikelihoods is wrapped by the error of [Client.Check] if the provider does not return
// the log-probabilities of a text that it is given.
var ErrNoLikelihoods = errors.New("the provider does not return the log-probabilities of a text that it is given")

// askCompletions asks for the log-probabilities of a text. A token is generated because
// some servers know no smaller number.
func askCompletions(set harness.Model, q Question) any {
	return struct {
		Echo        bool    `json:"echo"`
		Logprobs    int     `json:"logprobs"`
		MaxTokens   int64   `json:"max_tokens"`
		Model       string  `json:"model"`
		Prompt      string  `json:"prompt"`
		Temperature float64 `json:"temperature"`
	}{true, 1, set.MaxTokens, set.Model, q.User, 0}
}

// echoed is what a server says of the tokens of a text, and of those that it added.
type echoed struct {
	logprobs       []*float64
	prompt, output int64 // tokens, by the usage
}

func wholeCompletion(body []byte) (Answer, bool) {
	var r struct {
		Model   string `json:"model"`
		Choices []struct {
			Logprobs struct {
				Tokens []*float64 `json:"token_logprobs"`
			} `json:"logprobs"`
		} `json:"choices"`
		Usage struct {
			Input  count `json:"prompt_tokens"`
			Output count `json:"completion_tokens"`
		} `json:"usage"`
	}
	if upstream.Decode(body, &r) != nil || len(r.Choices) != 1 {
		return Answer{}, false
	}
	e := &echoed{r.Choices[0].Logprobs.Tokens, int64(r.Usage.Input), int64(r.Usage.Output)}
	return Answer{Model: r.Model, Usage: Usage{Input: e.prompt, Output: e.output}, echoed: e}, true
}

// completionEvent refuses a stream, which was not asked for.
func completionEvent(*stream, []byte) error {
	return &likelihoodError{"it answers with a stream that was not asked for"}
}

// likelihoodError is the error of an answer that does not say how likely a text is.
type likelihoodError struct{ why string }

// Error says so.
func (e *likelihoodError) Error() string {
	return "the server's answer does not say how likely the text is: " + e.why
}

// weighed returns an answer with how likely the text of the question is.
func (a Answer) weighed(q Question) (Answer, error) {
	l, err := a.echoed.of(q.Context)
	if err != nil {
		return a, err
	}
	a.Likelihood, a.echoed = &l, nil
	return a, nil
}

// of adds up what comes after a context of so many tokens; 0 adds up nothing. The tokens of
// the text end where those begin that the server added. Some servers leave out the token
// that begins every text, which the usage counts.
func (e *echoed) of(context int) (l Likelihood, err error) {
	if e == nil {
		return l, &likelihoodError{"there is none"}
	}
	n := int64(len(e.logprobs))
	end := n - e.output
	switch {
	case e.prompt <= 0:
		return l, &likelihoodError{"its usage has no prompt_tokens"}
	case n == 0:
		return l, &likelihoodError{"it has no logprobs.token_logprobs"}
	case e.output < 0 || end != e.prompt && end != e.prompt-1:
		return l, &likelihoodError{fmt.Sprintf("it has the log-probabilities of %d tokens, for a text of %d and %d more", n, e.prompt, e.output)}
	}
	l.Tokens = int(e.prompt)
	if context == 0 {
		return l, nil
	}
	after := e.prompt - int64(context)
	if after < 1 || after >= end {
		return l, &likelihoodError{fmt.Sprintf("the text has %d tokens, and its beginning %d", e.prompt, context)}
	}
	for _, p := range e.logprobs[end-after : end] {
		if p == nil || math.IsNaN(*p) || math.IsInf(*p, 0) || *p > 0.001 {
			return l, &likelihoodError{"one of its token_logprobs is no log-probability"}
		}
		l.Sum += *p
	}
	return l, nil
}

// The question that shows whether a provider returns log-probabilities: no model can be
// certain of its end.
const (
	probeContext = "Question: which word follows?\nAnswer:"
	probeText    = probeContext + " violin 7391 umbrella"
)

// probe sees, before the first question, that the provider returns log-probabilities of a
// text.
func (c *Client) probe(ctx context.Context) error {
	context, sum := 0, 0.0
	for _, text := range []string{probeContext, probeText} {
		t := c.try(ctx, Question{Question: harness.Question{User: text}, Context: context, Attempt: 1}, confirmTime, io.Discard)
		c.total.Add(c.amount(t.answer.Usage))
		switch {
		case t.err != nil && (t.failure.overloaded || t.late || ctx.Err() != nil):
			return nil // the first question shows it
		case t.err != nil:
			return fmt.Errorf("%w: %s", ErrNoLikelihoods, t.failure.why)
		}
		context, sum = t.answer.Likelihood.Tokens, t.answer.Likelihood.Sum
	}
	if sum > -0.001 {
		return fmt.Errorf("%w: all of them are 0", ErrNoLikelihoods)
	}
	return nil
}
