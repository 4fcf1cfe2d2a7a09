package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline/record"
	"securebench/internal/sampletest"
)

// modelKey is the key of the scripted provider.
const modelKey = "sk-model-canary-4f1d"

// modelBench runs models that a script plays.
type modelBench struct {
	t        *testing.T
	out      string
	envFile  string
	provider *scripted.Server
	url      string
}

func newModelBench(t *testing.T, script *scripted.Script) *modelBench {
	t.Helper()
	dir := t.TempDir()
	ownKeys(t)
	b := &modelBench{t: t, out: filepath.Join(dir, "out"), envFile: filepath.Join(dir, "env")}
	write(t, b.envFile, "OPENAI_API_KEY="+modelKey+"\nANTHROPIC_API_KEY="+modelKey+"\n")
	script.Key, script.Models = modelKey, []string{"m-1"}
	b.provider = scripted.New(script, nil)
	server := httptest.NewServer(b.provider)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// run runs the program with a model of the bench.
func (b *modelBench) run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	code = execute(append([]string{"run", "--env-file", b.envFile, "-o", b.out}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// asked counts the questions. The provider's own list of models is none.
func (b *modelBench) asked(text string) (n int) {
	for _, r := range b.provider.Requests() {
		if r.Method == http.MethodPost && bytes.Contains(r.Body, []byte(text)) {
			n++
		}
	}
	return n
}

// sample is the pack of GSM8K's rows in this repository.
func sample(t *testing.T) (dir string, rows []gsmRow) {
	t.Helper()
	return samplePack[gsmRow](t, "gsm8k-sample")
}

// samplePack is a pack of this repository, and its rows.
func samplePack[Row any](t *testing.T, name string) (dir string, rows []Row) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "packs", name))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r Row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return dir, rows
}

type gsmRow struct {
	ID    string `json:"id"`
	Input struct {
		Question string `json:"question"`
	} `json:"input"`
	Eval struct {
		Accepted []string `json:"accepted_answers"`
	} `json:"eval"`
}

// solver knows the answers to the rows, but every fourth one is wrong, the second
// is refused, and the provider asks for patience before the third.
func solver(rows []gsmRow) (s *scripted.Script, passes int) {
	s = &scripted.Script{Turns: []scripted.Turn{{Say: "OK"}}}
	for i, r := range rows {
		say := "Let me see.\nAnswer: " + r.Eval.Accepted[0]
		turn := scripted.Turn{Say: say, Usage: &scripted.Usage{Input: 100, Output: 10}}
		switch {
		case i == 1:
			turn = scripted.Turn{Refusal: "I would rather not."}
		case i%4 == 3:
			turn.Say = "Answer: " + r.Eval.Accepted[0] + "7"
		default:
			passes++
		}
		if i == 2 {
			turn.Before = []scripted.Fault{{Status: 429, Headers: map[string]string{"Retry-After-Ms": "50"}}}
		}
		s.Conversations = append(s.Conversations, scripted.Conversation{Match: r.Input.Question, Turns: []scripted.Turn{turn}})
	}
	return s, passes
}

// TestModel scores a model on GSM8K's sample by one command, over each API. No
// engine runs, and the provider's key is in nothing that the run leaves.
func TestModel(t *testing.T) {
	t.Parallel()
	dir, rows := sample(t)
	script, passes := solver(rows)
	for _, api := range []string{"responses", "chat", "messages"} {
		b := newModelBench(t, script)
		code, stdout, stderr := b.run(dir, "--model", "m-1", "--base-url", b.url, "--api", api, "--show-agent-output")
		if want := fmt.Sprintf(" verified=%d passed=%d ", len(rows), passes); code != exitDone || !strings.Contains(stdout, want) {
			t.Fatalf("%s: exit %d, want %q\n%s%s", api, code, want, stdout, stderr)
		}
		if !strings.Contains(stderr, "agent: GSM8K/3 | Let me see.") || !strings.Contains(stderr, "8 at the same time") {
			t.Errorf("%s: %s", api, stderr)
		}
		lines := modelLines(t, b.out)
		for i, r := range rows {
			l := lines[r.ID]
			switch {
			case i == 1 && (l.Outcome != "no_candidate" || l.FailureReason != "provider_refused" || l.FailureMessage != "the model declines to answer"):
				t.Errorf("%s: %s %s %q", api, l.Outcome, l.FailureReason, l.FailureMessage)
			case i == 2 && l.Usage["requests"] != 2, i > 3 && (l.Usage["requests"] != 1 || l.Usage["input_tokens"] != 100 || l.Usage["output_tokens"] != 10):
				t.Errorf("%s: %s used %v", api, r.ID, l.Usage)
			}
		}
		noKey(t, b.out)
		modelSteps(t, b.out, rows)
		var out, errs bytes.Buffer
		if code := execute([]string{"verify", b.out}, &out, &errs); code != exitDone {
			t.Errorf("%s: verify ends with %d: %s%s", api, code, out.String(), errs.String())
		}
		if _, err := os.Stat(filepath.Join(b.out, record.AnswersName)); err == nil {
			t.Errorf("%s: the complete run still has %s", api, record.AnswersName)
		}
	}
}

