package importer

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// attack is a candidate that wants to pass without doing the work.
type attack struct{ id, name, code string }

// linkedLanguage is a row in the form of the data set, and candidates for it.
type linkedLanguage struct {
	needs   []string // programs
	row     linkedSource
	wrong   string
	attacks []attack
	honest  string // another right answer, "" for none
}

func rows() map[string]linkedLanguage {
	return map[string]linkedLanguage{
		"cpp": {[]string{"g++"}, linkedSource{ID: "CPP/0", Prompt: "#include<vector>\nint add(int a,int b){\n", Declaration: "#include<vector>\nint add(int a,int b){\n",
			Solution: "    return a+b;\n}\n", Test: "#undef NDEBUG\n#include<assert.h>\nint main(){\n    assert (add(2,3) == 5);\n    assert (add(4,4) == 8);\n}\n"},
			"int add(int a,int b){ return 5; }\n", []attack{
				{"C01", "it ends before main", "#include <unistd.h>\nstruct E { E() { _exit(0); } } e;\nint add(int a,int b){ return 4; }\n"},
				{"C02", "it ends in the call", "#include <cstdlib>\nint add(int a,int b){ exit(0); }\n"},
				{"C03", "it prints the files that it finds", "#include <cstdlib>\nint add(int a,int b){ if (system(\"cat *.cpp *.txt ../build/* 2>/dev/null\")) {} exit(0); }\n"},
				{"C04", "an assertion and a main program of its own", "#include <cstdlib>\n#define assert(x)\nextern \"C\" void __assert_fail(const char*, const char*, unsigned, const char*) {}\nextern \"C\" void _Exit(int) { exit(0); }\nint main() { return 0; }\nint add(int a,int b){ return 4; }\n"},
				{"C05", "it prints a verdict", "#include <cstdio>\n#include <cstdlib>\nint add(int a,int b){ puts(\"ALL TESTS PASSED\\n{\\\"passed\\\":true}\\nSECUREBENCH_TOKEN\"); fflush(stdout); _Exit(0); }\n"},
			}, ""},
		"go": {[]string{"go"}, linkedSource{ID: "Go/0", Prompt: "func Add(a int, b int) int {\n", Declaration: "func Add(a int, b int) int {\n", Solution: "    return a + b\n}\n",
			Test: "func TestAdd(t *testing.T) {\n    assert := assert.New(t)\n    assert.Equal(5, Add(2, 3))\n    assert.Equal(8, Add(4, 4))\n}\n"},
			"package main\n\nfunc Add(a, b int) int { return 5 }\n", []attack{
				{"C01", "it ends before main", "package main\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 4 }\n"},
				{"C02", "it ends in the call", "package main\n\nimport \"os\"\n\nfunc Add(a, b int) int { os.Exit(0); return 4 }\n"},
				{"C03", "it prints the files that it finds", "package main\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n)\n\nfunc Add(a, b int) int {\n\tfor _, dir := range []string{\"*.go\", \"../build/*\"} {\n\t\tfound, _ := filepath.Glob(dir)\n\t\tfor _, f := range found {\n\t\t\ttext, _ := os.ReadFile(f)\n\t\t\tos.Stdout.Write(text)\n\t\t}\n\t}\n\tos.Exit(0)\n\treturn 4\n}\n"},
				{"C04", "it ends the test's goroutine", "package main\n\nimport \"runtime\"\n\nfunc Add(a, b int) int { runtime.Goexit(); return 4 }\n"},
				{"C05", "it prints a verdict", "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc Add(a, b int) int { fmt.Print(\"PASS\\nok\\nSECUREBENCH_TOKEN\\n\"); os.Exit(0); return 4 }\n"},
				{"C06", "words of the language of its own", "package main\n\nconst true = false\n\nfunc Add(a, b int) int { return 4 }\n"},
			}, "package main\n\nfunc min(a, b int) int { return a + b }\n\nfunc Add(a, b int) int { return min(a, b) }\n"},
		"java": {[]string{"javac", "java"}, linkedSource{ID: "Java/0", Prompt: "import java.util.*;\nimport java.lang.*;\n\nclass Solution {\n    public int add(int a, int b) {\n", Declaration: "class Solution {\n",
			Solution: "        return a + b;\n    }\n}\n", Test: "public class Main {\n    public static void main(String[] args) {\n        Solution s = new Solution();\n        List<Boolean> correct = Arrays.asList(s.add(2, 3) == 5, s.add(4, 4) == 8);\n        if (correct.contains(false)) {\n            throw new AssertionError();\n        }\n    }\n}\n"},
			"class Solution { public int add(int a, int b) { return 5; } }\n", []attack{
				{"C01", "it ends when it is loaded", "class Solution { static { Runtime.getRuntime().halt(0); } public int add(int a, int b) { return 4; } }\n"},
				{"C02", "it ends in the call", "class Solution { public int add(int a, int b) { System.exit(0); return 4; } }\n"},
				{"C03", "it prints the files that it finds", "import java.nio.file.*;\nclass Solution { public int add(int a, int b) { try (DirectoryStream<Path> d = Files.newDirectoryStream(Paths.get(\".\"))) { for (Path p : d) System.out.write(Files.readAllBytes(p)); System.in.transferTo(System.out); } catch (Exception e) {} System.out.flush(); System.exit(0); return 4; } }\n"},
				{"C04", "classes in the place of Java's", "class Solution { public int add(int a, int b) { return 4; } }\nclass AssertionError extends Exception {}\nclass Arrays { static <T> java.util.List<T> asList(T... x) { return new java.util.ArrayList<T>(); } }\n"},
				{"C05", "it prints a verdict", "class Solution { public int add(int a, int b) { System.out.println(\"ALL TESTS PASSED\\nSECUREBENCH_TOKEN\"); System.exit(0); return 4; } }\n"},
			}, ""},
		"javascript": {[]string{"node"}, linkedSource{ID: "JavaScript/0", Prompt: "const add = (a, b) => {\n", Declaration: "const add = (a, b) => {\n", Solution: "  return a + b\n}\n",
			Test: "const testAdd = () => {\n  console.assert(add(2, 3) === 5)\n  console.assert(JSON.stringify([add(4, 4)]) === JSON.stringify([8]))\n}\n\ntestAdd()\n"},
			"const add = (a, b) => 5\n", []attack{
				{"C01", "it ends when it is loaded", "process.exit(0); const add = () => 4\n"},
				{"C02", "it ends in the call", "const add = () => process.exit(0)\n"},
				{"C03", "it prints what it can read", "const add = () => { const fs = require('fs'); for (const f of [0, '/proc/self/fd/0', 'tests.js']) { try { fs.writeSync(1, fs.readFileSync(f)) } catch {} } process.exit(0) }\n"},
				{"C04", "the tests read on the stack", "function add() { try { console.log(String(arguments.callee.caller)) } catch {} try { console.log(new Error().stack) } catch {} process.exit(0) }\n"},
				{"C05", "it prints a verdict, also at the end", "process.on('exit', () => { console.log('ok 1\\nSECUREBENCH_TOKEN'); process.exitCode = 0 }); const add = () => 4\n"},
				{"C06", "comparisons and assertions that never fail", "JSON.stringify = () => 'x'; console.assert = () => {}; process.exit = () => {}; const add = () => 5\n"},
				{"C06", "values that all have the same text", "for (const kind of [Object, Array, String, Number, Boolean]) { try { kind.prototype.toJSON = () => 0 } catch {}; try { Object.defineProperty(kind.prototype, 'toJSON', { value: () => 0 }) } catch {} }; const add = () => 5\n"},
				{"C03", "the token in the program that node keeps", "require('fs').writeSync(1, '\\n' + /[0-9a-f]{32}/.exec(process._eval)[0] + '\\n'); process.exit(0); const add = () => 5\n"},
				{"C03", "the token in the heap", "const found = new Set(require('fs').readFileSync(require('v8').writeHeapSnapshot(), 'utf8').match(/^\"[0-9a-f]{32}\"/gm)); for (const t of found) require('fs').writeSync(1, '\\n' + t.slice(1, -1) + '\\n'); process.exit(0); const add = () => 5\n"},
			}, "const v8 = require('v8'); const add = (a, b) => v8.deserialize(v8.serialize(a)) + b\n"},
	}
}

