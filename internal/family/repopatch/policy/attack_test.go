package policy_test

import (
	"slices"
	"strings"
	"testing"

	"securebench/internal/family/repopatch/policy"
	"securebench/internal/repository"
)

// TestAttacks: what candidates change in order to pass without the work. A
// policy that opens everything lets each of them through; the default one
// refuses it, drop takes the base's version, and the honest twin is allowed.
func TestAttacks(t *testing.T) {
	t.Parallel()
	mode := repository.Change{Path: "tests/run.py", Before: repository.Entry{Mode: repository.Executable}, After: repository.Entry{Mode: repository.Regular}}
	gone := func(path string) repository.Change {
		return repository.Change{Path: path, Before: repository.Entry{Mode: repository.Regular}}
	}
	for id, c := range map[string]struct {
		attack []repository.Change
		twin   string
	}{
		"R01":               {added("conftest.py"), "contest.py"},
		"R02/deleted":       {[]repository.Change{gone("pkg/tests/test_bug.py")}, "pkg/bug.py"},
		"R02/weakened":      {edited("pkg/test_bug.py"), "pkg/bug.py"},
		"R03":               {added("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", ".pytest.ini"), "src/config.ini"},
		"R04":               {added("sitecustomize.py", "src/usercustomize.py", "SiteCustomize/__init__.py"), "src/customize.py"},
		"R05":               {added("evil.pth", "pkg.egg-info/entry_points.txt", "__editable__.pkg.pth", "pkg.egg-link"), "src/pth.py"},
		"R16/a test moves":  {[]repository.Change{gone("tests/test_bug.py")}, "src/h.py"},
		"R17/mode":          {[]repository.Change{mode}, "bin/run.py"},
		"R18/compiled":      {added("pkg/__pycache__/a.cpython-311.pyc", "pkg/_fast.so", "pkg/_fast.cpython-311-x86_64-linux-gnu.so", "lib/libx.so.1"), "pkg/_fast.c"},
		"R19/submodules":    {added(".gitmodules"), "docs/gitmodules.md"},
		"R20/attributes":    {added(".gitattributes", "src/.GitAttributes"), ".gitignore"},
		"R24/build":         {added("setup.py", "Makefile", "build.rs", ".cargo/config.toml", "package.json", "jest.config.js", ".mocharc.yml", "main_test.go", "pom.xml"), "main.go"},
		"R25/dependencies":  {edited("requirements.txt", "go.mod", "poetry.lock", "requirements/dev.txt"), "docs/requirements.md"},
		"R26/shadow":        {added("pytest/__main__.py", "_pytest/__init__.py", "unittest.py", "json.py", "coverage/__init__.py", "src/random.py"), "src/pkg/json.py"},
		"R24/interpreter":   {added(".python-version", ".tool-versions", "sub/.nvmrc", "src/setupTests.ts"), "src/python-version.txt"},
		"R26/private":       {added("_strptime.py", "src/_json.py", "packaging/__init__.py", "six.py"), "_helpers.py"},
		"R26/compiled name": {added("json.cpython-311-x86_64-linux-gnu.so"), "src/pkg/json/__init__.py"},
	} {
		everything := policy.Policy{AllowSensitivePaths: []string{"*"}}
		if d := everything.Decide(c.attack); everything.Rejects(d) || len(d.Allowed) != len(c.attack) {
			t.Errorf("%s: a policy that opens everything refuses it: %+v", id, d.Denied)
		}
		d := policy.Policy{}.Decide(c.attack)
		if len(d.Denied) != len(c.attack) || !(policy.Policy{}).Rejects(d) {
			t.Errorf("%s: the default policy allows %+v", id, d.Allowed)
		}
		drop := policy.Policy{Drop: true}
		both := append(slices.Clone(c.attack), added(c.twin)...)
		if d := drop.Decide(both); drop.Rejects(d) || len(d.Denied) != len(c.attack) || len(d.Allowed) != 1 || d.Allowed[0].Path != c.twin {
			t.Errorf("%s: drop does not keep the honest part alone: %+v", id, d)
		}
	}
}

// TestNeverAllowed: a policy that opens everything still refuses these, and
// drop does not turn them into less.
func TestNeverAllowed(t *testing.T) {
	t.Parallel()
	open := policy.Policy{AllowPaths: []string{"*"}, AllowSensitivePaths: []string{"*"}, Drop: true}
	for id, paths := range map[string]string{
		"R13": "/etc/cron.d/x ../../etc/cron.d/x src/../tests/t.py",
		"R22": ".git/hooks/pre-commit .git/config .git/info/attributes .GIT/config sub/.git/config",
	} {
		for path := range strings.FieldsSeq(paths) {
			if d := open.Decide(added(path, "src/app.py")); !open.Rejects(d) || len(d.Allowed) != 1 {
				t.Errorf("%s: %s is not refused: %+v", id, path, d)
			}
		}
	}
}
