// Package humanevalx turns rows of HumanEval-X in C++, Go, Java and JavaScript into
// rows whose tests are linked with the candidate: tests that report a fresh token
// after the last of them.
package humanevalx

import (
	_ "embed" // the programs around the tests
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Image is the name of the recipe of the rows' image, below images of the pack.
const Image = "languages"

// Recipe builds an image with the compilers of all four languages.
//
//go:embed Dockerfile
var Recipe string

// Programs around the tests of a row.
var (
	//go:embed tests.cpp.txt
	cppProgram string
	//go:embed tests.go.txt
	goProgram string
	//go:embed Main.java.txt
	javaProgram string
	//go:embed tests.js.txt
	jsProgram string
)

// Source is what the data set has of a row.
type Source struct {
	ID, Prompt, Declaration, Solution, Test, Import string
}

// Tests are the tests of a row.
type Tests struct {
	Source      string   `json:"source"`
	Containment string   `json:"containment"`
	Code        string   `json:"code"`
	File        string   `json:"file,omitzero"`
	TestFile    string   `json:"test_file,omitzero"`
	Compile     []string `json:"compile,omitzero"`
	Command     []string `json:"command"`
	Timeout     int      `json:"timeout_seconds"`
}

// Eval is the eval of a row.
type Eval struct {
	Tests     Tests  `json:"tests"`
	Reference string `json:"reference_solution"`
}

// Row is a row of the pack.
type Row struct {
	Prompt, Language string
	Eval             Eval
}

// timeout is the time of a row, its compilation included.
const timeout = 120

// Convert converts a row. The error says what is not as the data set has it.
func Convert(s Source) (Row, error) {
	language, _, _ := strings.Cut(s.ID, "/")
	convert := map[string]func(Source) (Row, error){"CPP": cpp, "Go": golang, "Java": java, "JavaScript": javascript}[language]
	if convert == nil {
		return Row{}, fmt.Errorf("task_id must begin with CPP/, Go/, Java/ or JavaScript/")
	}
	r, err := convert(s)
	r.Eval.Tests.Source, r.Eval.Tests.Containment, r.Eval.Tests.Timeout = "inline", "shared", timeout
	return r, err
}

// Left says why a row is left out, "" if it is not.
func Left(id string) string {
	return map[string]string{
		"JavaScript/112": "its solution fails its own tests",
		"JavaScript/155": "its solution fails its own tests",
		"JavaScript/162": "it needs the package js-md5",
	}[id]
}

// filled puts parts into a program.
func filled(program string, parts ...string) string {
	return strings.NewReplacer(parts...).Replace(program)
}

const cppAsserts = "#undef NDEBUG\n#include<assert.h>\n"

// cpp compiles tests and candidate apart, so that no macro of the candidate's reaches
// the tests. What both define, such as a helper in the declaration, is the tests'.
func cpp(s Source) (Row, error) {
	tests, ok := strings.CutPrefix(s.Test, cppAsserts)
	head, open := opened(s.Declaration)
	end := strings.LastIndex(tests, "}")
	if !ok || !open || end < 0 || strings.Count(tests, "int main()") != 1 {
		return Row{}, fmt.Errorf("the test must have the asserts and one main function, and the declaration one open function")
	}
	tests = strings.Replace(tests[:end], "int main()", "static int securebench_tests()", 1) + "return 0;\n" + tests[end:]
	return Row{Prompt: s.Prompt, Language: "cpp", Eval: Eval{Reference: head + "{\n" + s.Solution, Tests: Tests{
		Code: filled(cppProgram, "/*DECLARATION*/", head+";", "/*TESTS*/", tests), TestFile: "tests.cpp",
		Compile: []string{"g++", "-std=c++11", "-O1", "-w", "-Wl,--allow-multiple-definition", "-o", "tests", "tests.cpp", "candidate.cpp", "-lcrypto"},
		Command: []string{"./tests"},
	}}}, nil
}

// opened returns a declaration up to the brace that it leaves open. That of one row
// goes on with a part of the body.
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
	goComment = regexp.MustCompile(`//[^\n]*`)
	goImport  = regexp.MustCompile(`(?s)\bimport \(.*?\)\n`)
	goTest    = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{`)
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

// golang puts tests and candidate into files of one package. testify, of which the
// data set uses one function, is replaced by that function.
func golang(s Source) (Row, error) {
	m := goTest.FindAllStringSubmatch(s.Test, -1)
	if len(m) != 1 {
		return Row{}, fmt.Errorf("the test must have one test function")
	}
	tests := strings.Replace(s.Test, "*testing.T", "*securebenchT", 1)
	prompt := goImport.ReplaceAllString(s.Prompt, "") // of some rows it is a part
	return Row{Prompt: "package main\n\n" + s.Import + prompt, Language: "go",
		Eval: Eval{Reference: "package main\n\n" + goImports(prompt+s.Solution) + prompt + s.Solution, Tests: Tests{
			Code:     filled(goProgram, "/*IMPORTS*/", goImports(tests, "bytes", "fmt", "os", "reflect"), "/*TESTS*/", tests, "/*NAME*/", m[0][1]),
			TestFile: "tests.go",
			Compile:  []string{"env", "GO111MODULE=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOCACHE=/tmp/go-build", "go", "build", "-o", "tests", "candidate.go", "tests.go"},
			Command:  []string{"./tests"},
		}}}, nil
}

var (
	javaImport = regexp.MustCompile(`(?m)^import [\w.*]+;$`)
	javaMain   = regexp.MustCompile(`public static void main\(String\[\] args\)`)
)

// java reads the token before it loads the candidate's class. Imports by name keep
// classes of the candidate's from taking the place of Java's in the tests.
func java(s Source) (Row, error) {
	if strings.Count(s.Test, "public class Main {") != 1 || len(javaMain.FindAllString(s.Test, -1)) != 1 {
		return Row{}, fmt.Errorf("the test must have one class Main with one main method")
	}
	tests := strings.Replace(s.Test, "public class Main {", "class SecurebenchTests {", 1)
	tests = javaMain.ReplaceAllString(tests, "static void run()")
	return Row{Prompt: s.Prompt, Language: "java", Eval: Eval{Reference: s.Prompt + s.Solution, Tests: Tests{
		Code: filled(javaProgram, "/*IMPORTS*/", strings.Join(javaImport.FindAllString(s.Prompt, -1), "\n"), "/*TESTS*/", tests),
		File: "Solution.java", TestFile: "Main.java",
		// One short compilation is not worth the JVM's second compiler, nor a collector with threads.
		Compile: []string{"javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-nowarn", "-encoding", "UTF-8", "Main.java", "Solution.java"},
		Command: []string{"java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", ".", "Main"},
	}}}, nil
}

var jsName = regexp.MustCompile(`(?m)^const (\w+) = `)

// javascript gives the tests on the standard input: no file has them, and the token
// is read before the candidate is loaded.
func javascript(s Source) (Row, error) {
	var names []string
	for _, m := range jsName.FindAllStringSubmatch(s.Prompt, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		return Row{}, fmt.Errorf("the prompt must define a constant")
	}
	return Row{Prompt: s.Prompt, Language: "javascript", Eval: Eval{Reference: s.Prompt + s.Solution, Tests: Tests{
		Code:    filled(jsProgram, "/*NAMES*/", strings.Join(names, ", "), "/*TESTS*/", s.Test),
		Command: []string{"node", "-"},
	}}}, nil
}
