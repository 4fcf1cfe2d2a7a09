package record

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	stdjson "encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/digest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// begin starts a run in dir.
func begin(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() }) // twice does no harm
	if err := d.Begin(false); err != nil {
		t.Fatal(err)
	}
	return d
}

func sampleLine() *Line {
	return &Line{
		RunID: "run", TaskID: "t/1", BenchmarkID: "pack", TaskType: "multiple_choice",
		Status: "passed", Candidate: Candidate{task.Text, "B"}, ProducerStdout: "B",
		ProducerMetadata: verdict.NewMetadata(map[string]any{"harness": "command", "exit_code": 0}),
		Summary: []task.ResourceSummary{
			{Name: "question", Kind: "text", Visibility: "public", Value: jsontext.Value(`"é?"`)},
			{Name: "answer", Kind: "text", Visibility: "hidden", Redacted: true},
		},
		Verified: true, Passed: true, VerifierMetadata: verdict.NewMetadata(map[string]any{"verifier": "multiple_choice"}),
		Attempt: 1, Agent: "command", Outcome: "passed", Containment: "passive",
		Timings: map[verdict.Phase]int64{"producer": 12},
	}
}

// TestReferenceFields compares with a record as the reference writes it: all
// of its fields are there with the same values and the same order.
func TestReferenceFields(t *testing.T) {
	b, err := sampleLine().marshal(link{0, Genesis}, digest.Salt{}, recordField)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := stdjson.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"benchmark_id": "pack", "candidate_patch": nil, "candidate_text": "B", "candidate_workspace": nil,
		"hidden_values": "<redacted>", "passed": true, "producer_stderr": "", "producer_stdout": "B",
		"run_id": "run", "score": 1.0, "task_id": "t/1", "task_type": "multiple_choice",
		"verification_status": "passed", "verifier_stderr": "", "verifier_stdout": "",
		"resource_summary": []any{
			map[string]any{"kind": "text", "name": "question", "value": "é?", "visibility": "public"},
			map[string]any{"kind": "text", "name": "answer", "redacted": true, "visibility": "hidden"},
		},
	}
	for name, v := range want {
		if diff := cmp.Diff(v, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if !bytes.Contains(b, []byte(`"score": 1.0, `)) || !bytes.HasPrefix(b, []byte(`{"agent": "command", "attempt": 1, `)) {
		t.Errorf("not in the reference's form: %s", b)
	}
}

// TestCandidateKinds: each kind has its place, and one that the form does not know has
// none: its digest names it. A record that shows two is none.
func TestCandidateKinds(t *testing.T) {
	for kind, place := range map[task.CandidateKind]string{
		task.Text: `"candidate_text": "B"`, task.Code: `"candidate_text": "B"`, task.Patch: `"candidate_patch": "B"`,
		task.Workspace: `"candidate_workspace": "B"`, "image": "",
	} {
		l := storedLine()
		l.Candidate.Kind = kind
		b, err := l.marshal(link{0, Genesis}, digest.Salt{}, recordField)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(b)
		want := Candidate{kind, "B"}
		if kind == task.Code {
			want.Kind = task.Text
		} else if place == "" {
			want = Candidate{}
		}
		if err != nil || e.Candidate != want || e.Digests.Candidate != l.Digests.Candidate || !bytes.Contains(b, []byte(place)) || bytes.Count(b, []byte(`"B"`)) != 1+min(1, len(place)) {
			t.Errorf("%s: %+v, %v: %s", kind, e.Candidate, err, b)
		}
		if kind == task.Patch {
			if _, err := Decode(bytes.Replace(b, []byte(`"candidate_text": null`), []byte(`"candidate_text": "C"`), 1)); err == nil {
				t.Error("a record shows two candidates")
			}
		}
	}
}

// TestBasis: a record says its basis, and only in the words of the format; one of a former
// build does not, stays as it is byte for byte, and is computed. A judged one cannot be
// made to look computed by a word.
func TestBasis(t *testing.T) {
	stored := storedLine()
	write := func(change func(*Line)) []byte {
		t.Helper()
		l := *stored
		change(&l)
		b, err := l.marshal(link{0, Genesis}, digest.Salt{}, recordField)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	former := write(func(l *Line) { l.NoBasis = true })
	computed := write(func(*Line) {})
	judged := write(func(l *Line) { l.Basis, l.Labels = verdict.Judged, []string{verdict.JudgedLabel} })
	for name, c := range map[string]struct {
		line  []byte
		says  string
		basis verdict.Basis
	}{
		"former": {former, "", verdict.Computed}, "computed": {computed, `"basis": "computed", `, verdict.Computed},
		"judged": {judged, `"basis": "judged", `, verdict.Judged},
	} {
		e, err := Decode(c.line)
		if err != nil || e.Basis != c.basis || e.NoBasis != (name == "former") || bytes.Count(c.line, []byte(`"basis"`)) != min(1, len(c.says)) || !bytes.Contains(c.line, []byte(c.says)) {
			t.Errorf("%s: %s, %v: %s", name, e.Basis, err, c.line)
		} else if len(e.contradictions()) != 0 {
			t.Errorf("%s: %v", name, e.contradictions())
		}
	}
	for _, word := range []string{"", "Judged", "both", "judged "} {
		if _, err := Decode(bytes.Replace(judged, []byte(`"basis": "judged"`), []byte(`"basis": "`+word+`"`), 1)); err == nil {
			t.Errorf("the basis %q is read", word)
		}
	}
	read := write(func(l *Line) {
		l.Basis, l.Labels, l.Judge = verdict.Judged, []string{verdict.JudgeRead, verdict.JudgedLabel}, &verdict.Judgement{Votes: []verdict.Vote{}}
	})
	forgedRead := bytes.Replace(bytes.Replace(read, []byte(`"basis": "judged"`), []byte(`"basis": "computed"`), 1), []byte(`"judge_read", "judged"`), nil, 1)
	if e, err := Decode(forgedRead); err != nil || len(e.contradictions()) != 1 || bytes.Equal(read, forgedRead) {
		t.Errorf("a computed record with votes: %v: %s", err, forgedRead)
	}
	for _, forged := range [][]byte{bytes.Replace(judged, []byte(`"basis": "judged", `), nil, 1), bytes.Replace(judged, []byte(`"basis": "judged"`), []byte(`"basis": "computed"`), 1)} {
		if e, err := Decode(forged); err != nil || len(e.contradictions()) != 1 {
			t.Errorf("a judged record that says otherwise: %v", err)
		}
	}
}

func TestLineIsOneLineOfASCII(t *testing.T) {
	hostile := "a\n{\"task_id\":\"x\"}\r\u2028\u2029\x00\x1b[2J\u202e\U0001F600é\x7f"
	l := sampleLine()
	l.Candidate.Shown, l.ProducerStdout, l.TaskID = hostile, hostile, hostile
	b, err := l.marshal(link{1, Genesis}, digest.Salt{}, recordField)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b {
		if c < 0x20 || c > 0x7e {
			t.Fatalf("byte %#x is in the line", c)
		}
	}
	var got struct {
		CandidateText string `json:"candidate_text"`
		TaskID        string `json:"task_id"`
	}
	if err := stdjson.Unmarshal(b, &got); err != nil || got.CandidateText != hostile || got.TaskID != hostile {
		t.Fatalf("round trip = %+v, %v", got, err)
	}
}

// TestChain: lines are chained, written alone or together; of those that are written
// together with one that is too long, none is.
func TestChain(t *testing.T) {
	d := begin(t, t.TempDir())
	long := sampleLine()
	long.Labels = []string{strings.Repeat("x", MaxLine)}
	for _, lines := range [][]*Line{{sampleLine()}, {sampleLine(), long}, {sampleLine(), sampleLine(), sampleLine()}, {sampleLine()}} {
		if err := d.Append(lines...); (err != nil) != slices.Contains(lines, long) {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(d.LinesPath())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	prev, seq := Genesis, int64(0)
	for sc := bufio.NewScanner(f); sc.Scan(); seq++ {
		var l struct {
			Seq  int64  `json:"seq"`
			Prev string `json:"prev"`
		}
		if err := stdjson.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Seq != seq || l.Prev != prev {
			t.Errorf("line %d says seq %d, prev %s; want prev %s", seq, l.Seq, l.Prev, prev)
		}
		prev = digest.Bytes(sc.Bytes())
	}
	if seq != 5 {
		t.Errorf("%d lines, want 5", seq)
	}
}

func TestBeginKeepsAFormerRun(t *testing.T) {
	dir := t.TempDir()
	d := begin(t, dir)
	if err := d.Append(sampleLine()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrHeld) {
		t.Fatalf("a second runner: %v, want ErrHeld", err)
	}
	if err := os.Remove(filepath.Join(dir, LockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrHeld) {
		t.Fatalf("without the lock file: %v, want ErrHeld", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(d.LinesPath())
	d2, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d2.Close()
	if err := d2.Begin(false); !errors.Is(err, ErrExists) {
		t.Fatalf("a second run in the directory: %v, want ErrExists", err)
	}
	if err := d2.Begin(true); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, HistoryName, "*", LinesName))
	if err != nil || len(kept) != 1 {
		t.Fatalf("history holds %v, %v", kept, err)
	}
	if after, _ := os.ReadFile(kept[0]); !bytes.Equal(before, after) {
		t.Error("the former records were changed")
	}
	if d2.SaltDigest() == d.SaltDigest() {
		t.Error("the new run has the old salt")
	}
}

func TestSaltIsPrivate(t *testing.T) {
	d := begin(t, t.TempDir())
	for name, want := range map[string]os.FileMode{SaltName: 0o600, RestrictedName: 0o700 | os.ModeDir} {
		info, err := os.Stat(filepath.Join(d.Path(), name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestRestrictedDigestIsKeyed(t *testing.T) {
	d := begin(t, t.TempDir())
	raw, _, err := d.Restrict("t/1", "t_1/1/verifier-stderr", []byte("gold"))
	if err != nil {
		t.Fatal(err)
	}
	if raw.Bytes != 4 || strings.Contains(raw.Digest, digest.Bytes([]byte("gold"))[7:]) {
		t.Errorf("%+v: anybody could guess a short hidden value from a plain digest", raw)
	}
}

// TestRestrictedNamesStayBelow: a name that comes with a verdict, perhaps from
// another process, must not lead to another file of the run.
func TestRestrictedNamesStayBelow(t *testing.T) {
	d := begin(t, t.TempDir())
	victim := filepath.Join(d.Path(), ManifestName)
	if err := os.WriteFile(victim, []byte("run"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t/1/verifier-/../../../../" + ManifestName, "../" + ManifestName, "/" + ManifestName, "t//x", "t/./x", "", ".", "t/x/"} {
		if raw, _, err := d.Restrict("t", name, []byte("forged")); err == nil {
			t.Errorf("%q is written to %s", name, raw.Path)
		}
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "run" {
		t.Errorf("the run's own file holds %q, %v", data, err)
	}
	raw, _, err := d.Restrict("t", "t/1/verifier-a..b", []byte("x"))
	if err != nil || raw.Check(d.FS(), d.Salt(), "t") != nil {
		t.Errorf("an honest name: %+v, %v", raw, err)
	}
}
