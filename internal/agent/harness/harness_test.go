package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/config"
	"securebench/internal/source"
	"securebench/internal/task"
)

var parsers = map[string]harness.Parse{"claude_code": harness.ParseAgent, "codex": harness.ParseAgent, "agent": harness.ParseAgent,
	"command": harness.ParseCommand, harness.ModelType: harness.ParseModel}

func parse(t *testing.T, typ, yaml string, env ...string) (harness.Harness, string) {
	t.Helper()
	var cfg *source.Node
	if yaml != "" {
		var err error
		if cfg, err = source.ParseYAML("h.yaml", []byte(yaml)); err != nil {
			t.Fatal(err)
		}
	}
	typ, name, _ := strings.Cut(typ, " ")
	h, ps := parsers[typ](config.Harness{Type: typ, Name: name, Env: env, Config: cfg, TypePos: source.Pos{File: "h.yaml", Line: 9},
		EnvPos: envPlaces(env)})
	if err := ps.Err(); err != nil {
		if h != nil {
			t.Error("a harness beside problems")
		}
		return nil, err.Error()
	}
	return h, ""
}

// envPlaces puts each name of harness.env in a line of its own, from 21.
func envPlaces(env []string) (out []source.Pos) {
	for i := range env {
		out = append(out, source.Pos{File: "h.yaml", Line: 21 + i, Col: 5})
	}
	return out
}

func view(t *testing.T, family string, env task.Environment, ex task.Extraction) task.AgentView {
	t.Helper()
	tk, err := task.New(task.Config{ID: "p/t", Family: family, Pack: task.Pack{ID: "p"}, Environment: env, Extraction: ex})
	if err != nil {
		t.Fatal(err)
	}
	return tk.Agent()
}

func fromStdout() task.Extraction {
	return task.Extraction{Mode: task.FromStdout, Kind: task.Text}
}

func TestCommandPlan(t *testing.T) {
	h, problem := parse(t, "command", "{command: [run, it], timeout_seconds: 60}", "A", "B")
	if problem != "" {
		t.Fatal(problem)
	}
	got, err := h.Plan(view(t, "short_answer", task.Environment{Image: "i", Workdir: "/elsewhere"}, fromStdout()))
	if err != nil {
		t.Fatal(err)
	}
	want := harness.Plan{
		Argv: []string{"run", "it"}, EnvNames: []string{"A", "B"}, Env: []string{"SECUREBENCH_TASK_FILE=/workspace/task.json"},
		Workdir: "/workspace", Target: "/workspace", Timeout: time.Minute, TaskFile: "task.json",
		Extract: fromStdout(),
		Metadata: map[string]any{
			"harness": "command", "task_file": "task.json", "artifact_path": nil, "allowed_domains": []string{},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if h.Name() != "command" {
		t.Error(h.Name())
	}
	if d := cmp.Diff(got.Argv, h.Needs().Argv); d != "" {
		t.Errorf("the command is not the plan's: %s", d)
	}
	got.Argv[0] = "changed"
	if again, _ := h.Plan(view(t, "f", task.Environment{}, fromStdout())); again.Argv[0] != "run" {
		t.Error("a plan shares its argv with the harness")
	}
}

func TestCommandShell(t *testing.T) {
	h, problem := parse(t, "command", `{command: " echo $HOME | wc "}`)
	if problem != "" {
		t.Fatal(problem)
	}
	p, err := h.Plan(view(t, "f", task.Environment{}, fromStdout()))
	if d := cmp.Diff([]string{"sh", "-lc", " echo $HOME | wc "}, p.Argv); d != "" || err != nil {
		t.Error(err, d)
	}
}

func TestCommandExtraction(t *testing.T) {
	code := task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "candidate.py", OrStdout: true}
	diff := task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}
	tree := task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}
	tests := map[string]struct {
		artifact string
		def      task.Extraction
		want     task.Extraction
		wantErr  string
	}{
		"text":                   {"", fromStdout(), fromStdout(), ""},
		"code":                   {"", code, code, ""},
		"patch is printed":       {"", diff, task.Extraction{Mode: task.FromStdout, Kind: task.Patch}, ""},
		"terminal":               {"", tree, tree, ""},
		"text from a file":       {"out/a.txt", fromStdout(), task.Extraction{Mode: task.FromFile, Kind: task.Text, Path: "out/a.txt"}, ""},
		"code from another file": {"out/a.txt", code, task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "out/a.txt"}, ""},
		"patch from a file":      {"out/a.txt", diff, task.Extraction{Mode: task.FromFile, Kind: task.Patch, Path: "out/a.txt"}, ""},
		"terminal from a file":   {"out/a.txt", tree, task.Extraction{}, "candidate is the whole workspace"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := "{command: x}"
			if tc.artifact != "" {
				cfg = "{command: x, artifact_path: ./" + tc.artifact + "}"
			}
			h, problem := parse(t, "command", cfg)
			if problem != "" {
				t.Fatal(problem)
			}
			v := view(t, "f", task.Environment{}, tc.def)
			p, err := h.Plan(v)
			opts, checkErr := h.Check(v)
			if fmt.Sprint(checkErr) != fmt.Sprint(err) || err == nil && (opts.TaskFile != p.TaskFile || opts.ArtifactPath != p.ArtifactPath) {
				t.Errorf("Check returns %+v, %v; Plan %+v, %v", opts, checkErr, p, err)
			}
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || !strings.Contains(err.Error(), "p/t") {
					t.Errorf("error %v, want one with %q and the task", err, tc.wantErr)
				}
				return
			}
			if d := cmp.Diff(tc.want, p.Extract); d != "" || err != nil {
				t.Errorf("%v, -want +got:\n%s", err, d)
			}
			if p.ArtifactPath != tc.artifact {
				t.Errorf("artifact path %q, want %q", p.ArtifactPath, tc.artifact)
			}
		})
	}
}

