package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"securebench/internal/agent"
	columns "securebench/internal/agent/answers"
	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/repopatch"
	"securebench/internal/family/shortanswer"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// TestMain is also the main function of the processes that run single stages.
func TestMain(m *testing.M) {
	if name := os.Getenv(stageEnv); name != "" {
		os.Exit(runStage(name))
	}
	goleak.VerifyTestMain(m)
}

// bench is a pipeline over the in-memory engine with one program, "agent".
type bench struct {
	t        *testing.T
	engine   *sandboxtest.Engine
	dir      *record.Dir
	out      string
	events   events
	families family.Registry
	cfg      pipeline.Config
}

// events keeps what a run reported.
type events struct {
	mu  sync.Mutex
	all []progress.Event
}

func (e *events) Event(ev progress.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) count(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, ev := range e.all {
		if ev.Name() == name {
			n++
		}
	}
	return n
}

func newBench(t *testing.T, program sandboxtest.Program) *bench {
	t.Helper()
	b := &bench{t: t, out: filepath.Join(t.TempDir(), "out"),
		engine:   newEngine(program),
		families: family.NewRegistry(shortanswer.Family(), multiplechoice.Family(), repopatch.Family())}
	dir, err := record.Open(b.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Begin(false); err != nil {
		t.Fatal(err)
	}
	store, err := candidate.OpenStore(dir.StorePath())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(); dir.Close() })
	b.dir = dir
	cfg, err := source.ParseYAML("tester.yaml", []byte("command: [agent]\ntimeout_seconds: 5\n"))
	if err != nil {
		t.Fatal(err)
	}
	h, problems := harness.ParseCommand(config.Harness{Type: "command", Config: cfg})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	verifiers := map[string]family.Verifier{}
	for name, f := range b.families {
		if f.NewVerifier != nil {
			verifiers[name] = f.NewVerifier(family.Resources{Engine: b.engine})
		}
	}
	names := &workspace.Namer{}
	b.cfg = pipeline.Config{
		RunID: "test", Families: b.families, Verifiers: verifiers,
		Agent: &agent.Harness{Runner: agent.Runner{Producer: &produce.Producer{Engine: b.engine, Harness: h, Env: os.LookupEnv},
			RunID: "test", Secrets: new(redact.Registry)}},
		Images: map[string]sandbox.Image{"img": {Ref: "img", ID: "sha256:1"}},
		Dir:    dir, Store: store, Digests: commit.Binding{Salt: dir.Salt()}, TaskDir: names.Name,
		Workers: 2, Attempts: 1, Retries: 2, Progress: &b.events,
	}
	return b
}

// question makes a short_answer task whose gold is a number.
func question(t *testing.T, id, text, gold string) task.Task {
	t.Helper()
	return newTask(t, id, "short_answer", map[string]string{"question": text}, map[string]string{"accepted_answers": "[" + gold + "]"})
}

func newTask(t *testing.T, id, fam string, public, hidden map[string]string) task.Task {
	t.Helper()
	c := task.Config{ID: id, Family: fam, Pack: task.Pack{ID: "pack", Version: 1},
		Environment: task.Environment{Image: "img"}, Row: []byte(id),
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}}
	for name, v := range public {
		quoted, err := jsontext.AppendQuote(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		c.Resources = append(c.Resources, task.Resource{Name: name, Lane: task.Public, Value: quoted})
	}
	for name, v := range hidden {
		c.Resources = append(c.Resources, task.Resource{Name: name, Lane: task.Hidden, Value: jsontext.Value(v)})
	}
	out, err := task.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bench) run(ctx context.Context, tasks ...task.Task) (pipeline.Summary, error) {
	b.t.Helper()
	b.cfg.Tasks, b.cfg.Total = each(tasks), len(tasks)*b.cfg.Attempts
	return pipeline.Run(ctx, b.cfg)
}

