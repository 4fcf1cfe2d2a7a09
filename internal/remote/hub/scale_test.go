package hub

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// aloneVariable makes [TestHubAlone] a hub in a process of its own, whose memory can be
// measured.
const aloneVariable = "SECUREBENCH_TEST_HUB_ALONE"

// alone is what such a hub says.
type alone struct {
	Addr       string            `json:"addr"`
	Credential remote.Credential `json:"credential"`
	Resident   int64             `json:"resident"` // memory, in bytes
	Wall       float64           `json:"wall"`     // of what it was asked, in seconds
	CPU        float64           `json:"cpu"`
}

// TestHubAlone is a hub for benchmarks, which does what its standard input says.
func TestHubAlone(t *testing.T) {
	if os.Getenv(aloneVariable) == "" {
		t.Skip("it is a process of the benchmarks of this package")
	}
	f := &fleet{TB: t}
	f.prepare()
	h := f.open()
	c := f.invite("idle")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		began, used := time.Now(), processor(t)
		verb, n, _ := strings.Cut(in.Text(), " ")
		switch count, _ := strconv.Atoi(n); verb {
		case "queue":
			f.queue(h, count)
		case "restart": // as a run does that goes on: what is left is queued once more
			if err := h.Close(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			began, used = time.Now(), processor(t)
			h = f.open()
			f.queue(h, count)
		}
		says := alone{Addr: h.Addr(), Credential: c, Wall: time.Since(began).Seconds(), CPU: (processor(t) - used).Seconds(), Resident: resident(t)}
		b, err := json.Marshal(says)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s\n", b)
	}
}

// resident is the memory of this process, without what the collector has freed.
func resident(tb testing.TB) int64 {
	tb.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	line, _, _ := strings.Cut(rest, " kB")
	kb, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kb << 10
}

// attemptsOfRow is how many of the queued jobs share a row.
const attemptsOfRow = 100

// queue queues so many jobs, of which each has a request of 8 KiB. They are as attempts
// make them, but for the goroutines of these.
func (f *fleet) queue(h *Hub, n int) {
	f.Helper()
	rows := make([]task.AgentView, max(1, n/attemptsOfRow))
	for i := range rows {
		tk, err := task.New(task.Config{ID: fmt.Sprint("task ", i), Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1}, Row: []byte("row"),
			Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
			Resources:  []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(`"` + strings.Repeat("q", 8<<10) + `"`)}}})
		if err != nil {
			f.Fatal(err)
		}
		rows[i] = tk.Agent()
	}
	var all sync.WaitGroup
	const publishers = 64
	for p := range publishers {
		all.Go(func() {
			for i := p; i < n; i += publishers {
				req := agent.Request{View: rows[i%len(rows)], Attempt: i / len(rows), Image: sandbox.Image{Ref: "img", ID: "sha256:1"}}
				j := h.newJob(f.Context(), order{role: remote.Produce, key: record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt}, kind: "p", phase: verdict.PhaseProduce, request: remote.Request{Produce: &req}})
				if err := h.add(j); err != nil {
					f.Error(err)
					return
				}
				h.enqueue(f.Context(), j)
			}
		})
	}
	all.Wait()
}

// apart is a hub in a process of its own.
type apart struct {
	*testing.B
	in  io.WriteCloser
	out *bufio.Scanner
}

// startApart starts a hub in a process of its own.
func startApart(b *testing.B) *apart {
	b.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestHubAlone$") //nolint:gosec // this program
	c.Env = append(os.Environ(), aloneVariable+"=1")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(in.Close(), c.Wait()); err != nil {
			b.Error(err)
		}
	})
	return &apart{b, in, bufio.NewScanner(out)}
}

// does lets the hub do something.
func (a *apart) does(what string) (says alone) {
	a.Helper()
	if _, err := io.WriteString(a.in, what+"\n"); err != nil {
		a.Fatal(err)
	}
	for a.out.Scan() {
		if line := a.out.Bytes(); len(line) > 0 && line[0] == '{' {
			if err := json.Unmarshal(line, &says); err != nil {
				a.Fatal(err)
			}
			return says
		}
	}
	a.Fatal("the hub has ended")
	return says
}

// mb is bytes in units that people read.
func mb(n int64) float64 { return float64(n) / 1e6 }

// BenchmarkQueue measures a hub with queued jobs: its memory, and how long a run that goes
// on takes to queue them again. The first number is that of a run of any size unless
// --inflight is larger.
func BenchmarkQueue(b *testing.B) {
	for _, jobs := range []int{2048, 100_000} {
		b.Run(strconv.Itoa(jobs), func(b *testing.B) {
			for b.Loop() {
				a := startApart(b)
				empty := a.does("memory")
				full := a.does(fmt.Sprint("queue ", jobs))
				again := a.does(fmt.Sprint("restart ", jobs))
				b.ReportMetric(mb(empty.Resident), "empty-MB")
				b.ReportMetric(mb(full.Resident), "queued-MB")
				b.ReportMetric(again.Wall, "restart-s")
				b.ReportMetric(again.CPU, "restart-cpu-s")
			}
		})
	}
}

