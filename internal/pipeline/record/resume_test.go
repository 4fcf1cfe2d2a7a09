package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	stdjson "encoding/json"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/digest"
	"securebench/internal/verdict"
)

// recorded writes n lines of a run and closes it. Line 2 has raw output.
func recorded(t *testing.T, n int) *Dir {
	t.Helper()
	d := begin(t, t.TempDir())
	m := Manifest{Format: ManifestFormat, RunID: "run", SaltDigest: d.SaltDigest(), Planned: Planned{Tasks: n, Attempts: 1}, ResumedFrom: []Resumption{}}
	if err := d.WriteManifest(&m); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		l := storedLine()
		l.TaskID, l.Index = fmt.Sprint("t", i), i
		if i == 1 {
			raw, _, err := d.Restrict(l.TaskID, "t1/1/agent-stdout", []byte("raw"))
			if err != nil {
				t.Fatal(err)
			}
			l.Restricted = []RawFile{raw}
		}
		if err := d.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// review reads what is in the directory of d.
func reviewed(t *testing.T, d *Dir, judge func(Entry) string) (*Dir, *Former, *Review) {
	t.Helper()
	again, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	former, err := again.Former()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := former.Review(inStore, judge)
	if err != nil {
		t.Fatal(err)
	}
	return again, former, plan
}

func keepAll(Entry) string { return "" }

// naive is a resume as the reference does it: it believes every line that
// parses and names a task.
func naive(data []byte) map[string]bool {
	kept := map[string]bool{}
	for line := range bytes.Lines(data) {
		var l struct {
			TaskID string `json:"task_id"`
			Passed bool   `json:"passed"`
		}
		if stdjson.Unmarshal(bytes.Trim(line, "\x00 \n"), &l) == nil && l.TaskID != "" {
			kept[l.TaskID] = l.Passed
		}
	}
	return kept
}

// TestReview damages the records of a run in the ways of the attack corpus.
// The naive resume accepts the forged ones; Review keeps exactly the records
// that it can check, and reports why it drops the others.
func TestReview(t *testing.T) {
	// at changes one line, from 1.
	at := func(n int, f func(line string) string) func(string) string {
		return func(all string) string {
			l := strings.SplitAfter(all, "\n")
			l[n-1] = f(l[n-1])
			return strings.Join(l, "")
		}
	}
	replace := func(from, to string) func(string) string {
		return func(l string) string { return strings.Replace(l, from, to, 1) }
	}
	for name, c := range map[string]struct {
		change func(all string) string
		kept   string // the tasks' numbers
		rerun  map[string]int
		forged string // a task that the naive resume believes to have passed
	}{
		"untouched":    {change: func(s string) string { return s }, kept: "01234"},
		"empty":        {change: func(string) string { return "" }},
		"torn tail":    {change: func(s string) string { return s[:len(s)-40] }, kept: "0123", rerun: map[string]int{Torn: 1}},
		"no newline":   {change: func(s string) string { return s[:len(s)-1] }, kept: "0123", rerun: map[string]int{Torn: 1}},
		"zero padding": {change: func(s string) string { return s + strings.Repeat("\x00", 100) }, kept: "01234", rerun: map[string]int{Torn: 1}},
		"zero line":    {change: func(s string) string { return s + strings.Repeat("\x00", 100) + "\n" }, kept: "01234", rerun: map[string]int{Damaged: 1}},
		"garbage":      {change: at(3, func(string) string { return "what?\n" }), kept: "0134", rerun: map[string]int{Damaged: 1}},
		"D02 forged": {change: func(s string) string {
			return s + `{"task_id":"t9","verification_status":"passed","score":1,"passed":true}` + "\n"
		}, kept: "01234", rerun: map[string]int{Damaged: 1}, forged: "t9"},
		"D02 rechained": {change: func(s string) string { return s + forge(s, "t9") }, kept: "01234", rerun: map[string]int{Damaged: 1}, forged: "t9"},
		"D09 edited":    {change: at(2, replace(`"exit_code": 0`, `"exit_code": 1`)), kept: "0234", rerun: map[string]int{Damaged: 1}, forged: "t1"},
		"D07 key twice": {change: at(2, replace(`"score": 1.0`, `"score": 0.0, "score": 1.0`)), kept: "0234", rerun: map[string]int{Damaged: 1}, forged: "t1"},
		"D07 case":      {change: at(2, replace(`"score": 1.0`, `"SCORE": 1.0`)), kept: "0234", rerun: map[string]int{Damaged: 1}, forged: "t1"},
		"D07 trailing":  {change: at(2, replace("}\n", "} \n")), kept: "0234", rerun: map[string]int{Damaged: 1}, forged: "t1"},
		"dropped":       {change: at(2, func(string) string { return "" }), kept: "0234", rerun: map[string]int{Missing: 1}},
		"repeated":      {change: at(2, func(l string) string { return l + l }), kept: "01234", rerun: map[string]int{OutOfChain: 1}},
		"swapped": {change: func(s string) string {
			l := strings.SplitAfter(s, "\n")
			l[1], l[2] = l[2], l[1]
			return strings.Join(l, "")
		}, kept: "0234", rerun: map[string]int{Missing: 1, OutOfChain: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := recorded(t, 5)
			before, err := os.ReadFile(d.LinesPath())
			if err != nil {
				t.Fatal(err)
			}
			after := []byte(c.change(string(before)))
			if err := os.WriteFile(d.LinesPath(), after, 0o644); err != nil {
				t.Fatal(err)
			}
			if c.forged != "" && !naive(after)[c.forged] {
				t.Error("even the naive resume detects this")
			}
			again, former, plan := reviewed(t, d, keepAll)
			kept := ""
			if err := plan.EachKept(func(e Entry) { kept += e.TaskID[1:] }); err != nil {
				t.Fatal(err)
			}
			if c.rerun == nil {
				c.rerun = map[string]int{}
			}
			if diff := cmp.Diff(c.rerun, plan.Rerun); diff != "" || kept != c.kept {
				t.Errorf("kept %s, want %s; reasons (-want +got):\n%s", kept, c.kept, diff)
			}
			m := former.Manifest
			m.ResumedFrom = append(m.ResumedFrom, plan.Resumption("now"))
			if err := again.Continue(plan, &m); err != nil {
				t.Fatal(err)
			}
			checkContinued(t, again, c.kept, after)
		})
	}
}

// forge chains an invented line properly, as anybody could who knows the
// format and not the salt.
func forge(all, id string) string {
	l := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n")
	last := strings.TrimSuffix(l[len(l)-1], "\n")
	e, err := Decode([]byte(last))
	if err != nil {
		panic(err)
	}
	line := *e.Line
	line.TaskID = id
	b, err := line.marshal(link{e.Seq + 1, e.Digest}, [32]byte{}, recordField)
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// checkContinued checks that the kept lines are chained again, more can be
// appended, and the old file is unchanged in history/.
func checkContinued(t *testing.T, d *Dir, kept string, old []byte) {
	t.Helper()
	if err := d.Append(sampleLine()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(d.LinesPath())
	if err != nil {
		t.Fatal(err)
	}
	chain, got := link{prev: Genesis}, ""
	for raw, err := range Lines(bytes.NewReader(data)) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(raw.Bytes)
		if err != nil || e.Seq != chain.seq || e.Prev != chain.prev || !e.Authentic(d.Salt()) {
			t.Fatalf("line %d: %v, number %d after %s", raw.Number, err, e.Seq, e.Prev)
		}
		chain = link{e.Seq + 1, e.Digest}
		got += strings.TrimPrefix(e.TaskID, "t")
	}
	if want := kept + "/1"; got != want {
		t.Errorf("the new file holds %s, want %s", got, want)
	}
	saved, err := filepath.Glob(filepath.Join(d.Path(), HistoryName, "*", LinesName))
	if err != nil || len(saved) != 1 {
		t.Fatalf("history holds %v, %v", saved, err)
	}
	if data, err := os.ReadFile(saved[0]); err != nil || !bytes.Equal(data, old) {
		t.Error("the old file in history/ is not what it was")
	}
}

// TestReviewEveryCut cuts the file at every byte: whole lines stay, at most
// one is torn.
func TestReviewEveryCut(t *testing.T) {
	d := recorded(t, 3)
	data, err := os.ReadFile(d.LinesPath())
	if err != nil {
		t.Fatal(err)
	}
	step := 1
	if testing.Short() {
		step = 11
	}
	for n := 0; n < len(data); n += step {
		if err := os.WriteFile(d.LinesPath(), data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		again, _, plan := reviewed(t, d, keepAll)
		whole := bytes.Count(data[:n], []byte("\n"))
		if torn := plan.Rerun[Torn]; plan.Kept != whole || torn > 1 || len(plan.Dropped) != torn {
			t.Fatalf("cut at %d: kept %d of %d, %v", n, plan.Kept, whole, plan.Rerun)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReviewDuplicates: of two authentic lines of one attempt, neither is
// kept.
func TestReviewDuplicates(t *testing.T) {
	d := begin(t, t.TempDir())
	if err := d.WriteManifest(&Manifest{Format: ManifestFormat, Planned: Planned{Tasks: 1, Attempts: 1}, SaltDigest: d.SaltDigest(), ResumedFrom: []Resumption{}}); err != nil {
		t.Fatal(err)
	}
	failed := storedLine()
	failed.Status, failed.Outcome, failed.Passed, failed.FailureReason = "failed", "failed", false, "wrong_answer"
	for _, l := range []*Line{failed, storedLine()} {
		if err := d.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
	_, _, plan := reviewed(t, d, keepAll)
	if plan.Kept != 0 || plan.Rerun[Duplicate] != 2 {
		t.Errorf("kept %d, %v; want both attempts run again", plan.Kept, plan.Rerun)
	}
}

// TestReviewReasons: the reasons that a line's own evidence and its inputs
// give.
func TestReviewReasons(t *testing.T) {
	d := recorded(t, 4)
	raw := filepath.Join(d.Path(), RestrictedName, "t1/1/agent-stdout")
	if err := os.WriteFile(raw, []byte("rAw"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, plan := reviewed(t, d, func(e Entry) string {
		if e.TaskID == "t3" {
			return InputsChanged
		}
		return ""
	})
	want := []Dropped{{2, "t1", LostOutput}, {4, "t3", InputsChanged}}
	if diff := cmp.Diff(want, plan.Dropped); diff != "" || plan.Kept != 2 {
		t.Errorf("kept %d; dropped (-want +got):\n%s", plan.Kept, diff)
	}
	// Line 3 of another run's salt would be "damaged": that is TestReview.
}

func TestInfrastructureErrorsAreRunAgain(t *testing.T) {
	d := begin(t, t.TempDir())
	if err := d.WriteManifest(&Manifest{Format: ManifestFormat, Planned: Planned{Tasks: 1, Attempts: 1}, SaltDigest: d.SaltDigest(), ResumedFrom: []Resumption{}}); err != nil {
		t.Fatal(err)
	}
	l := storedLine()
	l.Status, l.Outcome, l.Passed, l.Verified, l.FailureReason = "pending", "infrastructure", false, false, "infrastructure_error"
	if err := d.Append(l); err != nil {
		t.Fatal(err)
	}
	d.Close()
	_, _, plan := reviewed(t, d, keepAll)
	if plan.Kept != 0 || plan.Rerun[Unfinished] != 1 {
		t.Errorf("kept %d, %v", plan.Kept, plan.Rerun)
	}
}

// TestFormerRefuses: a run without its manifest or salt cannot be checked.
func TestFormerRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"no manifest":      {func(p string) error { return os.Remove(filepath.Join(p, ManifestName)) }, "run.json is missing or damaged"},
		"torn manifest":    {func(p string) error { return os.Truncate(filepath.Join(p, ManifestName), 30) }, "run.json is missing or damaged"},
		"changed manifest": {func(p string) error { return appendTo(filepath.Join(p, ManifestName), " ") }, "run.json is missing or damaged"},
		"no salt":          {func(p string) error { return os.Remove(filepath.Join(p, SaltName)) }, "reading the run's salt"},
		"other salt":       {func(p string) error { return os.WriteFile(filepath.Join(p, SaltName), make([]byte, 32), 0o600) }, "does not match the salt digest in run.json"},
	} {
		t.Run(name, func(t *testing.T) {
			d := recorded(t, 2)
			if err := c.change(d.Path()); err != nil {
				t.Fatal(err)
			}
			again, err := Open(d.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if _, err := again.Former(); !errors.Is(err, ErrIntegrity) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	t.Run("nothing there", func(t *testing.T) {
		d, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if f, err := d.Former(); f != nil || err != nil {
			t.Errorf("%v, %v; want nothing to resume", f, err)
		}
	})
}

func appendTo(name, s string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(s)
	return errors.Join(err, f.Close())
}

// TestContinueMovesOrphans: the files of an attempt without a record are moved
// to history/, so that the run contains only files that its records name.
func TestContinueMovesOrphans(t *testing.T) {
	d := recorded(t, 2)
	orphans := []string{"restricted/t7/1/agent-stdout", "candidates/" + strings.Repeat("a", 64), "candidates/.tmp"}
	for _, name := range orphans {
		full := filepath.Join(d.Path(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o700), os.WriteFile(full, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	again, former, plan := reviewed(t, d, keepAll)
	if err := again.Continue(plan, &former.Manifest); err != nil {
		t.Fatal(err)
	}
	for _, name := range orphans {
		if _, err := os.Stat(filepath.Join(d.Path(), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
		if moved, _ := filepath.Glob(filepath.Join(d.Path(), HistoryName, "*", name)); len(moved) != 1 {
			t.Errorf("%s is not in history/", name)
		}
	}
	for _, name := range []string{SaltName, "restricted/t1/1/agent-stdout"} {
		if _, err := os.Stat(filepath.Join(d.Path(), name)); err != nil {
			t.Error(err)
		}
	}
}

// TestContinueCanBeCutShort stops a resume after each of its steps on disk;
// the next one keeps the same records.
func TestContinueCanBeCutShort(t *testing.T) {
	d := recorded(t, 3)
	for round := range 3 {
		again, former, plan := reviewed(t, d, keepAll)
		if plan.Kept != 3 {
			t.Fatalf("round %d: kept %d: %v", round, plan.Kept, plan.Rerun)
		}
		to, err := again.newHistory()
		if err != nil {
			t.Fatal(err)
		}
		steps := []func() error{
			func() error { return again.setAside(to) },
			func() error {
				_, err := again.rewrite(func(yield func(*Line) error) error {
					return plan.each(func(e Entry) error { return yield(e.Line) })
				})
				return err
			},
			func() error {
				m := former.Manifest
				m.ResumedFrom = append(m.ResumedFrom, plan.Resumption("now"))
				return again.WriteManifest(&m)
			},
		}
		for _, step := range slices.Clone(steps)[:round+1] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		again.Close() // as a kill would
	}
	if _, _, plan := reviewed(t, d, keepAll); plan.Kept != 3 {
		t.Errorf("kept %d: %v", plan.Kept, plan.Rerun)
	}
}

func TestFormerRuns(t *testing.T) {
	d := recorded(t, 1)
	for want := range 3 {
		again, err := Open(d.Path())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Begin(true); err != nil {
			t.Fatal(err)
		}
		if err := again.WriteManifest(&Manifest{Format: ManifestFormat, Planned: Planned{Tasks: 1, Attempts: 1}, SaltDigest: again.SaltDigest(), ResumedFrom: []Resumption{}}); err != nil {
			t.Fatal(err)
		}
		// A resume keeps a copy of its own manifest, which does not count as
		// another run.
		if former, err := again.Former(); err != nil || former == nil {
			t.Fatal(err)
		} else if plan, err := former.Review(inStore, keepAll); err != nil {
			t.Fatal(err)
		} else if err := again.Continue(plan, &former.Manifest); err != nil {
			t.Fatal(err)
		}
		if n, err := again.FormerRuns(); err != nil || n != want+1 {
			t.Errorf("%d former runs, %v; want %d", n, err, want+1)
		}
		again.Close()
	}
}

// FuzzDecode: every accepted line is exactly what would be written for its
// record.
func FuzzDecode(f *testing.F) {
	for _, l := range []*Line{sampleLine(), {Status: "pending", Labels: []string{"é\x00"}}, {Verified: true, FailureReason: "x"}} {
		b, err := l.marshal(link{7, Genesis}, [32]byte{1}, recordField)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"score":0,"score":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := Decode(raw)
		if err != nil {
			return
		}
		var std map[string]any
		if err := stdjson.Unmarshal(raw, &std); err != nil {
			t.Fatalf("another reader refuses it: %v", err)
		}
		if std["task_id"] != e.TaskID || std["verification_status"] != string(e.Status) || bytes.ContainsAny(raw, "\n\r") {
			t.Fatalf("another reader sees another record: %v", std)
		}
		w := e.wire()
		w.Seq, w.Prev, w.MAC = e.Seq, e.Prev, e.MAC
		if b, err := encode(&w); err != nil || !bytes.Equal(b, raw) {
			t.Fatalf("%v: written again it is %s", err, b)
		}
	})
}

// inStore accepts every candidate.
func inStore(string) error { return nil }

// storedLine is a line whose candidate is in the store.
func storedLine() *Line {
	l := sampleLine()
	l.Digests.Candidate = digest.Bytes([]byte("B"))
	return l
}

// TestReviewUnverified: an attempt that failed after its candidate was stored
// is verified again if nothing else is wrong with it; its files stay in place.
func TestReviewUnverified(t *testing.T) {
	lost := errors.New("it is gone")
	for name, c := range map[string]struct {
		change func(*Line)
		stored error
		inputs string
		bare   bool // nothing else is kept of it
		older  bool // what is kept is of another candidate: a copy of an earlier file
		want   bool
		why    string // it is dropped, if its agent runs again; "" is Unfinished
	}{
		"good":           {want: true},
		"nothing kept":   {bare: true, why: LostCapture},
		"another's kept": {older: true, why: LostCapture},
		"other inputs":   {inputs: InputsChanged},
		"lost candidate": {stored: lost, why: LostCandidate},
		"no candidate":   {change: func(l *Line) { l.Digests.Candidate, l.Candidate = "", Candidate{} }},
		"lost output":    {change: func(l *Line) { l.Restricted[0].Digest = "hmac-sha256:0" }, why: LostOutput},
		"capture failed": {change: func(l *Line) { l.FailurePhase = verdict.PhaseCapture }, bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := begin(t, t.TempDir())
			if err := d.WriteManifest(&Manifest{Format: ManifestFormat, Planned: Planned{Tasks: 1, Attempts: 1}, SaltDigest: d.SaltDigest(), ResumedFrom: []Resumption{}}); err != nil {
				t.Fatal(err)
			}
			l := storedLine()
			l.Status, l.Outcome, l.Passed, l.Verified = "pending", "infrastructure", false, false
			l.FailureReason, l.FailurePhase = "infrastructure_error", verdict.PhaseVerify
			raw, _, err := d.Restrict(l.TaskID, "t/1/agent-stdout", []byte("raw"))
			if err != nil {
				t.Fatal(err)
			}
			l.Restricted = []RawFile{raw}
			if c.change != nil {
				c.change(l)
			}
			if !c.bare {
				l.Produced = []byte(`{"exit_code": 3}`)
			}
			if err := errors.Join(d.Append(l), d.Settled(false), d.Close()); err != nil {
				t.Fatal(err)
			}
			if c.older {
				was := *l
				was.Digests.Candidate = digest.Bytes([]byte("A"))
				b, _, err := was.captured(link{prev: Genesis}, d.salt)
				if err = errors.Join(err, os.WriteFile(filepath.Join(d.Path(), CapturedName), b, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			again, err := Open(d.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			former, err := again.Former()
			if err != nil {
				t.Fatal(err)
			}
			review, err := former.Review(func(string) error { return c.stored }, func(Entry) string { return c.inputs })
			if err != nil {
				t.Fatal(err)
			}
			kept, got := review.Unverified[l.Key()]
			if got && string(kept.Produced) != string(l.Produced) {
				t.Errorf("kept %s", kept.Produced)
			}
			why := Unfinished
			if c.why != "" {
				why = c.why
			}
			if got != c.want || review.Kept != 0 || len(review.Rerun) != 1 || review.Rerun[why] != 1 || review.Dropped[0].Reason != why {
				t.Errorf("unverified %v, want %v; kept %d, %v", got, c.want, review.Kept, review.Rerun)
			}
			if err := again.Continue(review, &former.Manifest); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(d.Path(), raw.Path)); (err == nil) != c.want {
				t.Errorf("raw output in place: %v, want %v", err == nil, c.want)
			}
		})
	}
}
