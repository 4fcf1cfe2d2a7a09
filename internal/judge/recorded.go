package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// ErrNoAnswer is wrapped if the exchanges of a run have no answer to a question: it is not
// the one that was asked, or its answer was removed.
var ErrNoAnswer = errors.New("the recorded exchanges have no answer to the question of a vote")

// Recorded is the asker that answers with the exchanges of a run. No model is asked.
type Recorded struct {
	// Read returns the exchanges of an attempt, a JSON line each.
	Read func(task string, attempt int) ([]byte, error)
}

var _ Asker = Recorded{}

// Ask finds the answer to exactly this question.
func (r Recorded) Ask(_ context.Context, q Request) (Reply, error) {
	text, err := r.Read(q.Task, q.Attempt)
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	for line := range bytes.Lines(text) {
		var x Exchange
		if err := json.Unmarshal(line, &x, json.RejectUnknownMembers(true)); err != nil {
			return Reply{}, fmt.Errorf("%w: a line is no exchange", ErrNoAnswer)
		}
		if x.System == q.System && x.User == q.User {
			return Reply{Text: x.Text, Model: x.Model, Stop: x.Stop, Declined: x.Declined, Usage: map[string]int64{"input_tokens": x.Tokens}}, nil
		}
	}
	return Reply{}, ErrNoAnswer
}
