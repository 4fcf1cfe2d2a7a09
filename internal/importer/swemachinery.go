package importer

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/pathname"
)

// machinery lists the files and folders of a repository that run its tests,
// beside every conftest.py.
func machinery() map[string][]string {
	return map[string][]string{
		"sympy/sympy": {"bin/test", "sympy/testing", "sympy/utilities/runtests.py", "sympy/utilities/pytest.py", "sympy/utilities/randtest.py",
			"sympy/utilities/quality_unicode.py", "sympy/utilities/tmpfiles.py"},
		"django/django": {"tests/runtests.py", "tests/test_sqlite.py", "django/test/runner.py"},
	}
}

// preserved returns the files of a checkout that keep the base's version: what
// runs the tests, unless the gold patch changes it. names are all files of the
// checkout; without them, patterns stand for them.
func preserved(repo string, names []string, goldPatch string) (out []string) {
	own, gold := machinery()[repo], patchPaths(goldPatch)
	if names == nil {
		for _, p := range append([]string{"conftest.py", "*/conftest.py"}, own...) {
			if !slices.ContainsFunc(gold, func(g string) bool {
				return pathname.Within(g, p) || strings.HasSuffix(p, "conftest.py") && path.Base(g) == "conftest.py"
			}) {
				out = append(out, p)
			}
		}
		return out
	}
	for _, name := range names {
		if path.Base(name) == "conftest.py" && !slices.Contains(gold, name) {
			out = append(out, name)
		}
	}
	for _, p := range own {
		inside := func(name string) bool { return pathname.Within(name, p) }
		switch {
		case !slices.ContainsFunc(names, inside):
		case !slices.ContainsFunc(gold, inside):
			out = append(out, p)
		default: // all of the folder that the gold patch leaves alone
			for _, name := range names {
				if inside(name) && !slices.Contains(gold, name) {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
