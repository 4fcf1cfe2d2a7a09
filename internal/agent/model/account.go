package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/relay"
)

// Accounts keep what attempts use of their provider, so that a run that is killed and
// resumed counts it.
type Accounts interface {
	// Begin begins a try of an attempt. It returns what the attempt had used at most
	// before the run was resumed, and what is told all that the try has used at most,
	// with that.
	Begin(task string, attempt int) (former map[string]int64, note func(map[string]int64) error)
}

// account notes what a question spends for the run's allowance.
type account struct {
	client *Client
	began  Spending // with what an earlier process of the run had spent
	former map[string]int64
	keep   func(map[string]int64) error // nil keeps nothing
}

// account opens the account of a question that has spent something before.
func (c *Client) account(q Question, before Spending) *account {
	a := &account{client: c, began: before}
	if c.accounts != nil {
		a.former, a.keep = c.accounts.Begin(q.Task, q.Attempt)
	}
	return a
}

// note notes what the question has spent at most.
func (a *account) note(s Spending) {
	if a.keep == nil || s.Requests == a.began.Requests {
		return
	}
	used := map[string]int64{
		"requests":      s.Requests - a.began.Requests,
		"input_tokens":  s.Spent.Input - a.began.Spent.Input,
		"output_tokens": s.Spent.Output - a.began.Spent.Output,
		"cost_microusd": int64((a.client.price(s.Spent)-a.client.price(a.began.Spent))*1e6 + 0.5),
	}
	for name, n := range a.former {
		used[name] += n
	}
	if err := a.keep(used); err != nil {
		a.client.notice.say(unnoted + err.Error())
	}
}

const unnoted = "what is asked of the model cannot be noted for a resume: "

// pay sets a part of the run's allowance aside, notes what the question has spent at most
// when it has asked once more, and asks.
func (c *Client) pay(ctx context.Context, q Question, key string, before Spending, a *account, ask func() try) (try, error) {
	most := c.most(q)
	share, err := c.total.Take(ctx, c.amount(most), nil)
	if err != nil {
		return try{}, err
	}
	bound := before.with(most)
	if err := c.journal.asking(key, bound); err != nil {
		c.notice.say(unnoted + err.Error())
	}
	a.note(bound)
	t := ask()
	share.Settle(c.amount(t.answer.Usage))
	return t, nil
}

// leave notes what a question has spent when it is not asked any more. It returns the
// error with which that ended.
func (c *Client) leave(ctx context.Context, key string, a *account, s Spending, err error) error {
	if ctx.Err() != nil { // what was noted is what it has spent at most
		return err
	}
	a.note(s)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, relay.ErrSpent):
		return errors.Join(err, c.journal.asking(key, s)) // which a resume counts
	}
	return errors.Join(err, c.journal.asking(key, Spending{})) // it is recorded, or asked again
}

// amount is what a usage takes of the run's allowance.
func (c *Client) amount(u Usage) allowance.Amount {
	return allowance.Amount{Requests: 1, Tokens: u.Input + u.Output, Cost: c.price(u)}
}

// unboundedOutput is how many tokens an answer is taken to have at most where no bound is
// set.
const unboundedOutput = 4096

// fileTokens is how many tokens a picture is taken to have: about what providers count for
// one of the largest that they do not make smaller.
const fileTokens = 1600

// most is what one request uses at most.
func (c *Client) most(q Question) Usage {
	output := c.set.MaxTokens
	if output <= 0 {
		output = unboundedOutput
	}
	size := q.Size() + q.Form.size()
	for _, p := range q.Parts {
		if p.Type != "" {
			size += 4 * fileTokens
		}
	}
	return Usage{Input: int64(size+3) / 4, Output: output, Guessed: true}
}

// with returns what a question has spent at most when one more request is done.
func (s Spending) with(most Usage) Spending {
	s.Requests++
	s.Spent.add(most)
	s.Tries = append(slices.Clip(s.Tries), Try{Began: time.Now().UTC(), Error: "the run was cut short"})
	return s
}