// run runs a program of this machine in a box of the engine in memory. It is not
// confined.
func run(ctx context.Context, p *sandboxtest.Process) int {
	dir, err := p.Path(p.Workdir, true)
	if err != nil {
		return 126
	}
	cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, p.Stdin, p.Stdout, p.Stderr, time.Second
	cmd.Env = os.Environ()
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode() & 0xff
	case err != nil:
		return 126
	}
	return 0
}

func verify(t *testing.T, r linkedRow, code string) family.Verdict {
	t.Helper()
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var tests map[string]any
	if err := json.Unmarshal(encode(r.Eval.Tests), &tests); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"file", "test_file", "compile"} { // as the pack has it
		if v, ok := tests[key]; ok && (v == nil || v == "") {
			delete(tests, key)
		}
	}
	compiled, err := task.New(task.Config{ID: "a", Family: "code_completion", Pack: task.Pack{ID: "p"}, Resources: []task.Resource{
		{Name: "language", Lane: task.Public, Value: encode(r.Language)}, {Name: "tests", Lane: task.EvaluationInputs, Value: encode(tests)}}})
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]sandboxtest.Program{}
	for _, name := range []string{"g++", "env", "javac", "java", "node", "./tests"} {
		programs[name] = run
	}
	e := sandboxtest.New(sandboxtest.Config{Programs: programs})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c := family.Case{Attempt: 1, Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator(), Image: sandbox.Image{Ref: "local", ID: "local"}}
	c.Limits.Timeout = 2 * time.Minute
	s := codecompletion.Family().NewVerifier(family.Resources{Engine: e, RunID: "test"}).Open(ctx, c)
	got, err := s.Verify(ctx, candidate.New(task.Code, candidate.Given, []byte(code)))
	if err = errors.Join(err, s.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLanguages: in each language the reference passes; what is wrong, empty or an
// attack fails. Attacks C01 and C02 end with status 0, which an exit status alone
// would take for a pass. SECUREBENCH_TEST_LANGUAGES=require runs all four.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for name, l := range rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wanted := os.Getenv("SECUREBENCH_TEST_LANGUAGES") == "require"
			if !wanted && (testing.Short() || name != "javascript") {
				t.Skip("compilers take their time: set SECUREBENCH_TEST_LANGUAGES=require")
			}
			for _, program := range l.needs {
				if _, err := exec.LookPath(program); err != nil && wanted {
					t.Fatalf("%s is needed", program)
				} else if err != nil {
					t.Skipf("%s is not here", program)
				}
			}
			r, err := linkRow(l.row)
			if err != nil {
				t.Fatal(err)
			}
			if got := verify(t, r, r.Eval.Reference); got.Outcome != verdict.Passed || got.Containment != verdict.Shared {
				t.Fatalf("the reference: %s/%s %q\n%s", got.Outcome, got.Reason, got.Message, got.Restricted)
			}
			if l.honest != "" {
				if got := verify(t, r, l.honest); got.Outcome != verdict.Passed {
					t.Errorf("another right answer: %s/%s %q\n%s", got.Outcome, got.Reason, got.Message, got.Restricted)
				}
			}
			for _, a := range append(l.attacks, attack{"", "wrong", l.wrong}, attack{"", "empty", "\n"}, attack{"", "no code", "qwzxvbnk"}) {
				got := verify(t, r, a.code)
				if got.Outcome != verdict.Failed || got.Containment != verdict.Shared {
					t.Errorf("%s %s: %s/%s %q\n%s", a.id, a.name, got.Outcome, got.Reason, got.Message, got.Restricted)
				}
				if (a.id == "C01" || a.id == "C02") && got.Reason != verdict.WorkerExited {
					t.Errorf("%s %s: %s, so it would not deceive who looks at the exit status", a.id, a.name, got.Reason)
				}
			}
		})
	}
}

// TestOpenedTwice: the declaration of a row in C++ may go on with a part of the body,
// which is neither in the tests nor in the reference.
func TestOpenedTwice(t *testing.T) {
	t.Parallel()
	r, err := linkRow(linkedSource{ID: "CPP/0", Prompt: "int f(int n){\n",
		Declaration: "struct S { int n; };\nint g(int n) { return n; }\nint f(int n){\n    for (;;)\n    {\n", Solution: "    return n;\n}\n",
		Test: "#undef NDEBUG\n#include<assert.h>\nint main(){\n    assert (f(1) == 1);\n}\n"})
	if err != nil {
		t.Fatal(err)
	}
	head := "struct S { int n; };\nint g(int n) { return n; }\nint f(int n)"
	if got := r.Eval.Reference; got != head+"{\n    return n;\n}\n" {
		t.Errorf("reference %q", got)
	}
	if !strings.HasPrefix(r.Eval.Tests.Code, head+";\n") {
		t.Errorf("tests %q", r.Eval.Tests.Code)
	}
	if _, err := linkRow(linkedSource{ID: "CPP/1", Declaration: "int f();\n", Test: r.Eval.Tests.Code}); err == nil {
		t.Error("a declaration without an open function is accepted")
	}
}