func TestMountTarget(t *testing.T) {
	tree := task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}
	tests := map[string]string{
		"": "/workspace", "/app": "/app", "/app/": "/app", "/workspace/x": "/workspace/x",
		"/testbed/a/b": "/testbed/a/b", "/securebench-workspace": "/securebench-workspace",
		"/apps": "/apps", "/root/x/": "/root/x", "/": "!", "/etc": "!", "/opt": "!", "app": "!", "/app/../etc": "!", `/app\x`: "!", "/app/..": "!",
	}
	h, _ := parse(t, "command", "{command: x}")
	for dir, want := range tests {
		v := view(t, "terminal_task", task.Environment{Workdir: dir}, tree)
		p, err := h.Plan(v)
		if _, checkErr := h.Check(v); fmt.Sprint(checkErr) != fmt.Sprint(err) {
			t.Errorf("%q: Check returns %v, Plan %v", dir, checkErr, err)
		}
		if want == "!" {
			if err == nil || !strings.Contains(err.Error(), "environment.workdir") {
				t.Errorf("%q: plan %+v, error %v", dir, p, err)
			}
			continue
		}
		if err != nil || p.Target != want || p.Workdir != want {
			t.Errorf("%q: target %q, workdir %q, %v; want %q", dir, p.Target, p.Workdir, err, want)
		}
	}
}

