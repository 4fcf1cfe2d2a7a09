package codecompletion

import (
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
)

// BenchmarkRow tells where the time of a row goes: until the sandboxes are
// ready (an agent works meanwhile), in Verify, and in Close.
func BenchmarkRow(b *testing.B) {
	b.Run("local", func(b *testing.B) {
		benchmarkRow(b, newLocalEngine(b), sandbox.Image{Ref: "local", ID: "local"})
	})
	b.Run("docker", func(b *testing.B) {
		e := dockertest.Docker(b)
		benchmarkRow(b, e, dockertest.Image(b, e))
	})
}

func benchmarkRow(b *testing.B, e sandbox.Engine, img sandbox.Image) {
	v := newTestVerifier(b, e)
	c := makeCase(b, add())
	c.Image = img
	if got := verify(b, v, c, add().reference); got.Outcome != family.Passed {
		b.Fatal(describe(got)) // and the oracle is warm from here on
	}
	var ready, verified, closed time.Duration
	for b.Loop() {
		start := time.Now()
		s := v.Open(b.Context(), c).(*session)
		if err := s.bench.wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		ready += time.Since(start)
		start = time.Now()
		if got, err := s.Verify(b.Context(), module(add().reference)); err != nil || got.Outcome != family.Passed {
			b.Fatal(describe(got), err)
		}
		verified += time.Since(start)
		start = time.Now()
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		closed += time.Since(start)
	}
	for name, d := range map[string]time.Duration{"ready": ready, "verify": verified, "close": closed} {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name+"-ms/op")
	}
}
