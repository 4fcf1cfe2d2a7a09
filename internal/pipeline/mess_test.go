package pipeline_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/checkout"
	"securebench/internal/config"
	"securebench/internal/pipeline/produce"
	"securebench/internal/repository/patchtest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// testbed lays a small project with a bug and a test that finds it into an
// image. The fix changes the size of the file: Python takes a compiled module for
// current if the source has the same size and, to the second, the same time.
const testbed = `
export HOME=/root GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git init -q -b main /testbed && cd /testbed && mkdir tests
printf 'def double(x):\n    return x * 30\n' > calc.py
printf 'from calc import double\n\ndef test_double():\n    assert double(2) == 4\n' > tests/test_calc.py
printf '*.log\n' > .gitignore
git add -A && git commit -qm base && chown -R 1000:1000 /testbed
`

// tidy is the fix alone.
const tidy = `sed -i 's/\* 30/* 2/' calc.py`

// messy is how agents work: they run tests, leave files, and use git.
const messy = `
git config user.name n && git config user.email e
python3 -m pytest -q -p no:randomly tests >run.log 2>&1 && exit 1
` + tidy + `
python3 -m pytest -q tests >>run.log 2>&1
printf '#!/bin/sh\npython3 -m pytest\n' > reproduce.sh && chmod +x reproduce.sh
echo '*.tmp' >> .gitignore && echo kept > notes.tmp
mkdir scratch
echo scratch/ >> .git/info/exclude
echo note > scratch/note
git add -A && git commit -qm fix && git commit -q --amend -m 'fix it'
git update-index --skip-worktree calc.py && git tag done && git checkout -qb other
`

// look finds out where the agent is and what it may write.
const look = `
test "$PWD" = /workspace && test -f "$SECUREBENCH_TASK_FILE" && test "$TZ" = UTC
test -w /workspace && test -w "$SECUREBENCH_REPO" && ! touch /x 2>/dev/null
cd "$SECUREBENCH_REPO"
`

// TestHonestMess: whatever an honest agent leaves behind in its repository, and
// whatever it does with git there, its candidate is what it changed. Asking its
// git, as a framework might, shows no change at all.
func TestHonestMess(t *testing.T) {
	e := enginetest.Open(t)
	image := enginetest.Script(t, e, enginetest.GitImage(t, e), testbed, "USER 1000:1000")
	keeper := checkout.NewKeeper(e, checkout.Options{Run: "test"})
	t.Cleanup(func() {
		if err := keeper.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	base, err := keeper.Get(t.Context(), image, "/testbed")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Release()
	for name, tt := range map[string]struct {
		script  string
		changed []string
		ignored []string
	}{
		"tidy": {script: tidy, changed: []string{"calc.py"}},
		"messy": {script: messy, changed: []string{".gitignore", "calc.py", "notes.tmp", "reproduce.sh", "scratch/note"},
			ignored: []string{".pytest_cache/", "__pycache__/", "run.log", "tests/__pycache__/"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.cfg.Families["patch_family"], b.cfg.Verifiers = patchFamily(), stageVerifiers()
			b.cfg.Images = map[string]sandbox.Image{"img": image}
			b.cfg.Agent = &agent.Harness{Runner: agent.Runner{RunID: "test", Checkouts: keeper,
				Producer: &produce.Producer{Engine: e, Harness: shell(t, look+tt.script+"\ngit diff HEAD"), Env: os.LookupEnv}}}
			if _, err := b.run(t.Context(), repairTask(t, base.Head())); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[0].Line
			if l.Outcome != verdict.Passed || l.ProducerMetadata.Int("exit_code") != 0 {
				t.Fatalf("%s: %s\n%s%s", l.Outcome, l.FailureMessage, l.ProducerStdout, l.ProducerStderr)
			}
			if shown := l.ProducerStdout; strings.Contains(shown, "calc.py") == (name == "messy") {
				t.Errorf("the agent's git shows %q", shown)
			}
			paths, err := patchtest.Paths([]byte(l.Candidate.Shown))
			if err != nil || !slices.Equal(paths, tt.changed) {
				t.Errorf("changed %q, %v, want %q", paths, err, tt.changed)
			}
			if d := cmp.Diff(tt.ignored, folders(t, l.ProducerMetadata["ignored_paths"])); d != "" {
				t.Errorf("left out (-want +got):\n%s", d)
			}
		})
	}
}

// folders shortens a list of paths to the folders of caches.
func folders(t *testing.T, list []byte) (out []string) {
	t.Helper()
	var paths []string
	if len(list) > 0 {
		if err := json.Unmarshal(list, &paths); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range paths {
		for _, cache := range []string{".pytest_cache/", "__pycache__/"} {
			if before, _, ok := strings.Cut(path, cache); ok {
				path = before + cache
			}
		}
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// shell is the command harness with a script.
func shell(t *testing.T, script string) harness.Harness {
	t.Helper()
	list := &source.Node{Kind: source.List}
	for _, word := range []string{"sh", "-ec", script} {
		list.Items = append(list.Items, &source.Node{Kind: source.String, Text: word})
	}
	h, problems := harness.ParseCommand(config.Harness{Type: "command", Config: &source.Node{Kind: source.Map,
		Fields: []source.Field{{Name: "command", Value: list}}}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return h
}

// repairTask asks for the fix of the testbed.
func repairTask(t *testing.T, commit string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: "repair", Family: "patch_family", Pack: task.Pack{ID: "pack", Version: 1}, Row: []byte("repair"),
		Environment: task.Environment{Image: "img", Env: []string{"TZ=UTC"}, Checkout: task.Checkout{Dir: "/testbed", Commit: commit}},
		Extraction:  task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch},
		Resources:   []task.Resource{{Name: "gold", Lane: task.Hidden, Value: []byte(`"    return x * 2"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}
