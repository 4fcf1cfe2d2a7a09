package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "securebench/"

// allowed is the whole import graph of the project's own packages: what is
// not in it may not be imported. Every line imports only from lines above it,
// so the graph is acyclic by reading.
//
// Three guarantees fall out of it. The agent's side (harness, produce) cannot
// reach rows, families or verifiers; verification cannot reach the agent's
// side; and only the command knows which engine runs.
func allowed() []struct {
	pkg     string
	imports []string
} {
	type line = struct {
		pkg     string
		imports []string
	}
	const (
		words  = "source digest redact verdict"
		family = "internal/family internal/task internal/sandbox internal/verdict"
	)
	of := func(pkg string, imports ...string) line {
		var out []string
		for _, group := range imports {
			for _, name := range strings.Fields(group) {
				if !strings.HasPrefix(name, "internal/") {
					name = "internal/" + name
				}
				out = append(out, name)
			}
		}
		return line{pkg, out}
	}
	return []line{
		// leaves
		of("internal/source"),
		of("internal/digest"),
		of("internal/verdict"),
		of("internal/redact", "digest"),
		of("internal/progress", "redact verdict"),
		of("internal/config", "source"),
		of("internal/sandbox"),
		of("internal/importer", "source", "digest"),
		// the words that stages share
		of("internal/task", "digest"),
		of("internal/sandbox/holder", "sandbox"),
		of("internal/sandbox/initproc", "sandbox"),
		of("internal/sandbox/docker", "sandbox sandbox/holder digest"),
		of("internal/family", "task sandbox workspace verdict"),
		// tools
		of("internal/workspace", "task digest source"),
		of("internal/harness", "task source config workspace"),
		// families
		of("internal/family/textmatch", family),
		of("internal/family/multiplechoice", family, "family/textmatch"),
		of("internal/family/shortanswer", family, "family/textmatch"),
		of("internal/family/freeresponse", family, "family/textmatch"),
		of("internal/family/codecompletion", family),
		of("internal/family/repopatch", family),
		of("internal/family/terminaltask", family),
		of("internal/family/deferred", family),
		// stages
		of("internal/pipeline/pack", "source digest task workspace"),
		of("internal/pipeline/compile", "pipeline/pack task family source digest workspace"),
		of("internal/pipeline/produce", "harness workspace sandbox task"),
		of("internal/pipeline/capture", "sandbox sandbox/holder task", "digest source verdict"),
		of("internal/pipeline/record", "task", words),
		of("internal/pipeline", "pipeline/pack pipeline/compile pipeline/produce pipeline/capture pipeline/record",
			"family task sandbox progress workspace", words),
		// what a run leaves, read back
		of("internal/attest", "digest source"),
		of("internal/evidence", "attest pipeline/pack pipeline/record", words),
		of("internal/report", "redact"),
		// test kits
		of("internal/sandbox/sandboxtest", "sandbox sandbox/holder digest"),
		of("internal/family/textmatch/vectortest", family),
		of("internal/sandbox/dockertest", "sandbox sandbox/docker"),
		of("internal/sandbox/dockertest/helper", "sandbox/holder sandbox/initproc"),
	}
}

// TestImports reads every file of the module, so that the test cache sees a
// new edge as soon as it is written.
func TestImports(t *testing.T) {
	table := map[string][]string{}
	for _, l := range allowed() {
		table[l.pkg] = l.imports
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if slices.Contains(strings.Split(rel, string(filepath.Separator)), "testdata") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		permitted, ok := table[pkg]
		if !ok {
			t.Errorf("package %s is not in the import table", pkg)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, module); ok && !slices.Contains(permitted, own) {
				t.Errorf("%s imports %s, which the table does not allow %s", rel, own, pkg)
			}
			if strings.HasPrefix(name, "github.com/moby/") && !strings.HasPrefix(pkg, "internal/sandbox/docker") {
				t.Errorf("%s imports %s: only the Docker driver may know the engine's client", rel, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
