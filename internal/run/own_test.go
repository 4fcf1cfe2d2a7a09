package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent/kinds"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// own is a run of an agent of one's own, whose answer is in a file of its own.
type ownBench struct {
	*bench
	dir    string
	images []string // in which the agent ran
	told   []string // warnings
}

func newOwn(t *testing.T, yaml string, env ...string) *ownBench {
	t.Helper()
	o := &ownBench{bench: newBench(t)}
	o.dir = filepath.Dir(o.opts.Config.OutputDir)
	o.opts.Config.Path = filepath.Join(o.dir, "tester.yaml")
	o.file("agent/answer", "4")
	o.configure(yaml, env...)
	memory := sandboxtest.New(sandboxtest.Config{
		Programs: map[string]sandboxtest.Program{"agent": func(_ context.Context, p *sandboxtest.Process) int {
			o.agents.Add(1)
			o.images = append(o.images, p.Spec.Image.Ref)
			name, err := p.Path("/opt/securebench/agent/answer", false)
			if err != nil {
				return 1
			}
			if _, err := p.Path("/opt/securebench/agent/answer", true); err == nil {
				return 2
			}
			answer, err := os.ReadFile(name)
			if err != nil {
				return 3
			}
			fmt.Fprintf(p.Stdout, "%s\n", answer)
			return 0
		}},
		Images: map[string]sandbox.Image{"img": {Ref: "img", ID: "sha256:1"}, "mine": {Ref: "mine", ID: "sha256:2"}},
	})
	o.opts.OpenEngine = openerOf(memory)
	o.opts.Config.MaxWorkers, o.opts.Config.Attempts = 1, 1
	o.opts.Progress = o
	return o
}

// Event keeps warnings.
func (o *ownBench) Event(e progress.Event) {
	if w, ok := e.(progress.Warning); ok {
		o.told = append(o.told, w.Message)
	}
}

func (o *ownBench) file(name, content string) {
	o.t.Helper()
	name = filepath.Join(o.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		o.t.Fatal(err)
	}
}

func (o *ownBench) configure(yaml string, env ...string) {
	o.t.Helper()
	node, err := source.ParseYAML("tester.yaml", []byte("command: [agent]\n"+yaml))
	if err != nil {
		o.t.Fatal(err)
	}
	cfg := config.Harness{Type: "command", Config: node, Env: env, Pos: source.Pos{File: "tester.yaml", Line: 7}}
	h, problems := kinds.Configured(cfg)
	if err := problems.Err(); err != nil {
		o.t.Fatal(err)
	}
	o.opts.Config.Harness, o.opts.Agent = cfg, h
}

// refused returns why a run cannot be opened.
func (o *ownBench) refused(mode Mode) string {
	o.t.Helper()
	o.opts.Mode = mode
	r, err := Open(o.t.Context(), o.opts)
	if err == nil {
		r.Close()
		o.t.Fatal("it was opened")
	}
	return err.Error()
}

