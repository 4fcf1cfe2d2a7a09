package workspace_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

func newTask(t testing.TB, assets []task.Asset, resources ...task.Resource) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: "p/t", Family: "f", Pack: task.Pack{ID: "p"}, Assets: assets, Resources: resources})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func res(lane task.Lane, name, value string) task.Resource {
	return task.Resource{Name: name, Lane: lane, Value: jsontext.Value(value)}
}

func contents(p *workspace.Layout) map[string]string {
	out := map[string]string{}
	for _, e := range p.Entries {
		out[e.Path] = string(e.Data)
		if e.Asset != "" {
			out[e.Path] = "asset:" + e.Asset
		}
	}
	return out
}

func TestLayoutAgent(t *testing.T) {
	tk := newTask(t,
		[]task.Asset{{Path: "sub/./n.txt", Mount: "data//n.txt"}},
		res(task.Public, "question", `"Wie groß?"`),
		res(task.Public, "context", `{"b":1.0,"a":[]}`),
		res(task.Public, "assets", `[{"path":"sub/./n.txt","mount":"data//n.txt"}]`),
		res(task.Hidden, "answer", `"CANARY"`),
		res(task.EvaluationInputs, "tests", `"CANARY"`),
	)
	p, err := workspace.ForAgent(tk.Agent(), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"task.json": `{
  "assets": [
    {
      "mount": "data//n.txt",
      "path": "sub/./n.txt"
    }
  ],
  "context": {
    "a": [],
    "b": 1.0
  },
  "question": "Wie gro\u00df?"
}
`,
		"securebench/public/question.json": "\"Wie gro\\u00df?\"\n",
		"securebench/public/context.json":  "{\n  \"a\": [],\n  \"b\": 1.0\n}\n",
		"data/n.txt":                       "asset:sub/n.txt",
	}
	if d := cmp.Diff(want, contents(p)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestLayoutEmptyTask(t *testing.T) {
	p, err := workspace.ForAgent(newTask(t, nil).Agent(), workspace.Options{TaskFile: "in/t.json"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"in/t.json": "{}\n"}, contents(p)); d != "" {
		t.Error(d)
	}
}

func TestLayoutTestSandbox(t *testing.T) {
	tk := newTask(t, nil,
		res(task.Public, "prompt", `"p"`),
		res(task.Public, "assets", `[{"path":"a"}]`),
		res(task.EvaluationInputs, "checker", `{"command":"x"}`),
		res(task.EvaluationInputs, "run_tests", `{"path":"t/run.sh"}`),
		res(task.EvaluationInputs, "test_files", `{"path":"t/files","mount":"securebench/evaluation_inputs/f","read_only":false}`),
		res(task.Hidden, "expected_state", `{"path":"out.txt","content":"x"}`),
		res(task.Hidden, "rubric", `{"path":"r.json"}`),
	)
	p, err := workspace.ForTestSandbox(tk.TestSandbox(), workspace.Options{PublicAssets: []task.Asset{{Path: "a", Mount: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{
		"a":                              "asset:a",
		"securebench/public/prompt.json": "\"p\"\n",
		"securebench/evaluation_inputs/checker.json": "{\n  \"command\": \"x\"\n}\n",
		"securebench/evaluation_inputs/t/run.sh":     "asset:t/run.sh",
		"securebench/evaluation_inputs/f":            "asset:t/files",
	}, contents(p)); d != "" {
		t.Errorf("test sandbox, -want +got:\n%s", d)
	}
	for _, e := range p.Entries {
		writable := e.Path == "a" || e.Path == "securebench/evaluation_inputs/f" || strings.HasPrefix(e.Path, "securebench/public/")
		if (e.Mode == 0o644) != writable {
			t.Errorf("%s has mode %o", e.Path, e.Mode)
		}
	}
}

// TestLayoutRefuses covers K01 (paths that leave their root) and K02 (mounts
// that collide or cover what is not theirs).
func TestLayoutRefuses(t *testing.T) {
	asset := func(path, mount string) []task.Asset { return []task.Asset{{Path: path, Mount: mount}} }
	tests := map[string]struct {
		assets []task.Asset
		res    []task.Resource
		opts   workspace.Options
		want   string
	}{
		"traversal":           {assets: asset("../../etc/passwd", "x"), want: `assets[0].path "../../etc/passwd": path must not contain ".."`},
		"inner traversal":     {assets: asset("a/../b", "x"), want: `path must not contain ".."`},
		"absolute":            {assets: asset("/etc/passwd", "x"), want: "path must be relative"},
		"backslash":           {assets: asset(`a\b`, "x"), want: "no backslash"},
		"root":                {assets: asset("./", "x"), want: "path must not be the root itself"},
		"empty":               {assets: asset("", "x"), want: "non-empty"},
		"newline":             {assets: asset("a\nb", "x"), want: "control character"},
		"invalid UTF-8":       {assets: asset("a\xff", "x"), want: "invalid UTF-8"},
		"mount traversal":     {assets: asset("a", "../x"), want: `assets[0].mount "../x"`},
		"mount absolute":      {assets: asset("a", "/task.json"), want: "path must be relative"},
		"mount root":          {assets: asset("a", "."), want: "path must not be the root itself"},
		"mount empty":         {assets: asset("a", ""), want: "non-empty"},
		"mount denied":        {assets: asset("a", "./eval/x"), want: "path is denied: /eval"},
		"mount denied file":   {assets: asset("a", "task/hidden.json"), want: "path is denied: /task/hidden.json"},
		"ground truth":        {assets: asset("a", "ground_truth"), want: "path is denied: /ground_truth"},
		"mount reserved":      {assets: asset("a", "securebench/evaluator"), want: "reserved for non-public"},
		"mount reserved file": {assets: asset("a", "securebench/evaluation_inputs/tests/x"), want: "reserved for non-public"},
		"twice":               {assets: append(asset("a", "x"), asset("b", "./x")...), want: "duplicate materialized path: x"},
		"parent and child":    {assets: append(asset("a", "x"), asset("b", "x/y/z")...), want: "duplicate materialized path: x/y/z lies inside x"},
		"over public values":  {assets: asset("a", "securebench"), res: []task.Resource{res(task.Public, "q", "1")}, want: "securebench/public/q.json lies inside securebench"},
		"over one value":      {assets: asset("a", "securebench/public/q.json"), res: []task.Resource{res(task.Public, "q", "1")}, want: "duplicate materialized path"},
		"task file":           {assets: asset("a", "task.json"), want: "harness.config.task_file collides with public materialized path: task.json"},
		"below the task file": {assets: asset("a", "task.json/x"), want: "harness.config.task_file collides"},
		"above the task file": {assets: asset("a", "in"), opts: workspace.Options{TaskFile: "in/t.json"}, want: "harness.config.task_file collides"},
		"task file path":      {opts: workspace.Options{TaskFile: "../t.json"}, want: `harness.config.task_file "../t.json"`},
		"artifact":            {assets: asset("a", "out.txt"), opts: workspace.Options{ArtifactPath: "out.txt"}, want: "harness.config.artifact_path collides"},
		"artifact in asset":   {assets: asset("a", "out"), opts: workspace.Options{ArtifactPath: "out/x"}, want: "harness.config.artifact_path collides"},
		"artifact is task":    {opts: workspace.Options{ArtifactPath: "./task.json"}, want: "harness.config.artifact_path collides"},
		"name with slash":     {res: []task.Resource{res(task.Public, "a/b", "1")}, want: `resource name "a/b" cannot name a file`},
		"name with dots":      {res: []task.Resource{res(task.Public, "a..b", "1")}, want: `resource name "a..b" cannot name a file`},
		"name with backslash": {res: []task.Resource{res(task.Public, `a\b`, "1")}, want: "cannot name a file"},
		"empty name":          {res: []task.Resource{res(task.Public, "", "1")}, want: "cannot name a file"},
		"name with NUL":       {res: []task.Resource{res(task.Public, "a\x00", "1")}, want: "control character"},
		"long name":           {res: []task.Resource{res(task.Public, strings.Repeat("n", 252), "1")}, want: "longer than 255 bytes"},
		"broken value":        {res: []task.Resource{res(task.Public, "a", "{")}, want: "resource a:1:"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := workspace.ForAgent(newTask(t, tc.assets, tc.res...).Agent(), tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestFileReferences(t *testing.T) {
	tests := map[string]string{
		`{"path":"../x"}`:          `path must not contain ".."`,
		`{"path":5}`:               "must be a non-empty string",
		`{"path":"x","mount":"y"}`: "outside the allowed root securebench/evaluation_inputs",
		`{"path":"x","mount":"securebench/evaluation_inputs"}`:         "outside the allowed root",
		`{"path":"x","mount":"securebench/evaluation_inputs/../../y"}`: `path must not contain ".."`,
		`{"path":"x","mount":"securebench/evaluator/y"}`:               "outside the allowed root",
		`{"path":"x","read_only":"yes"}`:                               "true or false",
		`{"path":"x","mount":7}`:                                       "must be a non-empty string",
	}
	for value, want := range tests {
		tk := newTask(t, nil, res(task.EvaluationInputs, "f", value))
		_, err := workspace.ForTestSandbox(tk.TestSandbox(), workspace.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", value, err, want)
		}
	}
}

func TestPythonJSON(t *testing.T) {
	eachLine(t, "testdata/python_json.jsonl", func(n *source.Node) {
		in, want := n.Get("in").Text, n.Get("out").Text
		v, err := source.ParseJSON("v", 1, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := workspace.Encode(v); got != want+"\n" {
			t.Errorf("%s is written as %q, want %q", in, got, want)
		}
	})
}

// FuzzEncode: what is written is ASCII and reads back as the same value.
func FuzzEncode(f *testing.F) {
	f.Add(`{"b":[1,2.50,-0.0,1e300],"a":"\u2028\ud83d\ude00\u007f"}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := source.ParseJSON("v", 1, []byte(text))
		if err != nil {
			return
		}
		out := workspace.Encode(n)
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
			t.Fatalf("%q is not ASCII at %d", out, i)
		}
		again, err := source.ParseJSON("v", 1, []byte(out))
		if err != nil {
			t.Fatalf("%q does not parse: %v", out, err)
		}
		if second := workspace.Encode(again); second != out {
			t.Errorf("written as %q, then as %q", out, second)
		}
	})
}

func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"a/b", "./a//b/", "../x", "a\\b", "eval/x", "securebench/evaluator/x", "task/hidden.json", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		c, err := workspace.CleanPath(p)
		if err != nil {
			return
		}
		if again, err := workspace.CleanPath(c); err != nil || again != c {
			t.Errorf("%q became %q and then %q, %v", p, c, again, err)
		}
		slashed := "/" + c + "/"
		for _, bad := range []string{"//", "/./", "/../", "\\", "\x00", "\n"} {
			if strings.Contains(slashed, bad) {
				t.Errorf("%q became %q, which contains %q", p, c, bad)
			}
		}
		for _, root := range []string{"/eval/", "/scorer/", "/ground_truth/", "/securebench/evaluator/", "/securebench/evaluation_inputs/"} {
			if strings.HasPrefix(slashed, root) {
				t.Errorf("%q became %q, under %s", p, c, root)
			}
		}
	})
}
