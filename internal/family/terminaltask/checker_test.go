package terminaltask

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// system is an image whose workspace has files of its own.
func system(tb testing.TB, b *bench) *bench {
	tb.Helper()
	img := enginetest.Script(tb, b.engine, b.image, `mkdir -p /app/old /srv/data
echo 'exit 7' > /app/run.sh; chmod 644 /app/run.sh
echo x > /app/old/a; echo y > /app/keep
echo before > /srv/data/x
useradd --create-home --uid 1000 me 2>/dev/null || echo 'me:x:1000:1000::/home/me:/bin/sh' >> /etc/passwd
mkdir -p /home/me; chown -R 1000:1000 /app /home/me`)
	out := *b
	out.image = img
	return &out
}

// TestHonestWork: whatever honest work leaves behind is there for the checker.
func TestHonestWork(t *testing.T) {
	t.Parallel()
	b := system(t, newBench(t, nil))
	env := task.Environment{Workdir: "/app", MaterializeWorkdir: true, User: "me"}
	link := func(to string) change { return change{mode: fs.ModeSymlink | 0o777, text: to, uid: 1000} }
	mine := func(mode fs.FileMode, text string) change { return change{mode: mode, text: text, uid: 1000} }
	for name, tt := range map[string]struct {
		checker string
		changes map[string]change
	}{
		"a mode alone": {"test -x run.sh && test $(stat -c %u run.sh) = 1000", map[string]change{"app/run.sh": mine(0o755, "exit 7\n")}},
		"deletions":    {"test ! -e old && test -e keep", map[string]change{"app/old": {remove: true}}},
		"a virtual environment full of links": {"test $(readlink venv/bin/python) = /usr/bin/python3 && venv/bin/python -c 'print(1)' && test $(readlink venv/lib64) = lib && venv/bin/py3 -c ''",
			map[string]change{"app/venv": mine(fs.ModeDir|0o755, ""), "app/venv/bin": mine(fs.ModeDir|0o755, ""), "app/venv/bin/python": link("/usr/bin/python3"),
				"app/venv/bin/py3": link("python"), "app/venv/lib": mine(fs.ModeDir|0o755, ""), "app/venv/lib64": link("lib")}},
		"a file becomes a folder":       {"test -f keep/x", map[string]change{"app/keep": mine(fs.ModeDir|0o755, ""), "app/keep/x": mine(0o644, "x")}},
		"a folder of the user's":        {"touch mine/x", map[string]change{"app/mine": mine(fs.ModeDir|0o700, "")}},
		"the home folder is the user's": {`test "$HOME" = /home/me && test $(id -u) = 1000`, nil},
	} {
		expect(t, name, b.score(t, object{"checker": object{"command": tt.checker}}, env, tt.changes), verdict.Passed, "")
		if tt.changes != nil {
			expect(t, name+": not done", b.score(t, object{"checker": object{"command": tt.checker}}, env, nil), verdict.Failed, verdict.TestsFailed)
		}
	}
}

// TestForms: scripts, rewards, and tests of the pack's decide as a command does.
func TestForms(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{
		"t/check.sh":       "test -d \"$TEST_DIR\" && grep -qx 42 \"$SECUREBENCH_WORKSPACE/answer.txt\" && [[ $BASH_VERSION ]]\n",
		"t/tests/x":        "x",
		"t/reward.sh":      "read -r r < answer.txt; mkdir -p /logs/x; printf '%s' \"$r\" > /logs/reward.txt\n",
		"t/silent.sh":      "exit 0\n",
		"t/failing.sh":     "echo 1 > /logs/reward.txt; exit 3\n",
		"t/link.sh":        "echo 1 > answer2; ln -s /app/answer2 /logs/reward.txt\n",
		"t/many.sh":        "yes 1 | head -c 1000000 > /logs/reward.txt\n",
		"t/test_answer.py": "def test_answer():\n    assert open('/app/answer.txt').read() == '42\\n'\n",
	})
	b.image = enginetest.GitImage(t, b.engine)
	reward := func(name string) object {
		return object{"source": "script", "path": "t/" + name, "reward_file": "/logs/reward.txt"}
	}
	for name, tt := range map[string]struct {
		checker object
		answer  string
		reason  verdict.Reason // "" passes
	}{
		"a script":                       {object{"source": "script", "path": "t/check.sh"}, "42\n", ""},
		"a script: wrong":                {object{"source": "script", "path": "t/check.sh"}, "41\n", verdict.TestsFailed},
		"pytest":                         {object{"source": "pytest", "path": "t/test_answer.py"}, "42\n", ""},
		"pytest: wrong":                  {object{"source": "pytest", "path": "t/test_answer.py"}, "41\n", verdict.TestsFailed},
		"pytest, all files":              {object{"source": "pytest", "path": "t"}, "42\n", ""},
		"a reward":                       {reward("reward.sh"), "1\n", ""},
		"half a reward":                  {reward("reward.sh"), "0.5\n", verdict.TestsFailed},
		"no number":                      {reward("reward.sh"), "nan\n", verdict.ProtocolViolation},
		"two numbers":                    {reward("reward.sh"), "1 1\n", verdict.ProtocolViolation},
		"no reward":                      {reward("silent.sh"), "1\n", verdict.TestsFailed},
		"a reward of a checker that ...": {reward("failing.sh"), "1\n", verdict.TestsFailed},
		"a link as a reward":             {reward("link.sh"), "1\n", verdict.ProtocolViolation},
		"a flood as a reward":            {reward("many.sh"), "1\n", verdict.ProtocolViolation},
	} {
		got := b.score(t, object{"checker": tt.checker}, app(), map[string]change{"app/answer.txt": file(tt.answer)})
		if tt.reason == "" {
			expect(t, name, got, verdict.Passed, "")
		} else {
			expect(t, name, got, verdict.Failed, tt.reason)
		}
		if want := map[string]string{"a reward": "reward=1", "half a reward": "reward=0.5"}[name]; got.Measure.String() != want {
			t.Errorf("%s: measure %q, want %q", name, got.Measure, want)
		}
	}
}

