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
	"securebench/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock starts at a fixed time and advances by a second with every call.
func clock() func() time.Time {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// computed are the counts of a run in which nothing was judged.
func computed(c verdict.Counts) verdict.ByBasis[verdict.Counts] {
	return verdict.Apart(c, verdict.Counts{})
}

func aRun() []progress.Event {
	return []progress.Event{
		progress.RunStart{RunID: "r", OutputDir: "/out", Total: 4},
		progress.Resume{Completed: 1, Counts: computed(verdict.Counts{Total: 1, Passed: 1}), Remaining: 3, OutputPath: "/out/candidates.jsonl"},
		progress.TaskStart{Index: 2, Total: 4, TaskID: "p/one", Attempt: 1, Family: "short_answer"},
		progress.ProducerStart{TaskID: "p/one", Attempt: 1},
		progress.SandboxCreate{TaskID: "p/one", Attempt: 1, Kind: "docker", Image: "img", Network: "none", ReadOnly: true},
		progress.SandboxCommand{TaskID: "p/one", Attempt: 1, Kind: "docker", Image: "img", Workdir: "/workspace", Argv: []string{"echo", "a b"}},
		progress.SandboxResult{TaskID: "p/one", Attempt: 1, Kind: "docker", ExitCode: 0, Argv: []string{"echo"}, Stdout: " out \n\n  put "},
		progress.AgentOutput{TaskID: "p/one", Attempt: 1, Stream: "stdout", Line: "thinking"},
		progress.ProducerDone{TaskID: "p/one", Attempt: 1, CandidateKind: "text"},
		progress.VerifierStart{TaskID: "p/one", Attempt: 1},
		progress.VerifierDone{TaskID: "p/one", Attempt: 1, Status: "passed", Score: 1},
		progress.TaskDone{TaskID: "p/one", Attempt: 1, Status: "passed", Score: 1, Outcome: "passed"},
		progress.TaskStart{Index: 3, Total: 4, TaskID: "p/two", Attempt: 1, Family: "short_answer"},
		progress.ProducerDone{TaskID: "p/two", Attempt: 1, CandidateKind: "none", Status: "failed", Reason: "producer_timeout"},
		progress.Retry{TaskID: "p/two", Attempt: 1, Retry: 1, Limit: 2, Message: "engine gone"},
		progress.TaskDone{TaskID: "p/two", Attempt: 1, Status: "failed", Score: 0, Outcome: "agent_timeout", Reason: "producer_timeout"},
		progress.TaskStart{Index: 4, Total: 4, TaskID: "p/three", Attempt: 1, Family: "tool_call"},
		progress.Infrastructure{TaskID: "p/three", Attempt: 1, Message: "no space"},
		progress.TaskDone{TaskID: "p/three", Attempt: 1, Status: "pending", Score: 0, Outcome: "infrastructure", Reason: "infrastructure_error"},
		progress.Warning{Message: "disk is nearly full"},
		progress.Interrupted{ResumeCommand: "securebench run --resume"},
		progress.RunDone{RunID: "r", Status: "partial", Total: 4, Counts: computed(verdict.Counts{Verified: 3, Passed: 2, Failed: 1, Infrastructure: 1}),
			Failures: []progress.Failure{{"p/two", 1, "agent_timeout", "producer_timeout"}, {"p/three", 2, "infrastructure", ""}}},
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
		progress.TaskDone{TaskID: "a", Attempt: 1, Status: "passed", Score: 1}, progress.TaskDone{TaskID: "b", Attempt: 1, Status: "failed", Score: 0.5},
		progress.TaskDone{TaskID: "c", Attempt: 1, Status: "pending", Score: 0}, progress.AgentOutput{TaskID: "a", Stream: "stdout", Line: "x"})
	want := "\x1b[32msecurebench: PASS\x1b[m a score=1\n\x1b[31msecurebench: FAIL\x1b[m b score=0.5\n" +
		"\x1b[33msecurebench: PENDING\x1b[m c\n\x1b[2magent: a | x\x1b[m\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("é ", 3000)
	got := render(t, progress.Plain, progress.Options{ShowCommandOutput: true},
		progress.SandboxResult{TaskID: "t", Kind: "k", ExitCode: 0, Stdout: long}, progress.TaskDone{TaskID: strings.Repeat("日", 9000), Attempt: 1, Status: "passed", Score: 1})
	want := "stdout: " + string([]rune(long)[:997]) + "...\nsecurebench: PASS " + "\"" + strings.Repeat("日", 251) + "...\" score=1\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestJudgedApart: what was judged is counted apart in every form: no number is of both.
func TestJudgedApart(t *testing.T) {
	both := verdict.Apart(verdict.Counts{Total: 3, Verified: 3, Passed: 2, Failed: 1}, verdict.Counts{Total: 40, Verified: 30, Passed: 20, Failed: 10, Pending: 10})
	events := []progress.Event{
		progress.Resume{Completed: 43, Counts: both}, progress.TaskDone{TaskID: "t", Attempt: 1, Status: "passed", Score: 1, Outcome: "passed", Basis: verdict.Judged},
		progress.RunDone{RunID: "r", Total: 44, Counts: both, Failures: []progress.Failure{}},
	}
	got := render(t, progress.JSON, progress.Options{}, events...)
	for _, want := range []string{
		`"completed":43,"passed":2,"failed":1,"pending":0,"judged":{"total":40,"verified":30,"passed":20,"failed":10,"pending":10,"infrastructure":0}`,
		`"total":44,"verified":3,"passed":2,"failed":1,"pending":0,"infrastructure":0,"judged":{"total":40,"verified":30,"passed":20,`,
		`"reason":"","basis":"judged"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	for _, sum := range []string{`"passed":22`, `"verified":33`, `"failed":11`} {
		if strings.Contains(got, sum) {
			t.Errorf("a sum, %s, in\n%s", sum, got)
		}
	}
	if got := render(t, progress.Plain, progress.Options{}, events...); !strings.Contains(got, "PASS t score=1 judged\n") {
		t.Error(got)
	}
}

func TestManyFailures(t *testing.T) {
	s := progress.RunDone{Total: 15, Counts: computed(verdict.Counts{Passed: 2})}
	for i := range 13 {
		s.Failures = append(s.Failures, progress.Failure{TaskID: fmt.Sprint("t", i), Outcome: "failed", Reason: "wrong_answer"})
	}
	got := render(t, progress.Plain, progress.Options{}, s)
	if n := strings.Count(got, "\n"); n != 12 || !strings.HasSuffix(got, "  t9 failed wrong_answer\n  and 3 more\n") {
		t.Errorf("%d lines:\n%s", n, got)
	}
	asJSON := render(t, progress.JSON, progress.Options{}, s)
	if strings.Count(asJSON, "task_id") != 10 || !strings.Contains(asJSON, `"failures_left_out":3`) {
		t.Error(asJSON)
	}
}

// TestEnding: the end of a run says what failed most, the rates, and what to type next, each
// basis apart.
func TestEnding(t *testing.T) {
	e := progress.Ending{Next: "securebench show runs/a --failed",
		Reasons: []progress.ReasonCount{{Reason: "wrong_answer", Count: 7}, {Reason: "a b", Count: 3}, {Reason: "x", Count: 2}, {Reason: "y", Count: 1}, {Reason: "z", Count: 1}},
		Rates: []progress.Rate{{Tasks: 20, Attempts: 40, Passed: 26, Rate: 0.65, Interval: [2]float64{0.433, 0.819}},
			{Basis: verdict.Judged, Tasks: 1, Attempts: 2, Passed: 2, Rate: 1, Interval: [2]float64{0.2065, 1}}}}
	want := `securebench: what failed most: wrong_answer 7, "a b" 3, x 2, others 2
securebench: rate: 65.0 % [43.3, 81.9], 95 % interval; 26 of 40 passed
securebench: rate, judged: 100.0 % [20.6, 100.0], 95 % interval; 2 of 2 passed
securebench: next: securebench show runs/a --failed
`
	if d := cmp.Diff(want, render(t, progress.Plain, progress.Options{}, e)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	asJSON := render(t, progress.JSON, progress.Options{}, e)
	for _, part := range []string{`{"event":"ending","time":`, `"rates":[{"basis":"computed","tasks":20,"attempts":40,"passed":26,"rate":0.65,"interval_95":[0.433,0.819]},`,
		`"reasons":[{"reason":"wrong_answer","count":7},`, `"next":"securebench show runs/a --failed"}`} {
		if !strings.Contains(asJSON, part) {
			t.Errorf("no %s in %s", part, asJSON)
		}
	}
	// It is typed, so it is whole.
	next := "securebench report '" + strings.Repeat("a  b/", 300) + "'"
	if got, want := render(t, progress.Plain, progress.Options{}, progress.Ending{Next: next}), "securebench: next: "+next+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := render(t, progress.Plain, progress.Options{}, progress.Ending{}); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// jsonRun is what --progress json prints of aRun.
const jsonRun = `{"event":"run_start","time":"2030-01-02T03:04:06Z","run_id":"r","output_dir":"/out","total":4}
{"event":"resume","time":"2030-01-02T03:04:07Z","completed":1,"passed":1,"failed":0,"pending":0,"remaining":3,"output_path":"/out/candidates.jsonl"}
{"event":"task_start","time":"2030-01-02T03:04:08Z","index":2,"total":4,"task_id":"p/one","attempt":1,"family":"short_answer"}
{"event":"producer_start","time":"2030-01-02T03:04:09Z","task_id":"p/one","attempt":1}
{"event":"sandbox_create","time":"2030-01-02T03:04:10Z","task_id":"p/one","attempt":1,"kind":"docker","image":"img","network":"none","read_only":true}
{"event":"sandbox_command","time":"2030-01-02T03:04:11Z","task_id":"p/one","attempt":1,"kind":"docker","image":"img","workdir":"/workspace","command":"echo a b"}
{"event":"sandbox_result","time":"2030-01-02T03:04:12Z","task_id":"p/one","attempt":1,"kind":"docker","exit_code":0,"command":"echo"}
{"event":"producer_done","time":"2030-01-02T03:04:14Z","task_id":"p/one","attempt":1,"candidate_kind":"text"}
{"event":"verifier_start","time":"2030-01-02T03:04:15Z","task_id":"p/one","attempt":1}
{"event":"verifier_done","time":"2030-01-02T03:04:16Z","task_id":"p/one","attempt":1,"status":"passed","score":1,"phase":null}
{"event":"task_done","time":"2030-01-02T03:04:17Z","task_id":"p/one","attempt":1,"status":"passed","passed":true,"score":1,"outcome":"passed","reason":""}
{"event":"task_start","time":"2030-01-02T03:04:18Z","index":3,"total":4,"task_id":"p/two","attempt":1,"family":"short_answer"}
{"event":"producer_done","time":"2030-01-02T03:04:19Z","task_id":"p/two","attempt":1,"candidate_kind":"none","status":"failed","failure_reason":"producer_timeout"}
{"event":"retry","time":"2030-01-02T03:04:20Z","task_id":"p/two","attempt":1,"retry":1,"limit":2,"message":"engine gone"}
{"event":"task_done","time":"2030-01-02T03:04:21Z","task_id":"p/two","attempt":1,"status":"failed","passed":false,"score":0,"outcome":"agent_timeout","reason":"producer_timeout"}
{"event":"task_start","time":"2030-01-02T03:04:22Z","index":4,"total":4,"task_id":"p/three","attempt":1,"family":"tool_call"}
{"event":"infrastructure","time":"2030-01-02T03:04:23Z","task_id":"p/three","attempt":1,"message":"no space"}
{"event":"task_done","time":"2030-01-02T03:04:24Z","task_id":"p/three","attempt":1,"status":"pending","passed":false,"score":null,"outcome":"infrastructure","reason":"infrastructure_error"}
{"event":"warning","time":"2030-01-02T03:04:25Z","message":"disk is nearly full"}
{"event":"interrupted","time":"2030-01-02T03:04:26Z","resume_command":"securebench run --resume"}
{"event":"run_done","time":"2030-01-02T03:04:27Z","run_id":"r","status":"partial","total":4,"verified":3,"passed":2,"failed":1,"pending":0,"infrastructure":1,"agent_errors":0,"output":"","failures":[{"task_id":"p/two","attempt":1,"outcome":"agent_timeout","reason":"producer_timeout"},{"task_id":"p/three","attempt":2,"outcome":"infrastructure","reason":""}],"failures_left_out":0}
`

func TestJSON(t *testing.T) {
	if d := cmp.Diff(jsonRun, render(t, progress.JSON, progress.Options{}, aRun()...)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	all := render(t, progress.JSON, progress.Options{ShowCommandOutput: true, ShowAgentOutput: true}, aRun()...)
	if !strings.Contains(all, `"stdout":" out \n\n  put ","stderr":""`) || !strings.Contains(all, `"line":"thinking"`) {
		t.Errorf("output is missing:\n%s", all)
	}
	odd := render(t, progress.JSON, progress.Options{},
		progress.TaskDone{TaskID: "a\x1b\xff\"", Status: "failed", Score: math.NaN(), Reason: "a\x1b\xff\""})
	if want := `"task_id":"a\u001b\ufffd\"","attempt":0,"status":"failed","passed":false,"score":null,"outcome":"","reason":"a\u001b\ufffd\""}` + "\n"; !strings.HasSuffix(odd, want) {
		t.Errorf("got  %swant %s", odd, want)
	}
}

func TestStatusIsRedrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lockedBuffer
		r := progress.New(progress.Auto, &b, progress.Options{TTY: true})
		r.Event(progress.RunStart{RunID: "r", OutputDir: "o", Total: 2})
		r.Event(progress.TaskDone{TaskID: "t", Attempt: 1, Status: "passed", Score: 1, Outcome: "passed"})
		before := b.len()
		time.Sleep(10*time.Second + time.Millisecond)
		if b.len() == before {
			t.Error("the display is not redrawn")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		after := b.len()
		time.Sleep(10 * time.Second)
		if b.len() != after {
			t.Error("the display is redrawn after Close")
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
	for mode, want := range map[progress.Mode]int{progress.Plain: 400, progress.JSON: 400, progress.Auto: 0} {
		var b bytes.Buffer
		r := progress.New(mode, &b, progress.Options{TTY: mode == progress.Auto})
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 50 {
					r.Event(progress.TaskDone{TaskID: fmt.Sprint(i), Attempt: 1, Status: "passed", Score: 1, Outcome: "passed"})
				}
			})
		}
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "\n"); n != want {
			t.Errorf("%s: %d lines, want %d", mode, n, want)
		}
	}
}

func TestWriteError(t *testing.T) {
	broken := errors.New("broken pipe")
	r := progress.New(progress.Plain, writerFunc(func([]byte) (int, error) { return 0, broken }), progress.Options{})
	r.Event(progress.Warning{Message: "x"})
	r.Event(progress.Warning{Message: "y"})
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
