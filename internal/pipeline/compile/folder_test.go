package compile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
)

// folder writes a pack that is a folder of tasks.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "manifest.yaml", "id: p\nversion: 1\ndefaults: {environment: {image: i}}\n")
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

const addTask = `# A comment.
family: code_completion
eval:
  tests:
    source: inline
    code: {path: tests.py}
  reference_solution: {path: solution.py}
input:
  prompt: {path: prompt.md}
  starter_code: |
    def add(a, b):
        pass
assets:
- path: data
`

const ordersTask = `id: shop/orders
family: terminal_task
input:
  instructions: Count the orders.
eval:
  checker: {source: pytest, path: tests}
  solution: {path: solve.sh}
assets:
- path: orders.csv
  mount: in/orders.csv
  read_only: false
`

func twoTasks() map[string]string {
	return map[string]string{
		"tasks/add/task.yaml": addTask, "tasks/add/prompt.md": "Write add.\n", "tasks/add/tests.py": "assert add(1, 2) == 3\n",
		"tasks/add/solution.py": "def add(a, b):\n    return a + b\n", "tasks/add/data/one.txt": "1", "tasks/add/notes.md": "nobody reads me",
		"tasks/orders/task.yaml": ordersTask, "tasks/orders/tests/test_count.py": "def test_a(): pass\n", "tasks/orders/tests/conftest.py": "",
		"tasks/orders/solve.sh": "wc -l in/orders.csv > count.txt\n", "tasks/orders/orders.csv": "a\nb\n",
	}
}

// twoLines are the rows that these tasks become, and the files beside them.
const twoLines = `{"id":"add","family":"code_completion","input":{"prompt":"Write add.\n","starter_code":"def add(a, b):\n    pass\n"},"eval":{"tests":{"source":"inline","code":"assert add(1, 2) == 3\n"},"reference_solution":"def add(a, b):\n    return a + b\n"},"assets":[{"path":"add/data","mount":"data"}]}
{"id":"shop/orders","family":"terminal_task","input":{"instructions":"Count the orders."},"eval":{"checker":{"source":"pytest","path":"orders/tests"},"solution":{"path":"orders/solve.sh"}},"assets":[{"path":"orders/orders.csv","mount":"in/orders.csv","read_only":false}]}
`

// asLines is the pack of these tasks in a file of rows.
func asLines(t *testing.T) string {
	t.Helper()
	all := twoTasks()
	return folder(t, map[string]string{"tasks.jsonl": twoLines, "assets/add/data/one.txt": "1", "assets/orders/orders.csv": all["tasks/orders/orders.csv"],
		"hidden/orders/tests/test_count.py": all["tasks/orders/tests/test_count.py"], "hidden/orders/tests/conftest.py": "", "hidden/orders/solve.sh": all["tasks/orders/solve.sh"]})
}

// TestFolderOfTasks: a folder of tasks is the pack that its lines and files would be, to the
// last digest.
func TestFolderOfTasks(t *testing.T) {
	t.Parallel()
	inFolder, inLines := folder(t, twoTasks()), asLines(t)
	same(t, inLines, inFolder)
	a, b := loaded(t, inLines), loaded(t, inFolder)
	if a.Digests != b.Digests || a.Public != b.Public {
		t.Errorf("the folder has %+v %s\nwant %+v %s", b.Digests, b.Public, a.Digests, a.Public)
	}
	if len(b.PublicFiles) != 2 || len(b.EvalFiles) != 3 || b.EvalFiles["add/tests.py"] != "" {
		t.Errorf("files %v and %v", b.PublicFiles, b.EvalFiles)
	}
	row, err := b.Find(context.Background(), "shop/orders")
	if err != nil || !strings.HasSuffix(row.Pos.String(), "/tasks/orders/task.yaml:1:1") || row.Line != 2 {
		t.Errorf("the row is at %s, line %d: %v", row.Pos, row.Line, err)
	}
	digest, err := pack.Survey(context.Background(), b.Location, compile.Texts(registry()), func(pack.Row) {})
	if err != nil || digest != b.Digests.Tasks {
		t.Errorf("a survey finds %s, %v", digest, err)
	}
	reordered := twoTasks()
	lines := strings.SplitAfter(addTask, "input:\n")
	reordered["tasks/add/task.yaml"] = "input:\n" + lines[1] + strings.TrimSuffix(strings.TrimPrefix(lines[0], "# A comment.\n"), "input:\n")
	if c := loaded(t, folder(t, reordered)); c.Digests != b.Digests {
		t.Errorf("the order of keys changes the digests: %+v", c.Digests)
	}
}