// TestCopiesOfEvaluationFiles: a checker may copy its files over the workspace twice,
// and cannot write to them where they are.
func TestCopiesOfEvaluationFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"t/run.sh": `cp "$SECUREBENCH_EVALUATOR/t/data" . && cp "$SECUREBENCH_EVALUATOR/t/data" . && echo more >> data &&
cp -r "$SECUREBENCH_EVALUATOR/t" copy && cp -r "$SECUREBENCH_EVALUATOR/t/." copy && touch copy/new && ! touch "$SECUREBENCH_EVALUATOR/t/data" && grep -qx 42 answer.txt
`, "t/data": "x\n"})
	eval := object{"checker": object{"source": "script", "path": "t/run.sh"}}
	for _, user := range []string{"", "1000:1000"} {
		env := task.Environment{Workdir: "/app", User: user}
		changes := map[string]change{"app/answer.txt": file("42\n")}
		expect(t, "as "+user, b.score(t, eval, env, changes), verdict.Passed, "")
	}
	expect(t, "nothing", b.score(t, eval, app(), nil), verdict.Failed, verdict.TestsFailed)
}

// TestNeighbours: a checker at the root of the evaluation files finds those that it
// names, and none of other rows.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"run.sh": "cd \"$(dirname \"$0\")\" && . ./lib/common.sh && test ! -e other && test \"$(ls lib)\" = common.sh && check\n",
		"lib/common.sh": "check() { grep -qx 42 /app/answer.txt; }\n", "lib/secret": "x\n", "other/common.sh": "exit 0\n", "other/solution.sh": "x\n"})
	eval := object{"checker": object{"source": "script", "path": "run.sh"}}
	expect(t, "right", b.score(t, eval, app(), answer()), verdict.Passed, "")
	expect(t, "wrong", b.score(t, eval, app(), nil), verdict.Failed, verdict.TestsFailed)
}

// TestWritableFiles: tests that build in their own folder ask for one that they can
// write to, and are labelled.
func TestWritableFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"t/run.sh": "cd \"$(dirname \"$TEST_DIR\")\" && mkdir build && cp data build/made && echo more >> data && grep -qx 42 \"$SECUREBENCH_WORKSPACE/answer.txt\"\n", "t/data": "x\n"})
	checker := object{"source": "script", "path": "t/run.sh"}
	for _, user := range []string{"", "1000:1000"} {
		env := task.Environment{Workdir: "/app", User: user}
		delete(checker, "writable_files")
		expect(t, "as "+user+", not asked for", b.score(t, object{"checker": checker}, env, answer()), verdict.Failed, verdict.TestsFailed)
		checker["writable_files"] = true
		got := b.score(t, object{"checker": checker}, env, answer())
		expect(t, "as "+user, got, verdict.Passed, "")
		if !slices.Contains(got.Labels, writableFiles) {
			t.Errorf("the labels are %q", got.Labels)
		}
		expect(t, "as "+user+", wrong", b.score(t, object{"checker": checker}, env, nil), verdict.Failed, verdict.TestsFailed)
	}
}

