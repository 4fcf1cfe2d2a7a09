package run

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"securebench/internal/agent/kinds"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// TestKeyByAnotherName gives agents the key of a provider under names that are not
// those of keys. Where no key is configured, all of it reaches them; otherwise no run
// begins. A value that no key is goes through.
func TestKeyByAnotherName(t *testing.T) {
	with := func(value string) func(*ownBench, map[string]string) {
		return func(_ *ownBench, env map[string]string) { env["MY_BACKEND"] = value }
	}
	const forwards = "tester.yaml:9:4: harness.env forwards MY_BACKEND, whose value contains the provider's key that is in OPENAI_API_KEY (remove it"
	for name, tt := range map[string]struct {
		give func(o *ownBench, env map[string]string)
		want string
	}{
		"a variable":       {with(canaryKey), forwards},
		"part of a value":  {with("https://user:" + canaryKey + "@host/v1"), forwards},
		"in base64":        {with(base64.StdEncoding.EncodeToString([]byte("user:" + canaryKey))), forwards},
		"blanks around it": {with(" " + canaryKey + "\n"), forwards},
		"an argument": {func(o *ownBench, _ map[string]string) { o.argument("--key=" + canaryKey) },
			"tester.yaml:5:6: harness.config contains the provider's key that is in OPENAI_API_KEY"},
		"a file":          {func(o *ownBench, _ map[string]string) { o.file("agent/config.py", "key = '"+canaryKey+"'") }, "agent/config.py: it contains a secret"},
		"the name of one": {func(o *ownBench, _ map[string]string) { o.file("agent/"+canaryKey, "") }, "what a link leads to, contains a secret"},
		"a row":           {func(o *ownBench, _ map[string]string) { o.inRows(canaryKey) }, `task "t0": what its agent gets contains the provider's key that is in OPENAI_API_KEY`},
	} {
		for _, configured := range []bool{false, true} {
			o, env, seen := newKeyBench(t)
			if configured {
				env["OPENAI_API_KEY"] = canaryKey
			}
			tt.give(o, env)
			if !configured {
				if sum, _ := o.run(Fresh); sum.Of(verdict.Computed).Verified != 3 || name != "in base64" && !strings.Contains(*seen, canaryKey) {
					t.Errorf("%s, without a configured key: %+v", name, sum)
				}
				continue
			}
			why := o.refused(Fresh)
			_, err := Open(t.Context(), o.opts)
			kind := fault.KindOf(err)
			if !strings.Contains(why, tt.want) || strings.Contains(why, canaryKey) || kind != fault.Config && kind != fault.Pack || *seen != "" {
				t.Errorf("%s: %s (%s), want %s", name, why, kind, tt.want)
			}
		}
	}
	o, env, seen := newKeyBench(t)
	env["OPENAI_API_KEY"], env["MY_BACKEND"] = canaryKey, canaryKey[:len(canaryKey)-1]
	if sum, _ := o.run(Fresh); sum.Of(verdict.Computed).Verified != 3 || !strings.Contains(*seen, env["MY_BACKEND"]) {
		t.Errorf("an honest value: %+v", sum)
	}
}

// TestShortKey: what servers of one's own take for a key is a word like others. It is
// neither looked for nor redacted, and one line says so.
func TestShortKey(t *testing.T) {
	o, env, seen := newKeyBench(t)
	env["OPENAI_API_KEY"], env["ANTHROPIC_API_KEY"], env["MY_BACKEND"] = "sk-local-1234", "EMPTY", "sk-local-1234"
	if sum, _ := o.run(Fresh); sum.Of(verdict.Computed).Verified != 3 || !strings.Contains(*seen, "sk-local-1234") {
		t.Errorf("%+v", sum)
	}
	const want = "OPENAI_API_KEY, ANTHROPIC_API_KEY: the key has fewer than 16 characters, so it is not looked for in what agents get, and not redacted"
	if told := strings.Join(o.told, "\n"); strings.Count(told, "16 characters") != 1 || !strings.Contains(told, want) {
		t.Errorf("told %q", told)
	}
	a := newAgents(t, "codex", "model: gpt-1\n")
	a.env["OPENAI_API_KEY"] = "EMPTY"
	if err := a.open(Fresh); err != nil {
		t.Error(err)
	}
}

// newKeyBench makes a run that forwards MY_BACKEND, and returns its environment and
// what its agents see.
func newKeyBench(t *testing.T) (*ownBench, map[string]string, *string) {
	o := newOwn(t, "files: agent\n", "MY_BACKEND")
	o.opts.Config.Harness.EnvPos = []source.Pos{{File: "tester.yaml", Line: 9, Col: 4}}
	env, seen := map[string]string{}, new(string)
	o.opts.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	o.opts.OpenEngine = openerOf(sandboxtest.New(sandboxtest.Config{
		Programs: map[string]sandboxtest.Program{"agent": func(_ context.Context, p *sandboxtest.Process) int {
			*seen += strings.Join(p.Env, " ") + strings.Join(p.Args, " ")
			for _, dir := range []string{"/opt/securebench/agent", "/workspace"} {
				root, err := p.Path(dir, false)
				if err != nil {
					return 1
				}
				entries, err := os.ReadDir(root)
				if err != nil {
					return 2
				}
				for _, e := range entries {
					data, _ := os.ReadFile(root + "/" + e.Name())
					*seen += e.Name() + string(data)
				}
			}
			fmt.Fprintln(p.Stdout, "4")
			return 0
		}},
		Images: map[string]sandbox.Image{"img": {Ref: "img", ID: "sha256:1"}},
	}))
	return o, env, seen
}

// argument adds an argument to the agent's command.
func (o *ownBench) argument(text string) {
	o.t.Helper()
	command := o.opts.Config.Harness.Config.Fields[0].Value
	command.Items = append(command.Items, &source.Node{Kind: source.String, Text: text, Pos: source.Pos{File: "tester.yaml", Line: 5, Col: 6}})
	h, ps := kinds.Configured(o.opts.Config.Harness)
	if err := ps.Err(); err != nil {
		o.t.Fatal(err)
	}
	o.opts.Agent = h
}

// inRows puts a text into the questions of the pack.
func (o *ownBench) inRows(text string) {
	o.t.Helper()
	rows, err := os.ReadFile(o.opts.Pack.Tasks)
	if err == nil {
		err = os.WriteFile(o.opts.Pack.Tasks, []byte(strings.ReplaceAll(string(rows), `"question": "`, `"question": "`+text+" ")), 0o600)
	}
	if err != nil {
		o.t.Fatal(err)
	}
}
