package model

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/upstream"
	"securebench/internal/harness"
	"securebench/internal/redact"
)

// checkTime bounds the questions of [Client.Check].
const checkTime = 30 * time.Second

// maxListed is how many models are named in an error.
const maxListed = 8

// Open makes a client, and finds out whether it can ask.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	c, err := New(cfg)
	if err == nil {
		err = c.Check(ctx)
	}
	return c, err
}

// Check finds out, before the first question and at no cost, whether the provider
// accepts the key and has the model. A provider that does not tell passes: then the
// first question shows it. The error wraps [relay.ErrRejected] if one of the two is
// wrong.
func (c *Client) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	err := c.getModel(ctx)
	if err == nil {
		return nil
	}
	r, ok := refusalOf(err)
	if !ok || upstream.Temporary(r.status) {
		return nil
	}
	if r.status != http.StatusNotFound && upstream.Rejects(r.status, "") {
		return fmt.Errorf("%w: %s (status %d)", relay.ErrRejected, upstream.Complaint(r.status, "", c.set.Model), r.status)
	}
	// Many servers have the list alone.
	names, err := c.listModels(ctx)
	if err != nil || len(names) == 0 || slices.Contains(names, c.set.Model) {
		return nil //nolint:nilerr // a provider need not list its models
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - maxListed; n > 0 {
		names, more = names[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	for i, name := range names {
		names[i] = redact.EscapeShort(c.clean(name), 100)
	}
	return fmt.Errorf("%w: it does not have the model %q (it has %s%s)", relay.ErrRejected, c.set.Model, strings.Join(names, ", "), more)
}

// getModel asks for the model.
func (c *Client) getModel(ctx context.Context) (err error) {
	if c.set.API == harness.MessagesAPI {
		service := anthropic.NewModelService(c.anthropicOptions()...)
		_, err = service.Get(ctx, c.set.Model, anthropic.ModelGetParams{})
	} else {
		service := openai.NewModelService(c.openAI()...)
		_, err = service.Get(ctx, c.set.Model)
	}
	return err
}

// listModels lists the names of the provider's models, or some of them.
func (c *Client) listModels(ctx context.Context) (names []string, err error) {
	if c.set.API == harness.MessagesAPI {
		service := anthropic.NewModelService(c.anthropicOptions()...)
		page, err := service.List(ctx, anthropic.ModelListParams{Limit: anthropic.Int(1000)})
		if err != nil {
			return nil, err
		}
		for _, m := range page.Data {
			names = append(names, m.ID)
		}
		return names, nil
	}
	service := openai.NewModelService(c.openAI()...)
	page, err := service.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range page.Data {
		names = append(names, m.ID)
	}
	return names, nil
}
