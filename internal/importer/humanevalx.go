package importer

import (
	_ "embed" // the programs around the tests
	"fmt"
	"regexp"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

func humanEvalX() dataset {
	return dataset{
		format:  HumanEvalX,
		family:  "code_completion",
		convert: convertHumanEvalX,
		recipe:  [2]string{languagesImage, languagesRecipe},
		licence: apacheLicence,
		about: `# HumanEval-X

Rows of HumanEval-X, Tsinghua University, from the repository THUDM/CodeGeeX
(codegeex/benchmark/humaneval-x). Qinkai Zheng and others, "CodeGeeX: A Pre-Trained
Model for Code Generation with Multilingual Benchmarking on HumanEval-X" (2023),
https://arxiv.org/abs/2303.17568. Derived from HumanEval (MIT).

Licence: Apache-2.0 (LICENSE).
`,
		changes: "- The tests are a program around `test` that reports a fresh token after the last test.\n" +
			"- C++: the tests are compiled apart from the candidate, with the declaration as a prototype and an assertion of their own.\n" +
			"- Go: `package main` and the imports precede the prompt; the reference has the imports that it uses. `assert.Equal` takes the place of testify.\n" +
			"- Java: the tests have a class of their own, and import by name what they use.\n" +
			"- JavaScript: a failed `console.assert` fails the row; Node.js only prints it. Rows 112, 155 and 162, whose solutions fail there or need a package, are left out.\n" +
			"- The reference solution is the prompt, in C++ the declaration up to the function's brace, followed by `canonical_solution`.\n",
	}
}

func convertHumanEvalX(o *object, c converter) row {
	o.only("task_id", "prompt", "declaration", "canonical_solution", "test", "example_test", "text", "import", "docstring", "test_setup")
	s := linkedSource{ID: o.text("task_id"), Prompt: o.text("prompt"), Declaration: o.text("declaration"), Solution: o.text("canonical_solution"), Test: o.text("test")}
	if o.node.Get("import") != nil {
		s.Import = o.anyText("import")
	}
	r, err := linkRow(s)
	if err != nil && len(o.problems) == 0 {
		o.fail(o.node, "%v", err)
	}
	c.leave(humanEvalXLeft(s.ID))
	return row{ID: "HumanEval-X/" + s.ID, Input: codeInput{r.Prompt, r.Language}, Eval: r.Eval, Metadata: map[string]any{"dataset": "HumanEval-X", "language": r.Language}}
}

// languagesImage is the name of the recipe of the rows' image, below images of the pack.
const languagesImage = "languages"

// languagesRecipe builds an image with the compilers of all four languages.
//
//go:embed humanevalx/Dockerfile
var languagesRecipe string

// Programs around the tests of a row.
var (
	//go:embed humanevalx/tests.cpp.txt
	cppProgram string
	//go:embed humanevalx/tests.go.txt
	goProgram string
	//go:embed humanevalx/Main.java.txt
	javaProgram string
	//go:embed humanevalx/tests.js.txt
	jsProgram string
)

// linkedSource is what the data set has of a row.
type linkedSource struct {
	ID, Prompt, Declaration, Solution, Test, Import string
}

// linkedRow is a row of the pack.
type linkedRow struct {
	Prompt, Language string
	Eval             codeEval
}

// linkedTime is the time of a row, its compilation included.
const linkedTime = 120

// linkRow converts a row. The error says what is not as the data set has it.
func linkRow(s linkedSource) (linkedRow, error) {
	language, _, _ := strings.Cut(s.ID, "/")
	convert := map[string]func(linkedSource) (linkedRow, error){"CPP": cpp, "Go": golang, "Java": java, "JavaScript": javascript}[language]
	if convert == nil {
		return linkedRow{}, fmt.Errorf("task_id must begin with CPP/, Go/, Java/ or JavaScript/")
	}
	r, err := convert(s)
	r.Eval.Tests.Source, r.Eval.Tests.Containment, r.Eval.Tests.Timeout = "inline", "shared", linkedTime
	return r, err
}

// humanEvalXLeft says why a row is left out, "" if it is not.
func humanEvalXLeft(id string) string {
	return map[string]string{
		"JavaScript/112": "its solution fails its own tests",
		"JavaScript/155": "its solution fails its own tests",
		"JavaScript/162": "it needs the package js-md5",
	}[id]
}

const cppAsserts = "#undef NDEBUG\n#include<assert.h>\n"

// cpp compiles tests and candidate apart, so that no macro of the candidate's reaches
// the tests. What both define, such as a helper in the declaration, is the tests'.
func cpp(s linkedSource) (linkedRow, error) {
	tests, ok := strings.CutPrefix(s.Test, cppAsserts)
	head, open := opened(s.Declaration)
	end := strings.LastIndex(tests, "}")
	if !ok || !open || end < 0 || strings.Count(tests, "int main()") != 1 {
		return linkedRow{}, fmt.Errorf("the test must have the asserts and one main function, and the declaration one open function")
	}
	tests = strings.Replace(tests[:end], "int main()", "static int securebench_tests()", 1) + "return 0;\n" + tests[end:]
	return linkedRow{Prompt: s.Prompt, Language: "cpp", Eval: codeEval{Reference: head + "{\n" + s.Solution, Tests: codeTests{
		Code: strings.NewReplacer("/*DECLARATION*/", head+";", "/*TESTS*/", tests).Replace(cppProgram), TestFile: "tests.cpp",
		Compile: []string{"g++", "-std=c++11", "-O1", "-w", "-Wl,--allow-multiple-definition", "-o", "tests", "tests.cpp", "candidate.cpp", "-lcrypto"},
		Command: []string{"./tests"},
	}}}, nil
}

// opened returns a declaration up to the brace that it leaves open. That of one row
// continues with a part of the body.
func opened(declaration string) (head string, ok bool) {
	depth, at := 0, 0
	for i, c := range declaration {
		switch c {
		case '{':
			if depth == 0 {
				at = i
			}
			depth++
		case '}':
			depth--
		}
	}
	return declaration[:at], depth > 0
}

var (
	goComment  = lazyregexp.New(`//[^\n]*`)
	goImport   = lazyregexp.New(`(?s)\bimport \(.*?\)\n`)
	goTestName = lazyregexp.New(`(?m)^func (Test\w+)\(t \*testing\.T\) \{`)
)

// goPackages are the packages that rows use, by name.
func goPackages() [][2]string {
	return [][2]string{{"bytes", "bytes"}, {"fmt", "fmt"}, {"math", "math"}, {"md5", "crypto/md5"}, {"rand", "math/rand"}, {"sort", "sort"},
		{"strconv", "strconv"}, {"strings", "strings"}, {"time", "time"}}
}

// goImports returns the imports of a file: those of the packages that it uses.
func goImports(code string, own ...string) string {
	code = goComment.ReplaceAllString(code, "")
	out := slices.Clone(own)
	for _, p := range goPackages() {
		if regexp.MustCompile(`\b`+p[0]+`\.[A-Z]`).MatchString(code) && !slices.Contains(out, p[1]) {
			out = append(out, p[1])
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return "import (\n\t\"" + strings.Join(out, "\"\n\t\"") + "\"\n)\n"
}

// golang puts tests and candidate into files of one package. The data set uses one
// function of testify, which is replaced by that function.
func golang(s linkedSource) (linkedRow, error) {
	m := goTestName.FindAllStringSubmatch(s.Test, -1)
	if len(m) != 1 {
		return linkedRow{}, fmt.Errorf("the test must have one test function")
	}
	tests := strings.Replace(s.Test, "*testing.T", "*securebenchT", 1)
	prompt := goImport.ReplaceAllString(s.Prompt, "") // of some rows it is a part
	return linkedRow{Prompt: "package main\n\n" + s.Import + prompt, Language: "go",
		Eval: codeEval{Reference: "package main\n\n" + goImports(prompt+s.Solution) + prompt + s.Solution, Tests: codeTests{
			Code:     strings.NewReplacer("/*IMPORTS*/", goImports(tests, "bytes", "fmt", "os", "reflect"), "/*TESTS*/", tests, "/*NAME*/", m[0][1]).Replace(goProgram),
			TestFile: "tests.go",
			Compile:  []string{"env", "GO111MODULE=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOCACHE=/tmp/go-build", "go", "build", "-o", "tests", "candidate.go", "tests.go"},
			Command:  []string{"./tests"},
		}}}, nil
}

var (
	javaImport = lazyregexp.New(`(?m)^import [\w.*]+;$`)
	javaMain   = lazyregexp.New(`public static void main\(String\[\] args\)`)
)

// java reads the token before it loads the candidate's class. Imports by name keep
// classes of the candidate's from taking the place of Java's in the tests.
func java(s linkedSource) (linkedRow, error) {
	if strings.Count(s.Test, "public class Main {") != 1 || len(javaMain.FindAllString(s.Test, -1)) != 1 {
		return linkedRow{}, fmt.Errorf("the test must have one class Main with one main method")
	}
	tests := strings.Replace(s.Test, "public class Main {", "class SecurebenchTests {", 1)
	tests = javaMain.ReplaceAllString(tests, "static void run()")
	return linkedRow{Prompt: s.Prompt, Language: "java", Eval: codeEval{Reference: s.Prompt + s.Solution, Tests: codeTests{
		Code: strings.NewReplacer("/*IMPORTS*/", strings.Join(javaImport.FindAllString(s.Prompt, -1), "\n"), "/*TESTS*/", tests).Replace(javaProgram),
		File: "Solution.java", TestFile: "Main.java",
		// One short compilation is not worth the JVM's second compiler, nor a collector with threads.
		Compile: []string{"javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-nowarn", "-encoding", "UTF-8", "Main.java", "Solution.java"},
		Command: []string{"java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", ".", "Main"},
	}}}, nil
}

var jsName = lazyregexp.New(`(?m)^const (\w+) = `)

// javascript gives the tests on the standard input: no file has them, and the token
// is read before the candidate is loaded.
func javascript(s linkedSource) (linkedRow, error) {
	var names []string
	for _, m := range jsName.FindAllStringSubmatch(s.Prompt, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		return linkedRow{}, fmt.Errorf("the prompt must define a constant")
	}
	return linkedRow{Prompt: s.Prompt, Language: "javascript", Eval: codeEval{Reference: s.Prompt + s.Solution, Tests: codeTests{
		Code:    strings.NewReplacer("/*NAMES*/", strings.Join(names, ", "), "/*TESTS*/", s.Test).Replace(jsProgram),
		Command: []string{"node", "-"},
	}}}, nil
}
