package compile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
)

// put writes a file below dir, with the folders that it needs.
func put(t testing.TB, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// filed is a pack whose texts are moved to files.
type filed struct {
	t     *testing.T
	dir   string
	moved int
}

// at moves the texts at a place below n, whose further names are path.
func (f *filed) at(n *source.Node, path []string, lane string) {
	if n == nil {
		return
	}
	if len(path) == 0 {
		if n.Kind != source.String {
			return
		}
		f.moved++
		name := fmt.Sprintf("texts/%d.txt", f.moved)
		put(f.t, f.dir, lane+"/"+name, n.Text)
		*n = source.Node{Kind: source.Map, Fields: []source.Field{{Name: "path", Value: &source.Node{Kind: source.String, Text: name}}}}
		return
	}
	if path[0] != "*" {
		f.at(n.Get(path[0]), path[1:], lane)
		return
	}
	for _, item := range n.Items {
		f.at(item, path[1:], lane)
	}
	for _, field := range n.Fields {
		f.at(field.Value, path[1:], lane)
	}
}

// TestTextsInFiles moves every text of the repository's packs to a file. The tasks and the
// public lane stay the same.
func TestTextsInFiles(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../../../packs/*/tasks.jsonl")
	if err != nil || len(names) < 5 {
		t.Fatalf("found %d packs: %v", len(names), err)
	}
	texts := compile.Texts(registry())
	for _, file := range names {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			plain, inFiles := t.TempDir(), t.TempDir()
			from := os.DirFS(filepath.Dir(file))
			for _, dir := range []string{plain, inFiles} {
				if err := os.CopyFS(dir, from); err != nil {
					t.Fatal(err)
				}
			}
			lines, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, _, _, err := pack.ReadManifest(pack.Location{Manifest: filepath.Join(plain, "manifest.yaml")})
			if err != nil {
				t.Fatal(err)
			}
			f := &filed{t: t, dir: inFiles}
			var before, after []byte
			for i, line := range strings.SplitAfterN(string(lines), "\n", 13)[:min(12, strings.Count(string(lines), "\n"))] {
				before = append(before, line...)
				root, err := source.ParseJSON(file, i+1, []byte(line))
				if err != nil {
					t.Fatal(err)
				}
				family := m.Family
				if n := root.Get("family"); n != nil {
					family = n.Text
				}
				for _, place := range texts(family) {
					if place.File || place.Reference {
						continue
					}
					lane := map[string]string{"input": m.PublicRoot, "eval": m.EvalRoot}[place.Path[0]]
					f.at(root, place.Path, lane)
				}
				after = append(append(after, root.JSON()...), '\n')
			}
			put(t, plain, "tasks.jsonl", string(before))
			put(t, inFiles, "tasks.jsonl", string(after))
			same(t, plain, inFiles)
			if f.moved < 4 {
				t.Errorf("only %d texts were moved to files", f.moved)
			}
		})
	}
}

// same compares two packs' tasks.
func same(t *testing.T, want, got string) {
	t.Helper()
	a := loaded(t, want)
	b, refs := placed(t, got)
	wants, gots := tasks(t, a), tasks(t, b)
	if len(wants) != len(gots) || len(wants) == 0 {
		t.Fatalf("%d tasks, want %d", len(gots), len(wants))
	}
	for i, w := range wants {
		if x, y := everything(t, w), everything(t, gots[i]); x != y {
			t.Errorf("task %s is\n%.2000s\nwant\n%.2000s", w.ID(), y, x)
		}
	}
	rows, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	i := 0
	for row, err := range b.Rows(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		again, err := rows.Row(refs[i])
		whole, wholeErr := rows.Whole(refs[i])
		if err != nil || wholeErr != nil || string(again.Whole) != string(row.Whole) || string(whole) != string(row.Whole) || string(whole) != string(gots[i].Row()) {
			t.Errorf("row %d is read differently by its place: %v %v", i, err, wholeErr)
		}
		i++
	}
}

func loaded(t *testing.T, dir string) *compile.Loaded {
	t.Helper()
	p, _ := placed(t, dir)
	return p
}

// placed loads a pack and returns the places of its rows.
func placed(t *testing.T, dir string) (p *compile.Loaded, refs []pack.Ref) {
	t.Helper()
	loc, err := pack.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err = compile.Load(context.Background(), loc, registry(), func(row pack.Row, _ func() (task.Task, error)) { refs = append(refs, row.Ref()) })
	if err != nil {
		t.Fatal(err)
	}
	return p, refs
}

// everything is what the views of a task show.
func everything(t *testing.T, k task.Task) string {
	t.Helper()
	var out strings.Builder
	for _, r := range k.Evaluator().Payload() {
		fmt.Fprintf(&out, "evaluator %s %v %s\n", r.Name, r.Lane, r.Value)
	}
	for _, r := range k.Agent().Payload() {
		fmt.Fprintf(&out, "agent %s %s\n", r.Name, r.Value)
	}
	return out.String()
}

// oneText is a pack of one row with a text of each lane in a file.
const oneText = `{"id": "a", "family": "short_answer", "input": {"question": {"path": "q.md"}}, "eval": {"accepted_answers": ["x"]}}
{"id": "b", "family": "code_completion", "environment": {"image": "i"}, "input": {"prompt": "Write f."}, "eval": {"tests": {"source": "inline", "code": {"path": "b/tests.py"}}, "reference_solution": {"path": "b/f.py"}}}
`

// TestTextsChange edits the files of a pack: its digests, its rows and their readers notice.
func TestTextsChange(t *testing.T) {
	t.Parallel()
	for _, edited := range []string{"assets/q.md", "hidden/b/tests.py", "hidden/b/f.py"} {
		t.Run(edited, func(t *testing.T) {
			t.Parallel()
			dir := write(t, manifest, []string{strings.TrimSpace(oneText)}, "assets/q.md", "hidden/b/tests.py", "hidden/b/f.py").Manifest
			dir = filepath.Dir(dir)
			before, refs := placed(t, dir)
			rows, err := before.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			put(t, dir, edited, "Content of "+edited) // of the same length
			var changed *pack.ChangedError
			found := 0
			for _, ref := range refs {
				if _, err := rows.Row(ref); errors.As(err, &changed) && strings.HasSuffix(err.Error(), ": the file changed since the pack was loaded") {
					found++
				}
				if _, err := rows.Whole(ref); errors.As(err, &changed) {
					found++
				}
			}
			var last error
			for _, err := range before.Rows(context.Background()) {
				last = err
			}
			if found != 2 || !errors.As(last, &changed) {
				t.Errorf("%d readings noticed, and %v", found, last)
			}
			after := loaded(t, dir)
			if before.Digests.Pack == after.Digests.Pack || (before.Public == after.Public) != strings.HasPrefix(edited, "hidden/") {
				t.Errorf("the digests are %+v %s, and were %+v %s", after.Digests, after.Public, before.Digests, before.Public)
			}
			different := 0
			a, b := tasks(t, loadedAs(t, dir, edited)), tasks(t, after)
			for i := range b {
				if string(a[i].Row()) != string(b[i].Row()) {
					different++
				}
			}
			if different != 1 {
				t.Errorf("%d rows differ", different)
			}
		})
	}
}

// loadedAs loads the pack with a file as it was.
func loadedAs(t *testing.T, dir, file string) *compile.Loaded {
	t.Helper()
	was := t.TempDir()
	if err := os.CopyFS(was, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	put(t, was, file, "content of "+file)
	return loaded(t, was)
}

// TestHiddenTexts: a text of a hidden file reaches no agent, whatever path a public value
// gives.
func TestHiddenTexts(t *testing.T) {
	t.Parallel()
	const secret = "canary 55e1"
	for _, question := range []string{"secret.md", "../hidden/secret.md", "hidden/secret.md", "/secret.md", "link.md", "linked/secret.md", "hard.md"} {
		t.Run(question, func(t *testing.T) {
			t.Parallel()
			quoted, err := json.Marshal(question)
			if err != nil {
				t.Fatal(err)
			}
			row := `{"id": "a", "family": "free_response", "input": {"prompt": {"path": ` + string(quoted) + `}}, "eval": {"rubric": {"accepted_answers": ["yes"]}, "reference_answer": {"path": "secret.md"}}}`
			loc := write(t, manifest, []string{row}, "assets/q.md")
			dir := filepath.Dir(loc.Manifest)
			put(t, dir, "hidden/secret.md", secret)
			if err := errors.Join(os.Symlink("../hidden/secret.md", filepath.Join(dir, "assets/link.md")), os.Symlink("../hidden", filepath.Join(dir, "assets/linked"))); err != nil {
				t.Fatal(err)
			}
			if _, errs, _ := load(t, loc); errs == "" {
				t.Error("the row is accepted")
			}
		})
	}
	t.Run("honest", func(t *testing.T) {
		t.Parallel()
		loc := write(t, manifest, []string{`{"id": "a", "family": "free_response", "input": {"prompt": {"path": "q.md"}}, "eval": {"rubric": {"accepted_answers": ["yes"]}, "reference_answer": {"path": "secret.md"}}}`}, "assets/q.md")
		put(t, filepath.Dir(loc.Manifest), "hidden/secret.md", secret)
		p, errs, _ := load(t, loc)
		if errs != "" {
			t.Fatal(errs)
		}
		k := tasks(t, p)[0]
		var agent, evaluator strings.Builder
		for _, r := range k.Agent().Payload() {
			agent.Write(r.Value)
		}
		for _, r := range k.Evaluator().Payload() {
			evaluator.Write(r.Value)
		}
		if strings.Contains(agent.String(), secret) || !strings.Contains(agent.String(), "content of assets/q.md") || !strings.Contains(evaluator.String(), secret) {
			t.Errorf("the agent sees %s, the evaluator %s", agent.String(), evaluator.String())
		}
	})
}

// TestContextObjects: a context may be an object, and one whose only key is path says nothing
// about a file.
func TestContextObjects(t *testing.T) {
	t.Parallel()
	for _, row := range []string{
		`{"id": "a", "family": "short_answer", "input": {"question": "q", "context": {"path": "no/file"}}, "eval": {"accepted_answers": ["x"]}}`,
		`{"id": "a", "family": "free_response", "input": {"prompt": "p", "context": {"path": "no/file"}}, "eval": {"rubric": {"accepted_answers": ["x"]}}}`,
		`{"id": "a", "family": "terminal_task", "environment": {"image": "i"}, "input": {"instructions": "i", "context": {"path": "no/file"}}, "eval": {"checker": {"command": "true"}}}`,
	} {
		p, errs, _ := load(t, write(t, manifest, []string{row}))
		if errs != "" {
			t.Error(errs)
			continue
		}
		for _, r := range tasks(t, p)[0].Agent().Payload() {
			if r.Name == "context" && string(r.Value) != `{"path":"no/file"}` {
				t.Errorf("the context is %s", r.Value)
			}
		}
	}
}

// TestTextMistakes names each mistake with its place.
func TestTextMistakes(t *testing.T) {
	t.Parallel()
	row := func(prompt, solution string) string {
		return `{"id": "a", "family": "code_completion", "environment": {"image": "i"}, "input": {"prompt": ` + prompt + `}, "eval": {"tests": {"source": "inline", "code": "assert f()"}, "reference_solution": ` + solution + `}}`
	}
	const ok = `{"path": "ok.txt"}`
	for name, tt := range map[string]struct{ row, want string }{
		"missing":    {row(`{"path": "no.md"}`, ok), `tasks.jsonl:1:102: input.prompt.path "no.md" does not exist (put it below assets/ beside the manifest)`},
		"hidden":     {row(ok, `{"path": "no.py"}`), `tasks.jsonl:1:207: eval.reference_solution.path "no.py" does not exist (put it below hidden/ beside the manifest)`},
		"case":       {row(`{"path": "OK.txt"}`, ok), `tasks.jsonl:1:102: input.prompt.path "OK.txt" does not exist (spell it as the file system does: "ok.txt")`},
		"absolute":   {row(`{"path": "/etc/passwd"}`, ok), `tasks.jsonl:1:102: input.prompt.path "/etc/passwd" is absolute (write a relative path with forward slashes)`},
		"outside":    {row(ok, `{"path": "../tasks.jsonl"}`), `tasks.jsonl:1:207: eval.reference_solution.path "../tasks.jsonl" contains ".." (write a relative path with forward slashes)`},
		"number":     {row(`{"path": 5}`, ok), `tasks.jsonl:1:102: input.prompt.path must be a non-empty string, not a number (quote it: "5")`},
		"folder":     {row(`{"path": "folder"}`, ok), `tasks.jsonl:1:102: input.prompt.path "folder" is a folder (name one of its files)`},
		"binary":     {row(`{"path": "binary"}`, ok), `tasks.jsonl:1:102: input.prompt.path "binary" is not text: assets/binary:2:3: the file has a byte that is not UTF-8 (save the file as UTF-8)`},
		"UTF-16":     {row(`{"path": "utf16"}`, ok), `tasks.jsonl:1:102: input.prompt.path "utf16" is not text: assets/utf16:1:1: the file is in UTF-16 (save it as UTF-8)`},
		"mark":       {row(`{"path": "bom"}`, ok), `tasks.jsonl:1:102: input.prompt.path "bom" is not text: assets/bom:1:1: the file has a byte order mark (save the file as UTF-8 without one)`},
		"too large":  {row(`{"path": "large"}`, ok), `tasks.jsonl:1:102: input.prompt.path "large" is too large: a row with the files that it names may have 16777216 bytes (split the task, or make the data where it is used)`},
		"together":   {row(`{"path": "half"}`, `{"path": "half"}`), `tasks.jsonl:1:205: eval.reference_solution.path "half" is too large: a row with the files that it names may have 16777216 bytes (split the task, or make the data where it is used)`},
		"escaped":    {row(`{"path": "zeros"}`, ok), `tasks.jsonl:1:1: the row has 18000172 bytes with the files that it names, more than 16777216 (split the task, or make the data where it is used)`},
		"blank":      {row(`{"path": "blank"}`, ok), `tasks.jsonl:1:93: task 'a' (code_completion).input.prompt must be a non-empty string`},
		"other keys": {row(`{"path": "ok.txt", "mount": "x"}`, ok), `tasks.jsonl:1:93: task 'a' (code_completion).input.prompt must be a non-empty string (or the path of a file by itself: {"path": …})`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc := write(t, manifest, []string{tt.row})
			dir := filepath.Dir(loc.Manifest)
			for _, root := range []string{"assets/", "hidden/"} {
				put(t, dir, root+"ok.txt", "fine")
			}
			for file, text := range map[string]string{"folder/x": "x", "binary": "ab\ncd\xff", "utf16": "\xff\xfea\x00", "bom": "\xef\xbb\xbfa", "blank": " \n",
				"large": strings.Repeat("x", 16<<20+1), "half": strings.Repeat("x", 9<<20), "zeros": strings.Repeat("\x00", 3000000)} {
				put(t, dir, "assets/"+file, text)
				if file == "half" {
					put(t, dir, "hidden/"+file, text)
				}
			}
			if _, errs, _ := load(t, loc); errs != tt.want {
				t.Errorf("got  %s\nwant %s", errs, tt.want)
			}
		})
	}
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		loc := write(t, manifest, []string{row(`{"path": "pipe"}`, ok)}, "hidden/ok.txt", "assets/x")
		if err := syscall.Mkfifo(filepath.Join(filepath.Dir(loc.Manifest), "assets/pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		want := `tasks.jsonl:1:102: input.prompt.path "pipe" reaches assets/pipe, which is a special file (replace it by a copy: packs hold regular files and directories only)`
		if _, errs, _ := load(t, loc); errs != want {
			t.Errorf("got  %s\nwant %s", errs, want)
		}
	})
}

// TestFoldersOfTests: a folder of pytest's files stands for their texts, where the tests share
// a process with the candidate.
func TestFoldersOfTests(t *testing.T) {
	t.Parallel()
	row := func(more, path string) string {
		return `{"id": "a", "family": "code_completion", "environment": {"image": "i"}, "input": {"prompt": "Write f."}, "eval": {"tests": {"source": "inline"` + more + `, "code": {"path": "` + path + `"}}}}`
	}
	const shared = `, "containment": "shared"`
	for name, tt := range map[string]struct{ row, want string }{
		"shared":   {row(shared, "t/"), ""},
		"split":    {row("", "t"), `tasks.jsonl:1:153: task 'a' (code_completion).eval.tests.code is a folder of pytest files, and tests that are split from the candidate are one text (set eval.tests.containment to "shared", or write one file)`},
		"empty":    {row(shared, "none"), `tasks.jsonl:1:187: eval.tests.code.path "none" is a folder without files (put files there, or remove the field)`},
		"no tests": {row(shared, "t/deep"), `tasks.jsonl:1:178: task 'a' (code_completion).eval.tests.code has no file of tests (name it test_….py or …_test.py, as pytest does)`},
		"binary":   {row(shared, "b"), `tasks.jsonl:1:187: eval.tests.code.path "b/test_a.py" is not text: hidden/b/test_a.py:1:1: the file has a byte that is not UTF-8 (save the file as UTF-8)`},
		"many":     {row(shared, "many"), `tasks.jsonl:1:187: eval.tests.code.path "many" has more than 1024 files (combine them)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc := write(t, manifest, []string{tt.row})
			dir := filepath.Dir(loc.Manifest)
			for file, text := range map[string]string{"t/conftest.py": "", "t/test_a.py": "def test_a(): pass\n", "t/deep/helpers.py": "x = 1\n",
				"t/__pycache__/test_a.cpython-313.pyc": "\xff\xfe", "t/deep/.DS_Store": "\xff", "none/.keep": "", "b/test_a.py": "\xff"} {
				put(t, dir, "hidden/"+file, text)
			}
			if name == "many" {
				for i := range 1025 {
					put(t, dir, fmt.Sprintf("hidden/many/test_%d.py", i), "x")
				}
			}
			p, errs, _ := load(t, loc)
			if errs != tt.want {
				t.Errorf("got  %s\nwant %s", errs, tt.want)
			}
			if p == nil {
				return
			}
			tests, _ := tasks(t, p)[0].TestSandbox().Get("tests")
			const want = `{"source":"inline","containment":"shared","code":{"conftest.py":"","deep/helpers.py":"x = 1\n","test_a.py":"def test_a(): pass\n"}}`
			if string(tests.Value) != want {
				t.Errorf("the tests are %s", tests.Value)
			}
		})
	}
}
