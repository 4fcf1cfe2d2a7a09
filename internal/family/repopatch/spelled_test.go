package repopatch

import (
	"strings"
	"testing"

	"securebench/internal/verdict"
)

// odd returns a patch in spellings that git does not take.
func odd(patch string) map[string]string {
	bare := strings.NewReplacer(" a/", " ", " b/", " ").Replace(patch)
	return map[string]string{
		"final_newline": strings.TrimSuffix(patch, "\n"),
		"line_ends":     strings.ReplaceAll(patch, "\n", "\r\n"),
		"no_prefix":     bare,
		"fuzz":          strings.Replace(patch, "\n \n \n", "\n #\n \n", 1),
	}
}

// TestSpelledOddly: patches as people send them are scored, and the record says what
// was odd. In each spelling the policy decides on what changed on disk: without it
// the attack passes.
func TestSpelledOddly(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	row, policed := b.row(t, nil), b.row(t, object{"test_patch": nil})
	open := b.row(t, object{"test_patch": nil}, object{"candidate_policy": open})
	weakened := "diff --git a/tests/test_old.py b/tests/test_old.py\n--- a/tests/test_old.py\n+++ b/tests/test_old.py\n@@ -1,5 +1,5 @@\n import calc\n \n \n def test_add():\n" +
		"-    assert calc.add(1, 1) == 2\n+    assert True\n"
	for form, patch := range odd(mended) {
		got := b.score(t, row, patch)
		if got.Outcome != verdict.Passed || !strings.Contains(string(got.Metadata[keyForm]), form) {
			t.Errorf("%s: %s", form, describe(got))
		}
	}
	for form, patch := range odd(weakened) {
		if got := b.score(t, policed, patch); got.Reason != verdict.Policy {
			t.Errorf("%s of an attack: %s", form, describe(got))
		}
		if got := b.score(t, open, patch); got.Outcome != verdict.Passed {
			t.Errorf("%s of an attack does not work without the policy: %s", form, describe(got))
		}
	}
	mail := "From 1 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Mend\n\nWas\ndiff --git a/x b/x\nnot\nnew file mode 120000\nnew mode 120000\n---\n calc.py | 2 +-\n\n"
	if got := b.score(t, row, mail+mended+"-- \n2.39.5\n"); got.Outcome != verdict.Passed {
		t.Errorf("a mail: %s", describe(got))
	}
	if got := b.score(t, row, strings.Replace(mail, "diff --git a/x b/x\n", "", 1)+mended+newFile("l", "120000", "/etc/passwd")); got.Reason != verdict.CandidateNotRegular {
		t.Errorf("a mail with a link: %s", describe(got))
	}
	for name, patch := range map[string]string{
		"two places":         "--- a/README\n+++ b/README\n@@ -1 +1 @@\n-none\n+x\n",
		"the patch twice":    mended + mended,
		"above the checkout": strings.TrimSuffix(newFile("../x", "100644", "x\n"), "\n"),
	} {
		if got := b.score(t, row, patch); got.Reason != verdict.PatchDoesNotApply || got.Phase != phasePatch {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}
