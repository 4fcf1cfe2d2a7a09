package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "securebench/"

// A graph has what each of our packages imports, without its tests: our own
// packages by their folder, those of other modules in full.
type graph map[string][]string

// A barrier keeps what it is from away from what it names as never, also
// through other packages. Both are folders with all below them.
type barrier struct {
	why         string
	from, never []string
	but         []string // of what is below from
}

// A room is what only some packages may import. Both are folders with all
// below them.
type room struct {
	why      string
	what, by []string
}

func barriers() []barrier {
	engines := strings.Fields("internal/sandbox/docker internal/sandbox/native internal/sandbox/engines")
	return []barrier{
		{why: "the agent's side never reaches families or rows of packs", from: strings.Fields("internal/agent internal/pipeline/produce"),
			never: strings.Fields("internal/family internal/families internal/pipeline/pack internal/pipeline/compile"),
			but:   strings.Fields("internal/agent/setup internal/agent/kinds")},
		{why: "verification never reaches the agent's side",
			from:  strings.Fields("internal/family internal/families internal/judge internal/testrunner internal/checkout"),
			never: strings.Fields("internal/gateway internal/agent internal/pipeline/produce"),
			but:   []string{"internal/judge/provider"}},
		{why: "the gateway knows no task, candidate or verdict", from: []string{"internal/gateway"},
			never: strings.Fields("internal/task internal/candidate internal/verdict internal/family internal/pipeline")},
		{why: "a worker reaches neither records that are written nor keys that sign", from: strings.Fields("internal/remote/worker internal/remote/site"),
			never: strings.Fields("internal/run internal/attest internal/pipeline/commit internal/evidence internal/remote/hub")},
		{why: "stages and families do not know which engine runs", from: strings.Fields("internal/pipeline internal/family internal/gateway internal/agent/harness"), never: engines},
		{why: "delivered files are parsed in sandboxes alone", from: strings.Fields("internal/family internal/families internal/pipeline internal/artifact/wire internal/artifact/rubric internal/validate"),
			never: []string{"internal/artifact/reader"}},
		{why: "what runs inside a sandbox has no engine in it", from: strings.Fields("internal/sandbox/holder internal/sandbox/initproc internal/sandbox/acp internal/sandbox/wire"), never: engines},
	}
}

func rooms() []room {
	kits := []string{"internal/sandbox/enginetest"}
	return []room{
		{"only engines knows the engines", strings.Fields("internal/sandbox/docker internal/sandbox/native"), append(strings.Fields("internal/sandbox/engines cmd/securebench"), kits...)},
		{"only what opens an engine chooses one", []string{"internal/sandbox/engines"}, strings.Fields("internal/scoring cmd/securebench")},
		{"what only tests need stays out of the program", kits, kits},
	}
}

// TestRules holds the import graph to the rules, and each outside module to the
// packages that docs/dependencies.md names.
func TestRules(t *testing.T) {
	root := filepath.Join("..", "..")
	g := readGraph(t, root)
	for _, b := range barriers() {
		for _, fault := range b.check(g) {
			t.Error(fault)
		}
		known(t, g, b.why, slices.Concat(b.from, b.never, b.but))
	}
	modules, tests := readModules(t, root)
	for _, r := range append(rooms(), modules...) {
		for _, fault := range r.check(g) {
			t.Error(fault)
		}
		known(t, g, r.why, r.by)
	}
	for _, r := range modules {
		for _, by := range r.by {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(g)), func(pkg string) bool { return below(by, pkg) && len(r.imported(g[pkg])) > 0 }) {
				t.Errorf("docs/dependencies.md: %s does not import %s", by, r.what)
			}
		}
	}
	for _, fault := range (barrier{why: "a module for tests stays out of the program", from: []string{"cmd"}, never: tests}).check(g) {
		t.Error(fault)
	}
}

