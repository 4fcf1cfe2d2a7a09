package hub

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
)

var (
	describes = regexp.MustCompile(`^# (HELP|TYPE) (securebench_[a-z_]+) (.+)$`)
	measures  = regexp.MustCompile(`^(securebench_[a-z_]+)(\{[a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*\})? (\S+)$`)
)

// readMetrics reads metrics strictly: each is described once, with a type, before its
// values, and no value comes twice.
func readMetrics(t *testing.T, text string) map[string]float64 {
	t.Helper()
	out, kinds, current := map[string]float64{}, map[string]string{}, ""
	if !strings.HasSuffix(text, "\n") {
		t.Error("the last line is torn")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := describes.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" {
				if kinds[m[2]] != "" {
					t.Errorf("%s has two types", m[2])
				}
				kinds[m[2]], current = m[3], m[2]
			}
			continue
		}
		m := measures.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no metric: %q", line)
		}
		name := m[1]
		if kinds[current] == "histogram" {
			name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		}
		v, err := strconv.ParseFloat(m[3], 64)
		key := strings.TrimPrefix(m[1]+m[2], "securebench_")
		if _, twice := out[key]; err != nil || twice || name != current {
			t.Errorf("%q: %v", line, err)
		}
		out[key] = v
	}
	return out
}

// TestMetrics: after a small run, the metrics are exactly what happened, and they have no
// secret and no value of a task.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Metrics = "127.0.0.1:0"
	f.o.Attempts = func() (planned, begun, recorded int) { return 7, 1, 4 }
	h := f.open()
	other := f.start(f.invite("other"), site{}, func(o *worker.Options) { o.Build = "sha256:other" })
	_ = other.ended(t)
	f.start(f.invite("p", remote.Produce), site{slots: 2}, func(o *worker.Options) {
		open := o.Open
		o.Open = func(ctx context.Context, set worker.Setting) (worker.Site, error) {
			set.Pulled(2 * time.Second)
			return open(ctx, set)
		}
	})
	f.start(f.invite("v", remote.Verify), site{slots: 2})
	f.attempts(h, 5)
	if a := h.result("v.x", "none", remote.Result{}); a.State != remote.Superseded {
		t.Errorf("%+v", a)
	}
	awaittest.Until(t, "a pull", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.tally.pulls.ended > 0 })
	answer, err := http.Get("http://" + h.MetricsAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d, %v", answer.StatusCode, err)
	}
	got := readMetrics(t, string(b))
	want := map[string]float64{
		`attempts{state="planned"}`: 2, `attempts{state="running"}`: 1, `attempts{state="recorded"}`: 4,
		`jobs_queued{role="produce",pool="0"}`: 0, `jobs_queued{role="verify",pool="0"}`: 0,
		`workers{role="produce",state="idle"}`: 1, `workers{role="verify",state="idle"}`: 1, `workers{role="verify",state="busy"}`: 0,
		`workers{role="produce",state="draining"}`: 0, `workers{role="produce",state="silent"}`: 0,
		`job_seconds_count{role="produce"}`: 5, `job_seconds_count{role="verify"}`: 5,
		`job_seconds_bucket{role="produce",le="+Inf"}`: 5, `job_seconds_bucket{role="verify",le="14400"}`: 5,
		`pull_seconds_count`: 1, `pull_seconds_sum`: 2, `pull_seconds_bucket{le="1"}`: 0, `pull_seconds_bucket{le="5"}`: 1,
		`deliveries_total`: 10, `superseded_total`: 1, `refused_total{what="result"}`: 0, `refused_total{what="worker"}`: 1,
	}
	for key, v := range want {
		if is, ok := got[key]; !ok || is != v {
			t.Errorf("%s is %v (%v), want %v", key, is, ok, v)
		}
	}
	if got[`blob_bytes_total{direction="in"}`] < 30 || got[`blob_bytes_total{direction="out"}`] < 100 { // the candidates are 6 bytes each
		t.Errorf("content: %v", got)
	}
	f.silent(string(b))
	for _, addr := range []string{"0.0.0.0:9090", ":9090", "[::]:9090", "10.0.0.1:9090", "example.org:9090", "127.0.0.1", ""} {
		if err := remote.CheckLoopback(addr); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:9090", "localhost:9090"} {
		if err := remote.CheckLoopback(addr); err != nil {
			t.Error(err)
		}
	}
}
