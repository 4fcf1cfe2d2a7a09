package repopatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
)

// repoDir is where the images of these tests have their repository.
const repoDir = "/repo"

// bench is an image with a repository, and a verifier for its rows.
type bench struct {
	engine enginetest.Engine
	image  sandbox.Image
	head   string
	run    string // its ID
	v      *verifier
}

// project is the repository of most tests: add subtracts, and a candidate has
// to mend it.
func project() map[string]string {
	return map[string]string{
		"calc.py":            "def add(a, b):\n    return a - b\n\n\ndef zero():\n    return 0\n",
		"tests/test_calc.py": "import calc\n\n\ndef test_zero():\n    assert calc.zero() == 0\n",
		"tests/test_old.py":  "import calc\n\n\ndef test_add():\n    assert calc.add(1, 1) == 2\n",
		"tests/data.txt":     "data\n",
		"bin/run.py":         "print('run')\n",
		"README":             "A calculator.\n",
	}
}

// newBench makes an image of files and the lines of a script that runs in the
// repository before and after its only commit.
func newBench(tb testing.TB, files map[string]string, before, after string) *bench {
	tb.Helper()
	return benchOn(tb, enginetest.Open(tb), files, before, after)
}

func benchOn(tb testing.TB, e enginetest.Engine, files map[string]string, before, after string) *bench {
	tb.Helper()
	script := "mkdir -p " + repoDir + "\ncd " + repoDir + "\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		script += fmt.Sprintf("mkdir -p %q\ncat > %q <<'END_OF_FILE'\n%sEND_OF_FILE\n", path.Dir(name), name, files[name])
	}
	script += "git init -q .\n" + before + "\ngit add -A\ngit -c user.name=a -c user.email=a@example.invalid commit -qm base\n" + after + "\n"
	bn := &bench{engine: e, image: enginetest.Script(tb, e, enginetest.GitImage(tb, e), script), run: strings.ToLower(rand.Text())}
	bn.head = strings.TrimSpace(bn.output(tb, "sh", "-c", "cat "+repoDir+"/.git/refs/heads/*"))
	keeper := checkout.NewKeeper(e, checkout.Options{Run: "test"})
	tb.Cleanup(func() {
		if err := keeper.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	bn.v = newVerifier(family.Resources{Engine: e, RunID: bn.run, Checkouts: keeper}).(*verifier)
	return bn
}

// output runs a command in the image and returns what it prints.
func (b *bench) output(tb testing.TB, argv ...string) string {
	tb.Helper()
	box, err := b.engine.Open(tb.Context(), sandbox.Spec{Image: b.image, Command: argv})
	if err != nil {
		tb.Fatal(err)
	}
	defer box.Close(context.Background())
	var out, errs bytes.Buffer
	res, err := box.Run(tb.Context(), sandbox.Streams{Stdout: &out, Stderr: &errs})
	if err != nil || res.ExitCode != 0 {
		tb.Fatalf("%q: %+v, %v, %s", argv, res, err, &errs)
	}
	return out.String()
}

// row is a case of the image's repository. Its hidden test wants add to add.
func (b *bench) row(tb testing.TB, tests object, rest ...object) family.Case {
	tb.Helper()
	eval := merged(append([]object{{"tests": merged(object{"source": "command",
		"command": []string{"python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"}, "test_patch": hiddenTest}, tests)}}, rest...)...)
	c := makeCase(tb, eval, task.Environment{Workdir: repoDir}, sandbox.Limits{}, b.head)
	c.Image = b.image
	c.Seed = [32]byte{1, 2, 3}
	return c
}

// hiddenTest adds the test that decides.
const hiddenTest = `diff --git a/tests/test_hidden.py b/tests/test_hidden.py
new file mode 100644
--- /dev/null
+++ b/tests/test_hidden.py
@@ -0,0 +1,5 @@
+import calc
+
+
+def test_add():
+    assert calc.add(19, 23) == 42
`

// mended is the right patch, and spoilt a wrong one.
const (
	mended = `diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def zero():
`
	spoilt = `diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a * b
 
 
 def zero():
`
)

// newFile is a patch that adds a file.
func newFile(path, mode, text string) string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	out := fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode %[2]s\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,%[3]d @@\n+%[4]s",
		path, mode, len(lines), strings.Join(lines, "+"))
	if !strings.HasSuffix(out, "\n") {
		out += "\n\\ No newline at end of file\n"
	}
	return out
}

// score verifies a patch.
func (b *bench) score(tb testing.TB, c family.Case, patch string) family.Verdict {
	tb.Helper()
	v, err := b.try(tb, c, patch)
	if err != nil {
		tb.Fatalf("verifying: %v", err)
	}
	return v
}

func (b *bench) try(tb testing.TB, c family.Case, patch string) (family.Verdict, error) {
	tb.Helper()
	s := b.v.Open(tb.Context(), c)
	v, err := s.Verify(tb.Context(), candidate.New(task.Patch, candidate.Given, []byte(patch)))
	if closeErr := s.Close(context.Background()); closeErr != nil {
		tb.Errorf("closing the session: %v", closeErr)
	}
	return v, err
}

// describe renders a verdict for an error message.
func describe(v family.Verdict) string {
	out := fmt.Sprintf("%s/%s in %s: %q\n%v", v.Outcome, v.Reason, v.Phase, v.Message, v.Metadata)
	for name, data := range v.Restricted {
		out += fmt.Sprintf("\n-- %s\n%.2000s", name, data)
	}
	return out
}
