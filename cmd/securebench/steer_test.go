package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/steer"
)

// TestSteeredRun: a run of the command takes orders at its socket while its model is
// asked, answers with all that it is, and leaves no socket.
func TestSteeredRun(t *testing.T) {
	t.Parallel()
	dir, rows := sample(t)
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 1"}}})
	asked, goOn := make(chan struct{}, len(rows)+1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if slices.ContainsFunc(rows, func(row gsmRow) bool { return bytes.Contains(body, []byte(row.Input.Question[:20])) }) {
			asked <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		b.provider.ServeHTTP(w, r)
	}))
	defer server.Close()
	ended := make(chan string, 1)
	go func() {
		code, stdout, stderr := b.run(dir, "--model", "m-1", "--base-url", server.URL, "--api", "chat", "--workers", "2")
		if code != exitInterrupted {
			stdout = "unexpected exit: " + stdout
		}
		ended <- stdout + stderr
	}()
	is := func(want steer.State) {
		t.Helper()
		awaittest.Until(t, "another state", func() bool {
			got, err := steer.Ask(t.Context(), b.out, steer.Order{Act: steer.Look})
			return err == nil && got == want
		})
	}
	order := func(o steer.Order) {
		t.Helper()
		if _, err := steer.Ask(t.Context(), b.out, o); err != nil {
			t.Fatalf("%s: %v", o.Act, err)
		}
	}
	<-asked
	<-asked
	is(steer.State{Workers: 2, Most: pipeline.MaxWorkers, Running: 2})
	order(steer.Order{Act: steer.Pause})
	goOn <- struct{}{}
	is(steer.State{Paused: true, Workers: 2, Most: pipeline.MaxWorkers, Running: 1})
	order(steer.Order{Act: steer.Workers, Workers: 3})
	order(steer.Order{Act: steer.Resume})
	is(steer.State{Workers: 3, Most: pipeline.MaxWorkers, Running: 3})
	if _, err := steer.Ask(t.Context(), b.out, steer.Order{Act: steer.Workers, Workers: pipeline.MaxWorkers + 1}); err == nil || !strings.Contains(err.Error(), "workers") {
		t.Errorf("too many workers: %v", err)
	}
	order(steer.Order{Act: steer.Drain})
	is(steer.State{Draining: true, Workers: 3, Most: pipeline.MaxWorkers, Running: 3})
	close(goOn)
	if said := <-ended; strings.HasPrefix(said, "unexpected") || !strings.Contains(said, "--resume") {
		t.Error(said)
	}
	if _, err := steer.Ask(t.Context(), b.out, steer.Order{Act: steer.Look}); !errors.Is(err, steer.ErrNobody) {
		t.Errorf("after the run: %v", err)
	}
	m, _, err := record.ReadManifest(os.DirFS(b.out))
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for _, s := range m.Steered {
		acts = append(acts, s.Act)
	}
	if got := strings.Join(acts, " "); got != "pause workers resume drain" {
		t.Error(got)
	}
	var out, errs bytes.Buffer
	if execute([]string{"verify", b.out}, &out, &errs); !strings.Contains(out.String()+errs.String(), "while it went on") {
		t.Errorf("verify does not tell of it: %s%s", out.String(), errs.String())
	}
}
