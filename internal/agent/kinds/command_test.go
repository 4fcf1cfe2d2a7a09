package kinds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/config"
	"securebench/internal/fault"
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

// commandOf is a command with an environment that has PATH=/y.
func commandOf(n harness.Needs) *command {
	cfg := config.Default()
	cfg.Harness.Config = &source.Node{Kind: source.Map, Fields: []source.Field{{Name: "image", Value: &source.Node{Pos: source.Pos{File: "image.yaml", Line: 1, Col: 1}}}}}
	around := setup.Around{Config: cfg, Outside: setup.Outside{LookupEnv: func(name string) (string, bool) { return "/y", name == "PATH" }}}
	return &command{boxed: boxed{configured: &configured{Around: around, needs: n}}, places: map[place]bool{}}
}

// TestMisfit: rows that are about what is in their image are refused in one line,
// however many there are.
func TestMisfit(t *testing.T) {
	c := commandOf(harness.Needs{Image: "mine"})
	c.note(view(t, "fits", task.Environment{Image: "i"}, task.Text))
	if err := c.Loaded(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"one", "two"} {
		c.note(view(t, id, task.Environment{Image: "i"}, task.Workspace))
	}
	const want = "image.yaml:1:1: harness.config.image replaces the row's image only in text families and code_completion, but task one needs what is in its row's image (remove it)"
	if err := c.Loaded(t.Context(), nil); err == nil || err.Error() != want || fault.KindOf(err) != fault.Config {
		t.Errorf("%v", err)
	}
}

// TestPlaces: a command is looked for once in each image, as each user and with each
// PATH, but not in a workspace.
func TestPlaces(t *testing.T) {
	envs := []task.Environment{{Image: "a"}, {Image: "a"}, {Image: "b", User: "u"}, {Image: "b", Env: []string{"PATH=/x", "A=1"}},
		{Image: "c", Workdir: "/app"}, {Image: "d", Checkout: task.Checkout{Dir: "/repo"}}}
	for name, tt := range map[string]struct {
		needs harness.Needs
		want  string
	}{
		"a name":              {harness.Needs{Argv: []string{"agent"}}, "a:: b::/x b:u: c:: d::"},
		"the operator's PATH": {harness.Needs{Argv: []string{"agent"}, Env: []string{"PATH"}}, "a::/y b::/y b:u:/y c::/y d::/y"},
		"an image of its own": {harness.Needs{Argv: []string{"agent"}, Image: "m"}, "m:: m::/x m:u:"},
		"in the workspace":    {harness.Needs{Argv: []string{"/workspace/agent"}}, ""},
		"in some rows'":       {harness.Needs{Argv: []string{"/app/agent"}}, "a:: b::/x b:u: d::"},
		"in a repository":     {harness.Needs{Argv: []string{"/repo/bin/agent"}}, "a:: b::/x b:u: c::"},
		"nothing":             {harness.Needs{}, ""},
	} {
		c := commandOf(tt.needs)
		for i, env := range envs {
			c.note(view(t, string(rune('p'+i)), env, task.Text))
		}
		var got []string
		for p := range maps.Keys(c.places) {
			got = append(got, p.image+":"+p.user+":"+p.path)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", name, s, tt.want)
		}
	}
}
