package agent

import (
	"context"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/pipeline/record"
)

// weighing is what came of asking how likely each choice of a question is.
type weighing struct {
	model.Result           // of all requests together; its text is the label of the choice
	sums         []float64 // log-probabilities of the choices
	label        string    // of the most likely one
}

// weigh asks how likely the model holds each choice to be after the question, one after the
// other, and takes the first of the most likely ones. Each is a question of its own to the
// journal and the budget.
func (p *asked) weigh(ctx context.Context, q model.Question, limit time.Duration) (w weighing, err error) {
	before, context, best := beginning(q), 0, math.Inf(-1)
	for i := range len(q.Choices) + 1 {
		part := model.Question{Task: q.Task, Attempt: q.Attempt, Context: context, Used: record.SumUsage(q.Used, p.model.Client.Counts(w.Result))}
		part.User = before
		if i > 0 {
			part.User += q.Choices[i-1]
		}
		res, err := p.model.Client.Ask(ctx, part, limit-w.Asked(), io.Discard)
		w.add(res)
		if err != nil || res.End != model.Answered || res.Likelihood == nil {
			return w, err
		}
		if i == 0 {
			context = res.Likelihood.Tokens
			continue
		}
		w.sums = append(w.sums, res.Likelihood.Sum)
		if s := p.score(q.Choices[i-1], res.Likelihood.Sum); s > best {
			best, w.label = s, string(rune('A'+i-1))
		}
	}
	w.Text = w.label
	return w, nil
}

// beginning is the text before the choices: the examples, parted by an empty line, and the
// question.
func beginning(q model.Question) string {
	var b strings.Builder
	for _, x := range q.Examples {
		b.WriteString(x.User + x.Assistant + "\n\n")
	}
	return b.String() + q.User
}

// score is by what a choice is compared with others.
func (p *asked) score(choice string, sum float64) float64 {
	if p.plan.Metadata["answer_by"] == harness.LikelyEach {
		return sum / float64(max(1, utf8.RuneCountInString(strings.TrimSpace(choice))))
	}
	return sum
}

// add adds the result of a request.
func (w *weighing) add(res model.Result) {
	s := w.Spending
	w.Result = res
	w.Requests += s.Requests
	w.Spent = s.Spent.Plus(res.Spent)
	w.Waited += s.Waited
	w.Tries = append(s.Tries, res.Tries...)
}