// TestFolderChanges edits files of a folder of tasks after it was loaded, and loads it again.
func TestFolderChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, text string
		row        bool // the row itself is another
		noticed    bool // and the pack
	}{
		{"tasks/add/tests.py", "assert add(1, 2) == 4\n", true, true},
		{"tasks/add/prompt.md", "Write sub.\n", true, true},
		{"tasks/add/task.yaml", strings.Replace(addTask, "pass", "...", 1), true, true},
		{"tasks/add/task.yaml", "", true, false},
		{"tasks/orders/orders.csv", "a\nc\n", false, true},
		{"tasks/orders/solve.sh", "echo 2 > count.txt\n", false, true},
		{"tasks/add/notes.md", "still nobody", false, false},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, twoTasks())
			before, refs := placed(t, dir)
			rows, err := before.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			put(t, dir, tt.file, tt.text)
			changed := 0
			for _, ref := range refs {
				var e *pack.ChangedError
				_, err := rows.Row(ref)
				if !errors.As(err, &e) {
					continue
				}
				changed++
				if !strings.HasPrefix(err.Error(), filepath.Join(dir, "tasks/add/task.yaml")+":") || !strings.Contains(err.Error(), ": the task changed since the pack was loaded") {
					t.Errorf("it says %v", err)
				}
			}
			if (changed == 1) != tt.row {
				t.Errorf("%d rows changed", changed)
			}
			if tt.text == "" {
				return
			}
			if after := loaded(t, dir); (after.Digests.Pack != before.Digests.Pack) != tt.noticed {
				t.Errorf("the digest is %s, and was %s", after.Digests.Pack, before.Digests.Pack)
			}
		})
	}
	for name, tt := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"gone": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "tasks/orders")) }, "tasks: a task is missing since the pack was loaded"},
		"another": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "tasks/add"), filepath.Join(dir, "tasks/z"))
		}, "tasks/orders/task.yaml: the task changed since the pack was loaded"},
		"more": {func(dir string) error {
			return os.CopyFS(filepath.Join(dir, "tasks/z"), os.DirFS(filepath.Join(dir, "tasks/add")))
		}, "tasks/z/task.yaml: the folder has more tasks since the pack was loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, twoTasks())
			p := loaded(t, dir)
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			var last error
			for _, err := range p.Rows(context.Background()) {
				last = err
			}
			var e *pack.ChangedError
			if !errors.As(last, &e) || strings.TrimPrefix(last.Error(), dir+"/") != tt.want {
				t.Errorf("reading it says %v, want %s", last, tt.want)
			}
		})
	}
}