// modelSteps checks that a model that is asked has steps in the form of all agents.
func modelSteps(t *testing.T, out string, rows []gsmRow) {
	t.Helper()
	for i, want := range map[int]string{
		1: "agent message user, model message, model answer",
		2: "agent message user, relay error, model message, model answer",
		3: "agent message user, model message, model answer",
	} {
		var got []string
		_, _, steps := stepsOf(t, out, rows[i].ID)
		for _, s := range steps {
			got = append(got, strings.TrimSpace(string(s.By)+" "+string(s.Kind)+" "+s.Role))
		}
		if strings.Join(got, ", ") != want || steps[len(steps)-1].Usage == nil {
			t.Errorf("%s: the steps are %s", rows[i].ID, strings.Join(got, ", "))
		}
	}
}

// TestModelTutorial follows docs/tutorials/gsm8k-model.md as it is written: two
// commands from a clone to the score of a model, and what comes after.
func TestModelTutorial(t *testing.T) {
	t.Parallel()
	follow(t, "gsm8k-model.md")
}

// modelLines reads the records of a run by task.
func modelLines(t *testing.T, out string) map[string]*record.Line {
	t.Helper()
	f, err := os.Open(filepath.Join(out, record.LinesName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := map[string]*record.Line{}
	for raw, err := range record.Lines(f) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := record.Decode(raw.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		lines[e.TaskID] = e.Line
	}
	return lines
}

// noKey fails if a file of a run has the key.
func noKey(t *testing.T, out string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(out, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(modelKey)) {
			t.Errorf("%s has the key", name)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// TestModelAnswersOnce: a run that is resumed asks nothing again that was answered,
// not even if the configuration of the limits changed meanwhile.
func TestModelAnswersOnce(t *testing.T) {
	t.Parallel()
	dir, rows := sample(t)
	script, _ := solver(rows[:6])
	last := &script.Conversations[5].Turns[0]
	last.Before = []scripted.Fault{{Status: 401, Times: 2}} // with a question of our own
	script.Turns[0].Before = []scripted.Fault{{Status: 401}}
	b := newModelBench(t, script)
	tester := filepath.Join(filepath.Dir(b.out), "tester.yaml")
	config := func(limits string) {
		write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: once, output_dir: out, max_workers: 1}
benchmark: {manifest: %q, tasks: %q}
harness: {type: model, config: {model: m-1, base_url: %q, temperature: 0}}
%s`, filepath.Join(dir, "manifest.yaml"), filepath.Join(dir, "tasks.jsonl"), b.url, limits))
	}
	config("")
	code, _, stderr := b.run(tester, "--limit", "6", "-q")
	if code != exitConfig || !strings.Contains(stderr, "the key is not accepted") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	before := len(b.provider.Requests())
	last.Before = nil
	config("limits: {verify_seconds: 60}\n")
	if code, _, stderr := b.run(tester, "--limit", "6", "-q", "--resume"); code != exitRefused {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	code, stdout, stderr := b.run(tester, "--limit", "6", "-q", "--resume=rerun-changed")
	if code != exitDone || !strings.Contains(stdout, " verified=6 passed=4 ") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	posts := 0
	for _, r := range b.provider.Requests()[before:] {
		if r.Method == http.MethodPost {
			posts++
		}
	}
	// The refusal is also an answer: five are kept, one is asked for.
	if posts != 1 {
		t.Errorf("%d questions were asked after the resume, want one", posts)
	}
	lines := modelLines(t, b.out)
	if l := lines[rows[0].ID]; l.Usage["requests"] != 1 || !strings.Contains(string(l.ProducerMetadata["answered_before_resume"]), "true") {
		t.Errorf("%v %s", l.Usage, l.ProducerMetadata)
	}
	noKey(t, b.out)
}

// TestModelCode: on each engine, a model's code is verified in sandboxes, also where its
// tests are in one process with it. Right code passes; wrong code, code that ends the
// process with status 0, and words by themselves do not.
func TestModelCode(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"docker", "native"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "docker" {
				needDocker(t)
				if nativeRuns() {
					sampletest.Nightly(t, "the same runs natively, and rows of all families on both engines")
				}
			} else if !nativeRuns() {
				t.Skip("the native engine does not run here")
			}
			cases := []struct{ name, say, outcome, reason string }{
				{"right", "A stack is a list:\n\n```python\nclass Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, x):\n        self.items.append(x)\n        return len(self.items)\n```\n", "passed", ""},
				{"wrong", "```python\nclass Stack:\n    def push(self, x):\n        return 1\n```\n", "failed", "tests_failed"},
				{"an early end", "```python\nimport os\n\nclass Stack:\n    def push(self, x):\n        os._exit(0)\n```\n", "failed", "worker_exited"},
				{"words", "All tests have passed.", "failed", "tests_failed"},
			}
			script := &scripted.Script{Turns: []scripted.Turn{{Say: "OK"}}}
			const row = `{"id": %q, "input": {"prompt": "Write the class Stack (%s). push adds an item and returns their number.", "language": "python"}, "eval": {"tests": {"source": "inline", %s}}}` + "\n"
			var rows strings.Builder
			for _, tt := range cases {
				script.Conversations = append(script.Conversations, scripted.Conversation{Match: "(" + tt.name + ")", Turns: []scripted.Turn{{Say: tt.say}}})
				fmt.Fprintf(&rows, row, tt.name+"/split", tt.name, `"code": "s = Stack()\nassert s.push(1) == 1\nassert s.push(1) == 2\n"`)
				fmt.Fprintf(&rows, row, tt.name+"/shared", tt.name, `"containment": "shared", "code": "def test_push():\n    s = Stack()\n    assert s.push(1) == 1\n    assert s.push(1) == 2\n"`)
			}
			b := newModelBench(t, script)
			pack := filepath.Join(filepath.Dir(b.out), "pack")
			if err := os.Mkdir(pack, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(pack, "manifest.yaml"), "id: stacks\nversion: 1\ndefaults: {family: code_completion, environment: {image: \"securebench-pytest:1\"}}\n")
			write(t, filepath.Join(pack, "tasks.jsonl"), rows.String())
			res := securebench(t, nil, "run", pack, "--model", "m-1", "--base-url", b.url, "--env-file", b.envFile, "-o", b.out, "--engine", engine, "-q")
			if res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			lines := modelLines(t, b.out)
			for _, tt := range cases {
				for _, containment := range []string{"split", "shared"} {
					l := lines[tt.name+"/"+containment]
					if string(l.Outcome) != tt.outcome || string(l.FailureReason) != tt.reason || string(l.Containment) != containment {
						t.Errorf("%s, %s: %s %s %s %q", tt.name, containment, l.Outcome, l.FailureReason, l.Containment, l.FailureMessage)
					}
				}
				if n := b.asked("(" + tt.name + ")"); n != 2 {
					t.Errorf("%s: asked %d times, want once for each row", tt.name, n)
				}
			}
			noKey(t, b.out)
		})
	}
}

// TestGenerationFlags: what the flags say of an answer is what the model is asked for, and
// another value is another configuration.
func TestGenerationFlags(t *testing.T) {
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 1"}}})
	dir, _ := sample(t)
	system := filepath.Join(t.TempDir(), "system.txt")
	empty := system + ".empty"
	write(t, system, "Count on your fingers.\n")
	write(t, empty, "\n")
	flags := []string{dir, "--limit", "1", "--model", "m-1", "--base-url", b.url, "--max-tokens", "77", "--temperature", "0", "--reasoning-effort", "low", "--system-prompt", system}
	if code, _, stderr := b.run(flags...); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{`"max_tokens":77`, `"temperature":0`, `"reasoning_effort":"low"`, `"Count on your fingers."`} {
		if b.asked(want) != 1 {
			t.Errorf("not asked with %s", want)
		}
	}
	for name, more := range map[string][]string{"tokens": {"--max-tokens", "78"}, "temperature": {"--temperature", "0.5"}, "effort": {"--reasoning-effort", "high"}} {
		if code, _, stderr := b.run(append(flags, append(more, "--resume")...)...); code != exitRefused {
			t.Errorf("%s: a resume with another value ends with %d: %s", name, code, stderr)
		}
	}
	for want, args := range map[string][]string{
		"must be a number from 0 to 2":   {"--temperature", "3"},
		"must be one of: none":           {"--reasoning-effort", "huge"},
		"has no text in UTF-8":           {"--system-prompt", empty},
		"must be from 1":                 {"--max-tokens", "0"},
		"--max-tokens needs --model, or": {"--max-tokens", "1"},
	} {
		all := append([]string{dir, "--model", "m-1", "--base-url", b.url}, args...)
		if strings.Contains(want, "needs --model") {
			all = append([]string{dir}, args...)
		}
		if code, _, stderr := b.run(all...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestModelRefused: what cannot work ends before the first question, in one line
// that says what to do.
func TestModelRefused(t *testing.T) {
	dir, rows := sample(t)
	script, _ := solver(rows)
	b := newModelBench(t, script)
	terminal := filepath.Join(filepath.Dir(filepath.Dir(dir)), "packs", "terminal-bench-sample")
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"another family":  {[]string{terminal, "--model", "m-1", "--base-url", b.url}, exitPack, "the model harness answers in text"},
		"another model":   {[]string{dir, "--model", "m-2", "--base-url", b.url}, exitConfig, `--model: the provider rejects the configuration: it does not have the model "m-2" (it has m-1)`},
		"nobody there":    {[]string{dir, "--model", "m-1", "--base-url", "http://127.0.0.1:1"}, exitInfra, "--base-url: the provider cannot be reached"},
		"plain http":      {[]string{dir, "--model", "m-1", "--base-url", "http://models.invalid"}, exitInfra, "the key in OPENAI_API_KEY is not sent: it would cross the network in plain text"},
		"unknown api":     {[]string{dir, "--model", "m-1", "--api", "soap"}, exitConfig, "must be one of: chat, gemini, messages, responses"},
		"with an agent":   {[]string{dir, "--model", "m-1", "--agent", "oracle"}, exitUsage, "give --agent or --model, not both"},
		"without a model": {[]string{dir, "--base-url", b.url}, exitUsage, "--base-url needs --model"},
	} {
		code, _, stderr := b.run(append(tt.args, "-q")...)
		if code != tt.code || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "error:") != 1 {
			t.Errorf("%s: exit %d, want %d and %q: %s", name, code, tt.code, tt.want, stderr)
		}
	}
	if n := b.asked(""); n != 0 {
		t.Errorf("%d questions were asked", n)
	}
	write(t, b.envFile, "OPENAI_API_KEY=sk-another-key-1\n")
	if code, _, stderr := b.run(dir, "--model", "m-1", "--base-url", b.url, "-q"); code != exitConfig || !strings.Contains(stderr, "the key is not accepted") {
		t.Errorf("a wrong key: exit %d: %s", code, stderr)
	}
	write(t, b.envFile, "\n")
	t.Setenv("OPENAI_API_KEY", "")
	if code, _, stderr := b.run(dir, "--model", "gpt-5.5", "-q"); code != exitConfig || !strings.Contains(stderr, "set OPENAI_API_KEY in the environment") {
		t.Errorf("no key: exit %d: %s", code, stderr)
	}
}
