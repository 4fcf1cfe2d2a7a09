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

// allowed is the import graph of the project's own packages: an import that is
// not listed is not allowed. Every line imports only from lines above it, so
// the graph is visibly acyclic.
//
// It gives three guarantees. The agent's side (harness, produce) cannot reach
// rows, families or verifiers; verification cannot reach the agent's side; and
// only the command knows which engine runs.
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
		family = "internal/family internal/candidate internal/task internal/sandbox internal/verdict"
		text   = "family/textmatch family/textmatch/vocabulary family/textmatch/number family/textmatch/reply family/textmatch/verifier"
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
		of("internal/fault"),
		of("internal/digest"),
		of("internal/verdict"),
		of("internal/redact"),
		of("internal/source", "redact"),
		of("internal/durable", "source"),
		of("internal/console", "fault redact source"),
		of("internal/progress", "redact verdict"),
		of("internal/frame"),
		of("internal/value"),
		of("internal/sandbox"),
		of("internal/config", "source sandbox"),
		of("internal/importer/onecommit"),
		of("internal/importer/hostgit", "redact importer/onecommit"),
		of("internal/importer/swebench", "source"),
		of("internal/importer/pysource", "source"),
		of("internal/importer", "source digest durable redact importer/onecommit importer/hostgit importer/swebench importer/pysource"),
		of("internal/packimage", "source digest fault redact sandbox"),
		// the words that stages share
		of("internal/task", "digest"),
		of("internal/candidate", "task digest durable source verdict"),
		of("internal/sandbox/warm"),
		of("internal/sandbox/link", "frame sandbox"),
		of("internal/sandbox/holder", "frame sandbox"),
		of("internal/sandbox/initproc", "sandbox"),
		of("internal/sandbox/owner"),
		of("internal/sandbox/seccomp", "digest"),
		of("internal/sandbox/docker/dockerapi", "sandbox sandbox/owner"),
		of("internal/sandbox/docker/images", "sandbox sandbox/docker/dockerapi"),
		of("internal/sandbox/docker/helper", "sandbox sandbox/docker/dockerapi"),
		of("internal/sandbox/docker", "sandbox sandbox/holder sandbox/owner sandbox/seccomp",
			"sandbox/docker/dockerapi sandbox/docker/images sandbox/docker/helper"),
		of("internal/sandbox/engines", "sandbox sandbox/docker"),
		of("internal/repository", "candidate verdict"),
		of("internal/checkout", "repository sandbox sandbox/initproc verdict"),
		of("internal/family", "candidate checkout task sandbox workspace verdict"),
		// tools
		of("internal/workspace", "task digest source"),
		of("internal/harness", "task source config workspace"),
		// families
		of("internal/family/textmatch"),
		of("internal/family/textmatch/vocabulary", "family/textmatch"),
		of("internal/family/textmatch/number", "family/textmatch family/textmatch/vocabulary"),
		of("internal/family/textmatch/reply", "family/textmatch family/textmatch/vocabulary family/textmatch/number"),
		of("internal/family/textmatch/verifier", family),
		of("internal/family/multiplechoice", family, text),
		of("internal/family/shortanswer", family, text),
		of("internal/family/freeresponse", family, text),
		of("internal/family/codecompletion", family, "frame value sandbox/link sandbox/warm"),
		of("internal/family/repopatch/policy", "repository"),
		of("internal/family/repopatch/runner/results"),
		of("internal/family/repopatch/runner", "sandbox verdict family/repopatch/runner/results"),
		of("internal/family/repopatch", family, "checkout repository sandbox/initproc family/repopatch/policy family/repopatch/runner"),
		of("internal/family/terminaltask", family),
		of("internal/family/deferred", family),
		// stages
		of("internal/pipeline/pack", "source digest task workspace"),
		of("internal/pipeline/compile", "pipeline/pack task family sandbox source digest workspace"),
		of("internal/pipeline/stage"),
		of("internal/pipeline/produce", "harness workspace sandbox task verdict"),
		of("internal/pipeline/capture", "candidate checkout repository sandbox sandbox/holder task", "digest redact verdict"),
		of("internal/pipeline/verify", "candidate family sandbox task verdict"),
		of("internal/pipeline/record", "candidate task durable", words),
		of("internal/pipeline/agent", "pipeline/produce pipeline/capture pipeline/record", "candidate checkout family sandbox task", words),
		of("internal/pipeline/commit", "pipeline/produce pipeline/capture pipeline/record", "candidate family sandbox task", words),
		of("internal/pipeline", "pipeline/produce pipeline/capture pipeline/verify pipeline/record pipeline/agent pipeline/commit",
			"candidate checkout family task sandbox progress workspace", words),
		// what a run leaves, read back
		of("internal/attest", "digest source durable"),
		of("internal/evidence", "attest candidate config fault family task pipeline/pack pipeline/record", words),
		of("internal/report", "redact verdict"),
		// what commands share
		of("internal/families", family, "family/multiplechoice family/shortanswer family/freeresponse family/codecompletion family/repopatch family/terminaltask family/deferred"),
		of("internal/workload", "fault family task redact source pipeline/pack pipeline/compile"),
		of("internal/scoring", "workload packimage sandbox/engines candidate checkout pipeline/verify pipeline/produce pipeline/agent config fault family task sandbox source digest redact"),
		of("internal/validate", "scoring workload candidate checkout pipeline/verify pipeline/agent pipeline/commit console config fault family task sandbox redact verdict"),
		of("internal/reverify", "scoring workload evidence candidate pipeline/verify pipeline/commit pipeline/record config fault family task sandbox", words),
		of("internal/run", "scoring workload evidence attest pipeline pipeline/pack pipeline/produce pipeline/agent pipeline/commit pipeline/record",
			"candidate config fault family harness progress sandbox task workspace", words),
		// test kits
		of("internal/sandbox/sandboxtest", "sandbox sandbox/holder digest"),
		of("internal/sandbox/sandboxtest/contract/probes"),
		of("internal/sandbox/sandboxtest/contract", "sandbox sandbox/holder sandbox/sandboxtest sandbox/sandboxtest/contract/probes"),
		of("internal/family/textmatch/vectortest", family),
		of("internal/sandbox/dockertest", "sandbox sandbox/docker"),
		of("internal/sandbox/dockertest/helper", "sandbox/holder sandbox/initproc"),
		of("internal/datatest"),
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
