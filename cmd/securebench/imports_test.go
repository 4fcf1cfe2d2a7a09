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
		family = "internal/family internal/capacity internal/candidate internal/task internal/sandbox internal/verdict"
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
		of("internal/attended"),
		of("internal/digest"),
		of("internal/verdict"),
		of("internal/redact"),
		of("internal/source", "redact"),
		of("internal/durable", "source"),
		of("internal/dist"),
		of("internal/console", "fault redact source"),
		of("internal/progress", "redact verdict"),
		of("internal/frame"),
		of("internal/value"),
		of("internal/rowset", "redact"),
		of("internal/sandbox"),
		of("internal/capacity", "sandbox"),
		of("internal/config", "source sandbox"),
		of("internal/importer/onecommit"),
		of("internal/importer/hostgit", "redact importer/onecommit"),
		of("internal/importer/swebench", "source"),
		of("internal/importer/pysource", "source"),
		of("internal/importer/contests", "source"),
		of("internal/importer/humanevalx"),
		of("internal/importer/classeval"),
		of("internal/importer/packdir", "durable"),
		of("internal/sandbox/platform", "sandbox"),
		of("internal/packimage", "source digest fault redact sandbox sandbox/platform"),
		// the words that stages share
		of("internal/task", "digest"),
		of("internal/candidate", "task digest durable sandbox source verdict"),
		of("internal/sandbox/docker/floor", "sandbox"),
		of("internal/sandbox/delivery", "sandbox"),
		of("internal/sandbox/owner"),
		of("internal/sandbox/docker/dockerapi", "attended sandbox sandbox/owner sandbox/platform"),
		of("internal/sandbox/helperfile"),
		of("internal/sandbox/docker/helper", "sandbox sandbox/docker/dockerapi sandbox/helperfile"),
		of("internal/sandbox/imageconfig", "sandbox"),
		of("internal/sandbox/docker/images", "sandbox sandbox/docker/dockerapi sandbox/imageconfig sandbox/platform"),
		of("internal/sandbox/programs"),
		of("internal/sandbox/docker/overlays", "sandbox sandbox/docker/dockerapi sandbox/docker/helper sandbox/programs"),
		of("internal/sandbox/privilege", "sandbox"),
		of("internal/sandbox/holder", "frame sandbox sandbox/privilege"),
		of("internal/sandbox/machine", "sandbox"),
		of("internal/sandbox/seccomp", "digest"),
		of("internal/sandbox/docker", "attended sandbox sandbox/delivery sandbox/docker/dockerapi sandbox/docker/helper sandbox/docker/images sandbox/docker/overlays sandbox/holder sandbox/machine sandbox/owner sandbox/seccomp sandbox/platform"),
		of("internal/sandbox/imagestore/layer"),
		of("internal/sandbox/imagestore/content", "digest sandbox/imagestore/layer source sandbox/platform"),
		of("internal/sandbox/imagestore/rootfolder"),
		of("internal/sandbox/imagestore", "digest durable sandbox sandbox/imagestore/content sandbox/imagestore/layer sandbox/imagestore/rootfolder sandbox/owner source sandbox/platform"),
		of("internal/sandbox/cgroup"),
		of("internal/sandbox/thread"),
		of("internal/sandbox/mountns", "sandbox sandbox/thread"),
		of("internal/sandbox/native/images", "sandbox sandbox/imageconfig sandbox/imagestore sandbox/mountns sandbox/platform"),
		of("internal/sandbox/native/output", "sandbox sandbox/delivery"),
		of("internal/sandbox/native/overlays", "digest durable sandbox sandbox/imagestore/layer sandbox/programs"),
		of("internal/sandbox/native/process"),
		of("internal/sandbox/oci", "sandbox sandbox/cgroup sandbox/mountns sandbox/seccomp"),
		of("internal/sandbox/native/require", "durable sandbox sandbox/cgroup sandbox/imagestore sandbox/mountns sandbox/native/process sandbox/oci"),
		of("internal/sandbox/native/workspace", "sandbox sandbox/holder sandbox/mountns sandbox/native/images sandbox/thread"),
		of("internal/sandbox/upper", "sandbox"),
		of("internal/sandbox/native", "attended sandbox sandbox/cgroup sandbox/helperfile sandbox/imageconfig sandbox/imagestore sandbox/mountns sandbox/native/images sandbox/native/output sandbox/native/overlays sandbox/native/process sandbox/native/require sandbox/native/workspace sandbox/oci sandbox/owner sandbox/privilege sandbox/seccomp sandbox/upper sandbox/platform"),
		of("internal/sandbox/engines", "redact sandbox sandbox/docker sandbox/docker/dockerapi sandbox/docker/images sandbox/imagestore sandbox/machine sandbox/native sandbox/platform"),
		of("internal/sandbox/owner/tempdir", "sandbox sandbox/owner"),
		of("internal/sandbox/native/floor", "redact sandbox sandbox/mountns sandbox/oci sandbox/owner/tempdir"),
		of("internal/sandbox/engines/bare", "sandbox sandbox/docker/floor sandbox/engines sandbox/imagestore sandbox/native/floor sandbox/native/require"),
		of("internal/bench", "console durable redact sandbox sandbox/engines/bare sandbox/owner/tempdir"),
		of("internal/leftovers", "sandbox"),
		of("internal/sandbox/changes", "sandbox"),
		of("internal/sandbox/initproc/loopback"),
		of("internal/sandbox/initproc", "sandbox sandbox/changes sandbox/initproc/loopback sandbox/privilege attended"),
		of("internal/sandbox/link", "frame sandbox attended"),
		of("internal/sandbox/lookup", "sandbox sandbox/initproc"),
		of("internal/sandbox/mountpoint", "sandbox"),
		of("internal/sandbox/native/rootless", "sandbox/mountns"),
		of("internal/sandbox/readiness"),
		of("internal/sandbox/warm"),
		of("internal/gateway/ledger", "redact"),
		of("internal/gateway/egress", "redact gateway/ledger"),
		of("internal/gateway/relay/cursor"),
		of("internal/gateway/relay/request", "gateway/relay/cursor"),
		of("internal/gateway/relay/reply", "redact gateway/relay/cursor"),
		of("internal/gateway/relay/ahead", "gateway/relay/reply"),
		of("internal/gateway/relay/reach", "redact"),
		of("internal/gateway/upstream"),
		of("internal/gateway/relay", "redact gateway/ledger gateway/upstream gateway/relay/request gateway/relay/reply gateway/relay/ahead attended"),
		of("internal/gateway/scripted", "source"),
		of("internal/agentcli/npmrc", "source redact"),
		of("internal/agentcli/registry", "agentcli/npmrc source redact"),
		of("internal/agentcli/unpack", "redact"),
		of("internal/agentcli", "agentcli/npmrc agentcli/registry agentcli/unpack digest durable fault source redact"),
		of("internal/repository", "candidate verdict"),
		of("internal/agentfiles", "digest redact source"),
		of("internal/checkout", "repository sandbox sandbox/initproc verdict"),
		of("internal/family", "capacity candidate checkout task sandbox workspace verdict"),
		// tools
		of("internal/workspace", "task digest source"),
		of("internal/harness/events", "redact"),
		of("internal/harness", "task source config workspace harness/events"),
		of("internal/model", "digest gateway/relay gateway/upstream harness redact attended"),
		of("internal/importer/terminal", "source workspace importer/packdir"),
		of("internal/importer", "source digest redact importer/packdir importer/terminal importer/onecommit importer/hostgit importer/swebench importer/pysource importer/contests importer/humanevalx importer/classeval"),
		of("internal/testrunner/results"),
		of("internal/testrunner", "sandbox verdict testrunner/results"),
		// families
		of("internal/family/textmatch"),
		of("internal/family/textmatch/vocabulary", "family/textmatch"),
		of("internal/family/textmatch/number", "family/textmatch family/textmatch/vocabulary"),
		of("internal/family/textmatch/reply", "family/textmatch family/textmatch/vocabulary family/textmatch/number"),
		of("internal/family/textmatch/verifier", family),
		of("internal/family/multiplechoice", family, text),
		of("internal/family/shortanswer", family, text),
		of("internal/family/freeresponse", family, text),
		of("internal/family/steps", family, "sandbox/initproc"),
		of("internal/family/codecompletion/programs", family, "sandbox/initproc family/steps workspace attended"),
		of("internal/family/codecompletion/cases", family, "sandbox/initproc family/codecompletion/programs"),
		of("internal/family/codecompletion/shared", family, "testrunner family/codecompletion/programs"),
		of("internal/family/codecompletion/linked", family, "sandbox/initproc family/codecompletion/programs"),
		of("internal/family/codecompletion/forms", family, "family/codecompletion/cases family/codecompletion/linked family/codecompletion/programs family/codecompletion/shared"),
		of("internal/family/codecompletion/operators", family),
		of("internal/family/codecompletion/diagnosis", "value"),
		of("internal/family/codecompletion/analysis", "attended capacity family/codecompletion/diagnosis frame sandbox sandbox/link sandbox/warm value"),
		of("internal/family/codecompletion", family, "attended family/codecompletion/analysis family/codecompletion/diagnosis frame value sandbox/link sandbox/warm family/codecompletion/operators family/codecompletion/programs family/codecompletion/forms"),
		of("internal/repository/patchtext", "repository"),
		of("internal/family/repopatch/policy", "repository"),
		of("internal/family/repopatch", family, "attended checkout repository repository/patchtext sandbox/initproc family/repopatch/policy family/steps testrunner"),
		of("internal/family/terminaltask/archive"),
		of("internal/family/terminaltask/changed", "candidate sandbox family/terminaltask/archive"),
		of("internal/family/terminaltask/reward", "sandbox family/terminaltask/archive"),
		of("internal/family/terminaltask/links", "sandbox sandbox/initproc"),
		of("internal/family/terminaltask/probe", "sandbox sandbox/initproc"),
		of("internal/family/terminaltask/site", "sandbox sandbox/initproc workspace family/steps family/terminaltask/archive"),
		of("internal/family/terminaltask", family, "workspace sandbox/initproc testrunner family/steps family/terminaltask/archive family/terminaltask/changed family/terminaltask/links attended",
			"family/terminaltask/probe family/terminaltask/reward family/terminaltask/site"),
		of("internal/family/deferred", family),
		// stages
		of("internal/pipeline/pack", "source digest task workspace"),
		of("internal/pipeline/compile", "pipeline/pack task family sandbox source digest workspace sandbox/platform"),
		of("internal/pipeline/stage"),
		of("internal/pipeline/produce", "candidate redact harness/events harness harness/events workspace sandbox sandbox/initproc task verdict gateway/ledger gateway/egress gateway/relay attended"),
		of("internal/pipeline/capture", "candidate checkout repository sandbox sandbox/holder task workspace", "digest redact verdict"),
		of("internal/pipeline/verify", "candidate family sandbox task verdict attended"),
		of("internal/pipeline/record/runlock", "durable source"),
		of("internal/pipeline/record", "candidate rowset task durable pipeline/record/runlock", words),
		of("internal/pipeline/agent", "harness model pipeline/produce pipeline/capture pipeline/record", "candidate checkout family sandbox task workspace", words),
		of("internal/pipeline/commit", "pipeline/produce pipeline/capture pipeline/record", "candidate durable family sandbox task", words),
		of("internal/pipeline", "capacity pipeline/produce pipeline/capture pipeline/verify pipeline/record pipeline/agent pipeline/commit",
			"attended candidate checkout family task sandbox progress workspace", words),
		// what a run leaves, read back
		of("internal/attest", "digest source durable"),
		of("internal/evidence", "attest candidate config durable fault family rowset task pipeline/pack pipeline/record", words),
		of("internal/report", "console redact verdict"),
		of("internal/transcript", "candidate digest evidence pipeline/record redact source task verdict"),
		of("internal/report/page", "redact report transcript verdict"),
		of("internal/earlier", "evidence fault pipeline/pack pipeline/record redact verdict"),
		of("internal/selection", "earlier fault pipeline/pack redact rowset source"),
		of("internal/compare", "console earlier redact report verdict"),
		// what commands share
		of("internal/families", family, "family/multiplechoice family/shortanswer family/freeresponse family/codecompletion family/repopatch family/terminaltask family/deferred"),
		of("internal/schemas", "family redact source"),
		of("internal/starter"),
		of("internal/packlint/likeness", "digest"),
		of("internal/packlint", "packlint/likeness family packimage pipeline/pack redact source workspace"),
		of("internal/workload", "capacity packlint fault family task redact source pipeline/pack pipeline/compile"),
		of("internal/scoring", "capacity workload packimage sandbox/engines sandbox/mountpoint harness workspace candidate checkout pipeline/verify pipeline/produce pipeline/agent config fault family task sandbox source digest redact sandbox/platform"),
		of("internal/threshold", "compare earlier evidence fault pipeline/record redact verdict workload"),
		of("internal/validate", "progress pipeline/produce sandbox/owner/tempdir scoring workload candidate checkout pipeline/verify pipeline/agent pipeline/commit console config fault family task sandbox redact verdict workspace"),
		of("internal/reverify", "progress console scoring workload evidence candidate harness pipeline/agent pipeline/produce pipeline/verify pipeline/commit pipeline/record config fault family task sandbox", words),
		of("internal/ownagent", "agentfiles config digest fault harness redact sandbox sandbox/lookup scoring source task workspace"),
		of("internal/run/shown", "pipeline/record progress redact"),
		of("internal/programs", "agentcli fault harness pipeline/record sandbox source"),
		of("internal/run", "model programs ownagent run/shown capacity sandbox/machine agentcli gateway/egress gateway/relay gateway/relay/reach harness/events scoring workload evidence attest pipeline pipeline/pack pipeline/produce pipeline/agent pipeline/commit pipeline/record pipeline/record/runlock",
			"candidate config fault family harness progress rowset sandbox selection task workspace", words),
		of("internal/preview", "capacity console evidence fault pipeline/record redact run verdict"),
		// test kits
		of("internal/sandbox/sandboxtest", "sandbox sandbox/holder sandbox/initproc sandbox/initproc/loopback digest"),
		of("internal/sandbox/sandboxtest/contract/probes"),
		of("internal/sandbox/sandboxtest/contract/scripts", "sandbox/sandboxtest"),
		of("internal/sandbox/sandboxtest/contract", "sandbox sandbox/holder sandbox/sandboxtest sandbox/sandboxtest/contract/probes sandbox/sandboxtest/contract/scripts"),
		of("internal/family/familytest", family),
		of("internal/sandbox/dockertest", "sandbox sandbox/docker sandbox/docker/floor"),
		of("internal/sandbox/nativetest", "sandbox sandbox/dockertest sandbox/imagestore sandbox/native sandbox/oci sandbox/owner"),
		of("internal/sandbox/enginetest", "sandbox sandbox/dockertest sandbox/nativetest"),
		of("internal/sandbox/dockertest/helper", "sandbox/holder sandbox/initproc sandbox/lookup sandbox/readiness"),
		of("internal/schemas/schematest", "family schemas source"),
		of("internal/datatest"),
		of("internal/family/textmatch/vectortest", family, "datatest"),
		of("internal/agentcli/agenttest"),
	}
}

// TestImports reads every file of the module, so that the test cache sees a
// new edge as soon as it is written.
func TestImports(t *testing.T) {
	table := map[string][]string{}
	for _, l := range allowed() {
		if table[l.pkg] != nil {
			t.Errorf("package %s is in the import table twice", l.pkg)
		}
		table[l.pkg] = append([]string{}, l.imports...)
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
			if strings.HasPrefix(name, "github.com/moby/") && !strings.HasPrefix(name, "github.com/moby/sys/") && !strings.HasPrefix(pkg, "internal/sandbox/docker") {
				t.Errorf("%s imports %s: only the Docker driver may know the engine's client", rel, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