// TestEnds: each way in which a checker can end badly is an outcome with a name.
func TestEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	limits := sandbox.Limits{Timeout: 2 * time.Minute, Output: 1 << 20, Memory: 128 << 20, Pids: 64, Disk: 16 << 20}
	for name, tt := range map[string]struct {
		command string
		outcome verdict.Outcome
		reason  verdict.Reason
	}{
		"it hangs":              {"sleep 1000", verdict.VerifierTimeout, verdict.VerificationTimeout},
		"it floods":             {"head -c 5000000 /dev/zero; exit 1", verdict.Limit, verdict.OutputLimit},
		"it floods, and passes": {"head -c 5000000 /dev/zero; exit 0", verdict.Passed, ""},
		"it takes all memory":   {`python3 -c 'x = "x" * (1 << 30)'`, verdict.Limit, verdict.OutOfMemory},
		"it is killed":          {"kill -9 $$", verdict.Failed, verdict.TestsFailed},
		"it forks without end":  {"python3 -c 'import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.2)'", verdict.VerifierTimeout, verdict.VerificationTimeout},
		"it leaves a process":   {"sleep 1000 & exit 0", verdict.Passed, ""},
		"it is not there":       {"/no/such/program", verdict.Pending, verdict.PackFault},
	} {
		at := limits
		if tt.reason == verdict.VerificationTimeout { // however slow the machine is
			at.Timeout = 5 * time.Second
		}
		got, err := b.try(t, object{"checker": object{"command": tt.command}}, app(), at, tree(t, nil))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		expect(t, name, got, tt.outcome, tt.reason)
	}
}

// TestTooLarge: changes that do not fit end in a limit.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	big := tree(t, map[string]change{"app/big": file(string(make([]byte, 8<<20)))})
	for disk, want := range map[int64]verdict.Outcome{4 << 20: verdict.Limit, 32 << 20: verdict.Passed} {
		got, err := b.try(t, object{"checker": object{"command": "test -s big"}}, app(), sandbox.Limits{Disk: disk}, big)
		if err != nil || got.Outcome != want || want == verdict.Limit && got.Reason != verdict.DiskLimit {
			t.Errorf("%d bytes: %v, %s", disk, err, describe(got))
		}
	}
}

// TestDamagedCandidate: nothing runs if the store does not hold what it says.
func TestDamagedCandidate(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	c := tree(t, answer())
	c.Digest = tree(t, nil).Digest
	v := newVerifier(family.Resources{Engine: b.engine, RunID: "test", Files: b.files})
	at := makeCase(t, object{"checker": object{"command": "true"}}, app())
	at.Image = b.image
	s := v.Open(t.Context(), at)
	defer func() { _ = s.Close(context.Background()) }()
	if got, err := s.Verify(t.Context(), c); !errors.Is(err, candidate.ErrDamaged) {
		t.Errorf("got %v and %s", err, describe(got))
	}
}

// TestDeniedCommand: a row that needs what the operator does not allow fails
// before there is a sandbox.
func TestDeniedCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	eval := object{"checker": object{"command": "chroot / true"}, "needed_commands": []string{"chroot"}}
	got := b.score(t, eval, app(), nil)
	expect(t, "denied", got, verdict.Failed, verdict.CommandDenied)
	if got.Waited != 0 || got.Metadata["denied_command"] == nil || got.Phase != phaseChecker {
		t.Errorf("denied: %s", describe(got))
	}
	b.by.Allow = true
	expect(t, "allowed", b.score(t, eval, app(), nil), verdict.Passed, "")
	delete(eval, "needed_commands")
	expect(t, "not asked for", b.score(t, eval, app(), nil), verdict.Failed, verdict.TestsFailed)
}

// TestCommandNotInImage: a checker's command that its image does not have is a fault of
// the row, also if the candidate brings one of that name. One that the candidate should
// bring, or that only looks as if it was not found, is not.
func TestCommandNotInImage(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	program := change{mode: 0o755, text: "#!/bin/sh\nexit 0\n"}
	for name, tt := range map[string]struct {
		command any
		changes map[string]change
		want    verdict.Outcome
	}{
		"a line":                {"no-such-checker --all", nil, verdict.Pending},
		"a line with a path":    {"/opt/no/such/checker --all", nil, verdict.Pending},
		"a list":                {[]string{"no-such-checker"}, nil, verdict.Pending},
		"a list with a path":    {[]string{"/opt/no/such/checker"}, nil, verdict.Pending},
		"brought to no avail":   {"no-such-checker", map[string]change{"app/no-such-checker": program}, verdict.Pending},
		"the candidate's":       {[]string{"/app/made"}, nil, verdict.Failed},
		"the candidate's, made": {[]string{"/app/made"}, map[string]change{"app/made": program}, verdict.Passed},
		"the same in a line":    {"/app/made --all", nil, verdict.Failed},
		"in its folder":         {[]string{"./made"}, nil, verdict.Failed},
		"only looks so":         {"echo 'sh: 1: test: not found' >&2; exit 127", nil, verdict.Failed},
		"exits so":              {[]string{"sh", "-c", "exit 127"}, nil, verdict.Failed},
		"there":                 {"test -f /app/made", map[string]change{"app/made": program}, verdict.Passed},
	} {
		got := b.score(t, object{"checker": object{"command": tt.command}}, app(), tt.changes)
		if got.Outcome != tt.want || (got.Reason == verdict.PackFault) != (tt.want == verdict.Pending) {
			t.Errorf("%s: %s, %s: %s", name, got.Outcome, got.Reason, got.Message)
		}
	}
}
