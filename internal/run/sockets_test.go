package run

import (
	"context"
	"os"
	"slices"
	"testing"

	"securebench/internal/config"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
)

// unbounded is an engine that does not bound the memory of sockets.
type unbounded struct{ sandbox.Engine }

// Info says so.
func (u unbounded) Info() sandbox.Info {
	info := u.Engine.Info()
	info.SocketsUnbounded = true
	return info
}

// TestUnboundedSockets: all records of a run whose engine does not bound the memory of
// sockets say so, as run.json does, and the run verifies.
func TestUnboundedSockets(t *testing.T) {
	for _, is := range []bool{false, true} {
		b := newBench(t)
		open := b.opts.OpenEngine
		b.opts.OpenEngine = func(ctx context.Context, box config.Sandbox, log func(string)) (sandbox.Engine, error) {
			e, err := open(ctx, box, log)
			if is {
				e = unbounded{e}
			}
			return e, err
		}
		b.run(Fresh)
		res, err := evidence.Verify(t.Context(), os.DirFS(b.opts.Config.OutputDir), evidence.Options{})
		if err != nil || len(res.Problems) > 0 {
			t.Errorf("unbounded %t: %v, %v", is, res.Problems, err)
		}
		labels := map[string][]string{record.ManifestName: res.Manifest.Labels}
		for key, l := range b.used(b.opts.Config.OutputDir) {
			labels[key.Task] = l.Labels
		}
		for where, have := range labels {
			if slices.Contains(have, "sockets_unbounded") != is {
				t.Errorf("unbounded %t: %s has the labels %q", is, where, have)
			}
		}
	}
}