// lines reads the records back, as a reader of the run would.
func (b *bench) lines() []map[string]any {
	b.t.Helper()
	data, err := os.ReadFile(b.dir.LinesPath())
	if err != nil {
		b.t.Fatal(err)
	}
	var out []map[string]any
	for line := range strings.Lines(string(data)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// answers is an agent that prints what its task's question says.
func answers(_ context.Context, p *sandboxtest.Process) int {
	data, err := os.ReadFile(filepath.Join(p.Dir, "task.json"))
	if err != nil {
		return 1
	}
	var t struct {
		Question string `json:"question"`
	}
	if json.Unmarshal(data, &t) != nil {
		return 1
	}
	fmt.Fprintln(p.Stdout, t.Question)
	return 0
}

func TestRun(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Attempts = 2
	sum, err := b.run(t.Context(), question(t, "right", "The answer is 4", `"4"`), question(t, "wrong", "5", `"4"`))
	if err != nil {
		t.Fatal(err)
	}
	if sum.Total != 4 || sum.Of(verdict.Computed).Verified != 4 || sum.Of(verdict.Computed).Passed != 2 || sum.Of(verdict.Computed).Failed != 2 || sum.Status() != "complete" {
		t.Errorf("summary %+v", sum)
	}
	seen := map[string]int{}
	for _, l := range b.lines() {
		seen[fmt.Sprintf("%v %v %v", l["task_id"], l["attempt"], l["verification_status"])]++
	}
	for _, want := range []string{"right 1 passed", "right 2 passed", "wrong 1 failed", "wrong 2 failed"} {
		if seen[want] != 1 {
			t.Errorf("%d records %q, want one; all: %v", seen[want], want, seen)
		}
	}
	if n := b.engine.Left(); n != 0 {
		t.Errorf("%d boxes and workspaces are left", n)
	}
}

func TestFamilyWithoutVerifierIsPending(t *testing.T) {
	b := newBench(t, func(context.Context, *sandboxtest.Process) int { t.Error("the agent was run"); return 0 })
	sum, err := b.run(t.Context(), newTask(t, "place", "terminal_task", map[string]string{"instructions": "x"}, nil),
		newTask(t, "new", "something_new", nil, nil))
	if err != nil || sum.Of(verdict.Computed).Pending != 2 || sum.Status() != "pending" {
		t.Fatalf("summary %+v, %v", sum, err)
	}
	for _, l := range b.lines() {
		if _, scored := l["score"]; scored || l["failure_reason"] != "no_verifier" || l["outcome"] != "pending" {
			t.Errorf("record %v", l)
		}
	}
}

func TestLimitsAreOutcomes(t *testing.T) {
	for end, want := range map[sandbox.End][2]string{
		sandbox.TimedOut: {"agent_timeout", "producer_timeout"}, sandbox.OutOfMemory: {"limit", "oom"},
		sandbox.PidsLimit: {"limit", "pids_limit"}, sandbox.DiskLimit: {"limit", "disk_limit"}, sandbox.OutputLimit: {"limit", "output_limit"},
	} {
		t.Run(string(end), func(t *testing.T) {
			b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
				fmt.Fprintln(p.Stdout, "4") // the right answer, from an agent that broke its bounds
				p.End(end)
				return 1
			})
			sum, err := b.run(t.Context(), question(t, "q", "2+2", `"4"`))
			if err != nil || sum.Of(verdict.Computed).Failed != 1 {
				t.Fatalf("summary %+v, %v", sum, err)
			}
			l := b.lines()[0]
			if l["outcome"] != want[0] || l["failure_reason"] != want[1] || l["candidate_text"] != nil || l["score"] != 0.0 {
				t.Errorf("record %v", l)
			}
		})
	}
}

