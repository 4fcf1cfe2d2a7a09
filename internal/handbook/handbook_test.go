package handbook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"securebench"
	"securebench/internal/handbook"
)

func open(t testing.TB) *handbook.Book {
	t.Helper()
	b, err := handbook.Open(securebench.Documents)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQuestions: what authors, operators, reviewers and developers ask leads to the page
// that answers it, among the first three sections.
func TestQuestions(t *testing.T) {
	t.Parallel()
	b := open(t)
	for question, page := range map[string]string{
		"import a CSV table":                    "tables",
		"how do I write my first pack":          "tutorials/first-pack",
		"which families are there":              "families/README",
		"accepted answers of multiple choice":   "families/multiple-choice",
		"run an agent of my own":                "tutorials/own-agent",
		"resume after a crash":                  "evidence",
		"allow a domain":                        "network",
		"run on several machines with slurm":    "fleet",
		"GitHub actions recipe":                 "ci",
		"rubric with a judge":                   "judge",
		"pause a run in the viewer":             "viewer",
		"export to pandas":                      "export",
		"check the score of another party":      "tutorials/check-a-score",
		"coming from Inspect":                   "coming-from",
		"add a family":                          "families/README",
		"install without root":                  "engines",
		"why is there one page of texts":        "decisions/0026-one-page-of-texts",
		"steps.jsonl of an agent in the record": "records",
	} {
		hits := b.Search(question)
		if !slices.ContainsFunc(hits[:min(3, len(hits))], func(h handbook.Hit) bool { return strings.HasPrefix(h.Name, page+"#") }) {
			t.Errorf("%q: %v, want %s", question, hits, page)
		}
		for _, h := range hits {
			if text, err := b.Text(h.Name); err != nil || !strings.Contains(text, strings.TrimSuffix(h.Excerpt, "…")) {
				t.Errorf("%s: %v", h.Name, err)
			}
		}
	}
	for _, nothing := range []string{"", "how do I", "qwxzzy", "# ** ##"} {
		if hits := b.Search(nothing); len(hits) > 0 {
			t.Errorf("%q: %v", nothing, hits)
		}
	}
}

// TestGroups: the list by reader has every page at the top of docs but those that belong to
// another, and no page that is not there.
func TestGroups(t *testing.T) {
	t.Parallel()
	b := open(t)
	groups, err := b.Groups()
	if err != nil {
		t.Fatal(err)
	}
	var readers, listed []string
	for _, g := range groups {
		readers = append(readers, g.For)
		for _, p := range g.Pages {
			listed = append(listed, p.Name)
			if _, err := b.Text(p.Name); err != nil || p.About == "" || strings.Contains(p.About, "\n") {
				t.Errorf("%+v: %v", p, err)
			}
		}
	}
	if got := fmt.Sprint(readers); got != "[You are new here You write a pack You run agents You read a score You change securebench]" {
		t.Error(got)
	}
	pages, err := securebench.Documents.ReadDir("docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if name, is := strings.CutSuffix(p.Name(), ".md"); is && !slices.Contains(listed, name) {
			t.Errorf("no reader is led to %s", name)
		}
	}
}

// TestText: pages and sections have the names under which they are found, and nothing else.
func TestText(t *testing.T) {
	t.Parallel()
	b := open(t)
	for name, want := range map[string]string{"viewer": "# The viewer\n", "docs/viewer.md": "# The viewer\n", "viewer#flags": "# Flags\n", "families/math": "# "} {
		if text, err := b.Text(name); err != nil || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %.40q %v", name, text, err)
		}
	}
	for _, name := range []string{"", "..", "../README", "viewer#nothing", "pictures/report.png", "VIEWER"} {
		if text, err := b.Text(name); err == nil {
			t.Errorf("%s: %.40q", name, text)
		}
	}
}
