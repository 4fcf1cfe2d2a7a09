package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/gateway/scripted"
)

// TestRunPace: no more requests are under way at a provider than max_connections, whatever
// the number of workers, and a provider that has too much to do gets fewer. The preview, the
// lines and the events say so.
func TestRunPace(t *testing.T) {
	t.Parallel()
	dir, _ := sample(t)
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 1"}}})
	var under, most, asked atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n := under.Add(1)
			defer under.Add(-1)
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
			}
			if asked.Add(1) == 1 {
				w.Header().Set("Retry-After-Ms", "10")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
		}
		b.provider.ServeHTTP(w, r)
	}))
	defer provider.Close()
	config := filepath.Join(t.TempDir(), "tester.yaml")
	set := func(most string) {
		write(t, config, `schema_version: "0.2"
run: {id: pace, output_dir: out}
benchmark: {manifest: "`+filepath.Join(dir, "manifest.yaml")+`", tasks: "`+filepath.Join(dir, "tasks.jsonl")+`"}
harness: {type: model, config: {model: m-1, base_url: "`+provider.URL+`", max_connections: `+most+`}}
`)
	}
	set("3")
	args := []string{"--config", config, "--limit", "12", "--workers", "8"}
	code, stdout, stderr := b.run(append(args, "--dry-run")...)
	if want := "3 tasks: max_connections of the provider"; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("exit %d, want %s: %s%s", code, want, stdout, stderr)
	}
	code, stdout, stderr = b.run(append(args, "--progress", "json")...)
	if code != 0 || most.Load() > 3 || asked.Load() != 13 {
		t.Fatalf("exit %d, %d of %d requests at a time: %s", code, most.Load(), asked.Load(), stderr)
	}
	host := strings.TrimPrefix(provider.URL, "http://")
	for _, want := range []string{`"provider":"` + host + `","max_requests":3,"overloaded":false}`, `"provider":"` + host + `","max_requests":1,"overloaded":true}`} {
		if !strings.Contains(stdout+stderr, want) {
			t.Errorf("no event %s: %s%s", want, stdout, stderr)
		}
	}
	set("5") // which no record depends on
	if code, _, stderr := b.run(append(args, "--resume")...); code != 0 || asked.Load() != 13 {
		t.Errorf("a resume at another pace: exit %d after %d requests: %s", code, asked.Load(), stderr)
	}
}