// TestRulesCanFail gives each rule the smallest graph that breaks it.
func TestRulesCanFail(t *testing.T) {
	for _, b := range barriers() {
		for _, from := range b.from {
			for _, never := range b.never {
				g := graph{from: {"internal/between"}, "internal/between": {never + "/inner"}, never + "/inner": nil}
				if len(b.check(g)) != 1 {
					t.Errorf("%s: %s reaches %s and nothing is said: %q", b.why, from, never, b.check(g))
				}
				g["internal/between"] = nil
				if faults := b.check(g); faults != nil {
					t.Errorf("an honest graph is refused: %s", faults)
				}
			}
		}
	}
	modules, _ := readModules(t, filepath.Join("..", ".."))
	for _, r := range append(rooms(), modules...) {
		for _, what := range r.what {
			if len(r.check(graph{"internal/stranger": {what + "/inner"}})) != 1 {
				t.Errorf("%s: a stranger imports %s and nothing is said", r.why, what)
			}
			if faults := r.check(graph{r.by[0] + "/inner": {what}}); faults != nil {
				t.Errorf("an honest graph is refused: %s", faults)
			}
		}
	}
}

// check returns a line for each package that reaches what it must not.
func (b barrier) check(g graph) (faults []string) {
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		covers := func(folder string) bool { return below(folder, pkg) }
		if !slices.ContainsFunc(b.from, covers) || slices.ContainsFunc(b.but, covers) {
			continue
		}
		way := map[string]string{pkg: ""}
		for next := []string{pkg}; len(next) > 0; next = next[1:] {
			if slices.ContainsFunc(b.never, func(n string) bool { return below(n, next[0]) }) {
				line := next[0]
				for p := way[next[0]]; p != ""; p = way[p] {
					line = p + " → " + line
				}
				faults = append(faults, fmt.Sprintf("%s: %s", b.why, line))
				break
			}
			for _, imp := range g[next[0]] {
				if _, seen := way[imp]; !seen {
					way[imp], next = next[0], append(next, imp)
				}
			}
		}
	}
	return faults
}

// check returns a line for each import by a package that is not of the room.
func (r room) check(g graph) (faults []string) {
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if slices.ContainsFunc(slices.Concat(r.by, r.what), func(by string) bool { return below(by, pkg) }) {
			continue
		}
		for _, imp := range r.imported(g[pkg]) {
			faults = append(faults, fmt.Sprintf("%s: %s imports %s", r.why, pkg, imp))
		}
	}
	return faults
}

// imported returns the imports that the room is about.
func (r room) imported(imports []string) []string {
	return slices.DeleteFunc(slices.Clone(imports), func(imp string) bool {
		return !slices.ContainsFunc(r.what, func(w string) bool { return below(w, imp) })
	})
}

// below reports whether a package is a folder or lies below it.
func below(folder, pkg string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// known fails for names of a rule that no package has.
func known(t *testing.T, g graph, why string, names []string) {
	t.Helper()
	for _, name := range names {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(g)), func(pkg string) bool { return below(name, pkg) }) {
			t.Errorf("%s: there is no package %s", why, name)
		}
	}
}

// readGraph reads every file of the module, so that the test cache sees a new
// import as soon as it is written.
func readGraph(t *testing.T, root string) graph {
	t.Helper()
	g := graph{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "tools") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.Dir(path)
		g[pkg] = append(g[pkg], []string{}...)
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(name, "/")
			if own, ok := strings.CutPrefix(name, module); ok {
				g[pkg] = append(g[pkg], own)
			} else if strings.Contains(first, ".") { // not of the standard library
				g[pkg] = append(g[pkg], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// readModules reads from docs/dependencies.md who may import which module, and
// the modules of tests. Every direct requirement of go.mod has a line there.
func readModules(t *testing.T, root string) (modules []room, tests []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	spans := func(cell string) (out []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
		return out
	}
	listed, _, _ := strings.Cut(string(text), "\n## Tools")
	linked, only, _ := strings.Cut(listed, "\n## Tests only")
	for line := range strings.Lines(linked) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && cells[2] != "any" {
			modules = append(modules, room{"docs/dependencies.md", spans(cells[0]), spans(cells[2])})
		}
	}
	for line := range strings.Lines(only) {
		if strings.HasPrefix(line, "| `") {
			tests = append(tests, spans(strings.Split(line, " | ")[0])...)
		}
	}
	required, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(required)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "\t"), " ")
		if strings.HasPrefix(line, "\t") && !strings.Contains(line, "// indirect") && !strings.Contains(string(text), "`"+name) {
			t.Errorf("docs/dependencies.md has no line for %s", name)
		}
	}
	if len(modules) < 15 || len(tests) == 0 {
		t.Fatalf("docs/dependencies.md: read %d modules, and %d of tests", len(modules), len(tests))
	}
	return modules, tests
}
