package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxHops is how many hops a candidate may take from its row to the disk.
const maxHops = 15

// quoted is a word in a code span.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestArchitecture holds docs/architecture.md to the code: its paths exist, its
// table of packages names every package, and the hops of a candidate are
// functions of the files that it names.
func TestArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
		if !regexp.MustCompile(`^(internal|cmd|scripts|docs|packs|tools)/[A-Za-z0-9_./-]+$`).MatchString(m[1]) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Error(err)
		}
	}

	packages, hops := []string{"cmd/securebench"}, 0
	hop := regexp.MustCompile("^\\| ([0-9]+) \\| `([^`]+)` \\| `([^`]+)` \\|")
	other := regexp.MustCompile("^\\| [0-9]+ \\| [^`|]+ \\| `([^`]+)` \\| `([^`]+)` \\|") // of other candidates
	for line := range strings.Lines(string(text)) {
		if m := hop.FindStringSubmatch(line); m != nil {
			hops++
			checkHop(t, filepath.Join(root, m[2]), m[3])
			continue
		}
		if m := other.FindStringSubmatch(line); m != nil {
			checkHop(t, filepath.Join(root, m[1]), m[2])
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !strings.HasPrefix(line, "| `internal/") {
			continue
		}
		dir := ""
		for _, m := range quoted.FindAllStringSubmatch(first, -1) { // names after the first may be beside it
			name := m[1]
			if !strings.Contains(name, "/") {
				name = path.Join(dir, name)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
			dir = path.Dir(name)
			packages = append(packages, name)
		}
	}
	if hops < 10 || hops > maxHops {
		t.Errorf("a candidate takes %d hops, want 10 to %d", hops, maxHops)
	}
	for pkg := range readGraph(t, root) {
		if pkg == "." {
			continue // the documents
		}
		named := slices.ContainsFunc(packages, func(p string) bool { return p == pkg || p != "internal/pipeline" && below(p, pkg) })
		if !named && !strings.HasSuffix(path.Base(pkg), "test") && path.Dir(pkg) != "internal/sandbox/enginetest" {
			t.Errorf("the table of packages does not name %s", pkg)
		}
	}
}

// checkHop fails unless a file declares a function, given as Name or Type.Name.
func checkHop(t *testing.T, file, name string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := fn.Name.Name
		if fn.Recv != nil {
			recv := fn.Recv.List[0].Type
			if p, ok := recv.(*ast.StarExpr); ok {
				recv = p.X
			}
			if id, ok := recv.(*ast.Ident); ok {
				full = id.Name + "." + full
			}
		}
		if full == name || fn.Name.Name == name {
			return
		}
	}
	t.Errorf("%s does not declare %s", file, name)
}

// TestRunsNeedNoTerminal: what a second process needs to run one attempt can be
// imported without the command line and without a terminal.
func TestRunsNeedNoTerminal(t *testing.T) {
	deps := func(pkgs ...string) string {
		out, err := exec.Command("go", append([]string{"list", "-deps"}, pkgs...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return "\n" + string(out)
	}
	for _, name := range []string{"github.com/spf13/cobra", "golang.org/x/term"} {
		if strings.Contains(deps("securebench/internal/run", "securebench/internal/pipeline/..."), "\n"+name+"\n") {
			t.Errorf("a run depends on %s", name)
		}
		if !strings.Contains(deps("securebench/cmd/securebench"), "\n"+name+"\n") {
			t.Errorf("the command does not depend on %s: the test looks for the wrong name", name)
		}
	}
}
