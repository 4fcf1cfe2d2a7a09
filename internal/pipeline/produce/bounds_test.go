package produce_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/memtest"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/sandbox/sandboxtest"
)

// unread runs an agent that begins requests and reads no answer, and returns how
// much memory the parent and the sandbox, which is in memory too, hold then.
func unread(t *testing.T, answer string) (used int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, hostile(func(r *http.Request) (*http.Response, error) {
			res := respond(200, &forever{text: answer})
			if answer == "" {
				res.Body, _ = pipeOf(r)
			}
			return res, nil
		}), nil)
		before := memtest.Kept()
		f.agents["evil"] = agent(func(ctx context.Context, c *caller, _ *sandboxtest.Process) error {
			for range 120 {
				go func() {
					if res, err := c.begin(ctx, "evil"); err == nil {
						<-ctx.Done()
						_ = res.Body.Close()
					}
				}()
			}
			time.Sleep(20 * time.Second)
			used = memtest.Kept() - before
			<-ctx.Done()
			return nil
		})
		if res, err := f.beside(); err != nil || res.Outcome.End != sandbox.TimedOut {
			t.Errorf("it ended with %+v, %v", res.Outcome, err)
		}
	})
	return used
}

// TestUnreadAnswers: answers without an end that an agent does not read cost the
// parent little more memory than answers that have not begun.
func TestUnreadAnswers(t *testing.T) {
	none := unread(t, "")
	if got := unread(t, "data: "+strings.Repeat("x", 1000)+"\n\n"); got > 3*none {
		t.Errorf("%d bytes, beside %d for as many answers that have not begun", got, none)
	}
}

// TestEndlessStreams: an agent that makes connections without end does not make
// the parent remember them.
func TestEndlessStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, answers, nil)
		f.limit = 2 * time.Minute
		few := 500
		if testing.Short() {
			few = 100
		}
		connect := func(ctx context.Context, p *sandboxtest.Process, n int) int64 {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					for i := range n / 100 {
						conn, err := p.Dial(ctx, "tcp", harness.RelayAddress)
						if err != nil {
							return
						}
						if i%2 == 0 {
							_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n")
						}
						_ = conn.Close()
					}
				})
			}
			wg.Wait()
			time.Sleep(40 * time.Second) // for the ends of the last ones
			return memtest.Kept()
		}
		var some, all int64
		f.agents["evil"] = agent(func(ctx context.Context, _ *caller, p *sandboxtest.Process) error {
			some = connect(ctx, p, few)
			all = connect(ctx, p, 10*few)
			<-ctx.Done()
			return nil
		})
		if res, err := f.beside(); err != nil || res.Outcome.End != sandbox.TimedOut {
			t.Errorf("it ended with %+v, %v", res.Outcome, err)
		}
		if float64(all) > 1.4*float64(some) {
			t.Errorf("%d bytes after all connections, %d after some", all, some)
		}
	})
}

// TestHostileInits: whatever an agent makes of its init, the attempt ends by name
// and within its time, and no other notices.
func TestHostileInits(t *testing.T) {
	serve := func(h http.HandlerFunc) func(context.Context, sandbox.Streams) (sandbox.Outcome, error) {
		return func(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /commands", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id":1}`) })
			mux.HandleFunc("/", h)
			go func() { _ = initproc.ServeRequests(s.Stdin, s.Stdout, mux) }()
			<-ctx.Done()
			return sandbox.Outcome{}, context.Cause(ctx)
		}
	}
	waits := func(r *http.Request) { <-r.Context().Done() }
	listens := func(r *http.Request) bool { return r.Method == http.MethodPost || r.Method == http.MethodDelete }
	for name, tt := range map[string]struct {
		run func(context.Context, sandbox.Streams) (sandbox.Outcome, error)
		end sandbox.End
	}{
		"never says anything": {func(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
			go func() { _, _ = io.Copy(io.Discard, s.Stdin) }()
			<-ctx.Done()
			return sandbox.Outcome{}, context.Cause(ctx)
		}, ""},
		"falls silent": {serve(func(_ http.ResponseWriter, r *http.Request) {
			if !listens(r) {
				waits(r)
			}
		}), produce.Broken},
		"endless result": {serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/commands/1":
				_, _ = io.Copy(w, &forever{text: "{"})
			case !listens(r):
				waits(r)
			}
		}), produce.Broken},
		"endless output": {serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/stdout"):
				_, _ = io.Copy(w, &forever{text: "x"})
			case !listens(r):
				waits(r)
			}
		}), sandbox.OutputLimit},
		"odd status": {serve(func(w http.ResponseWriter, r *http.Request) {
			if !listens(r) {
				if !strings.HasPrefix(r.URL.Path, "/commands/") {
					waits(r)
				}
				w.WriteHeader(http.StatusTeapot)
			}
		}), produce.Broken},
		"ends": {func(_ context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
			b := make([]byte, 100)
			_, _ = s.Stdin.Read(b)
			return sandbox.Outcome{End: sandbox.Exited, ExitCode: 137}, nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, answers, nil)
				f.engine.instead = func(task string) func(context.Context, sandbox.Streams) (sandbox.Outcome, error) {
					if strings.HasSuffix(task, "evil") {
						return tt.run
					}
					return nil
				}
				f.limit = 3 * time.Minute
				began := time.Now()
				res, err := f.beside()
				if res.Outcome.End != tt.end || (err == nil) != (tt.end != "") || tt.end == "" && !errors.Is(err, initproc.ErrLost) {
					t.Errorf("it ended with %+v, %v", res.Outcome, err)
				}
				if took := time.Since(began); took > 5*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