// TestFolderLanes: what one lane has the other has not, and no agent gets the answers.
func TestFolderLanes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ task, want string }{
		"a text of both": {"family: code_completion\ninput: {prompt: {path: tests.py}}\neval: {tests: {source: inline, code: {path: tests.py}}}\n",
			"tasks/add/task.yaml:3:45: eval.tests.code.path names what input.prompt.path names in the other lane (keep public and hidden files apart)"},
		"an asset": {"family: code_completion\ninput: {prompt: p}\neval: {tests: {source: inline, code: {path: tests.py}}}\nassets: [{path: tests.py}]\n",
			"tasks/add/task.yaml:4:10: assets[0] names what eval.tests.code.path names in the other lane (keep public and hidden files apart)"},
		"a folder above": {"family: code_completion\ninput: {prompt: p}\neval: {tests: {source: inline, code: {path: data/one.txt}}}\nassets: [{path: data}]\n",
			"tasks/add/task.yaml:4:10: assets[0] names what eval.tests.code.path names in the other lane (keep public and hidden files apart)"},
		"the task": {"family: code_completion\ninput: {prompt: p}\neval: {tests: {source: inline, code: a}}\nassets: [{path: task.yaml}]\n",
			"tasks/add/task.yaml:4:10: assets[0] reaches task.yaml, which has the answers (name a file or folder beside it)"},
		"the task as a prompt": {"family: code_completion\ninput: {prompt: {path: task.yaml}}\neval: {tests: {source: inline, code: a}}\n",
			"tasks/add/task.yaml:2:24: input.prompt.path reaches task.yaml, which has the answers (name a file or folder beside it)"},
		"the folder": {"family: code_completion\ninput: {prompt: p}\neval: {tests: {source: inline, code: a}}\nassets: [{path: .}]\n",
			`tasks/add/task.yaml:4:17: assets[0].path "." names the folder itself (write a relative path with forward slashes)`},
		"another task": {"family: code_completion\ninput: {prompt: p}\neval: {tests: {source: inline, code: a}}\nassets: [{path: ../orders/tests}]\n",
			`tasks/add/task.yaml:4:17: assets[0].path "../orders/tests" contains ".." (write a relative path with forward slashes)`},
		"a checker that is public": {"family: terminal_task\ninput: {instructions: {path: solution.py}}\neval: {checker: {source: script, path: solution.py}}\n",
			"tasks/add/task.yaml:3:40: eval.checker.path names what input.instructions.path names in the other lane (keep public and hidden files apart)"},
		"a public text of a file in a list": {artifact("{path: data/one.txt}", "[{path: solution.py}, {path: data/one.txt}]", ""),
			"tasks/add/task.yaml:3:79: eval.reference_artifact[1].path names what input.brief.path names in the other lane (keep public and hidden files apart)"},
		"an asset of a file in a list": {artifact("b", "[{path: data/one.txt}]", "assets: [{path: data}]\n"),
			"tasks/add/task.yaml:4:10: assets[0] names what eval.reference_artifact[0].path names in the other lane (keep public and hidden files apart)"},
		"a public text of a file in a list, from above": {artifact("{path: solution.py}", "[{path: add/solution.py}]", ""),
			`tasks/add/task.yaml:3:58: task 'add' (artifact_task).eval.reference_artifact[0].path "add/add/solution.py" does not exist (put it below tasks/ beside the manifest)`},
		"the task in a list": {artifact("b", "[{path: task.yaml}]", ""),
			"tasks/add/task.yaml:3:58: eval.reference_artifact[0].path reaches task.yaml, which has the answers (name a file or folder beside it)"},
		"another task in a list": {artifact("b", "[{path: orders/orders.csv}]", ""),
			`tasks/add/task.yaml:3:58: task 'add' (artifact_task).eval.reference_artifact[0].path "add/orders/orders.csv" does not exist (put it below tasks/ beside the manifest)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := twoTasks()
			files["tasks/add/task.yaml"] = tt.task
			loc, err := pack.Locate(folder(t, files))
			if err != nil {
				t.Fatal(err)
			}
			if _, errs, _ := load(t, loc); errs != tt.want {
				t.Errorf("got  %s\nwant %s", errs, tt.want)
			}
		})
	}
	for _, k := range tasks(t, loaded(t, folder(t, twoTasks()))) {
		for _, r := range k.Agent().Payload() {
			if strings.Contains(string(r.Value), "return a + b") || strings.Contains(string(r.Value), "solve.sh") {
				t.Errorf("the agent of %s sees %s", k.ID(), r.Value)
			}
		}
	}
}

// artifact is a task of a text, with references.
func artifact(brief, references, more string) string {
	return "family: artifact_task\ninput: {brief: " + brief + ", output_spec: {type: text, path: out.txt}}\neval: {rubric: {type: text}, reference_artifact: " + references + "}\n" + more
}

// TestFolderLists: files that a list names are files of their lane, as those of other values.
func TestFolderLists(t *testing.T) {
	t.Parallel()
	inFolder := folder(t, map[string]string{"tasks/a/task.yaml": artifact("b", "[{path: one.txt}, {path: deep/two.txt}]", "assets: [{path: in.txt}]\n"),
		"tasks/a/one.txt": "1", "tasks/a/deep/two.txt": "2", "tasks/a/in.txt": "in"})
	inLines := folder(t, map[string]string{"tasks.jsonl": `{"id":"a","family":"artifact_task","input":{"brief":"b","output_spec":{"type":"text","path":"out.txt"}},"eval":{"rubric":{"type":"text"},"reference_artifact":[{"path":"a/one.txt"},{"path":"a/deep/two.txt"}]},"assets":[{"path":"a/in.txt","mount":"in.txt"}]}` + "\n",
		"hidden/a/one.txt": "1", "hidden/a/deep/two.txt": "2", "assets/a/in.txt": "in"})
	same(t, inLines, inFolder)
	if a, b := loaded(t, inLines), loaded(t, inFolder); a.Digests != b.Digests || len(b.EvalFiles) != 2 {
		t.Errorf("the folder has %+v and %v\nwant %+v", b.Digests, b.EvalFiles, a.Digests)
	}
}

// TestFolderTexts: a text that tests may see stays one, whatever it says; what is an object with
// a path is a file.
func TestFolderTexts(t *testing.T) {
	t.Parallel()
	const pair = "family: preference_pair\ninput: {prompt: p, candidate_a: a, candidate_b: b}\neval: {preference: A, orders: both}\n"
	const tool = "family: tool_call\ninput: {prompt: p, tools: [{name: f, parameters: {}}]}\neval: {expected_calls: [{name: f}], initial_state: {path: s.json, read_only: true}}\n"
	const browser = "family: browser_task\ninput: {start: a}\neval: {credentials: name, success_check: {path: x}}\n"
	p := loaded(t, folder(t, map[string]string{"tasks/a/task.yaml": pair, "tasks/b/task.yaml": tool, "tasks/b/s.json": "{}", "tasks/c/task.yaml": browser}))
	var got []string
	for row, err := range p.Rows(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row.Eval.JSON()))
	}
	want := []string{`{"preference":"A","orders":"both"}`, `{"expected_calls":[{"name":"f"}],"initial_state":{"path":"b/s.json","read_only":true}}`,
		`{"credentials":"name","success_check":{"path":"x"}}`}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFolderMistakes names each mistake with its place.
func TestFolderMistakes(t *testing.T) {
	t.Parallel()
	const head = "family: short_answer\ninput: {question: q}\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no task":         {map[string]string{"tasks/b/question.md": "q"}, "tasks/b/task.yaml: the task's folder has no task.yaml (write the task there, or remove the folder)"},
		"a file":          {map[string]string{"tasks/b.yaml": head}, "tasks/b.yaml: a regular file is in the place of a task's folder (give each task a folder with task.yaml)"},
		"broken":          {map[string]string{"tasks/b/task.yaml": "family: [\n"}, "tasks/b/task.yaml:2:1: invalid YAML: did not find expected node content (indent the keys of an object alike, write a blank after each colon, and close what is open)"},
		"empty":           {map[string]string{"tasks/b/task.yaml": ""}, "tasks/b/task.yaml: the file is empty"},
		"a list":          {map[string]string{"tasks/b/task.yaml": "- a\n"}, "tasks/b/task.yaml:1:1: task.yaml must be an object, not a list (write the keys of a row: id, family, input, eval, assets, environment, metadata)"},
		"odd":             {map[string]string{"tasks/b/task.yaml": head + "eval: {accepted_answers: [010]}\n"}, "tasks/b/task.yaml:3:27: 010 is read differently by YAML readers (write it in quotes, or in plain digits)"},
		"wrong case":      {map[string]string{"tasks/b/task.yaml": head + "Eval: {accepted_answers: [a]}\n"}, `tasks/b/task.yaml:3:1: task.yaml has field "Eval" in the wrong case (write eval)`},
		"yes":             {map[string]string{"tasks/b/task.yaml": head + "eval: {accepted_answers: [yes]}\n"}, "tasks/b/task.yaml:3:27: yes is read differently by YAML readers (write it in quotes, or in plain digits)"},
		"key":             {map[string]string{"tasks/b/task.yaml": head + "eval: {accepted: [a]}\n"}, "tasks/b/task.yaml:3:7: task 'b' (short_answer).eval.accepted_answers is required\ntasks/b/task.yaml:3:8: task 'b' (short_answer).eval has unknown field \"accepted\" (known: accepted_answers, tolerance, match)"},
		"missing text":    {map[string]string{"tasks/b/task.yaml": "family: short_answer\ninput:\n  question: {path: q.md}\neval: {accepted_answers: [a]}\n"}, `tasks/b/task.yaml:3:20: input.question.path "b/q.md" does not exist (put it below tasks/ beside the manifest)`},
		"same id":         {map[string]string{"tasks/b/task.yaml": "id: a\n" + head + "eval: {accepted_answers: [a]}\n"}, `tasks/b/task.yaml:1:5: duplicate task id "a", first in tasks/a/task.yaml (give every task a unique id)`},
		"both forms":      {map[string]string{"tasks.jsonl": "{}\n"}, "tasks/a/task.yaml: the pack has both tasks.jsonl and a folder of tasks (keep one of them: which tasks it has must be beyond doubt)"},
		"unread":          {map[string]string{"hidden/x": ""}, "hidden: a pack of tasks/*/task.yaml does not read this folder (put its files beside the task.yaml that names them)"},
		"not UTF-8":       {map[string]string{"tasks/b/task.yaml": head + "eval: {accepted_answers: [\"\xff\"]}\n"}, "tasks/b/task.yaml:3:28: the file has a byte that is not UTF-8 (save the file as UTF-8)"},
		"evaluation file": {map[string]string{"tasks/b/task.yaml": "family: terminal_task\ninput: {instructions: i}\neval: {checker: {source: pytest, path: tests}}\n"}, `tasks/b/task.yaml:3:40: task 'b' (terminal_task).eval.checker.path "b/tests" does not exist (put it below tasks/ beside the manifest)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"tasks/a/task.yaml": head + "eval: {accepted_answers: [a]}\n", "tasks/.DS_Store": "\x00"}
			for file, text := range tt.files {
				files[file] = text
			}
			loc, err := pack.Locate(folder(t, files))
			if err != nil {
				t.Fatal(err)
			}
			_, errs, _ := load(t, loc)
			if errs = strings.ReplaceAll(errs, filepath.Dir(loc.Manifest)+"/", ""); errs != tt.want {
				t.Errorf("got  %s\nwant %s", errs, tt.want)
			}
		})
	}
	t.Run("large text", func(t *testing.T) {
		t.Parallel()
		loc, err := pack.Locate(folder(t, map[string]string{"tasks/a/task.yaml": "family: short_answer\ninput: {question: {path: q.md}}\neval: {accepted_answers: [a]}\n", "tasks/a/q.md": strings.Repeat("x", 16<<20+1)}))
		if err != nil {
			t.Fatal(err)
		}
		want := `tasks/a/task.yaml:2:26: input.question.path "a/q.md" is too large: a task with the files that it names may have 16777216 bytes (split the task, or make the data where it is used)`
		if _, errs, _ := load(t, loc); errs != want {
			t.Errorf("got  %s\nwant %s", errs, want)
		}
	})
	t.Run("no tasks", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, nil)
		if err := os.Mkdir(filepath.Join(dir, "tasks"), 0o755); err != nil {
			t.Fatal(err)
		}
		loc, err := pack.Locate(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, errs, warnings := load(t, loc); errs != "" || warnings != "tasks: the pack has no tasks (give each task a folder with task.yaml; securebench pack add makes one)" {
			t.Errorf("got %s %s", errs, warnings)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		// 3 MB of control characters, which a line writes with six bytes each.
		zeros := "family: short_answer\ninput: {question: q}\neval: {accepted_answers: [a]}\nmetadata: {a: \"" + strings.Repeat(`\0`, 3_000_000/2) + "\", b: *a}\n"
		zeros = strings.Replace(zeros, "{a: ", "{a: &a ", 1)
		loc, err := pack.Locate(folder(t, map[string]string{"tasks/a/task.yaml": zeros}))
		if err != nil {
			t.Fatal(err)
		}
		want := "tasks/a/task.yaml:1:1: the task has 18000120 bytes as a line, with the files that it names, more than 16777216 (split the task, or make the data where it is used)"
		if _, errs, _ := load(t, loc); errs != want {
			t.Errorf("got  %s\nwant %s", errs, want)
		}
	})
	t.Run("link", func(t *testing.T) {
		t.Parallel()
		files := twoTasks()
		delete(files, "tasks/add/tests.py")
		dir := folder(t, files)
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "tasks/add/tests.py")); err != nil {
			t.Fatal(err)
		}
		loc, err := pack.Locate(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := `tasks/add/task.yaml:6:18: eval.tests.code.path "add/tests.py" reaches tasks/add/tests.py, which is a symbolic link (replace it by a copy: packs hold regular files and directories only)`
		if _, errs, _ := load(t, loc); errs != want {
			t.Errorf("got  %s\nwant %s", errs, want)
		}
	})
}

// TestFolderSample: the pack that authors copy has tasks of each kind, and nothing to warn of.
func TestFolderSample(t *testing.T) {
	t.Parallel()
	p := loaded(t, "../../../packs/folder-sample")
	if p.Count != 3 || len(p.Warnings) > 0 || len(p.PublicFiles) != 1 || len(p.EvalFiles) != 2 {
		t.Errorf("%d rows, files %v and %v, warnings %v", p.Count, p.PublicFiles, p.EvalFiles, p.Warnings)
	}
}
