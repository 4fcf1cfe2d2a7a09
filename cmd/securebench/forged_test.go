package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
)

// dishonest is an operator who forges a valid run: with the salt and a signing
// key, an operator can sign any records.
type dishonest struct {
	manifest func(*record.Manifest)
	// lines returns the forged records; nil keeps the original ones.
	lines func([]*record.Line) []*record.Line
	keep  func(store *candidate.Store) error
}

// forge rewrites the run in dir and signs it again. The error is that of the seal, which
// refuses what verify would.
func forge(t *testing.T, dir string, how dishonest) error {
	t.Helper()
	check := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	d, err := record.Open(dir)
	check(err)
	defer d.Close()
	former, err := d.Former()
	check(err)
	var lines []*record.Line
	candidates := map[string][]byte{}
	_, err = evidence.Verify(t.Context(), d.FS(), evidence.Options{Each: func(e record.Entry) {
		lines = append(lines, e.Line)
		if sum := e.Digests.Candidate; sum != "" {
			c, err := evidence.Candidate(d.FS(), candidate.Candidate{Kind: task.Text, Digest: sum})
			check(err)
			data, err := c.Bytes()
			check(err)
			candidates[sum] = data
		}
	}})
	check(err)
	plan, err := former.Review(func(string) error { return nil }, func(record.Entry) string { return record.NotPlanned })
	check(err)
	m := former.Manifest
	config, err := record.ReadFile(d.FS(), record.ConfigName, 1<<20)
	check(err)
	if how.manifest != nil {
		how.manifest(&m)
	}
	check(d.Continue(plan, &m), d.WriteConfig(config))
	store, err := candidate.OpenStore(d.StorePath())
	check(err)
	defer store.Close()
	for _, data := range candidates {
		_, err := store.Put(task.Text, candidate.Given, bytes.NewReader(data))
		check(err)
	}
	if how.keep != nil {
		check(how.keep(store))
	}
	if how.lines != nil {
		lines = how.lines(lines)
	}
	for _, l := range lines {
		l.Restricted = nil
		check(d.Append(l))
	}
	dropUnnamed(t, dir, lines)
	key, err := attest.GenerateKey()
	check(err)
	return evidence.Seal(context.Background(), d, m, key)
}

// dropUnnamed removes candidates that no line names.
func dropUnnamed(t *testing.T, dir string, lines []*record.Line) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, record.CandidatesName), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || slices.ContainsFunc(lines, func(l *record.Line) bool { return strings.HasSuffix(l.Digests.Candidate, e.Name()) }) {
			return err
		}
		return os.Remove(name)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDishonestOperators: reverify detects what a signature cannot. Each of