func TestTimeLimits(t *testing.T) {
	tests := []struct{ row, harness, operator, plan, limit time.Duration }{
		{0, 0, 0, 0, 900}, {30, 0, 0, 30, 30}, {0, 40, 0, 40, 40}, {30, 40, 0, 30, 30}, {50, 40, 0, 40, 40},
		{0, 0, 1800, 0, 1800}, {1800, 0, 0, 1800, 1800}, {1800, 0, 60, 1800, 60}, {30, 0, 60, 30, 30},
	}
	for _, tc := range tests {
		cfg := "{command: x}"
		if tc.harness > 0 {
			cfg = "{command: x, timeout_seconds: 40}"
		}
		h, problem := parse(t, "command", cfg)
		if problem != "" {
			t.Fatal(problem)
		}
		p, err := h.Plan(view(t, "f", task.Environment{Timeout: tc.row * time.Second}, fromStdout()))
		if err != nil || p.Timeout != tc.plan*time.Second || p.TimeLimit(tc.operator*time.Second) != tc.limit*time.Second {
			t.Errorf("%+v: plan %v, limit %v, %v", tc, p.Timeout, p.TimeLimit(tc.operator*time.Second), err)
		}
	}
}

func TestParseProblems(t *testing.T) {
	tests := map[string]struct{ typ, cfg, want string }{
		"list":       {"command", "[a]", "h.yaml:1:1: harness.config must be an object, not a list"},
		"no command": {"command", "{}", "h.yaml:1:1: harness.config.command is required"},
		"blank":      {"command", `{command: "  "}`, "h.yaml:1:11: harness.config.command must be a non-empty string or a non-empty list of strings"},
		"empty list": {"command", `{command: []}`, "h.yaml:1:11: harness.config.command must be a non-empty string or a non-empty list of strings"},
		"blank item": {"command", `{command: [a, ""]}`, "h.yaml:1:15: harness.config.command[1] must be a non-empty string"},
		"number":     {"command", `{command: 5}`, "h.yaml:1:11: harness.config.command must be a non-empty string or a non-empty list of strings"},
		"NUL":        {"command", `{command: "a\0"}`, "h.yaml:1:11: harness.config.command contains a NUL character"},
		"all at once": {"command", `{cmd: x, Task_file: y, task_file: ../x, artifact_path: eval/x, timeout_seconds: 0, allowed_domains: [a, "*.com"]}`,
			`h.yaml:1:2: harness.config contains unsupported field "cmd" (known: command, artifact_path, task_file, timeout_seconds, allowed_domains, allow_private, files, requirements, image, model, api, base_url, headers, allow_plain_http, auth, budget, prices, max_connections, allow_external_tools, protocol)
h.yaml:1:10: harness.config has field "Task_file" in the wrong case (write task_file)
h.yaml:1:1: harness.config.command is required
h.yaml:1:35: harness.config.task_file "../x": path must not contain ".."
h.yaml:1:56: harness.config.artifact_path "eval/x": path is denied: /eval
h.yaml:1:81: harness.config.timeout_seconds must be above 0
h.yaml:1:102: harness.config.allowed_domains[0] must have at least two labels: "a" (list host names, such as docs.python.org, or *.python.org for every host below it)
h.yaml:1:105: harness.config.allowed_domains[1] must have at least two labels after *.: "*.com" (list host names, such as docs.python.org, or *.python.org for every host below it)`},
		"reserved":       {"command", `{command: x, task_file: securebench/evaluator/t.json}`, `h.yaml:1:25: harness.config.task_file "securebench/evaluator/t.json": path is reserved for non-public materialization`},
		"same file":      {"command", `{command: x, artifact_path: task.json}`, "h.yaml:1:29: harness.config.artifact_path collides with harness.config.task_file"},
		"inside a file":  {"command", `{command: x, artifact_path: task.json/x}`, "h.yaml:1:29: harness.config.artifact_path collides with harness.config.task_file"},
		"codex model":    {"codex", "{}", "h.yaml:1:1: harness.config.model is required"},
		"model charset":  {"codex", `{model: "a\tb", version: "$(x)"}`, "h.yaml:1:9: harness.config.model must be a text without control characters, of at most 256 bytes, and not begin with a hyphen\nh.yaml:1:26: harness.config.version must be latest or an exact version (write one such as 1.2.3)"},
		"command key":    {"claude_code", "{command: x}", `h.yaml:1:2: harness.config contains unsupported field "command" (known: model, version, task_file, timeout_seconds, allowed_domains, allow_private, budget, prices, max_connections, allow_external_tools, base_url, headers, allow_plain_http, auth, reasoning_effort, max_turns, system_prompt, args, config, mcp, files, small_model)`},
		"no servers":     {"agent mini-swe-agent", "{model: m, mcp: {notes: {command: [x]}}}", "h.yaml:1:17: harness.config.mcp is not supported by mini-swe-agent (remove it)"},
		"no setting":     {"codex", "{model: m, max_turns: 3}", "h.yaml:1:23: harness.config.max_turns is not supported by codex (remove it)"},
		"odd settings":   {"claude_code", `{reasoning_effort: "a b", max_turns: 0}`, "h.yaml:1:20: harness.config.reasoning_effort must be a word of small letters (write one such as high)\nh.yaml:1:38: harness.config.max_turns must be from 1 to 100000"},
		"claude domains": {"claude_code", "{allowed_domains: x}", "h.yaml:1:19: harness.config.allowed_domains must be a list, not a string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, got := parse(t, tc.typ, tc.cfg)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	names := []string{"MISTRAL_API_KEY", "github_token", "DB_PASSWORD", "AWS_SECRET_X", "MY_CREDENTIALS", "apikey", "SSH_AUTH_SOCK",
		"MONKEY", "KEYBOARD", "PATH", "PWD", "LANG", "AUTHOR", "COMPASS"}
	h, problem := parse(t, "command", "{command: x}", names...)
	if problem != "" {
		t.Fatal(problem)
	}
	got := harness.Warnings(h)
	if len(got) != 7 {
		t.Fatalf("%d warnings: %q", len(got), got)
	}
	for i, w := range got {
		if !strings.Contains(w, names[i]) || strings.Contains(w, "\n") {
			t.Errorf("warning %q", w)
		}
	}
	if h, _ := parse(t, "codex", "{model: x}", "OPENAI_API_KEY", "CODEX_API_KEY", "DB_PASSWORD"); len(harness.Warnings(h)) != 1 {
		t.Errorf("codex never gets its key, but gets the password: %q", harness.Warnings(h))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("command", "{command: [a, b], artifact_path: x/y, task_file: t.json, timeout_seconds: 1e-3}")
	f.Add("codex", "{model: gpt, version: 1.2.3+x}")
	f.Add("claude_code", "{allowed_domains: [a.b, A.B.], small_model: claude-x, base_url: 'http://[::1]:80/v1/'}")
	f.Add("codex", "{model: gpt, budget: {cost: 1, tokens: 5}, prices: {gpt: {input: 1, output: 0}}}")
	f.Fuzz(func(t *testing.T, typ, yaml string) {
		cfg, err := source.ParseYAML("f", []byte(yaml))
		if err != nil {
			return
		}
		h, ps := parsers[typ](config.Harness{Type: typ, Config: cfg})
		if (h == nil) != (len(ps) > 0) {
			t.Fatalf("harness %v beside problems %v", h, ps)
		}
		if h == nil {
			return
		}
		p, err := h.Plan(view(t, "f", task.Environment{}, fromStdout()))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{p.TaskFile, p.ArtifactPath} {
			if strings.Contains("/"+path+"/", "/../") || strings.HasPrefix(path, "/") {
				t.Errorf("path %q leaves the workspace", path)
			}
		}
		if r := p.Relay; r != nil && (r.Requests < 0 || r.Tokens < 0 || r.Cost < 0 || r.Model == "" || r.KeyEnv == "" ||
			!strings.HasPrefix(r.BaseURL, "https://") && !strings.HasPrefix(r.BaseURL, "http://")) {
			t.Errorf("unusable relay: %+v", r)
		}
		if len(p.Argv) == 0 || p.Timeout < 0 || p.TimeLimit(0) <= 0 || p.TaskFile == "" {
			t.Errorf("unusable plan: %+v", p)
		}
	})
}
