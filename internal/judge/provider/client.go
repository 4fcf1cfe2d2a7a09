package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/fault"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/allowance"
	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay"
	"securebench/internal/judge"
	"securebench/internal/redact"
)

// Around is what surrounds a judge.
type Around struct {
	LookupEnv func(string) (string, bool)
	Secrets   *redact.Registry // which the key is added to
	Transport http.RoundTripper
	Paces     *pace.Set    // of providers, which others ask too
	Notice    func(string) // gets a line while the provider lets questions wait
}

// Client asks the model of a judge. It is safe for concurrent use.
type Client struct {
	client *model.Client
	total  *allowance.Allowance
	limit  time.Duration // of the requests for one answer
}

var _ judge.Asker = (*Client)(nil)

// who names the judge's client among those that share a journal.
const who = "judge"

// answerTime is how long the requests for one answer may take.
const answerTime = 10 * time.Minute

// Open takes the key from the environment or the env file, and sees that the provider
// has the model.
func Open(ctx context.Context, s *Settings, a Around) (*Client, error) {
	keys, err := s.Model.Read(func(name string) string { v, _ := a.LookupEnv(name); return v })
	if err == nil {
		err = keys.Hide(a.Secrets, "")
	}
	var to *access.Endpoint
	if err == nil {
		to, err = access.New(s.Model.Address, keys)
	}
	if err != nil {
		return nil, fault.Errorf(fault.Config, "%s: the judge: %w", s.Section.Pos, err)
	}
	if a.Transport == nil {
		if err := to.Reach(ctx); err != nil {
			kind := fault.Config
			if errors.Is(err, access.ErrUnreachable) {
				kind = fault.Infrastructure
			}
			return nil, fault.Errorf(kind, "%s: the judge: %w (check judge.base_url, the network and the proxy variables)", s.Section.Pos, err)
		}
	}
	c := &Client{total: allowance.New("judge.budget", allowance.Amount(s.Model.Total)), limit: answerTime}
	c.client, err = model.Open(ctx, model.Config{Who: who, Settings: s.Model, Keys: keys, Total: c.total, Paces: a.Paces, Transport: a.Transport, Notice: a.Notice})
	if err != nil {
		return nil, fault.Errorf(fault.Config, "%s: the judge: %w (check judge.model, judge.base_url and the key)", s.Section.Pos, err)
	}
	return c, nil
}

// Keep keeps what is answered, and asks nothing again that is answered there. used is
// what an earlier part of the run has used, by the names of a record's usage.
func (c *Client) Keep(j *model.Journal, a model.Accounts, used map[string]int64) {
	c.total.Add(allowance.Counted(stripped(used)))
	if a == nil {
		c.client.Keep(j, nil)
		return
	}
	c.client.Keep(j, accounts{a})
}

// Spent reports whether the judge may ask no more.
func (c *Client) Spent() bool { return c.total.Spent() }

// Ask asks for one answer.
func (c *Client) Ask(ctx context.Context, r judge.Request) (judge.Reply, error) {
	seed := int64(r.Vote)
	q := model.Question{Question: harness.Question{System: r.System, User: r.User}, Task: r.Task, Attempt: r.Attempt,
		Form: &model.Form{Name: r.Form, Schema: r.Schema}, Seed: &seed}
	if r.Counts != nil {
		q.Keep = func(a model.Answer) bool {
			return r.Counts(judge.Reply{Text: cmp.Or(a.Called, a.Text), Model: a.Model, Stop: a.Stop, Declined: a.Declined})
		}
	}
	res, err := c.client.Ask(ctx, q, c.limit, io.Discard)
	reply := judge.Reply{Text: cmp.Or(res.Called, res.Text), Model: res.Model, Stop: res.Stop, Usage: counted(c.client.Counts(res))}
	switch {
	case errors.Is(err, relay.ErrSpent):
		return reply, fmt.Errorf("%w: %w", judge.ErrSpent, err)
	case err != nil:
		return reply, fmt.Errorf("asking the judge: %w", err)
	case res.End == model.Refused:
		reply.Declined = true
	case res.End != model.Answered:
		return reply, errors.New("asking the judge: its answer was not complete in time")
	}
	return reply, nil
}

// counted returns what a record has of a judge's usage.
func counted(all map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{"requests", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost_microusd"} {
		if n, ok := all[name]; ok {
			out[name] = n
		}
	}
	return out
}