// TestSurvivedLimits: a limit that only a child hit does not invalidate the
// result, whatever the command's exit status; if there is no result, the limit
// explains why.
func TestSurvivedLimits(t *testing.T) {
	for _, limit := range []sandbox.End{sandbox.OutOfMemory, sandbox.PidsLimit, sandbox.DiskLimit} {
		for answer, want := range map[string][2]string{
			"4": {"passed", ""}, "5": {"failed", "wrong_answer"}, "": {"limit", string(limit)}, " \n": {"limit", string(limit)},
		} {
			for code := range 2 {
				t.Run(fmt.Sprintf("%s %q exit %d", limit, answer, code), func(t *testing.T) {
					b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
						fmt.Fprint(p.Stdout, answer)
						p.See(limit)
						return code
					})
					if _, err := b.run(t.Context(), question(t, "q", "2+2", `"4"`)); err != nil {
						t.Fatal(err)
					}
					l := b.lines()[0]
					if reason, _ := l["failure_reason"].(string); l["outcome"] != want[0] || reason != want[1] {
						t.Errorf("record %v", l)
					}
					if m, _ := l["producer_metadata"].(map[string]any); fmt.Sprint(m["limits_seen"]) != fmt.Sprintf("[%s]", limit) {
						t.Errorf("limits seen: %v", m["limits_seen"])
					}
				})
			}
		}
	}
}

func TestRetriesHealInfrastructureErrors(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Workers = 1
	b.engine.FailOpen(1, errors.New("the engine stumbled"))
	b.engine.FailOpen(2, errors.New("and again"))
	sum, err := b.run(t.Context(), question(t, "q", "4", `"4"`))
	if err != nil || sum.Of(verdict.Computed).Passed != 1 {
		t.Fatalf("summary %+v, %v", sum, err)
	}
	retries, _ := b.lines()[0]["retries"].([]any)
	if len(retries) != 2 || b.events.count("retry") != 2 {
		t.Errorf("%d retries in the record, want 2: %v", len(retries), retries)
	}
}

func TestInfrastructureErrorIsPendingAndEndsNothing(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Workers, b.cfg.Retries = 1, 1
	b.engine.FailOpen(1, errors.New("the engine stumbled"))
	b.engine.FailOpen(3, errors.New("and again")) // 2 is the next task's, made ahead
	sum, err := b.run(t.Context(), question(t, "q1", "4", `"4"`), question(t, "q2", "4", `"4"`), question(t, "q3", "4", `"4"`))
	if err != nil || sum.Total != 3 || sum.Of(verdict.Computed).Passed+sum.Infrastructure != 3 || sum.Of(verdict.Computed).Passed < 2 {
		t.Fatalf("summary %+v, %v", sum, err)
	}
	for _, l := range b.lines() {
		if l["outcome"] == "infrastructure" && (l["verification_status"] != "pending" || l["failure_reason"] != "infrastructure_error") {
			t.Errorf("record %v", l)
		}
	}
}

func TestDeadEngineEndsTheRun(t *testing.T) {
	b := newBench(t, answers)
	b.cfg.Retries = 0
	dead := errors.New("connection refused")
	for i := range 20 {
		b.engine.FailOpen(i+1, dead)
	}
	b.cfg.Probe = func(context.Context) error { return dead }
	var tasks []task.Task
	for i := range 10 {
		tasks = append(tasks, question(t, fmt.Sprint("q", i), "4", `"4"`))
	}
	sum, err := b.run(t.Context(), tasks...)
	if !errors.Is(err, pipeline.ErrEngineDead) || sum.Total == 10 {
		t.Errorf("summary %+v, error %v; want ErrEngineDead", sum, err)
	}
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBench(t, func(ctx context.Context, p *sandboxtest.Process) int {
			cancel()
			<-ctx.Done() // an agent that never ends on its own
			return 0
		})
		start := time.Now()
		sum, err := b.run(ctx, question(t, "q1", "4", `"4"`), question(t, "q2", "4", `"4"`))
		if !errors.Is(err, pipeline.ErrInterrupted) || sum.Total != 0 || len(b.lines()) != 0 {
			t.Errorf("summary %+v, error %v; want no record of an interrupted attempt", sum, err)
		}
		if took := time.Since(start); took > 4*time.Second { // of a clock that stands still while something runs
			t.Errorf("it took %v to stop", took)
		}
		if n := b.engine.Left(); n != 0 {
			t.Errorf("%d boxes and workspaces are left", n)
		}
	})
}

