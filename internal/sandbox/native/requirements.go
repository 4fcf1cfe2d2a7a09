package native

import (
	"context"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/require"
	"securebench/internal/sandbox/owner"
)

// Requirements says what the engine needs of the machine, whether it holds, and how
// to make it hold. It makes and removes a sandbox of its own to find out.
func Requirements(ctx context.Context, cfg Config) []sandbox.Requirement {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	if cfg.Owner == (owner.Owner{}) {
		cfg.Owner = owner.Current()
	}
	e := &Engine{cfg: cfg}
	return require.Check(ctx, require.Config{Images: cfg.Images, Helper: cfg.Helper, Runtime: cfg.Runtime, Dir: e.path(),
		Group: groupOf(cfg.Owner), IDBase: mountns.IDBase, IDSize: mountns.IDSize, Getenv: cfg.Getenv})
}
