package packs

import (
	"crypto/sha1" //nolint:gosec // git's own
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"securebench/internal/families"
)

// TestFamilies: every family with a verifier has a template, and no other.
func TestFamilies(t *testing.T) {
	var want []string
	for name, f := range families.All() {
		if f.NewVerifier != nil {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := templateFamilies(); !slices.Equal(got, want) {
		t.Errorf("there are templates of %v, and verifiers of %v: write cmd/securebench/packs/templates/FAMILY/row.json", got, want)
	}
}

// TestRows: no mark of a template is left in a row.
func TestRows(t *testing.T) {
	for _, family := range templateFamilies() {
		row, err := newRow(family, "row-7", rowPlace{Pack: "pack", Version: 3, Public: "pub", Eval: "ev"})
		if err != nil {
			t.Fatal(err)
		}
		all := string(row.Line)
		for _, f := range row.Files {
			all += f.Path + string(f.Data)
		}
		if strings.Contains(all, "@ID@") || strings.Contains(all, "@PACK@") || strings.Contains(all, "@VERSION@") || strings.Count(string(row.Line), "\n") != 1 {
			t.Errorf("%s: %s", family, all)
		}
	}
	if _, err := newRow("short", "a", rowPlace{}); err == nil {
		t.Error("a family without a template was accepted")
	}
	if got := freshID("short_answer", func(id string) bool { return id != "short-answer-3" }); got != "short-answer-3" {
		t.Error(got)
	}
}

// TestBaseCommit: the row of repo_patch names the commit that its image's recipe
// makes. Git's objects are computed here, as the recipe's git computes them.
func TestBaseCommit(t *testing.T) {
	const dir = "templates/repo_patch/images/repository"
	var tree string
	for _, name := range []string{"temperature.py", "test_temperature.py"} {
		text, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		tree += "100644 " + name + "\x00" + jsonObject("blob", string(text))
	}
	who := "author <author@localhost> 978307200 +0000"
	commit := fmt.Sprintf("tree %x\nauthor %s\ncommitter %s\n\nThe repository\n", jsonObject("tree", tree), who, who)
	row, err := os.ReadFile("templates/repo_patch/row.json")
	if want := fmt.Sprintf(`"base_commit": "%x"`, jsonObject("commit", commit)); err != nil || !strings.Contains(string(row), want) {
		t.Errorf("the row does not say %s (%v)", want, err)
	}
}

func jsonObject(kind, text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(text), text)) //nolint:gosec // git's own
	return string(sum[:])
}
