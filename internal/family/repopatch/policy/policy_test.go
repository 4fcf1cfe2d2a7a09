package policy_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/family/repopatch/policy"
)

// TestDenyList: each rule with what it denies.
func TestDenyList(t *testing.T) {
	t.Parallel()
	for rule, paths := range map[string]string{
		"continuous integration": ".github/workflows/x.yml ci/run.py .CircleCI/config.yml .travis.yml sub/.gitlab-ci.yml",
		"a test folder":          "tests/x.py a/Test/b.txt testing/x.py spec/x.rb src/__tests__/x.js pkg/testdata/x.json src/test/java/A.java a/__snapshots__/b.txt bin/test",
		"a test file": "test_x.py a/test_x.py a/x_test.py a/tests.py test.py a/x_test.go x.test.js x.spec.ts a/x.test.tsx a/FooTest.java FooTests.kt a/x_spec.rb " +
			"Test_X.py x.snap a/x_unittest.cc",
		"configuration of a build or of tests": "conftest.py a/conftest.py pyproject.toml setup.cfg setup.py tox.ini pytest.ini .pytest.ini pytest.toml noxfile.py package.json " +
			"jest.config.js .mocharc.yml a/.mocharc.json vitest.config.ts .coveragerc Pipfile entry_points.txt pyvenv.cfg .npmrc tsconfig.json",
		"a build file":           "Makefile a/GNUmakefile x.mk build.rs .cargo/config.toml a/.cargo/config pom.xml build.gradle.kts go.mod go.sum go.work Cargo.toml Gemfile CMakeLists.txt",
		"a list of dependencies": "requirements.txt requirements-dev.txt requirements/dev.txt constraints.txt poetry.lock yarn.lock Cargo.lock Gemfile.lock a/requirements/base.in",
		"a script":               "run.sh a/b.BASH x.fish x.ps1",
		"a Python start-up file": "sitecustomize.py a/usercustomize.py sitecustomize/__init__.py evil.pth src/p.egg-info/entry_points.txt x.egg-link p-1.dist-info/METADATA sitecustomize.cpython-311-x86_64-linux-gnu.so python311._pth",
		"compiled code":          "__pycache__/x.cpython-311.pyc a/x.pyc a/x.so a/x.so.1 A.class x.jar x.dll x.pyd a/x.node",
		"installed packages":     "node_modules/x/index.js venv/lib/python3.11/site-packages/x.py",
		"a file that steers git": ".gitattributes a/.gitattributes .gitmodules .GitModules",
		"a module that would be imported instead of Python's or the test runner's": "pytest/__main__.py _pytest/__init__.py unittest.py src/unittest/__init__.py json.py lib/json/__init__.py " +
			"coverage/__init__.py pluggy.py Random.py pytest_evil.py src/random.py",
	} {
		for path := range strings.FieldsSeq(paths) {
			d := policy.Policy{}.Decide(added(path))
			if len(d.Denied) != 1 || d.Denied[0].Rule != rule || d.Denied[0].Fatal {
				t.Errorf("%s: %+v, want %q", path, d.Denied, rule)
			}
			if (policy.Policy{}).Rejects(d) != true || (policy.Policy{Drop: true}).Rejects(d) {
				t.Errorf("%s: it must reject the candidate unless it is dropped", path)
			}
			if d := (policy.Policy{AllowSensitivePaths: []string{path}}).Decide(added(path)); len(d.Allowed) != 1 {
				t.Errorf("%s: an exception does not open it: %+v", path, d.Denied)
			}
		}
	}
}

// TestHonestWork: what ordinary changes touch is not denied.
func TestHonestWork(t *testing.T) {
	t.Parallel()
	for path := range strings.FieldsSeq("app.py src/pkg/json.py pkg/random.py pkg/__init__.py src/app/latest.py docs/index.rst README.md CHANGES.txt src/contest.py " +
		"pkg/attestation.py src/Latest.java src/Contest.kt src/testify.go sympy/core/expr.py django/db/models/query.py lib/matplotlib/axes/_base.py " +
		"src/pkg/email/__init__.py a/b/c/types.py pkg/special.js src/inspect/pkg.py docs/conf.py src/protest.js .gitignore config/routes.yaml Dockerfile " +
		"src/ci/run.py src/securebench/x.py python_programs/gcd.py pkg/py/x.py templates/html/x.html src/lib.rs lib/json/encoder.py data/unlock src/manage.py pkg/test.py") {
		if d := (policy.Policy{}).Decide(added(path)); len(d.Allowed) != 1 {
			t.Errorf("%s is denied as %s", path, d.Denied[0].Rule)
		}
	}
	// What the base has under such a name is the project itself.
	for path := range strings.FieldsSeq("src/_pytest/__init__.py coverage/__init__.py src/packaging/__init__.py json.py") {
		if d := (policy.Policy{}).Decide(edited(path)); len(d.Allowed) != 1 {
			t.Errorf("%s is denied as %s", path, d.Denied[0].Rule)
		}
	}
}

