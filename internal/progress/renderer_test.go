package progress_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"securebench/internal/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock starts at a fixed time and goes on by a second with every look.
func clock() func() time.Time {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func aRun() []progress.Event {
	return []progress.Event{
		progress.RunStart("r", "/out", 4),
		progress.Resume(1, 3, "/out/candidates.jsonl"),
		progress.TaskStart(2, 4, "p/one", 1, "short_answer"),
		progress.ProducerStart("p/one"),
		progress.SandboxCreate("p/one", "docker", "img", "none", true),
		progress.SandboxStart("p/one", "docker", "img", "c0ffee"),
		progress.SandboxCommand("p/one", "docker", "img", "/workspace", []string{"echo", "a b"}),
		progress.SandboxResult("p/one", "docker", 0, []string{"echo"}, " out \n\n  put ", ""),
		progress.AgentOutput("p/one", "stdout", "thinking"),
		progress.ProducerDone("p/one", "text", "", ""),
		progress.VerifierStart("p/one"),
		progress.VerifierDone("p/one", "passed", 1, ""),
		progress.TaskDone("p/one", 1, "passed", 1, "passed", ""),
		progress.TaskStart(3, 4, "p/two", 1, "short_answer"),
		progress.ProducerDone("p/two", "none", "failed", "producer_timeout"),
		progress.Retry("p/two", 1, 2, "engine gone"),
		progress.TaskDone("p/two", 1, "failed", 0, "agent_timeout", "producer_timeout"),
		progress.TaskStart(4, 4, "p/three", 1, "tool_call"),
		progress.VerifierPolicyDenied("p/three", "chroot", "denied by policy"),
		progress.Infrastructure("p/three", "no space"),
		progress.TaskDone("p/three", 1, "pending", 0, "infrastructure", "infrastructure_error"),
		progress.Warning("disk is nearly full"),
		progress.Interrupted("securebench run --resume"),
		progress.RunDone(progress.Summary{RunID: "r", Status: "partial", Total: 4, Verified: 3, Passed: 2, Failed: 1, Infrastructure: 1,
			Failures: []progress.Failure{{"p/two", 1, "agent_timeout", "producer_timeout"}, {"p/three", 2, "infrastructure", ""}}}),
	}
}

func render(t *testing.T, mode progress.Mode, opts progress.Options, events ...progress.Event) string {
	t.Helper()
	var b bytes.Buffer
	opts.Now = clock()
	r := progress.New(mode, &b, opts)
	for _, e := range events {
		r.Event(e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const plainRun = `securebench: resume completed=1 remaining=3
securebench: [2/4] p/one
securebench: PASS p/one score=1
securebench: [3/4] p/two
securebench: RETRY p/two 1/2: engine gone
securebench: FAIL p/two score=0
securebench: [4/4] p/three
securebench: DENIED p/three chroot: denied by policy
securebench: INFRASTRUCTURE p/three: no space
securebench: PENDING p/three
securebench: warning: disk is nearly full
securebench: not passed:
  p/two agent_timeout producer_timeout
  p/three#2 infrastructure
`

func TestPlain(t *testing.T) {
	if d := cmp.Diff(plainRun, render(t, progress.Plain, progress.Options{}, aRun()...)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff(plainRun, render(t, progress.Auto, progress.Options{}, aRun()...)); d != "" {
		t.Errorf("auto without a terminal, -want +got:\n%s", d)
	}
	// Plain on a terminal is plain.
	if d := cmp.Diff(plainRun, render(t, progress.Plain, progress.Options{TTY: true}, aRun()...)); d != "" {
		t.Errorf("plain on a terminal, -want +got:\n%s", d)
	}
	want := strings.Replace(plainRun, "securebench: PASS", "stdout: out put\nagent: p/one | thinking\nsecurebench: PASS", 1)
	got := render(t, progress.Plain, progress.Options{ShowCommandOutput: true, ShowAgentOutput: true}, aRun()...)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("with output, -want +got:\n%s", d)
	}
	if got := render(t, progress.None, progress.Options{TTY: true}, aRun()...); got != "" {
		t.Errorf("none printed %q", got)
	}
}

func TestColor(t *testing.T) {
	got := render(t, progress.Plain, progress.Options{Color: true, ShowAgentOutput: true},
		progress.TaskDone("a", 1, "passed", 1, "", ""), progress.TaskDone("b", 1, "failed", 0.5, "", ""),
		progress.TaskDone("c", 1, "pending", 0, "", ""), progress.AgentOutput("a", "stdout", "x"))
	want := "\x1b[32msecurebench: PASS\x1b[0m a score=1\n\x1b[31msecurebench: FAIL\x1b[0m b score=0.5\n" +
		"\x1b[33msecurebench: PENDING\x1b[0m c\n\x1b[2magent: a | x\x1b[0m\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("é ", 3000)
	got := render(t, progress.Plain, progress.Options{ShowCommandOutput: true},
		progress.SandboxResult("t", "k", 0, nil, long, ""), progress.TaskDone(strings.Repeat("日", 9000), 1, "passed", 1, "", ""))
	want := "stdout: " + string([]rune(long)[:997]) + "...\nsecurebench: PASS " + "\"" + strings.Repeat("日", 251) + "...\" score=1\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestManyFailures(t *testing.T) {
	s := progress.Summary{Total: 15, Passed: 2}
	for i := range 13 {
		s.Failures = append(s.Failures, progress.Failure{TaskID: fmt.Sprint("t", i), Outcome: "failed", Reason: "wrong_answer"})
	}
	got := render(t, progress.Plain, progress.Options{}, progress.RunDone(s))
	if n := strings.Count(got, "\n"); n != 12 || !strings.HasSuffix(got, "  t9 failed wrong_answer\n  and 3 more\n") {
		t.Errorf("%d lines:\n%s", n, got)
	}
	asJSON := render(t, progress.JSON, progress.Options{}, progress.RunDone(s))
	if strings.Count(asJSON, "task_id") != 10 || !strings.Contains(asJSON, `"failures_left_out":3`) {
		t.Error(asJSON)
	}
}

func TestJSON(t *testing.T) {
	got := strings.Split(render(t, progress.JSON, progress.Options{}, aRun()...), "\n")
	want := map[int]string{
		0:  `{"event":"run_start","time":"2030-01-02T03:04:06Z","run_id":"r","output_dir":"/out","total":4}`,
		7:  `{"event":"sandbox_result","time":"2030-01-02T03:04:13Z","task_id":"p/one","kind":"docker","exit_code":0,"command":"echo"}`,
		8:  `{"event":"producer_done","time":"2030-01-02T03:04:15Z","task_id":"p/one","candidate_kind":"text"}`,
		10: `{"event":"verifier_done","time":"2030-01-02T03:04:17Z","task_id":"p/one","status":"passed","score":1,"phase":null}`,
		19: `{"event":"task_done","time":"2030-01-02T03:04:26Z","task_id":"p/three","attempt":1,"status":"pending","passed":false,"score":null,"outcome":"infrastructure","reason":"infrastructure_error"}`,
		22: `{"event":"run_done","time":"2030-01-02T03:04:29Z","run_id":"r","status":"partial","total":4,"verified":3,"passed":2,"failed":1,"pending":0,"infrastructure":1,"output":"","failures":[{"task_id":"p/two","attempt":1,"outcome":"agent_timeout","reason":"producer_timeout"},{"task_id":"p/three","attempt":2,"outcome":"infrastructure","reason":""}],"failures_left_out":0}`,
	}
	if len(got) != 24 {
		t.Fatalf("%d lines", len(got)-1)
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("line %d is\n%s\nwant\n%s", i, got[i], w)
		}
	}
	all := render(t, progress.JSON, progress.Options{ShowCommandOutput: true, ShowAgentOutput: true}, aRun()...)
	if !strings.Contains(all, `"stdout":"out put","stderr":""`) || !strings.Contains(all, `"line":"thinking"`) {
		t.Errorf("output is missing:\n%s", all)
	}
	odd := render(t, progress.JSON, progress.Options{}, progress.Event{Name: "odd", Fields: []progress.Field{
		progress.F("nan", math.NaN()), progress.F("text", "a\x1b\xff\"")}})
	if !strings.HasSuffix(odd, `"nan":null,"text":"a\\x1b\\xff\""}`+"\n") {
		t.Error(odd)
	}
}

func TestLive(t *testing.T) {
	for _, width := range []int{1, 5, 12, 20, 40, 60, 80, 120, 300, 0} {
		s := newScreen(max(width, 1))
		if width == 0 {
			s.width = 80 // an unknown width
		}
		r := progress.New(progress.Auto, s, progress.Options{TTY: true, Width: func() int { return width }, Now: clock()})
		for i, e := range aRun()[:20] {
			r.Event(e)
			last := strings.TrimRight(string(s.rows[len(s.rows)-1]), " ")
			if len(last) >= s.width && s.width > 1 {
				t.Errorf("width %d, event %d: the status line %q has %d columns", width, i, last, len(last))
			}
		}
		rows := s.text()
		status := rows[len(rows)-1]
		if width >= 80 || width == 0 {
			if !strings.Contains(status, "3/4  1 pass 1 fail 0 pending 0 infra  1 running") {
				t.Errorf("width %d: status %q", width, status)
			}
		}
		r.Event(aRun()[20])
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		r.Event(progress.Warning("after the end"))
		if rows := s.text(); strings.Contains(strings.Join(rows, ""), "4/4") || strings.Contains(strings.Join(rows, ""), "after the end") {
			t.Errorf("width %d: Close left %q", width, rows)
		}
	}
}

func TestLiveLinesAreThePlainOnes(t *testing.T) {
	s := newScreen(200)
	r := progress.New(progress.Auto, s, progress.Options{TTY: true, Width: func() int { return 200 }, Now: clock()})
	for _, e := range aRun() {
		r.Event(e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var want []string
	for l := range strings.SplitSeq(strings.TrimSpace(plainRun), "\n") {
		if !strings.Contains(l, ": [") {
			want = append(want, l)
		}
	}
	if d := cmp.Diff(want, s.text()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestStatusLine(t *testing.T) {
	s := newScreen(110)
	now := time.Unix(0, 0)
	r := progress.New(progress.Auto, s, progress.Options{TTY: true, Width: func() int { return 110 }, Now: func() time.Time { return now }})
	r.Event(progress.RunStart("r", "o", 10))
	r.Event(progress.Resume(4, 6, "p"))
	r.Event(progress.TaskStart(5, 10, "t", 1, "f"))
	now = now.Add(30 * time.Second)
	r.Event(progress.TaskDone("t", 1, "passed", 1, "passed", ""))
	rows := s.text()
	want := "[###############...............]  5/10  1 pass 0 fail 0 pending 0 infra  0 running  2.0/min  ETA 2m30s"
	if got := rows[len(rows)-1]; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStatusGoesOnByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lockedBuffer
		r := progress.New(progress.Auto, &b, progress.Options{TTY: true})
		r.Event(progress.RunStart("r", "o", 2))
		r.Event(progress.TaskDone("t", 1, "passed", 1, "passed", ""))
		before := b.len()
		time.Sleep(10*time.Second + time.Millisecond)
		if b.len() == before {
			t.Error("the status line stands still")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		after := b.len()
		time.Sleep(10 * time.Second)
		if b.len() != after {
			t.Error("the status line goes on after Close")
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Len()
}

func TestConcurrentEvents(t *testing.T) {
	for _, mode := range []progress.Mode{progress.Plain, progress.JSON, progress.Auto} {
		var b bytes.Buffer
		r := progress.New(mode, &b, progress.Options{TTY: mode == progress.Auto})
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 50 {
					r.Event(progress.TaskDone(fmt.Sprint(i), 1, "passed", 1, "passed", ""))
				}
			})
		}
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "\n"); n != 400 {
			t.Errorf("%s: %d lines, want 400", mode, n)
		}
	}
}

func TestWriteError(t *testing.T) {
	broken := errors.New("broken pipe")
	r := progress.New(progress.Plain, writerFunc(func([]byte) (int, error) { return 0, broken }), progress.Options{})
	r.Event(progress.Warning("x"))
	r.Event(progress.Warning("y"))
	if err := r.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestParseMode(t *testing.T) {
	for _, s := range []string{"auto", "plain", "json", "none"} {
		if m, err := progress.ParseMode(s); string(m) != s || err != nil {
			t.Errorf("%q: %q, %v", s, m, err)
		}
	}
	for _, s := range []string{"", "JSON", "tty"} {
		if m, err := progress.ParseMode(s); m != "" || err == nil {
			t.Errorf("%q: %q, %v", s, m, err)
		}
	}
}
