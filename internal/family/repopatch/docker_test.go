package repopatch

import (
	"testing"

	"securebench/internal/verdict"
)

// TestHonestAndWrong scores plain patches by the exit code of the test command.
func TestHonestAndWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	c := b.row(t, nil)
	for range 2 { // the second time from what was kept
		got := b.score(t, c, mended)
		if got.Outcome != verdict.Passed || got.Phase != phaseChecks || got.Containment != verdict.Shared {
			t.Errorf("the right patch: %s", describe(got))
		}
		got = b.score(t, c, spoilt)
		if got.Outcome != verdict.Failed || got.Reason != verdict.TestsFailed || got.Phase != phaseChecks {
			t.Errorf("a wrong patch: %s", describe(got))
		}
	}
}

// TestSHA256 scores patches of a repository whose objects have longer ids.
func TestSHA256(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "rm -rf .git && git init -q --object-format=sha256 .", "")
	c := b.row(t, nil)
	if len(b.head) != 64 {
		t.Fatalf("HEAD is %q", b.head)
	}
	if got := b.score(t, c, mended+bytesFile); got.Outcome != verdict.Passed {
		t.Errorf("the right patch, with a binary section: %s", describe(got))
	}
	if got := b.score(t, c, spoilt); got.Reason != verdict.TestsFailed {
		t.Errorf("a wrong patch: %s", describe(got))
	}
}

// bytesFile adds a file of two bytes, as captured patches do.
const bytesFile = `diff --git a/data.bin b/data.bin
new file mode 100644
index 0000000000000000000000000000000000000000..bdc955b7b2e610ad5a72302b139a2e6cb325519a
GIT binary patch
literal 2
JcmZQz1ONa700IC2

literal 0
HcmV?d00001

`