// TestOwnFiles: the agent's files are there, and part of what a run is bound to.
func TestOwnFiles(t *testing.T) {
	o := newOwn(t, "files: agent\n")
	if sum, _ := o.run(Fresh); sum.Of(verdict.Computed).Passed != 3 {
		t.Fatalf("%+v", sum)
	}
	before, _, err := record.ReadManifest(os.DirFS(o.opts.Config.OutputDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(o.opts.Config.OutputDir, record.StatementName)); err != nil { // it is not finished
		t.Fatal(err)
	}
	o.file("agent/answer", "5")
	if why := o.refused(Resume); !strings.Contains(why, "setting agent_files: was \"sha256:") {
		t.Error(why)
	}
	if sum, _ := o.run(ResumeChanged); sum.Of(verdict.Computed).Passed != 0 || sum.Of(verdict.Computed).Failed != 3 {
		t.Errorf("%+v", sum)
	}
	after, _, err := record.ReadManifest(os.DirFS(o.opts.Config.OutputDir))
	if err != nil || before.Digests.Config == after.Digests.Config {
		t.Errorf("the digest of the configuration is the same: %v", err)
	}
}

// TestOwnFilesRefused: what the agent must not see is refused before anything is made.
func TestOwnFilesRefused(t *testing.T) {
	o := newOwn(t, "files: agent\n", "MY_TOKEN")
	o.opts.LookupEnv = func(name string) (string, bool) { return "hunter2-hunter2", name == "MY_TOKEN" }
	o.file("agent/config.py", "token = 'hunter2-hunter2'")
	if why := o.refused(Fresh); why != "tester.yaml:2:8: harness.config.files: agent/config.py: it contains a secret of the environment or the env file, which the agent could read (remove it)" {
		t.Error(why)
	}
	o = newOwn(t, "files: [tasks.jsonl]\n")
	if why := o.refused(Fresh); !strings.Contains(why, "tasks.jsonl: it is the pack's file of rows, which has the answers") {
		t.Error(why)
	}
	o = newOwn(t, "files: agent\n")
	o.configure("files: agent\n")
	o.opts.Config.Harness.Config.Fields[0].Value.Items = append(o.opts.Config.Harness.Config.Fields[0].Value.Items, &source.Node{Kind: source.String, Text: "/opt/securebench/agent/nosuch.py"})
	h, ps := kinds.Configured(o.opts.Config.Harness)
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	o.opts.Agent = h
	if why := o.refused(Fresh); !strings.Contains(why, "tester.yaml:1:10: harness.config.command names /opt/securebench/agent/nosuch.py, and harness.config.files has no nosuch.py") {
		t.Error(why)
	}
}

// TestOwnImage: the agent runs in its own image, and rows of text families need none.
func TestOwnImage(t *testing.T) {
	o := newOwn(t, "files: agent\nimage: mine\n")
	manifest, err := os.ReadFile(o.opts.Pack.Manifest)
	if err == nil {
		err = os.WriteFile(o.opts.Pack.Manifest, []byte(strings.ReplaceAll(string(manifest), "image: img", "image: gone")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if sum, _ := o.run(Fresh); sum.Of(verdict.Computed).Passed != 3 || strings.Join(o.images, " ") != "mine mine mine" {
		t.Fatalf("%+v in %s", sum, o.images)
	}
	m, _, err := record.ReadManifest(os.DirFS(o.opts.Config.OutputDir))
	if err != nil || len(m.Images) != 1 || m.Images["mine"] != "sha256:2" {
		t.Errorf("images %v, %v", m.Images, err)
	}
	o = newOwn(t, "image: other\n")
	if why := o.refused(Fresh); !strings.Contains(why, "image other is not on the engine (first needed at tester.yaml:2:8)") {
		t.Error(why)
	}
}

// TestMissingCommand: a command that is not there ends the run before anything is made.
func TestMissingCommand(t *testing.T) {
	o := newOwn(t, "")
	o.opts.Config.Harness.Config.Fields[0].Value.Items[0].Text = "agnet"
	h, ps := kinds.Configured(o.opts.Config.Harness)
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	o.opts.Agent = h
	why := o.refused(Fresh)
	if !strings.HasPrefix(why, "tester.yaml:1:10: harness.config.command: image img has no command agnet that its user can execute ") {
		t.Error(why)
	}
	if _, err := os.Stat(filepath.Join(o.opts.Config.OutputDir, record.ManifestName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run was begun: %v", err)
	}
}

// TestVariables: a variable that is not set is a warning, or an error.
func TestVariables(t *testing.T) {
	o := newOwn(t, "files: agent\n", "SET", "UNSET")
	o.opts.LookupEnv = func(name string) (string, bool) { return "", name == "SET" }
	o.opts.Config.Harness.EnvPos = []source.Pos{{File: "tester.yaml", Line: 8, Col: 9}, {File: "tester.yaml", Line: 8, Col: 14}}
	if sum, _ := o.run(Fresh); sum.Of(verdict.Computed).Passed != 3 {
		t.Fatalf("%+v", sum)
	}
	if told := strings.Join(o.told, "\n"); strings.Count(told, "harness.env names") != 1 || !strings.Contains(told, "tester.yaml:8:14: harness.env names UNSET, which is not set: the agent does not get it") {
		t.Errorf("told %q", told)
	}
	o.opts.Config.Harness.Required = []string{"SET", "UNSET"}
	o.opts.Mode = Replace
	_, err := Open(t.Context(), o.opts)
	if fault.KindOf(err) != fault.Config || err.Error() != "tester.yaml:8:14: harness.env requires UNSET, which is not set (set it in the environment or in the env file)" {
		t.Errorf("required: %v", err)
	}
}

// TestCommandWithProvider: a command reaches its provider as the agents' programs do,
// with a token in place of the key and within its budget, and its model and use are
// in the evidence.
func TestCommandWithProvider(t *testing.T) {
	for api, tt := range map[string]struct{ path, token string }{
		"openai_responses":   {"/v1/responses", "OPENAI_API_KEY="},
		"openai_chat":        {"/v1/chat/completions", "OPENAI_API_KEY="},
		"anthropic_messages": {"/v1/messages", "ANTHROPIC_API_KEY="},
		"gemini":             {"/v1beta/models/org%2Fgpt-1:streamGenerateContent?alt=sse", "GEMINI_API_KEY="},
	} {
		for requests, passes := range map[int]int{1: 0, 2: 6} {
			a := newAgents(t, "command", fmt.Sprintf("command: [agent]\nmodel: org/gpt-1\napi: %s\nbudget: {requests: %d}", api, requests))
			s, err := scripted.Parse("script.yaml", []byte("key: "+canaryKey+"\nmodels: [org/gpt-1]\nturns: [{say: hello}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			a.provider = scripted.New(s, nil)
			a.upstream.Config.Handler = a.provider
			delete(a.programs, "/bin/sh") // which answers another question
			a.programs["agent"] = func(ctx context.Context, p *sandboxtest.Process) int {
				var token string
				for _, v := range p.Env {
					if strings.Contains(v, canaryKey) {
						return 1
					}
					if value, ok := strings.CutPrefix(v, tt.token); ok {
						token = value
					}
				}
				a.agents.Add(1)
				if status := ask(ctx, p, tt.path, "org/gpt-1", token); status != 200 {
					fmt.Fprintln(p.Stderr, "status", status)
					return 1
				}
				ask(ctx, p, tt.path, "org/gpt-1", token)
				fmt.Fprintln(p.Stdout, "4")
				return 0
			}
			sum, _ := a.run(Fresh)
			if sum.Of(verdict.Computed).Passed != passes || sum.Of(verdict.Computed).Verified != 6 || len(a.provider.Requests()) != 6*requests || a.agents.Load() != 6 {
				t.Errorf("%s: %+v after %d requests of %d agents", api, sum, len(a.provider.Requests()), a.agents.Load())
			}
			for _, f := range sum.Failures {
				if f.Outcome != verdict.Limit || f.Reason != verdict.Budget {
					t.Errorf("%s: %+v", api, f)
				}
			}
			if m := a.manifest(); m.Model != "org/gpt-1" || len(m.Programs) != 0 {
				t.Errorf("%s: the manifest has %+v, %q", api, m.Programs, m.Model)
			}
		}
	}
}
