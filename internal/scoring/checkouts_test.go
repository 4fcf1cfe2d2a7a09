package scoring_test

import (
	"context"
	"errors"
	"testing"

	"securebench/internal/checkout"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/scoring"
	"securebench/internal/workload"
)

// closing is an engine and a verifier that note when they are closed.
type closing struct {
	sandbox.Engine
	resources family.Resources
	order     []string
}

func (c *closing) Close() error {
	c.order = append(c.order, "engine")
	_, err := c.resources.Checkouts.Get(context.Background(), sandbox.Image{}, "/x")
	c.order = append(c.order, err.Error())
	return nil
}

// verifier is the closing's verifier.
type verifier struct {
	family.Verifier
	c *closing
}

func (v verifier) Close(ctx context.Context) error {
	v.c.order = append(v.c.order, "verifier")
	_, err := v.c.resources.Checkouts.Get(ctx, sandbox.Image{}, "/x")
	if err == nil || errors.Is(err, context.Canceled) {
		return errors.New("the engine has no such image")
	}
	return nil
}

// TestOneKeeper: verifiers and agents share one keeper of checkouts, which is
// closed after the verifiers and before the engine. Without an engine there is
// none.
func TestOneKeeper(t *testing.T) {
	c := &closing{Engine: sandboxtest.New(sandboxtest.Config{})}
	reg := family.NewRegistry(family.Family{Name: "f", NewVerifier: func(r family.Resources) family.Verifier {
		c.resources = r
		return verifier{c: c}
	}})
	s := &scoring.Scorer{Engine: c}
	cfg := &config.Tester{}
	s.MakeVerifiers(reg, "run", cfg, 3)
	if r := s.Runner(&workload.Workload{Loaded: &compile.Loaded{Pack: &pack.Pack{}}}, cfg, "run"); r.Checkouts != s.Checkouts {
		t.Error("agents have another keeper")
	}
	if c.resources.Checkouts == nil || c.resources.Checkouts != s.Checkouts || c.resources.Workers != 3 || c.resources.RunID != "run" {
		t.Fatalf("resources %+v", c.resources)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(c.order) != 3 || c.order[0] != "verifier" || c.order[1] != "engine" || c.order[2] != "no more checkouts are prepared" {
		t.Errorf("closed as %q", c.order)
	}
	s = &scoring.Scorer{}
	s.MakeVerifiers(reg, "run", &config.Tester{}, 1)
	if c.resources.Checkouts != (*checkout.Keeper)(nil) {
		t.Error("a keeper without an engine")
	}
}
