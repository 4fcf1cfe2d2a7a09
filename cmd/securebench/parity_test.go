package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sandbox/enginetest"
)

// TestEnginesAgree scores rows of all families on both engines. What is recorded
// of each row is the same, candidate and image included, and each engine derives some of
// the other's verdicts again.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	enginetest.Native(t)
	sample, err := filepath.Abs(filepath.Join("..", "..", "packs", "quixbugs"))
	if err != nil {
		t.Fatal(err)
	}
	if res := securebench(t, nil, "pack", "build", sample); res.code != exitDone {
		t.Fatalf("the image of the repository: exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	dir := t.TempDir()
	tester, want := writeSixFamilies(t, dir, image, ownRun("engines-agree"))
	other := map[string]string{"docker": "native", "native": "docker"}
	outs, found := map[string]string{}, map[string]map[string]string{}
	for engine := range other {
		outs[engine] = filepath.Join(t.TempDir(), engine)
		res := securebench(t, nil, "run", tester, "-o", outs[engine], "-q", "--engine="+engine)
		if res.code != exitDone {
			t.Fatalf("%s: exit %d\n%s%s", engine, res.code, res.stdout, res.stderr)
		}
		sameVerdicts(t, outs[engine], want)
		found[engine] = findings(t, outs[engine])
	}
	for id, docker := range found["docker"] {
		if native := found["native"][id]; native != docker {
			t.Errorf("%s: Docker recorded %s, native %s", id, docker, native)
		}
	}
	for engine, out := range outs {
		res := securebench(t, nil, "reverify", out, "--pack", dir, "--sample=6", "--engine="+other[engine])
		if res.code != exitDone || !strings.Contains(res.stdout, " 0 different") {
			t.Errorf("%s derives the verdicts of %s: exit %d\n%s%s", other[engine], engine, res.code, res.stdout, res.stderr)
		}
	}
}

// findings reads what the records of a run say that the engine has no part in, by
// task.
func findings(t *testing.T, out string) map[string]string {
	t.Helper()
	lines, torn := wholeLines(t, out)
	if torn {
		t.Error("the last line is torn")
	}
	all := map[string]string{}
	for _, e := range lines {
		all[e.TaskID] = fmt.Sprintf("%v %v %v at %v, %v, candidate %v (%v), image %v, verifier %v: %v",
			e.Status, e.Outcome, e.FailureReason, e.FailurePhase, e.Containment, e.Digests.Candidate, e.Origin(), e.Digests.Image,
			e.Digests.Verifier, e.VerifierMetadata)
	}
	return all
}
