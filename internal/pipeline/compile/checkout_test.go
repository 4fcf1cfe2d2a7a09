package compile_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/family"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

// repository is a family whose rows say where their repository is.
func repository() family.Family {
	return family.Family{Name: "repository", Checkout: func(r family.Row) (c task.Checkout) {
		_ = json.Unmarshal(r.Environment["workdir"], &c.Dir)
		_ = json.Unmarshal(r.Input["base"], &c.Commit)
		return c
	}}
}

// TestCheckout: a repository may be anywhere but where a sandbox has folders of
// its own.
func TestCheckout(t *testing.T) {
	c := compile.New(pack.Manifest{ID: "p"}, family.NewRegistry(repository()))
	for dir, want := range map[string]string{
		"/testbed": "/testbed", "/testbed/": "/testbed", "/a/./b": "/a/b", "/workspaces": "/workspaces", "/tmpl/x": "/tmpl/x",
		"/": "! is the root", "/workspace": "! is in /workspace", "/workspace/repo": "! is in /workspace", "/proc/self/cwd": "! is in /proc",
		"/sys": "! is in /sys", "/dev/shm/x": "! is in /dev", "/tmp/repo": "! is in /tmp", "/.securebench": "! is in /.securebench",
		"/tmp/../testbed": `! contains ".."`, "testbed": "! is not absolute", "/a:b": "! contains a colon", "/a,b": "! contains a colon",
	} {
		// The workdir that repo_patch shares with other families is checked
		// in any case; here the family reads it where nothing else does.
		row := strings.NewReplacer("DIR", dir).Replace(`{"id":"a","family":"repository","input":{"base":"c0ffee"},"eval":{},"environment":{"workdir":"DIR"}}`)
		loc := write(t, manifest, []string{row})
		loaded, err := pack.Load(context.Background(), loc, nil, c.Check)
		if fault, bad := strings.CutPrefix(want, "! "); bad {
			if err == nil || !strings.Contains(cut(loc, err), fault) || !strings.Contains(cut(loc, err), "tasks.jsonl:1:") {
				t.Errorf("%s: %v, want %q", dir, err, fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for row, err := range loaded.Rows(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Task(row)
			if d := cmp.Diff(task.Checkout{Dir: want, Commit: "c0ffee"}, got.Environment().Checkout); d != "" || err != nil {
				t.Errorf("%s: %v %s", dir, err, d)
			}
		}
	}
}

// TestVariables: variables are sorted, are visible to the agent and the test
// sandbox, and count in the public digest. A hidden text in one is noticed.
func TestVariables(t *testing.T) {
	const base = `{"id":"a","family":"short_answer","input":{"question":"q"},"eval":{"accepted_answers":["a hidden answer of some length"]},"environment":{"env":{"TZ":"UTC","A":"1"}}}`
	loaded, errs, warnings := load(t, write(t, manifest, []string{base}))
	if errs != "" || warnings != "" {
		t.Fatal(errs, warnings)
	}
	compiled := tasks(t, loaded)[0]
	if d := cmp.Diff([]string{"A=1", "TZ=UTC"}, compiled.Agent().Environment().Env); d != "" {
		t.Error(d)
	}
	for what, row := range map[string]string{
		"another value": strings.Replace(base, "UTC", "CET", 1),
		"none":          strings.Replace(base, `"TZ":"UTC","A":"1"`, "", 1),
	} {
		other, errs, _ := load(t, write(t, manifest, []string{row}))
		if errs != "" || other.Public == loaded.Public {
			t.Errorf("%s: the public digest is the same; %s", what, errs)
		}
	}
	_, _, warnings = load(t, write(t, manifest, []string{strings.Replace(base, "UTC", "a hidden answer of some length", 1)}))
	if !strings.Contains(warnings, "also occurs in environment.env") {
		t.Errorf("warnings %q", warnings)
	}
	_, errs, _ = load(t, write(t, manifest, []string{strings.Replace(base, `"UTC"`, "7", 1)}))
	if want := "tasks.jsonl:1:150: environment.env.TZ must be a string, not a number"; !strings.HasPrefix(errs, want) {
		t.Errorf("got %q, want %q", errs, want)
	}
}
