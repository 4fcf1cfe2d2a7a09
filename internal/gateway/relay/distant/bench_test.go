package distant_test

import (
	"slices"
	"testing"
	"time"

	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
)

// BenchmarkDistant compares a streamed answer of a relay beside the agent with one of a
// relay that is reached over TLS. Both are asked in turn, so that whatever else the
// machine does slows both. It reports the times of the latter and how much more they are.
func BenchmarkDistant(b *testing.B) {
	bench := newBench(b, answers, nil)
	v := bench.desk.Admit("ticket", nil)
	far, near := bench.start("ticket"), &agent{t: b}
	r, err := relay.New(relay.Config{API: relay.Responses, BaseURL: "https://provider.example", Keys: access.Keys{Key: key}, Model: "model-1", Transport: upstream(answers)})
	if err != nil {
		b.Fatal(err)
	}
	near.serveWith(r.Open(relay.Options{Token: token}))
	var took [2][]time.Duration
	for b.Loop() {
		for i, g := range []*agent{near, far} {
			began := time.Now()
			if code, text, err := g.whole(); code != 200 || text != delta+last || err != nil {
				b.Fatal(code, text, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	far.stop()
	near.stop()
	if v.End().Err() != nil {
		b.Error(err)
	}
	var p50 [2]float64
	for i, all := range took {
		slices.Sort(all)
		p50[i] = float64(all[len(all)/2].Microseconds()) / 1000
	}
	b.ReportMetric(p50[1], "p50-ms")
	b.ReportMetric(p50[1]-p50[0], "p50-more-ms")
	b.ReportMetric(p50[1]/p50[0], "p50-ratio")
}