// these runs verifies, because its operator signed it, but none passes a
// reverify.
func TestDishonestOperators(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\ndefaults: {family: short_answer}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}
{"id": "b", "input": {"question": "The word?"}, "eval": {"accepted_answers": ["word"]}}
{"id": "c", "family": "free_response", "input": {"prompt": "Sun on ice?"}, "eval": {"rubric": {"type": "contains_any", "accepted_answers": ["It melts."]}}}
`)
	write(t, filepath.Join(dir, "answers.jsonl"), `{"task_id": "a", "text": "5"}
{"task_id": "b", "text": "word"}
{"task_id": "c", "text": "it melts"}
`)
	pass := func(l *record.Line) {
		l.Status, l.Outcome, l.Passed = "passed", "passed", true
		l.FailureReason, l.FailurePhase, l.FailureMessage = "", "", ""
	}
	each := func(f func(*record.Line)) func([]*record.Line) []*record.Line {
		return func(lines []*record.Line) []*record.Line {
			for _, l := range lines {
				f(l)
			}
			return lines
		}
	}
	for name, c := range map[string]struct {
		how  dishonest
		code int
		want string // in what reverify prints
	}{
		"honest":           {dishonest{}, exitDone, "reverified 3 verdicts of 3 of the pack's 3 rows: 3 equal, 0 different"},
		"failed is passed": {dishonest{lines: each(pass)}, exitIntegrity, "1 verdict different"},
		"another answer": {dishonest{lines: each(func(l *record.Line) {
			text := "4"
			if l.TaskID == "a" { // what was captured was another candidate
				pass(l)
				l.Candidate.Shown, l.Digests.Candidate = text, digest.Bytes([]byte(text))
			}
		}), keep: func(s *candidate.Store) error {
			_, err := s.Put(task.Text, candidate.Given, strings.NewReader("4"))
			return err
		}}, exitDone, "3 equal"}, // undetectable: it is the operator's candidate
		"invented rows": {dishonest{manifest: func(m *record.Manifest) { m.Planned.Tasks = 5 }, lines: func(l []*record.Line) []*record.Line {
			for i := range 2 {
				x := *l[1]
				x.TaskID, x.Index = "invented"+string(rune('0'+i)), 3+i
				l = append(l, &x)
			}
			return l
		}}, exitIntegrity, "the run says that it planned 5 tasks; this pack has 3 rows"},
		"fewer rows": {dishonest{manifest: func(m *record.Manifest) { m.Planned.Tasks = 2 }, lines: func(l []*record.Line) []*record.Line {
			return slices.DeleteFunc(l, func(l *record.Line) bool { return l.Index == 2 })
		}}, exitIntegrity, "the run says that it left out 0 rows of the pack; of this pack it left out 1"},
		"fewer rows, and says so": {dishonest{manifest: func(m *record.Manifest) { m.Planned.Tasks, m.Planned.LeftOut = 2, 1 }, lines: func(l []*record.Line) []*record.Line {
			return slices.DeleteFunc(l, func(l *record.Line) bool { return l.Index == 2 })
		}}, exitDone, "2 verdicts of 2 of the pack's 3 rows"},
		"swapped rows":      {dishonest{lines: each(func(l *record.Line) { l.Index = 2 - l.Index })}, exitIntegrity, "is not of row 0 of the pack: that is \"a\""},
		"another family":    {dishonest{lines: each(func(l *record.Line) { l.TaskType = "repo_patch" })}, exitIntegrity, "of family short_answer"},
		"no heuristic":      {dishonest{lines: each(func(l *record.Line) { l.Labels = nil })}, exitIntegrity, "1 verdict different"},
		"other containment": {dishonest{lines: each(func(l *record.Line) { l.Containment = "split" })}, exitIntegrity, "3 verdicts different"},
		"called pending": {dishonest{lines: each(func(l *record.Line) {
			if !l.Passed {
				l.Status, l.Outcome, l.Verified, l.FailureReason = "pending", "pending", false, "no_verifier"
			}
		})}, exitIntegrity, "1 verdict different"},
		"another version": {dishonest{manifest: func(m *record.Manifest) { m.Pack.Version = 9 }}, exitRefused, "it is \"p\", version 1, the run's is \"p\", version 9"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			if res := securebench(t, nil, "run", dir, "--agent", "replay:"+filepath.Join(dir, "answers.jsonl"), "-o", out, "-q"); res.code != 0 {
				t.Fatalf("exit %d: %s", res.code, res.stderr)
			}
			if err := forge(t, out, c.how); err != nil {
				t.Fatal(err)
			}
			if res := securebench(t, nil, "verify", out, "--any-signer"); res.code != 0 {
				t.Errorf("the signed run does not verify: %s%s", res.stdout, res.stderr)
			}
			res := securebench(t, nil, "reverify", out, "--pack", dir, "--any-signer")
			if res.code != c.code || !strings.Contains(res.stdout+res.stderr, c.want) {
				t.Errorf("exit %d, want %d and %q:\n%s%s", res.code, c.code, c.want, res.stdout, res.stderr)
			}
		})
	}
}

// TestDroppedLabels: an operator who holds the key takes labels away that follow from
// what else is there. Honest runs pass, also those of another build, which is said.
func TestDroppedLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\ndefaults: {family: short_answer}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}, "metadata": {"adapted": true}}
{"id": "b", "input": {"question": "The word?"}, "eval": {"accepted_answers": ["word"]}}
`)
	write(t, filepath.Join(dir, "answers.jsonl"), `{"task_id": "a", "text": "4"}
{"task_id": "b", "text": "word"}
`)
	write(t, filepath.Join(dir, "tester.yaml"), "schema_version: \"0.2\"\nrun: {id: r, output_dir: x}\nbenchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}\nharness: {type: command, config: {command: [agent]}}\nlimits: {memory: 2GiB}\n")
	without := func(label string) func([]*record.Line) []*record.Line {
		return func(lines []*record.Line) []*record.Line {
			for _, l := range lines {
				l.Labels = slices.DeleteFunc(l.Labels, func(s string) bool { return s == label })
			}
			return lines
		}
	}
	unlabelled := func(m *record.Manifest) { m.Labels = []string{} }
	otherBuild := func(m *record.Manifest) { m.Digests.Verifier = digest.Bytes([]byte("another build")) }
	bound := func(lines []*record.Line) []*record.Line {
		for _, l := range lines {
			l.Digests.Verifier = digest.Bytes([]byte("another build"))
		}
		return lines
	}
	const (
		differs = "this program is another build than the one that scored the run: it is sha256:"
		memory  = "lacks the label custom_limits: limit memory: 2147483648, by default 1073741824"
	)
	for name, c := range map[string]struct {
		how                dishonest
		verified, reviewed int
		says, shows        string // by verify, and by reverify
	}{
		"honest":        {dishonest{}, exitDone, exitDone, "agent: replay (answers were replayed from a file: only the operator can say where they come from)", "2 equal, 0 different"},
		"no adapted":    {dishonest{lines: without("adapted")}, exitDone, exitIntegrity, "verified: 2 records", `the record of "a" is not of row 0 of the pack: its label adapted is wrong`},
		"in one place":  {dishonest{lines: without("custom_limits")}, exitIntegrity, exitIntegrity, "candidates.jsonl:1: its label custom_limits is wrong: run.json has it", "does not verify"},
		"in both":       {dishonest{manifest: unlabelled, lines: without("custom_limits")}, exitIntegrity, exitIntegrity, "run.json: it " + memory, "does not verify"},
		"another build": {dishonest{manifest: otherBuild, lines: bound}, exitDone, exitDone, differs, differs},
		"another build, in both": {dishonest{manifest: func(m *record.Manifest) { unlabelled(m); otherBuild(m) }, lines: func(l []*record.Line) []*record.Line {
			return bound(without("custom_limits")(l))
		}}, exitDone, exitIntegrity, differs, "the run " + memory},
		"as if by default": {dishonest{manifest: func(m *record.Manifest) { unlabelled(m); m.Limits.Memory = 1 << 30 }, lines: without("custom_limits")},
			exitIntegrity, exitIntegrity, "run.json: its limits is not what restricted/config.json says", "does not verify"},
		"another agent": {dishonest{manifest: func(m *record.Manifest) { m.Agent = "codex" }, lines: func(lines []*record.Line) []*record.Line {
			for _, l := range lines {
				l.Agent = "codex"
			}
			return lines
		}}, exitIntegrity, exitIntegrity, "run.json: its agent is not what restricted/config.json says", "does not verify"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			if res := securebench(t, nil, "run", "--config", filepath.Join(dir, "tester.yaml"), "--agent", "replay:"+filepath.Join(dir, "answers.jsonl"), "-o", out, "-q"); res.code != 0 {
				t.Fatalf("exit %d: %s", res.code, res.stderr)
			}
			if err := forge(t, out, c.how); err != nil {
				if c.verified != exitIntegrity || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if res := securebench(t, nil, "verify", out, "--any-signer"); res.code != c.verified || !strings.Contains(res.stdout+res.stderr, c.says) {
				t.Errorf("verify: exit %d, want %d and %q:\n%s%s", res.code, c.verified, c.says, res.stdout, res.stderr)
			} else if name == "honest" && strings.Contains(res.stdout, "another build") {
				t.Errorf("it is another build: %s", res.stdout)
			}
			if res := securebench(t, nil, "reverify", out, "--pack", dir, "--any-signer"); res.code != c.reviewed || !strings.Contains(res.stdout+res.stderr, c.shows) {
				t.Errorf("reverify: exit %d, want %d and %q:\n%s%s", res.code, c.reviewed, c.shows, res.stdout, res.stderr)
			}
		})
	}
}