func TestBrokenPackEndsTheRun(t *testing.T) {
	b := newBench(t, answers)
	broken := errors.New("row 2 changed")
	b.cfg.Tasks = iter.Seq2[task.Task, error](func(yield func(task.Task, error) bool) {
		if yield(question(t, "q1", "4", `"4"`), nil) {
			yield(task.Task{}, broken)
		}
	})
	if _, err := pipeline.Run(t.Context(), b.cfg); !errors.Is(err, broken) {
		t.Errorf("error %v, want the pack's", err)
	}
}

// TestGivenAgents: candidates of the built-in agents take the same path.
func TestGivenAgents(t *testing.T) {
	replay := filepath.Join(t.TempDir(), "replay.jsonl")
	lines := `{"task_id": "a", "attempt": 1, "text": "4"}
{"task_id": "a", "attempt": 2, "text": "5"}
{"task_id": "b", "text": "4"}
`
	if err := os.WriteFile(replay, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := agent.OpenReplay(replay, columns.Map{}, agent.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		agent  agent.Agent
		passed int
	}{{&agent.Oracle{}, 6}, {agent.Null{}, 0}, {r, 3}} {
		t.Run(tt.agent.Name(), func(t *testing.T) {
			b := newBench(t, func(context.Context, *sandboxtest.Process) int { t.Error("a sandbox was used"); return 0 })
			b.cfg.Agent, b.cfg.Attempts = tt.agent, 2
			sum, err := b.run(t.Context(), question(t, "a", "?", `"4"`), question(t, "b", "?", `"4"`), question(t, "c", "?", `"4"`))
			if err != nil || sum.Of(verdict.Computed).Passed != tt.passed || sum.Total != 6 {
				t.Errorf("summary %+v, %v; want %d passed", sum, err, tt.passed)
			}
			for _, l := range b.lines() {
				if l["agent"] != tt.agent.Name() {
					t.Errorf("agent %v", l["agent"])
				}
			}
		})
	}
}

func TestReplayRefuses(t *testing.T) {
	for name, text := range map[string]string{
		`r.jsonl:1:1: task_id must be a non-empty string`:                  `{"text": "x"}`,
		`r.jsonl:1:40: give only one of text, texts, patch and tree`:       `{"task_id": "a", "text": "x", "patch": "y"}`,
		`r.jsonl:2:1: a replay line must be an object`:                     "{\"task_id\": \"a\", \"text\": \"x\"}\n[]",
		`r.jsonl:1:31: the replay line contains unsupported field "score"`: `{"task_id": "a", "text": "x", "score": 1}`,
		`r.jsonl:1:1: a row has no text, response`:                         `{"task_id": "a", "score": 1}`,
		`r.jsonl:1:27: tree must be a path below`:                          `{"task_id": "a", "tree": "../x.tar"}`,
		`r.jsonl:1:26: tree cannot be read`:                                `{"task_id": "a", "tree":"none.tar"}`,
		`r.jsonl:1:1: give one of text, texts, patch and tree`:             `{"task_id": "a"}`,
		`r.jsonl:1:1: text must be a string`:                               `{"task_id": "a", "text": 1}`,
		`r.jsonl:1:29: attempt must be from 1 to 1048576`:                  `{"task_id": "a", "attempt": 0, "text": "x"}`,
		`r.jsonl:1:35: invalid JSON: duplicate key`:                        `{"task_id": "a", "text": "x"     ,"text": "y"}`,
	} {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := agent.OpenReplay(path, columns.Map{}, agent.Bounds{})
		_, want, _ := strings.Cut(name, ": ")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, name)
		}
	}
}
