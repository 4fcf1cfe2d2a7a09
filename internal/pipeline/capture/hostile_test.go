package capture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/verdict"
)

// cheat is what an agent would like to get past capture: a change of the tests.
const cheat = "assert True\n"

func testProject(t *testing.T) *project {
	t.Helper()
	return newProject(t, map[string]string{"a.py": "a\n", "tests/test_a.py": "assert False\n", ".gitignore": "*.log\n"}, nil)
}

// TestHiddenChanges: an agent hides what it did from git. Where a framework
// asks git, the change is missing or something else; capture finds it on disk.
func TestHiddenChanges(t *testing.T) {
	all := testProject(t)
	seen := map[string]string{"tests/test_a.py": cheat}
	for name, tt := range map[string]struct {
		script string
		extra  map[string]string // what else changed
	}{
		"R28: commits":             {script: "git commit -qam x"},
		"R28: amends":              {script: "git commit -qa --amend -m x"},
		"R28: another branch":      {script: "git checkout -qb other && git commit -qam x"},
		"R29: skip-worktree":       {script: "git update-index --skip-worktree tests/test_a.py"},
		"R29: assume-unchanged":    {script: "git update-index --assume-unchanged tests/test_a.py"},
		"R30: the index forgets":   {script: "git rm -q --cached tests/test_a.py && echo tests/ >> .git/info/exclude && git commit -qm x"},
		"R30: ignores its ignore":  {script: "git rm -q --cached tests/test_a.py && git commit -qm x && printf '*\\n' > tests/.gitignore", extra: map[string]string{"tests/.gitignore": "*\n"}},
		"R32: the folder is gone":  {script: "rm -r .git"},
		"R32: a file in its place": {script: "git commit -qam x && mv .git OTHER/git && echo gitdir: OTHER/git > .git"},
		"R32: a link in its place": {script: "git commit -qam x && mv .git OTHER/git && ln -s OTHER/git .git"},
		"R32: another worktree":    {script: "cp -r tests a.py .gitignore OTHER && printf 'assert False\\n' > OTHER/tests/test_a.py && git config core.worktree OTHER"},
	} {
		t.Run(name, func(t *testing.T) {
			p, other := all.on(t), t.TempDir()
			res := p.capture(func(dir string) {
				if err := os.WriteFile(filepath.Join(dir, "tests/test_a.py"), []byte(cheat), 0o600); err != nil {
					t.Error(err)
				}
				run(t, dir, strings.ReplaceAll(tt.script, "OTHER", other))
			})
			if weak := p.naive(); strings.Contains(weak, "+"+strings.TrimSpace(cheat)) {
				t.Errorf("git shows the change: the attack does nothing:\n%s", weak)
			}
			want := map[string]string{}
			for _, m := range []map[string]string{seen, tt.extra} {
				for k, v := range m {
					want[k] = v
				}
			}
			if d := cmp.Diff(want, p.applied(res)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	p := all.on(t)
	p.capture(func(dir string) { run(t, dir, "echo 'assert True' > tests/test_a.py") })
	if !strings.Contains(p.naive(), "+assert True") {
		t.Error("git does not show a change that nobody hides: the test looks in the wrong place")
	}
}

// TestGitConfigurationDoesNotRun (R31): programs that the agent's repository
// names run when git is asked about it. Capture does not.
func TestGitConfigurationDoesNotRun(t *testing.T) {
	all := testProject(t)
	for name, script := range map[string]string{
		"a clean filter":     "git config filter.x.clean 'touch MARK; cat' && echo '* filter=x' > .git/info/attributes && git config filter.x.required true && touch a.py",
		"fsmonitor":          "printf '#!/bin/sh\\ntouch MARK\\n' > .git/f && chmod +x .git/f && git config core.fsmonitor .git/f",
		"an external diff":   "git config diff.external 'touch MARK; true'",
		"textconv":           "git config diff.x.textconv 'touch MARK; cat' && echo '* diff=x' > .git/info/attributes",
		"a process filter":   "git config filter.x.process 'touch MARK; false' && echo '* filter=x' > .git/info/attributes && touch a.py",
		"a hook":             "printf '#!/bin/sh\\ntouch MARK\\n' > .git/hooks/post-index-change && chmod +x .git/hooks/post-index-change",
		"a folder of hooks":  "mkdir .git/h && printf '#!/bin/sh\\ntouch MARK\\n' > .git/h/post-index-change && chmod +x .git/h/post-index-change && git config core.hooksPath .git/h",
		"another work tree":  "git config core.worktree \"$PWD\" && git config core.fsmonitor 'touch MARK; true'",
		"another repository": "mv .git ../OTHER && echo \"gitdir: $(cd ../OTHER && pwd)\" > .git && git config core.fsmonitor 'touch MARK; true'",
		"a worktree's link":  "mkdir .git/worktrees .git/worktrees/w && printf '../..\\n' > .git/worktrees/w/commondir && cp .git/HEAD .git/worktrees/w && cp .git/index .git/worktrees/w && git config core.fsmonitor 'touch MARK; true' && mv .git ../OTHER && echo \"gitdir: $(cd ../OTHER && pwd)/worktrees/w\" > .git",
		"other objects":      "cp -r .git/objects ../OTHER && rm -r .git/objects/?? && (cd ../OTHER && pwd) > .git/objects/info/alternates && git config core.fsmonitor 'touch MARK; true'",
	} {
		t.Run(name, func(t *testing.T) {
			p := all.on(t)
			mark, other := filepath.Join(t.TempDir(), "mark"), filepath.Join(t.TempDir(), "other")
			res := p.capture(func(dir string) {
				run(t, dir, "printf 'b\\n' > a.py\n"+strings.NewReplacer("MARK", mark, "../OTHER", other).Replace(script))
				if err := os.RemoveAll(mark); err != nil { // made by the agent itself
					t.Error(err)
				}
			})
			if d := cmp.Diff(map[string]string{"a.py": "b\n"}, p.applied(res)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("the agent's program ran")
			}
			p.naive()
			_, _ = p.tryGit(p.left, nil, "diff")
			if _, err := os.Stat(mark); err != nil {
				t.Error("the agent's program does not run where git is asked: the attack does nothing")
			}
		})
	}
}

// TestForbiddenFiles: what is no plain file is refused by name; nothing waits
// for it, follows it or runs away with it. Whoever adds what lies there and asks
// for the difference has it in the patch, or does not notice it.
func TestForbiddenFiles(t *testing.T) {
	all := testProject(t)
	for name, tt := range map[string]struct {
		script, want string
		weak         string // in what git shows; "" is nothing
	}{
		"R14: a link":                  {"ln -s /etc/passwd secret.txt", `"secret.txt" is a new or changed symbolic link`, "new file mode 120000"},
		"R14: a link inside":           {"ln -s ../tests/test_a.py b.py", `"b.py" is a new or changed symbolic link`, "new file mode 120000"},
		"R15: a file behind a link":    {"rm -r tests && echo x > OTHER/owned && ln -s OTHER tests", `"tests" is a new or changed symbolic link`, "new file mode 120000"},
		"R19: a nested repository":     {"mkdir sub && cd sub && git init -q && git commit -q --allow-empty -m x", "a nested repository", "Subproject commit"},
		"R36: another letter case":     {"mkdir Tests && cp tests/test_a.py Tests/test_a.py", "has the same name as", "Tests/test_a.py"},
		"R36: composed and decomposed": {`touch "$(printf 'e\314\201.py')" "$(printf '\303\251.py')"`, "has the same name as", "303"},
		"R36: a dot at the end":        {"echo x > a.py.", `"a.py."`, "a.py."},
		"R36: git by another name":     {"mkdir git~1 && echo x > git~1/config", `"git~1" is a nested repository`, "git~1/config"},
		"W10: a pipe":                  {"mkfifo pipe", `"pipe" is a named pipe`, ""},
		"W10: a pipe in place":         {"rm a.py && mkfifo a.py", `"a.py" is a named pipe`, "unsupported file type"},
		"W12: a hard link":             {"echo x > b.py && ln b.py c.py", "is a hard link", "c.py"},
		"W12: a hard link to a file":   {"ln a.py c.py", "is a hard link", "c.py"},
		"W11: a name of bytes":         {`touch "$(printf 'x\377')"`, "UTF-8", "377"},
	} {
		t.Run(name, func(t *testing.T) {
			p, other := all.on(t), t.TempDir()
			res := p.capture(func(dir string) { run(t, dir, strings.ReplaceAll(tt.script, "OTHER", other)) })
			if r := res.Rejection; r == nil || r.Reason != verdict.CandidateNotRegular || !strings.Contains(r.Message, tt.want) {
				t.Errorf("got %+v, want %q", res, tt.want)
			}
			if weak := p.naive(); !strings.Contains(weak, tt.weak) || tt.weak == "" && strings.TrimSpace(weak) != "" {
				t.Errorf("git shows %q, want %q", weak, tt.weak)
			}
		})
	}
}

// TestUnboundedChanges (W11): whatever is too much is named, and most of it is
// not even read.
func TestUnboundedChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short: it is about much that changes")
	}
	all := testProject(t)
	for name, tt := range map[string]struct {
		edit func(dir string) error
		want string
	}{
		"a sparse terabyte": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "big"), nil, 0o600)
		}, "more than"},
		"many files": {func(dir string) error { return many(dir, 3000) }, "files"},
		"deep folders": {func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 100)), 0o755)
		}, "too deep"},
		"a file above the limit of patches": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "b.py"), noise(2<<20), 0o600)
		}, "the patch of the agent's changes has more than"},
		"files above the limit of patches": {func(dir string) error {
			for i := range 1000 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.py", i)), []byte(strings.Repeat("01234567\n", 200)), 0o600); err != nil {
					return err
				}
			}
			return nil
		}, "the patch of the agent's changes has more than"},
		"a sparse file within the tree's limit": {func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "zeros"))
			if err == nil {
				err = f.Truncate(100 << 20)
			}
			return err
		}, `the agent changed "zeros"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := all.on(t)
			if name == "a sparse file within the tree's limit" {
				p.bounds.Bytes = 1 << 30
			}
			res := p.capture(func(dir string) {
				err := tt.edit(dir)
				if name == "a sparse terabyte" {
					err = os.Truncate(filepath.Join(dir, "big"), 1<<40)
				}
				if err != nil {
					t.Error(err)
				}
			})
			if r := res.Rejection; r == nil || r.Reason != verdict.CandidateTooLarge || !strings.Contains(r.Message, tt.want) {
				t.Errorf("got %+v, want %q", res, tt.want)
			}
		})
	}
}

// TestManyChanges: as much as there may be is captured.
func TestManyChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short: it is about much that changes")
	}
	p := testProject(t)
	res := p.capture(func(dir string) {
		if err := many(dir, 1500); err != nil {
			t.Error(err)
		}
	})
	if got := p.applied(res); len(got) != 1500 {
		t.Errorf("%d files", len(got))
	}
}

// noise returns bytes that cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}

// many writes empty files.
func many(dir string, n int) error {
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestPrintedPatch: what an agent prints counts only if it left its repository
// as it was, and only if it is a patch.
func TestPrintedPatch(t *testing.T) {
	all := testProject(t)
	const printed = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"
	const unified = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"
	for name, tt := range map[string]struct {
		stdout, script string
		origin         candidate.Origin
		patch          string
		ignored        int64
	}{
		"a git patch":                   {stdout: printed, origin: candidate.Stdout, patch: printed},
		"a unified patch":               {stdout: "\n" + unified, origin: candidate.Stdout, patch: "\n" + unified},
		"a mailed patch":                {stdout: "From " + strings.Repeat("0a", 20) + " Mon Sep 17\nSubject: x\n\n" + printed, origin: candidate.Stdout, patch: "From " + strings.Repeat("0a", 20) + " Mon Sep 17\nSubject: x\n\n" + printed},
		"a patch after running tests":   {stdout: printed, script: "mkdir .pytest_cache && echo x > .pytest_cache/v", origin: candidate.Stdout, patch: printed, ignored: 1},
		"the same bytes again":          {stdout: printed, script: "cp a.py x && cat x > a.py && rm x && chmod 600 a.py", origin: candidate.Stdout, patch: printed},
		"a patch beside a change":       {stdout: printed, script: "echo c > a.py", origin: candidate.GitDiff},
		"a patch beside a scratch file": {stdout: printed, script: "echo c > scratch", origin: candidate.GitDiff},
		"nothing":                       {},
		"words":                         {stdout: "I fixed it.\n"},
		"words around a patch":          {stdout: "Here is the fix:\n" + printed},
		"words that begin like one":     {stdout: "--- I fixed it ---\n"},
		"nothing but caches":            {script: "mkdir __pycache__ && echo x > __pycache__/x.pyc", ignored: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := all.on(t)
			p.stdout = tt.stdout
			res := p.capture(func(dir string) { run(t, dir, tt.script) })
			if res.Metadata.Int("ignored_path_count") != tt.ignored {
				t.Errorf("metadata %s", res.Metadata)
			}
			if tt.origin == "" {
				if r := res.Rejection; r == nil || r.Reason != verdict.CandidateMissing || (tt.ignored > 0) != strings.Contains(r.Message, "left out: 1") {
					t.Errorf("got %+v", res)
				}
				return
			}
			if res.Candidate == nil || res.Candidate.Origin != tt.origin {
				t.Fatalf("got %+v", res)
			}
			if data, err := res.Candidate.Bytes(); err != nil || tt.patch != "" && string(data) != tt.patch {
				t.Errorf("got %q, %v", data, err)
			}
		})
	}
}

// TestSecretsInRepositories: a patch with a secret is refused wherever the
// secret is, and nothing that says so repeats it. Without secrets to look for,
// the weak set-up, each of them is stored.
func TestSecretsInRepositories(t *testing.T) {
	all := testProject(t)
	const secret = "sk-secret-value"
	for name, script := range map[string]string{
		"in a text":   "echo 'key = \"" + secret + "\"' >> a.py",
		"in bytes":    "printf '\\000" + secret + "\\377' > db.sqlite",
		"in a name":   "echo x > " + secret + ".py",
		"in a link":   "ln -s x " + secret,
		"in a pipe":   "mkfifo " + secret,
		"in a folder": "mkdir " + secret + " && echo x > " + secret + "/x",
	} {
		t.Run(name, func(t *testing.T) {
			p := all.on(t)
			weak := p.capture(func(dir string) { run(t, dir, script) })
			if c := weak.Candidate; c == nil && !strings.Contains(weak.Rejection.Message, secret) {
				t.Errorf("weak: %+v", weak)
			}
			p.secrets = secrets(t)
			res := p.capture(func(dir string) { run(t, dir, script) })
			if r := res.Rejection; r == nil || r.Reason != verdict.Policy || strings.Contains(r.Message, "sk-secret") {
				t.Errorf("got %+v", res)
			}
		})
	}
	p := all.on(t)
	p.secrets = secrets(t)
	res := p.capture(func(dir string) { run(t, dir, "echo b > a.py; echo x > "+secret+".log; echo "+secret+" > x.log") })
	if d := cmp.Diff([]string{"[redacted:KEY].log", "x.log"}, ignored(t, res)); d != "" || res.Candidate == nil || res.Candidate.Redacted {
		t.Errorf("left out: %s; %+v", d, res)
	}
	many := all.on(t)
	res = many.capture(func(dir string) {
		run(t, dir, "echo b > a.py; for i in $(seq 150); do : > $i.log; done; : > \"$(printf '\\033[31m')\".log")
	})
	if n := res.Metadata.Int("ignored_path_count"); n != 151 || strings.Count(string(res.Metadata["ignored_paths"]), ".log") != 100 ||
		strings.Contains(string(res.Metadata["ignored_paths"]), "u001b") {
		t.Errorf("metadata %s", res.Metadata)
	}
}
