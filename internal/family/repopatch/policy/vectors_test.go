package policy_test

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/family/repopatch/policy"
	"securebench/internal/repository"
)

// vector is what the reference decided on the text of a patch.
type vector struct {
	Patch               string   `json:"patch"`
	AllowPaths          []string `json:"allow_paths"`
	AllowSensitivePaths []string `json:"allow_sensitive_paths"`
	Expect              struct {
		Allowed bool     `json:"allowed"`
		Paths   []string `json:"paths"`
		Denied  []string `json:"denied"`
	} `json:"expect"`
}

func vectors(t *testing.T, f func(v vector)) {
	t.Helper()
	names := []string{filepath.Join("testdata", "repo_patch_policy.jsonl")}
	if dir := os.Getenv("SECUREBENCH_VECTORS"); dir != "" {
		names = append(names, filepath.Join(dir, "repo_patch_policy.jsonl"))
	} else {
		t.Log("SECUREBENCH_VECTORS is not set: own copy only")
	}
	for _, name := range names {
		r, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		count := 0
		for s := bufio.NewScanner(r); s.Scan(); count++ {
			var v vector
			if err := json.Unmarshal(s.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			f(v)
		}
		if count == 0 {
			t.Fatalf("%s is empty", name)
		}
	}
}

// deviations are the vectors on which this policy decides otherwise, by what
// it denies. docs/deviations.md gives the reasons.
var deviations = map[string]string{
	// What tests depend on, and the reference does not know.
	"testing/x.py":         "a test folder",
	"spec/a_spec.rb":       "a test folder",
	"src/__tests__/a.js":   "a test folder",
	"test_bug.py":          "a test file",
	"src/test_bug.py":      "a test file",
	"bug_test.go":          "a test file",
	"Gemfile":              "a build file",
	"Makefile":             "a build file",
	"makefile":             "a build file",
	"requirements/dev.txt": "a list of dependencies",
	"requirements-ci.txt":  "a list of dependencies",
	".gitlab-ci.yml":       "continuous integration",
	".circleci/config.yml": "continuous integration",
	"run.fish":             "a script",
	"sitecustomize.py":     "a Python start-up file",
	"usercustomize.py":     "a Python start-up file",
	"evil.pth":             "a Python start-up file",
	"pytest/__main__.py":   "a module that would be imported instead of Python's or the test runner's",
	".gitattributes":       "a file that steers git",
	"jest.config.js":       "configuration of a build or of tests",
	// What no policy can allow.
	".git/config":   "a repository's own files",
	"securebench/x": "securebench's own folder",
	"../x":          "a path that leaves the checkout",
	// What git does is not what the reference reads.
	`tests\057test_bug.py`:           "a test folder",
	"tests/fake removed sql comment": "",
}

// onDisk are the paths that git changes where they are not those that the
// reference reads in the text.
var onDisk = map[string][]string{
	`tests\057test_bug.py`:           {"tests/test_bug.py"},
	"tests/fake removed sql comment": {"app.py"},
}

// TestVectors: the reference's decisions hold, except those that are listed.
func TestVectors(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	vectors(t, func(v vector) {
		p := policy.Policy{AllowPaths: v.AllowPaths, AllowSensitivePaths: v.AllowSensitivePaths}
		paths := v.Expect.Paths
		for read, changed := range onDisk {
			if slices.Contains(paths, read) {
				paths = changed
			}
		}
		d := p.Decide(added(paths...))
		var denied []string
		for _, n := range d.Denied {
			denied = append(denied, n.Path)
		}
		if slices.Equal(denied, v.Expect.Denied) && p.Rejects(d) == !v.Expect.Allowed {
			return
		}
		for _, read := range v.Expect.Paths {
			rule, listed := deviations[read]
			if listed && (rule == "" && len(d.Denied) == 0 || len(d.Denied) == 1 && d.Denied[0].Rule == rule) {
				used[read] = true
				return
			}
		}
		t.Errorf("%q, allowed %q and %q: denied %v, the reference denies %v", v.Patch, v.AllowPaths, v.AllowSensitivePaths, d.Denied, v.Expect.Denied)
	})
	for path := range deviations {
		if !used[path] {
			t.Errorf("%q is listed as a deviation, but is none", path)
		}
	}
}

// added returns changes that add files.
func added(paths ...string) []repository.Change {
	var changes []repository.Change
	for _, p := range paths {
		changes = append(changes, repository.Change{Path: p, After: repository.Entry{Mode: repository.Regular}})
	}
	return changes
}

// edited returns changes of files that the base has.
func edited(paths ...string) []repository.Change {
	changes := added(paths...)
	for i := range changes {
		changes[i].Before = repository.Entry{Mode: repository.Regular, Size: 1}
	}
	return changes
}
