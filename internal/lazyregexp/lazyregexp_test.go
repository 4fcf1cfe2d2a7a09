package lazyregexp

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestNew: in tests a wrong expression is found at once; elsewhere it is compiled when it
// is first used.
func TestNew(t *testing.T) {
	if !New("^a+$").MatchString("aa") || New("^a+$").Match([]byte("b")) {
		t.Error("it matches something else")
	}
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return
	}
	if !panics(func() { New("(") }) {
		t.Error("a wrong expression was not found")
	}
	name := os.Args[0]
	defer func() { os.Args[0] = name }()
	os.Args[0] = "securebench"
	var late *Regexp
	if panics(func() { late = New("(") }) || !panics(func() { late.MatchString("") }) {
		t.Error("a wrong expression was compiled before its use, or not at all")
	}
}

// TestNoneIsCompiledAtTheStart: no variable of a package compiles an expression when the
// program starts.
func TestNoneIsCompiledAtTheStart(t *testing.T) {
	compiled := regexp.MustCompile(`(?m)^(?:var )?\t?\w+\s+= regexp\.MustCompile\(`)
	files := 0
	for _, top := range []string{"internal", "cmd"} {
		tree := os.DirFS("../../" + top)
		err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			files++
			text, err := fs.ReadFile(tree, name)
			if compiled.Match(text) {
				t.Errorf("%s/%s compiles an expression when the program starts: use lazyregexp.New", top, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 500 {
		t.Errorf("%d files were read", files)
	}
}
