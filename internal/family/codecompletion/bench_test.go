package codecompletion

import (
	"strconv"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// BenchmarkRow shows where the time of a row goes: until the sandboxes are
// ready (an agent works meanwhile), in Verify, and in Close.
func BenchmarkRow(b *testing.B) {
	b.Run("local", func(b *testing.B) {
		benchmarkRow(b, newLocalEngine(b), sandbox.Image{Ref: "local", ID: "local"})
	})
	b.Run("docker", func(b *testing.B) {
		e := enginetest.Docker(b)
		benchmarkRow(b, e, enginetest.Image(b, e))
	})
}

func benchmarkRow(b *testing.B, e sandbox.Engine, img sandbox.Image) {
	v := newTestVerifier(b, e)
	c := makeCase(b, add())
	c.Image = img
	if got := verify(b, v, c, add().reference); got.Outcome != verdict.Passed {
		b.Fatal(describe(got)) // and the test box is warm from here on
	}
	var ready, verified, closed time.Duration
	for b.Loop() {
		start := time.Now()
		s := v.Open(b.Context(), c).(*session)
		if err := s.prepared.wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		ready += time.Since(start)
		start = time.Now()
		if got, err := s.Verify(b.Context(), module(add().reference)); err != nil || got.Outcome != verdict.Passed {
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

// BenchmarkHeavyCall is one call that takes and returns a list of 100,000
// members of one plain type, beside one of the same size that has no such run.
func BenchmarkHeavyCall(b *testing.B) {
	e := newLocalEngine(b)
	v := newTestVerifier(b, e)
	for name, member := range map[string]string{
		"ints": "i", "floats": "i / 7", "strings": "str(i)", "bools": "i % 3 == 0", "mixed": "i if i % 2 else str(i)",
	} {
		b.Run(name, func(b *testing.B) {
			row := func(calls int) spec {
				return spec{prompt: "def f(x):\n    pass\n", entry: "f", tests: "x = [" + member + " for i in range(100_000)]\n" +
					"for _ in range(" + strconv.Itoa(calls) + "):\n    assert f(x) == x\nassert f(1) == 1\n"}
			}
			took := func(calls int) time.Duration {
				start := time.Now()
				if got := verify(b, v, makeCase(b, row(calls)), "def f(x):\n    return x\n"); got.Outcome != verdict.Passed {
					b.Fatal(describe(got))
				}
				return time.Since(start)
			}
			var calls, rest time.Duration
			for b.Loop() {
				rest += took(0)
				calls += took(10)
			}
			b.ReportMetric(float64((calls-rest).Microseconds())/10_000/float64(b.N), "call-ms/op")
		})
	}
}
