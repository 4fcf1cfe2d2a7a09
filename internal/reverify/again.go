package reverify

import (
	"context"
	"errors"

	"securebench/internal/agent/setup"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/judge/provider"
	"securebench/internal/redact"
)

// OpenJudge opens the judge that a tester YAML or a flag names, to ask it anew about the
// candidates of a run. getenv has its key.
func (r *Review) OpenJudge(ctx context.Context, model string, getenv func(string) string) error {
	s, ps := provider.Parse(provider.WithModel(r.Config.Judge, model))
	if err := ps.Err(); err != nil {
		return fault.As(fault.Config, err)
	}
	if s == nil {
		return fault.As(fault.Config, errors.New("--ask-again needs a judge: give --judge MODEL, or a tester YAML with a judge section as --pack"))
	}
	salt, err := digest.NewSalt() // so that no question is one that was asked before
	if err != nil {
		return err
	}
	lookup := func(name string) (string, bool) { v := getenv(name); return v, v != "" }
	client, err := provider.Open(ctx, s, provider.Around{LookupEnv: lookup, Secrets: &redact.Registry{}, Notice: r.Notice})
	if err != nil {
		return err
	}
	r.Again, _ = setup.NewPanel(s, client, r.Result.Manifest.Model, salt)
	return nil
}
