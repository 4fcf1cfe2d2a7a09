package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The bounds of TestBounds.
const (
	smallPackage = 150 // lines of code, below which a package needs a second importer
	mostImports  = 25  // of our packages
	longFunction = 60  // lines of a body
)

// keepsApart is what the comment of a small package with one importer says: what it
// keeps apart from that.
var keepsApart = regexp.MustCompile(`(?s)\bkeeps\b.*\bapart\b`)

// house is what a package is measured by.
type house struct {
	command   bool
	doc       string
	code      int // lines without comments and blank ones
	imports   map[string]bool
	importers map[string]bool
	functions map[string]int // the lines of their bodies
}

// TestBounds: a package is worth its wall. It has several importers, is more than a
// file, or keeps something apart; it does not import everything, and no function is
// long.
func TestBounds(t *testing.T) {
	houses := readHouses(t, filepath.Join("..", ".."))
	for name, h := range houses {
		if !h.command && h.code < smallPackage && len(h.importers) < 2 && !keepsApart.MatchString(h.doc) {
			t.Errorf("%s has %d lines and %d importers: move it into its importer, or let its comment say what it keeps apart", name, h.code, len(h.importers))
		}
		if name != "cmd/securebench" && len(h.imports) > mostImports {
			t.Errorf("%s imports %d of our packages, more than %d: let others do a part of its work", name, len(h.imports), mostImports)
		}
		for function, n := range h.functions {
			if n > longFunction {
				t.Errorf("%s has %d lines, more than %d: divide it", function, n, longFunction)
			}
		}
	}
	if len(houses) < 50 {
		t.Fatalf("read %d packages", len(houses))
	}
}

// readHouses reads every file of the module. Of test kits, tests are importers as
// well.
func readHouses(t *testing.T, root string) map[string]*house {
	t.Helper()
	houses := map[string]*house{}
	at := func(name string) *house {
		if houses[name] == nil {
			houses[name] = &house{imports: map[string]bool{}, importers: map[string]bool{}, functions: map[string]int{}}
		}
		return houses[name]
	}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "tools") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, test := filepath.Dir(path), strings.HasSuffix(path, "_test.go")
		for _, imp := range f.Imports {
			own, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if !ok || own == name {
				continue
			}
			if !test {
				at(name).imports[own] = true
			}
			if !test || strings.HasSuffix(own, "test") {
				at(own).importers[name] = true
			}
		}
		if !test {
			at(name).read(files, f, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return houses
}

// read measures a file.
func (h *house) read(files *token.FileSet, f *ast.File, text []byte) {
	h.command = f.Name.Name == "main"
	h.doc += f.Doc.Text()
	var s scanner.Scanner
	whole := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(whole, text, nil, 0)
	last := 0
	for {
		at, what, word := s.Scan()
		if what == token.EOF {
			break
		}
		first, end := whole.Line(at), whole.Line(at)+strings.Count(word, "\n")
		if what == token.SEMICOLON && word == "\n" {
			end = first
		}
		h.code += max(0, end-max(last, first-1))
		last = max(last, end)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			from, to := files.Position(fn.Pos()), files.Position(fn.End())
			h.functions[from.Filename+" "+fn.Name.Name] = to.Line - from.Line - 1
		}
	}
}
