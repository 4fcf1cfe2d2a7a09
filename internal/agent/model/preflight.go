package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/upstream"
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
//
// If the likelihood of texts is asked for, it finds out as well whether the provider says
// it: two short texts show that.
func (c *Client) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	err := c.checkModel(ctx)
	if err == nil && c.set.API == access.Completions {
		err = c.probe(ctx)
	}
	return err
}

// checkModel finds out whether the provider accepts the key and has the model.
func (c *Client) checkModel(ctx context.Context) error {
	response, err := c.send(ctx, http.MethodGet, "/models/"+c.modelPath(), "", nil)
	if err == nil {
		_ = response.Body.Close() // nothing of it is read
		return nil
	}
	r, ok := errors.AsType[*refusal](err)
	if !ok || upstream.Temporary(r.status) {
		return nil
	}
	if r.status != http.StatusNotFound && upstream.Rejects(r.status, upstream.Code(r.body)) {
		return fmt.Errorf("%w: %s", relay.ErrRejected, c.status(r).why)
	}
	// Many servers have only the list.
	names, err := c.listModels(ctx)
	if err != nil || len(names) == 0 || c.among(names) {
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

// among reports whether a provider that lists some models has that of the settings, or may
// have: it takes names by a pattern, or the name is that of a variant.
func (c *Client) among(names []string) bool {
	model, variant := c.set.Model, ""
	if i := strings.LastIndexByte(model, ':'); i > 0 {
		variant = model[:i]
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return name == model || name == variant || name == "models/"+model || strings.Contains(name, "*")
	})
}

// listModels lists the names of the provider's models, or some of them.
func (c *Client) listModels(ctx context.Context) (names []string, err error) {
	query := map[string]string{access.Messages: "limit=1000", access.Gemini: "pageSize=1000"}[c.set.API]
	response, err := c.send(ctx, http.MethodGet, "/models", query, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		Models []struct { // of Google's
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := upstream.Decode(body, &list); err != nil {
		return nil, err
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	for _, m := range list.Models {
		names = append(names, strings.TrimPrefix(m.Name, "models/"))
	}
	return names, nil
}

// modelPath is the model as it is in a path. Google's are also written with what is before
// them there.
func (c *Client) modelPath() string {
	name := c.set.Model
	if c.set.API == access.Gemini {
		name = strings.TrimPrefix(name, "models/")
	}
	return url.PathEscape(name)
}
