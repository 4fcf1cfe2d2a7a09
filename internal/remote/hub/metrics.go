package hub

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"

	"securebench/internal/remote"
)

// meter serves the metrics of a hub to programs on this machine.
type meter struct {
	web
	addr string
}

// openMeter serves metrics in Prometheus' text format at an address of this machine.
func openMeter(ctx context.Context, h *Hub) (*meter, error) {
	if err := remote.CheckLoopback(h.Metrics); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.Metrics)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(h.metrics()) // whoever has gone asks again
	})
	return &meter{addr: ln.Addr().String(), web: serve(ln, &http.Server{Handler: mux, MaxHeaderBytes: 8 << 10})}, nil
}

// exposition is metrics as text.
type exposition struct{ bytes.Buffer }

// begin begins a metric.
func (e *exposition) begin(name, kind, help string) {
	fmt.Fprintf(e, "# HELP securebench_%s %s\n# TYPE securebench_%s %s\n", name, help, name, kind)
}

// value writes a value. labels are names and values, which are our own words.
func (e *exposition) value(name string, v float64, labels ...string) {
	e.WriteString("securebench_" + name)
	for i := 0; i < len(labels); i += 2 {
		e.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + labels[i] + `="` + labels[i+1] + `"`)
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	e.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

// histogram writes how long something took.
func (e *exposition) histogram(name string, k *took, labels ...string) {
	for i, most := range bounds() {
		e.value(name+"_bucket", float64(k.within[i]), append(labels, "le", strconv.FormatFloat(most, 'g', -1, 64))...)
	}
	e.value(name+"_bucket", float64(k.ended), append(labels, "le", "+Inf")...)
	e.value(name+"_sum", k.seconds, labels...)
	e.value(name+"_count", float64(k.ended), labels...)
}

// metrics describes the hub to a program that watches it.
func (h *Hub) metrics() []byte {
	s := h.Status()
	var e exposition
	if h.Attempts != nil {
		planned, begun, recorded := h.Attempts()
		e.begin("attempts", "gauge", "Attempts of the run by what has become of them.")
		e.value("attempts", float64(planned-begun-recorded), "state", "planned")
		e.value("attempts", float64(begun), "state", "running")
		e.value("attempts", float64(recorded), "state", "recorded")
	}
	e.begin("jobs_queued", "gauge", "Jobs that no worker has.")
	h.mu.Lock()
	for _, q := range s.Queues {
		for pool, n := range h.queued[q.Role] {
			e.value("jobs_queued", float64(n), "role", string(q.Role), "pool", strconv.Itoa(pool))
		}
	}
	h.mu.Unlock()
	e.begin("workers", "gauge", "Workers that have not left. One with two roles counts in both.")
	for _, q := range s.Queues {
		for _, state := range []remote.Condition{remote.Busy, remote.Idle, remote.Draining, remote.Silent} {
			n := 0
			for _, w := range s.Workers {
				if w.State == state && slices.Contains(w.Roles, q.Role) {
					n++
				}
			}
			e.value("workers", float64(n), "role", string(q.Role), "state", string(state))
		}
	}
	if h.Desk != nil {
		e.begin("relay_microusd_total", "counter", "Cost of agents' requests to their provider, in millionths of a US dollar.")
		e.value("relay_microusd_total", float64(h.Desk.MicroUSD()))
		limit, open, waiting := h.Desk.Counts()
		e.begin("relay_requests", "gauge", "Requests to agents' provider that are under way, and agents of which one waits for its turn.")
		e.value("relay_requests", float64(open), "state", "running")
		e.value("relay_requests", float64(waiting), "state", "waiting")
		e.begin("relay_requests_limit", "gauge", "Requests that may be under way at the provider; 0 is no bound.")
		e.value("relay_requests_limit", float64(limit))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.write(&e)
	return e.Bytes()
}

// write adds what has been counted. The caller holds the lock.
func (t *tally) write(e *exposition) {
	e.begin("job_seconds", "histogram", "How long workers had the jobs whose results were taken.")
	for _, r := range []remote.Role{remote.Produce, remote.Verify} {
		e.histogram("job_seconds", t.took[r], "role", string(r))
	}
	e.begin("pull_seconds", "histogram", "How long workers took to pull an image.")
	e.histogram("pull_seconds", &t.pulls)
	e.begin("deliveries_total", "counter", "Jobs that were given to workers.")
	e.value("deliveries_total", float64(t.deliveries))
	e.begin("superseded_total", "counter", "Results that came too late and changed nothing.")
	e.value("superseded_total", float64(t.superseded))
	refused := 0
	for _, r := range t.refused {
		refused += r.Times
	}
	e.begin("refused_total", "counter", "Results that were not taken, and workers that were not let in.")
	e.value("refused_total", float64(t.unread), "what", "result")
	e.value("refused_total", float64(refused), "what", "worker")
	e.begin("blob_bytes_total", "counter", "Content of requests and results over HTTPS.")
	e.value("blob_bytes_total", float64(t.in), "direction", "in")
	e.value("blob_bytes_total", float64(t.out), "direction", "out")
}