// BenchmarkIdle measures the memory of a hub with 2,000 workers that have nothing to do.
func BenchmarkIdle(b *testing.B) {
	const workers = 2000
	for b.Loop() {
		a := startApart(b)
		empty := a.does("memory")
		ctx, stop := context.WithCancel(b.Context())
		var all sync.WaitGroup
		served := make(chan struct{}, workers)
		for range workers {
			all.Go(func() {
				err := worker.Run(ctx, worker.Options{Hub: empty.Addr, Credential: empty.Credential, Roles: empty.Credential.Roles, Build: build, Cache: b.TempDir(),
					Say: func(string) {}, Open: func(_ context.Context, set worker.Setting) (worker.Site, error) {
						served <- struct{}{}
						return &site{store: set.Store}, nil
					}})
				if err != nil && !errors.Is(err, worker.ErrDrained) {
					b.Error(err)
				}
			})
		}
		for range workers {
			<-served
		}
		joined := a.does("memory")
		time.Sleep(15 * time.Second) // until connections for content are closed, in which they ask for jobs
		b.ReportMetric(mb(empty.Resident), "empty-MB")
		b.ReportMetric(mb(joined.Resident), "joined-MB")
		b.ReportMetric(mb(a.does("memory").Resident), "idle-MB")
		stop()
		all.Wait()
	}
}

// peak samples how much memory this process has in use until stop, and returns the most.
func peak() (stop func() int64) {
	ended, most := make(chan struct{}), make(chan int64)
	go func() {
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for top := int64(0); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, int64(m.HeapInuse+m.StackInuse))
			select {
			case <-every.C:
			case <-ended:
				most <- top
				return
			}
		}
	}()
	return func() int64 { close(ended); return <-most }
}

// tree is a candidate with one file of a size.
func tree(size int64) io.Reader {
	from, to := io.Pipe()
	go func() {
		w := candidate.NewTreeWriter(to, candidate.Bounds{Bytes: size, Files: 1})
		err := w.Add(candidate.Entry{Path: "file", Mode: 0o644, Size: size}, io.LimitReader(rand.Reader, size))
		if err == nil {
			_, err = w.Close()
		}
		_ = to.CloseWithError(err)
	}()
	return from
}

// BenchmarkContent measures how a candidate of 1 GiB goes from one worker to the hub and
// from there to another one: the memory of all three, which are one process here, and
// their processor time beside that of the candidate's digest.
func BenchmarkContent(b *testing.B) {
	const size = 1 << 30
	f := &fleet{TB: b}
	f.prepare()
	o := f.o.Orders[remote.Produce]
	o.Limits.Disk = size
	f.o.Orders[remote.Produce], f.o.Orders[remote.Verify] = o, o
	h := f.open()
	var left, arrived time.Duration // processor time until then
	f.start(f.invite("a", remote.Produce), site{produce: func(_ context.Context, s *site, _ agent.Request) (attempt.Produced, error) {
		c, err := s.store.Put(task.Workspace, candidate.File, tree(size))
		left = processor(b)
		return attempt.Produced{Candidate: &c, Metadata: verdict.Metadata{}}, err
	}})
	f.start(f.invite("v", remote.Verify), site{verify: func(context.Context, *site, attempt.Verification) (family.Verdict, error) {
		arrived = processor(b)
		return family.Verdict{Outcome: verdict.Passed}, nil
	}})
	t, err := task.New(task.Config{ID: "task", Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1}, Row: []byte("row"),
		Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		stop := peak()
		p, err := h.Produce(b.Context(), agent.Request{View: t.Agent(), Attempt: 1, Dir: "task", Image: sandbox.Image{Ref: "img", ID: "sha256:1"}})
		if err != nil {
			b.Fatal(err)
		}
		stored := processor(b)
		if _, err := h.Verify(b.Context(), attempt.Verification{Case: family.Case{Attempt: 1, Sandbox: t.TestSandbox(), Evaluator: t.Evaluator()}, Candidate: *p.Candidate}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(mb(stop()), "peak-MB")
		sum, block, began := sha256.New(), make([]byte, 1<<20), processor(b)
		for range size / len(block) {
			sum.Write(block)
		}
		digest := processor(b) - began
		b.ReportMetric(digest.Seconds(), "sha256-cpu-s")
		b.ReportMetric((stored-left).Seconds()/digest.Seconds(), "put-ratio")
		b.ReportMetric((arrived-stored).Seconds()/digest.Seconds(), "get-ratio")
	}
}