// TestFatal: no policy lifts these, and none drops them.
func TestFatal(t *testing.T) {
	t.Parallel()
	open := policy.Policy{AllowPaths: []string{"*"}, AllowSensitivePaths: []string{"*", ".git", "securebench/", "/etc"}, PreservedPaths: []string{"*"}, Drop: true}
	for _, path := range []string{"", "/etc/passwd", "../x", "a/../../x", "a/..", "./x", "a//b", "securebench/x", "SecureBench/x", "securebench", ".git/config", "a/.git/hooks/x",
		".GIT/config", "git~1/x", ".git /x", ".g\u200cit/x", `\x`} {
		d := open.Decide(added(path))
		if len(d.Denied) != 1 || !d.Denied[0].Fatal || !open.Rejects(d) {
			t.Errorf("%q is not refused: %+v", path, d)
		}
	}
}

// TestParts: what is preserved, denied and allowed.
func TestParts(t *testing.T) {
	t.Parallel()
	p := policy.Policy{AllowPaths: []string{"src/", "setup.py"}, AllowSensitivePaths: []string{"setup.py", "src/tests"}, PreservedPaths: []string{"src/keep/*"}, Drop: true}
	d := p.Decide(added("docs/x", "setup.py", "src/a.py", "src/conftest.py", "src/keep/conftest.py", "src/tests/a.py"))
	var got []string
	for _, c := range d.Allowed {
		got = append(got, "+"+c.Path)
	}
	for _, c := range d.Preserved {
		got = append(got, "="+c.Path)
	}
	for _, c := range d.Denied {
		got = append(got, "-"+c.Path+": "+c.Rule)
	}
	want := []string{"+setup.py", "+src/a.py", "+src/tests/a.py", "=src/keep/conftest.py", "-docs/x: not in allow_paths", "-src/conftest.py: configuration of a build or of tests"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p.Rejects(d) {
		t.Error("what is dropped rejects the candidate")
	}
}

// TestMatchesAsPython: patterns mean what Python's fnmatch makes of them.
func TestMatchesAsPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: patterns are not compared with it")
	}
	token := rapid.SampledFrom([]string{"a", "b", "ab", "*", "?", "/", "[ab]", "[!a]", "[a-c]", "[", "]", "[]]", "[!]]", "[]", "[!]", "[^a]", "-", "!", ".", `\`, "[a-]", "[c-a]", "**", "é", "[*]", "+", "("})
	type pair struct{ pattern, name string }
	var pairs []pair
	draw := rapid.Custom(func(t *rapid.T) pair {
		return pair{strings.Join(rapid.SliceOfN(token, 1, 5).Draw(t, "pattern"), ""), strings.Join(rapid.SliceOfN(token, 1, 5).Draw(t, "name"), "")}
	})
	for seed := range 4000 {
		pairs = append(pairs, draw.Example(seed))
	}
	var in strings.Builder
	for _, p := range pairs {
		in.WriteString(p.pattern + "\n" + p.name + "\n")
	}
	cmd := exec.Command(python, "-IX", "utf8", "-c", "import sys, fnmatch\nl = sys.stdin.read().split('\\n')\n"+
		"for p, n in zip(l[::2], l[1::2]): print(int(fnmatch.fnmatchcase(n, p)))")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	for i, line := range strings.Fields(string(out)) {
		p := pairs[i]
		if got := policy.Fnmatch(p.pattern, p.name); got != (line == "1") {
			t.Errorf("%q and %q: %v", p.pattern, p.name, got)
		}
		if line == "1" {
			matched++
		}
	}
	if matched < 50 {
		t.Errorf("only %d of the pairs match", matched)
	}
}

// FuzzDecide: every change is in exactly one part, and a path that could leave
// the checkout is never allowed.
func FuzzDecide(f *testing.F) {
	f.Add("tests/a.py", "*", "src/[!a")
	f.Add("../x", "**", "")
	f.Fuzz(func(t *testing.T, path, allow, preserve string) {
		p := policy.Policy{AllowPaths: []string{allow}, AllowSensitivePaths: []string{allow}, PreservedPaths: []string{preserve}}
		d := p.Decide(added(path))
		if len(d.Allowed)+len(d.Preserved)+len(d.Denied) != 1 {
			t.Errorf("%q is in %d parts", path, len(d.Allowed)+len(d.Preserved)+len(d.Denied))
		}
		for _, c := range d.Allowed {
			if part, _, _ := strings.Cut(c.Path, "/"); part == "" || strings.EqualFold(part, ".git") || strings.EqualFold(part, "securebench") ||
				slices.Contains(strings.Split(c.Path, "/"), "..") {
				t.Errorf("%q is allowed", c.Path)
			}
		}
	})
}
