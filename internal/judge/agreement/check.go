package agreement

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"securebench/internal/digest"
	"securebench/internal/judge"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// Result is how well a judge agrees with people's labels. Its digest can be written into
// judge.trusted.
type Result struct {
	Pack   string `json:"pack_id"`
	Model  string `json:"model"`
	Answer string `json:"answered"` // the model as its provider names it
	API    string `json:"api"`
	Votes  int    `json:"votes"`
	Decide string `json:"decide"`
	Prompt int    `json:"prompt_version"`
	Labels string `json:"labels"` // digest of the file
	Texts  *Texts `json:"texts,omitzero"`
	Pairs  *Pairs `json:"pairs,omitzero"`
	// Usage is what the judge was asked for it, by the names of a record's usage.
	Usage map[string]int64 `json:"usage"`
}

// Digest is that of the result in canonical JSON.
func (r *Result) Digest() (string, error) {
	b, err := digest.Canonical(r)
	return digest.Bytes(b), err
}

// ErrUnknownTask is wrapped if a label is about another task.
var ErrUnknownTask = errors.New("no task of the pack that asks for a judge")

// Check asks a judge about every label. ask returns what the judge is asked about a task,
// without a candidate, or false if the pack has no such task that asks for a judge.
func (r *Result) Check(ctx context.Context, j judge.Judge, labels *Labels, ask func(task string) (judge.Question, bool), workers int) error {
	r.Labels, r.Usage = labels.Digest, map[string]int64{}
	for _, l := range labels.All {
		if _, ok := ask(l.TaskID); !ok {
			return fmt.Errorf("line %d: %w: %s", l.Line, ErrUnknownTask, redact.Quote(l.TaskID))
		}
	}
	texts, pairs, errs := make([]Text, len(labels.All)), make([]Pair, len(labels.All)), make([]error, len(labels.All))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	turns, group := make(chan struct{}, max(1, workers)), sync.WaitGroup{}
	var mu sync.Mutex // of the usage
	decide := func(q judge.Question, number int) (passed, void bool, err error) {
		q.Attempt = number
		d, err := j.Decide(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		for name, n := range d.Usage {
			r.Usage[name] += n
		}
		if err == nil && d.Reason == verdict.Budget {
			err = judge.ErrSpent
		}
		return d.Outcome == verdict.Passed, d.Reason == verdict.JudgeRefused || d.Reason == verdict.JudgeInconsistent, err
	}
	for i, l := range labels.All {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			q, _ := ask(l.TaskID)
			if labels.Pairs {
				pairs[i], errs[i] = decidePair(q, l, decide)
			} else {
				q.Candidate = l.Texts[0]
				texts[i] = Text{Passed: l.Passed, Bytes: len(q.Candidate)}
				texts[i].Judged, texts[i].Void, errs[i] = decide(q, l.Line)
			}
			if errs[i] != nil {
				cancel() // the rest would only cost
			}
		})
	}
	group.Wait()
	if err := first(errs); err != nil {
		return err
	}
	if labels.Pairs {
		of := OfPairs(pairs)
		r.Pairs = &of
	} else {
		of := OfTexts(texts)
		r.Texts = &of
	}
	return nil
}

// first returns the error that ended the others, if one did.
func first(errs []error) error {
	var cancelled error
	for _, err := range errs {
		switch {
		case errors.Is(err, context.Canceled):
			cancelled = err
		case err != nil:
			return err
		}
	}
	return cancelled
}

// decidePair asks in both orders whether the first of two texts is better. A judge that
// says so of both, or of neither, follows the place.
func decidePair(q judge.Question, l Label, decide func(judge.Question, int) (bool, bool, error)) (Pair, error) {
	p := Pair{Preferred: l.Preferred, Bytes: [2]int{len(l.Texts[0]), len(l.Texts[1])}}
	for order := range 2 {
		better, void, err := decide(judge.Better(q, l.Texts[order], l.Texts[1-order]), 2*l.Line+order)
		if err != nil {
			return p, err
		}
		choice := Second
		switch {
		case void:
			choice = Neither
		case better:
			choice = First
		}
		if order == 0 {
			p.Given = choice
		} else {
			p.Turned = choice
		}
	}
	return p, nil
}
