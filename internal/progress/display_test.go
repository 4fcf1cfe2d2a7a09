package progress_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/progress"
	"securebench/internal/verdict"
)

// view is a renderer on a terminal, with a clock of the test's.
type view struct {
	*progress.Renderer
	screen *screen
	now    atomic.Int64 // in nanoseconds; the display looks at it once in a while
	height int
}

func newView(t *testing.T, width, height int) *view {
	t.Helper()
	v := &view{screen: newScreen(width), height: height}
	v.now.Store(time.Unix(1_000_000, 0).UnixNano())
	v.Renderer = progress.New(progress.Auto, v.screen, progress.Options{TTY: true,
		Size: func() (int, int) { return v.screen.width, v.height }, Now: func() time.Time { return time.Unix(0, v.now.Load()) }})
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// after lets time pass before an event.
func (v *view) after(d time.Duration, e progress.Event) {
	v.now.Add(int64(d))
	v.Event(e)
}

func (v *view) start(id string, number, index, total int) {
	v.Event(progress.TaskStart{Index: index, Total: total, TaskID: id, Attempt: number})
}

// TestDisplayJudged: the display counts what was judged apart.
func TestDisplayJudged(t *testing.T) {
	v := newView(t, 100, 10)
	v.Event(progress.RunStart{RunID: "r", OutputDir: "o", Total: 9})
	v.after(time.Second, progress.Resume{Completed: 3, Counts: verdict.Apart(verdict.Counts{Total: 1, Verified: 1, Passed: 1}, verdict.Counts{Total: 2, Verified: 1, Failed: 1, Pending: 1})})
	v.after(time.Second, progress.TaskDone{TaskID: "t", Attempt: 1, Status: "passed", Outcome: "passed", Basis: verdict.Judged})
	if got := strings.Join(v.screen.text(), "\n"); !strings.Contains(got, "1 pass  0 fail  0 pending  judged: 1 pass, 1 fail, 1 pending") || !strings.Contains(got, "4/9") {
		t.Error(got)
	}
}

// resumed is a run of 30 attempts. An earlier session made 24 of them.
func resumed(t *testing.T, width, height int) *view {
	t.Helper()
	v := newView(t, width, height)
	v.Event(progress.RunStart{RunID: "r", OutputDir: "o", Total: 30})
	v.after(time.Second, progress.Resume{Completed: 24, Counts: computed(verdict.Counts{Total: 24, Passed: 19, Failed: 5}), Remaining: 6})
	for i, id := range []string{"HumanEval/24", "HumanEval/25", "HumanEval/26"} {
		v.start(id, 1, 25+i, 30)
		v.after(20*time.Second, progress.ProducerStart{TaskID: id, Attempt: 1})
	}
	v.after(10*time.Second, progress.TaskDone{TaskID: "HumanEval/24", Attempt: 1, Status: "failed", Outcome: "failed", Reason: "wrong_answer"})
	v.after(10*time.Second, progress.VerifierStart{TaskID: "HumanEval/25", Attempt: 1})
	return v
}

func TestDisplay(t *testing.T) {
	for _, tt := range []struct {
		width, height int
		want          string
	}{
		{80, 24, `
[#####################################........]  25/30  83 %  ETA 6m45s  44.4/h
19 pass  6 fail  0 pending  2 running  1m21s
  verify   HumanEval/25                                                   1m00s
  agent    HumanEval/26                                                     40s
  fail     HumanEval/24                                            wrong_answer`},
		{40, 24, `
[##########...]  25/30  83 %  ETA 6m45s
19 pass  6 fail  0 pending  2 running
  verify   HumanEval/25           1m00s
  agent    HumanEval/26             40s
  fail     HumanEval/24    wrong_answer`},
		{24, 24, `
[######..]  25/30  83 %
19 pass  6 fail
  verify   Hu...  1m00s
  agent    Huma...  40s
  fail     ...  wron...`},
		{12, 24, "\n25/30"},
		{80, 6, `
[#####################################........]  25/30  83 %  ETA 6m45s  44.4/h
19 pass  6 fail  0 pending  2 running  1m21s
  verify   HumanEval/25                                                   1m00s
  fail     HumanEval/24                                            wrong_answer`},
		{80, 3, "\n[#####################################........]  25/30  83 %  ETA 6m45s  44.4/h"},
	} {
		v := resumed(t, tt.width, tt.height)
		got := v.screen.text()
		if d := cmp.Diff(strings.Split(tt.want[1:], "\n"), got[len(got)-strings.Count(tt.want, "\n"):]); d != "" {
			t.Errorf("%d×%d:\n%s", tt.width, tt.height, d)
		}
	}
}

// TestDisplayOfWorkers: the display names the workers, the busiest first, and lists the
// attempts that they have. What a worker had that left waits again.
func TestDisplayOfWorkers(t *testing.T) {
	for _, tt := range []struct {
		width int
		left  bool
		want  string
	}{
		{80, false, `
0 pass  0 fail  0 pending  3 running  2 waiting  40s
workers: agents.bbb 2, agents.aaa 1, scorers.ccc 0
  agent    p/0                                                  agents.bbb  40s
  agent    p/1                                                  agents.bbb  30s
  verify   p/2                                                  agents.aaa  20s`},
		{40, false, `
0 pass  0 fail  0 pending  3 running
workers: agents.bbb 2, and 2 more
  agent    p/0                      40s
  agent    p/1                      30s
  verify   p/2                      20s`},
		{80, true, `
0 pass  0 fail  0 pending  1 running  4 waiting  40s
workers: agents.aaa 1, scorers.ccc 0
  verify   p/2                                                  agents.aaa  20s`},
	} {
		v := newView(t, tt.width, 24)
		v.Event(progress.RunStart{Total: 5})
		for _, w := range []string{"agents.aaa", "agents.bbb", "scorers.ccc"} {
			v.Event(progress.WorkerJoined{Worker: w, Roles: "produce"})
		}
		for i := range 5 {
			v.start(fmt.Sprint("p/", i), 1, i+1, 5)
			v.after(10*time.Second, progress.Schedule{})
		}
		v.now.Add(-int64(10 * time.Second))
		v.Event(progress.ProducerStart{TaskID: "p/0", Attempt: 1, Worker: "agents.bbb"})
		v.Event(progress.ProducerStart{TaskID: "p/1", Attempt: 1, Worker: "agents.bbb"})
		v.Event(progress.VerifierStart{TaskID: "p/2", Attempt: 1, Worker: "agents.aaa"})
		if tt.left {
			v.Event(progress.WorkerLeft{Worker: "agents.bbb", Why: "has left"})
		}
		v.after(0, progress.Warning{Message: "x"}) // which draws
		got := v.screen.text()
		if d := cmp.Diff(strings.Split(tt.want[1:], "\n"), got[len(got)-strings.Count(tt.want, "\n"):]); d != "" {
			t.Errorf("%d, %v:\n%s", tt.width, tt.left, d)
		}
	}
}

// TestPace: the display says how many requests may be under way at a provider, as long as
// something bounds them, and one line that the provider has too much to do.
func TestPace(t *testing.T) {
	v := newView(t, 80, 24)
	v.Event(progress.RunStart{Total: 5})
	for _, tt := range []struct {
		event progress.ProviderPace
		want  string
	}{
		{progress.ProviderPace{Provider: "a.example", Requests: 8}, "pace 8"},
		{progress.ProviderPace{Provider: "b.example", Requests: 3, Overloaded: true, Lowest: true}, "pace 8+3"},
		{progress.ProviderPace{Provider: "b.example", Requests: 4}, "pace 8+4"},
		{progress.ProviderPace{Provider: "a.example"}, "pace 4"},
	} {
		v.after(time.Second, tt.event)
		v.after(time.Second, progress.Schedule{}) // which draws
		if got := strings.Join(v.screen.text(), "\n"); !strings.Contains(got, "  "+tt.want+"  ") {
			t.Errorf("no %s: %s", tt.want, got)
		}
	}
	said := strings.Join(strings.Fields(strings.Join(v.screen.text(), " ")), " ")
	if want := "the provider b.example has too much to do: requests at the same time are at most 3 for now"; strings.Count(said, want) != 1 {
		t.Errorf("%s: %s", want, said)
	}
}

// TestDisplayBelowLines: lines are above the display, once; the command's own too;
// the end leaves nothing of the display.
func TestDisplayBelowLines(t *testing.T) {
	v := newView(t, 60, 24)
	for _, e := range aRun() {
		v.after(time.Second, e)
		if w, ok := e.(progress.Warning); ok {
			if !v.Say("securebench: stopping") {
				t.Error("nothing was said")
			}
			if rows := v.screen.text(); !strings.Contains(rows[len(rows)-1], "p/three") {
				t.Errorf("after %q:\n%s", w.Message, strings.Join(rows, "\n"))
			}
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	v.Event(progress.Warning{Message: "after the end"})
	if v.Say("after the end") {
		t.Error("something was said after the end")
	}
	want := []string{"securebench: resume completed=1 remaining=3", "securebench: RETRY p/two 1/2: engine gone",
		"securebench: INFRASTRUCTURE p/three: no space", "securebench: warning: disk is nearly full", "securebench: stopping",
		"securebench: not passed:", "  p/two agent_timeout producer_timeout", "  p/three#2 infrastructure"}
	if d := cmp.Diff(want, v.screen.text()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestDisplayFits: at every width, whatever the names are, each row of the display has
// fewer columns than the terminal, so that the terminal breaks none of them.
func TestDisplayFits(t *testing.T) {
	for width := 1; width <= 130; width += 3 {
		for _, id := range []string{"a", strings.Repeat("日", 300), "e\u0301\u0301\u0301" + strings.Repeat("👩‍👩‍👧", 40), "x\x1b[2J\n" + strings.Repeat("y", 200)} {
			v := newView(t, width, 24)
			v.Event(progress.RunStart{Total: 12345})
			for i := range 9 {
				v.start(id, i+1, i+1, 12345)
				v.after(time.Hour, progress.ProducerStart{TaskID: id, Attempt: i + 1})
			}
			v.after(time.Hour, progress.TaskDone{TaskID: id, Attempt: 3, Status: "failed", Outcome: "failed", Reason: "producer_timeout"})
			for _, row := range v.screen.rows {
				if n := len([]rune(strings.TrimRight(string(row), " "))); n >= width && width > 1 && n > 1 {
					t.Fatalf("width %d: %d columns: %q", width, n, string(row))
				}
			}
		}
	}
}

// TestResize: a display that was drawn on a wider terminal is removed whole, although
// the terminal has broken its rows.
func TestResize(t *testing.T) {
	v := resumed(t, 120, 24)
	for _, width := range []int{50, 30, 90} {
		v.screen.reflow(width)
		v.after(time.Second, progress.Warning{Message: fmt.Sprint("now ", width)})
		bars := 0
		for _, row := range v.screen.text() {
			if strings.Contains(row, "25/30") || strings.HasPrefix(row, "[") {
				bars++
			}
		}
		if bars != 1 {
			t.Errorf("%d columns: %d bars:\n%s", width, bars, strings.Join(v.screen.text(), "\n"))
		}
	}
	rows := v.screen.text()
	for i, want := range []string{"now 50", "now 30", "now 90"} {
		if !strings.Contains(strings.Join(rows[:6], "\n"), want) {
			t.Errorf("line %d is gone:\n%s", i, strings.Join(rows, "\n"))
		}
	}
}

// TestManyTasks: a run of 10,000 tasks, 64 at a time, is drawn at most ten times a
// second, in a bounded number of rows.
func TestManyTasks(t *testing.T) {
	v := newView(t, 100, 40)
	total := 10_000
	if testing.Short() { // under the race detector it takes so long that the display draws by itself
		total = 1_000
	}
	v.Event(progress.RunStart{Total: total})
	drawn, rows, seconds := 0, 0, total/100
	for i := range total {
		v.start(fmt.Sprint("t", i), 1, i+1, total)
		if i < 64 {
			continue
		}
		id := fmt.Sprint("t", i-64)
		v.Event(progress.VerifierStart{TaskID: id, Attempt: 1})
		before := v.screen.written
		v.after(10*time.Millisecond, progress.TaskDone{TaskID: id, Attempt: 1, Status: "passed", Outcome: "passed"})
		if v.screen.written != before {
			drawn++
		}
		rows = max(rows, len(v.screen.text()))
	}
	if drawn < 5*seconds || drawn > 11*seconds || rows > 10 {
		t.Errorf("drawn %d times in %d s, %d rows:\n%s", drawn, seconds, rows, strings.Join(v.screen.text(), "\n"))
	}
	if last := strings.Join(v.screen.text(), "\n"); !strings.Contains(last, "64 running") || !strings.Contains(last, "  and 60 more") {
		t.Error(last)
	}
}

// TestColours: colours are used only where they are asked for, and the display is
// ASCII, because terminals differ on how wide other letters are.
func TestColours(t *testing.T) {
	show := func(opts progress.Options) string {
		var b bytes.Buffer
		opts.TTY, opts.Now = true, clock()
		r := progress.New(progress.Auto, &b, opts)
		for _, e := range aRun()[:20] {
			r.Event(e)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := show(progress.Options{Color: true}); !strings.Contains(got, "\x1b[31m  fail") || !strings.Contains(got, "\x1b[32m2 pass\x1b[m") {
		t.Errorf("no colours: %q", got)
	}
	plain := show(progress.Options{})
	if strings.Contains(plain, "m  fail") || strings.ContainsFunc(plain, func(r rune) bool { return r > '~' }) {
		t.Errorf("colours, or more than ASCII: %q", plain)
	}
	if !strings.Contains(plain, "[#####") {
		t.Errorf("no bar: %q", plain)
	}
}

// TestEventsNameTheirAttempt: every event about a task has its id and the number of
// the attempt, in JSON too.
func TestEventsNameTheirAttempt(t *testing.T) {
	n := 0
	for _, e := range outside("t") {
		if _, ok := reflect.TypeOf(e).FieldByName("TaskID"); !ok {
			continue
		}
		n++
		if _, ok := reflect.TypeOf(e).FieldByName("Attempt"); !ok {
			t.Errorf("%s has no attempt", e.Name())
		}
		got := render(t, progress.JSON, progress.Options{ShowAgentOutput: true}, e)
		if !strings.Contains(got, `"task_id":"t"`) || !strings.Contains(got, `"attempt":`) {
			t.Errorf("%s", got)
		}
	}
	if n < 10 {
		t.Errorf("only %d events of tasks were found", n)
	}
}

// TestDocumentedEvents: docs/progress.md lists every event with all its fields.
func TestDocumentedEvents(t *testing.T) {
	text, err := os.ReadFile("../../docs/progress.md")
	if err != nil {
		t.Fatal(err)
	}
	events := append(outside("t"), progress.Schedule{}, progress.Resume{},
		progress.SandboxCreate{}, progress.SandboxCommand{}, progress.ProducerStart{Worker: "w"}, progress.ProducerDone{Worker: "w"},
		progress.VerifierStart{Worker: "w"}, progress.VerifierDone{Worker: "w"})
	for _, e := range events {
		row := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| `"+e.Name()+"` |") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("there is no row about %s", e.Name())
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(render(t, progress.JSON, progress.Options{ShowAgentOutput: true, ShowCommandOutput: true}, e)), &fields); err != nil {
			t.Fatal(err)
		}
		for field := range fields {
			if field != "event" && field != "time" && !strings.Contains(row, "`"+field+"`") {
				t.Errorf("the row about %s does not name %s", e.Name(), field)
			}
		}
	}
}
