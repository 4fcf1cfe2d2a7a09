package ownagent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"securebench/internal/fault"
	"securebench/internal/harness"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
)

func view(t *testing.T, id string, env task.Environment, kind task.CandidateKind) task.AgentView {
	t.Helper()
	tk, err := task.New(task.Config{ID: id, Family: "f", Pack: task.Pack{ID: "p"}, Environment: env, Extraction: task.Extraction{Mode: task.FromStdout, Kind: kind}})
	if err != nil {
		t.Fatal(err)
	}
	return tk.Agent()
}

func at(key string) source.Pos { return source.Pos{File: key + ".yaml", Line: 1, Col: 1} }

// TestMisfit: rows that are about what is in their image are refused in one line,
// however many there are.
func TestMisfit(t *testing.T) {
	a := Agent{Needs: harness.Needs{Image: "mine"}, At: at}
	a.Note(view(t, "fits", task.Environment{Image: "i"}, task.Text))
	if err := a.Read(t.Context(), ".", nil, new(redact.Registry)); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"one", "two"} {
		a.Note(view(t, id, task.Environment{Image: "i"}, task.Workspace))
	}
	const want = "image.yaml:1:1: harness.config.image replaces the row's image in text families and code_completion alone, and task one is about what is in its row's image (remove it)"
	if err := a.Read(t.Context(), ".", nil, new(redact.Registry)); err == nil || err.Error() != want || fault.KindOf(err) != fault.Config {
		t.Errorf("%v", err)
	}
}

// TestPlaces: a command is looked for once in each image, as each user and with each
// PATH, but not in a workspace.
func TestPlaces(t *testing.T) {
	envs := []task.Environment{{Image: "a"}, {Image: "a"}, {Image: "b", User: "u"}, {Image: "b", Env: []string{"PATH=/x", "A=1"}},
		{Image: "c", Workdir: "/app"}, {Image: "d", Checkout: task.Checkout{Dir: "/repo"}}}
	for name, tt := range map[string]struct {
		a    Agent
		want string
	}{
		"a name":              {Agent{Argv: []string{"agent"}}, "a:: b::/x b:u: c:: d::"},
		"the operator's PATH": {Agent{Argv: []string{"agent"}, Path: "/y"}, "a::/y b::/y b:u:/y c::/y d::/y"},
		"an image of its own": {Agent{Argv: []string{"agent"}, Needs: harness.Needs{Image: "m"}}, "m:: m::/x m:u:"},
		"in the workspace":    {Agent{Argv: []string{"/workspace/agent"}}, ""},
		"in some rows'":       {Agent{Argv: []string{"/app/agent"}}, "a:: b::/x b:u: d::"},
		"in a repository":     {Agent{Argv: []string{"/repo/bin/agent"}}, "a:: b::/x b:u: c::"},
		"a program":           {Agent{}, ""},
	} {
		for i, env := range envs {
			tt.a.Note(view(t, string(rune('p'+i)), env, task.Text))
		}
		var got []string
		for p := range maps.Keys(tt.a.places) {
			got = append(got, p.image+":"+p.user+":"+p.path)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", name, s, tt.want)
		}
	}
}