// TestStatementOfAnotherRun: a statement that was copied from another run of the same
// pack, with the same id and as many records, is what is wrong, and no record is.
func TestStatementOfAnotherRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\ndefaults: {family: short_answer}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n")
	for _, name := range []string{"one", "two"} {
		if res := securebench(t, nil, "run", dir, "--agent", "oracle", "-o", filepath.Join(dir, name), "-q"); res.code != 0 {
			t.Fatalf("exit %d: %s", res.code, res.stderr)
		}
	}
	statement, err := os.ReadFile(filepath.Join(dir, "two", record.StatementName))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "one", record.StatementName), string(statement))
	for _, when := range []string{"whole", "published"} {
		res := securebench(t, nil, "verify", filepath.Join(dir, "one"), "--any-signer")
		const want = "statement.dsse.json: it is about another run: it signs another run.json and other records, while these belong together\n"
		if res.code != exitIntegrity || res.stdout != want {
			t.Errorf("%s: exit %d, %q, want %q", when, res.code, res.stdout, want)
		}
		if err := os.RemoveAll(filepath.Join(dir, "one", record.RestrictedName)); err != nil {
			t.Fatal(err)
		}
	}
	if res := securebench(t, nil, "verify", filepath.Join(dir, "two"), "--any-signer"); res.code != exitDone {
		t.Errorf("the other run: exit %d: %s", res.code, res.stdout)
	}
}
