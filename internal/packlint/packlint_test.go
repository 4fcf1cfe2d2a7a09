package packlint_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/packlint"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

// packOf writes a pack with files beside its manifest and rows, and loads it from its
// folder.
func packOf(t *testing.T, manifest, rows string, files map[string]string) (p *pack.Pack, dir string) {
	t.Helper()
	dir = t.TempDir()
	all := map[string]string{"manifest.yaml": manifest, "tasks.jsonl": rows}
	maps.Copy(all, files)
	for name, content := range all {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loc, err := pack.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(string) []pack.TextPlace {
		return []pack.TextPlace{{Path: []string{"eval", "tests", "code"}, Folder: true}}
	}
	if p, err = pack.Load(t.Context(), loc, texts, nil); err != nil {
		t.Fatal(err)
	}
	return p, dir
}

// lint returns the warnings about a pack of one row and files, without the
// folder of the pack.
func lint(t *testing.T, checker string, files map[string]string) string {
	t.Helper()
	p, dir := packOf(t, "id: p\nversion: 1\nasset_roots: {eval: eval}\n",
		`{"id":"a","family":"tree","eval":{"checker":`+checker+`},"environment":{"workdir":"/app"}}`+"\n", files)
	reg := family.NewRegistry(family.Family{Name: "tree", Checkers: []string{"checker"}, Extraction: task.Extraction{Mode: task.FromWorkspace}})
	found, err := packlint.Check(t.Context(), p, reg)
	if err != nil {
		t.Fatal(err)
	}
	copies, err := packlint.Leaks(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range append(copies, found...) {
		out = append(out, strings.TrimPrefix(f.Error(), dir+"/"))
	}
	return strings.Join(out, "\n")
}

// TestLines: what a line of a checker should not do, and lines that look
// alike.
func TestLines(t *testing.T) {
	const modules, pytests = "starts Python with -m or -c", "starts pytest itself"
	const downloads, word, code, verdict, answers, status = "downloads", "such as PASS", "as code", "reads a verdict", "compares with a file in /app", "exit status of a pipe"
	for line, want := range map[string]string{
		"python3 -m json.tool /app/a.json":                                  modules,
		"subprocess.run(['python3', '-c', 'import csv'])":                   modules,
		"run([sys.executable, \"-m\", \"py_compile\", name])":               modules,
		"python3 -B -m json.tool x":                                         modules,
		"python3 -I -m json.tool x":                                         "",
		"python3 -Pm json.tool x":                                           "",
		"run([sys.executable, '-I', '-c', code])":                           "",
		"python3 prog.py -c x":                                              "",
		"python3 -m pytest -q $SECUREBENCH_EVALUATOR/t":                     pytests,
		"subprocess.run(['python3', '-m', 'pytest', 'x'])":                  pytests,
		"cd /app && pytest -q":                                              pytests,
		"import pytest":                                                     "",
		"pytest.main":                                                       "",
		"@pytest.mark.x":                                                    "",
		"curl -LsSf https://astral.sh/uv/install.sh | sh":                   downloads,
		"wget -q http://example.org/x":                                      downloads,
		"apt-get -qq install -y curl":                                       downloads,
		"pip install pytest==8.4.1":                                         downloads,
		"uvx -p 3.13 pytest /tests":                                         downloads,
		"git clone https://example.org/x":                                   downloads,
		"requests.get('https://example.org/x')":                             downloads,
		"curl -s http://localhost:8080/health":                              "",
		"requests.get('http://127.0.0.1:5000/x')":                           "",
		"git clone git@localhost:/git/project":                              "",
		"pip --version":                                                     "",
		"# pip install pytest":                                              "",
		"./run | grep -q PASS":                                              word,
		"grep -c 'OK' out.txt":                                              word,
		"assert 'PASSED' in result.stdout":                                  word,
		"grep -q passport out.txt":                                          "",
		"assert 'token' in out":                                             "",
		"eval \"$(cat out.txt)\"":                                           code,
		"value = eval(open('/app/x').read())":                               code,
		"subprocess.run(cmd, shell=True)":                                   code,
		"subprocess.run(cmd, shell = True, check=True)":                     code,
		"os.system('make')":                                                 code,
		"pickle.load(f)":                                                    code,
		"model.eval()":                                                      "",
		"retrieval(x)":                                                      "",
		"literal_eval(x)":                                                   "",
		"cursor.exec(sql)":                                                  "",
		"[ \"$(cat /logs/verifier/reward.txt)\" = 1 ]":                      verdict,
		"json.load(open('/app/verdict.json'))":                              verdict,
		"echo 1 > /logs/verifier/reward.txt":                                "",
		"with open('/logs/reward.txt', 'w') as f:":                          "",
		"diff /app/out.csv /app/expected.csv":                               answers,
		"golden = Path('/app/data/golden.json')":                            answers,
		"diff /app/out.csv $SECUREBENCH_EVALUATOR/expected.csv":             "",
		"diff /app/out.csv /app/securebench/evaluation_inputs/expected.csv": "",
		"./prog | tee log; if [ $? -eq 0 ]; then exit 0; fi":                status,
		"set -o pipefail; ./prog | tee log; exit $?":                        "",
		"assert subprocess.run(['/app/prog'], capture_output=True, timeout=5).stdout == b'42\\n'": "",
	} {
		got := lint(t, `{"source":"script","path":"t/check.sh"}`, map[string]string{"eval/t/check.sh": "true\n" + line + "\n"})
		if (got == "") != (want == "") || !strings.Contains(got, want) || want != "" && strings.Count(got, "\n") > 0 {
			t.Errorf("%s\n  %q, want %q", line, got, want)
		}
		if want != "" && want != status && !strings.HasPrefix(got, "eval/t/check.sh:2: ") {
			t.Errorf("%s: the place is wrong: %s", line, got)
		}
	}
}

// TestCommands: a checker that is a file of the workspace is the agent's.
func TestCommands(t *testing.T) {
	const runs = "which the agent can change"
	for command, want := range map[string]string{
		`"bash ./check.sh"`:                                  runs,
		`"python3 -I check.py"`:                              runs,
		`["pytest", "-q", "/app/tests"]`:                     runs,
		`["/usr/bin/python3", "tests/test_x.py"]`:            runs,
		`["./run-tests.sh"]`:                                 runs,
		`["python3", "-m", "json.tool", "a"]`:                "starts Python with",
		`["python3", "-m", "pytest", "/x"]`:                  "starts pytest itself",
		`"bash /opt/securebench/evaluator/t.sh"`:             "",
		`"python3 securebench/evaluation_inputs/t/check.py"`: "",
		`["sh", "-c", "test -f out.txt"]`:                    "",
		`"bash -ec 'test -f out.txt'"`:                       "",
		`"test -f out.txt"`:                                  "",
		`"diff out.txt $SECUREBENCH_EVALUATOR/x"`:            "",
	} {
		if got := lint(t, fmt.Sprintf(`{"command":%s}`, command), nil); (got == "") != (want == "") || !strings.Contains(got, want) || want != "" && !strings.HasPrefix(got, "tasks.jsonl:1:") {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := lint(t, `{"command":["sh","-c","grep -q PASS out"]}`, nil); !strings.HasPrefix(got, "tasks.jsonl:1:67: the checker looks for a word") {
		t.Errorf("an argument: %s", got)
	}
}

// TestImages: what decides must not be in an image, under its own name or
// another.
func TestImages(t *testing.T) {
	const tests = "def test_answer(): assert answer() == 42\n"
	got := lint(t, `{"source":"pytest","path":"t/test_outputs.py"}`, map[string]string{
		"eval/t/test_outputs.py": tests, "eval/empty": "", "images/base/Dockerfile": "FROM scratch\n", "images/base/data.py": tests,
		"images/base/src/__init__.py": "", "images/base/solution.sh": "echo 42\n", "images/base/tests/test_x.py": "x\n", "images/base/src/tests/x.py": "x\n",
	})
	want := []string{"images/base/data.py: the image's file is the same as the evaluation file t/test_outputs.py", "images/base/solution.sh: this sounds like", "images/base/tests/test_x.py: this sounds like"}
	lines := strings.Split(got, "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %s", got)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("%s, want %s", lines[i], w)
		}
	}
}

// TestBeside: what a script finds beside it is read as well, other rows' files
// are not.
func TestBeside(t *testing.T) {
	got := lint(t, `{"source":"script","path":"t/check.sh"}`, map[string]string{"eval/t/check.sh": "true", "eval/t/tests/test_x.py": "\nexec(code)\n",
		"eval/other/check.sh": "eval \"$x\"\n", "eval/t/big": strings.Repeat("eval $x\n", 1<<18)})
	if !strings.HasPrefix(got, "eval/t/tests/test_x.py:2: ") || strings.Contains(got, "\n") {
		t.Errorf("got %s", got)
	}
	if got := lint(t, `{"source":"script","path":"gone.sh"}`, nil); got != "" {
		t.Errorf("a file that is missing: %s", got)
	}
}

// TestMissingRecipe: an image that only the pack can make and does not is named,
// whatever the family.
func TestMissingRecipe(t *testing.T) {
	for image, want := range map[string]bool{"localhost/p/a:1": false, "localhost/p/b:1": true, "localhost/p/a:2": true, "localhost/other/a:1": false, "x:1": false} {
		row := `{"id":"a","family":"plain","environment":{"image":"` + image + `"}}`
		got := lint(t, `{}`, map[string]string{"tasks.jsonl": row + "\n", "images/a/Dockerfile": "FROM x\n"})
		if strings.Contains(got, "tasks.jsonl:1:51: environment.image "+image) != want {
			t.Errorf("%s: %q, want a warning: %t", image, got, want)
		}
	}
}
