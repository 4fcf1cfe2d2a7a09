package export

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"io"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

// secret is in the operator's files only.
const secret = "only-the-operator-sees-this"

// aRun is a run with a pass, a failure whose texts are hostile, and an attempt without a
// verdict. Its first attempt has steps.
func aRun(t *testing.T) *Run {
	t.Helper()
	rec := trajectory.NewRecorder(nil)
	at := time.Unix(1_800_000_000, 0)
	rec.Asked(at, func(add func(trajectory.Step) bool) {
		add(trajectory.Step{Kind: trajectory.Message, Role: "system", Text: "be brief"})
		add(trajectory.Step{Kind: trajectory.Message, Role: "user", Text: "list them " + secret})
	})
	rec.Answered([]trajectory.Step{{Kind: trajectory.Reasoning, Text: "hm"}, {Kind: trajectory.Message, Text: "I look"},
		{Kind: trajectory.Call, Call: "c1", Name: "sh", Text: `{"cmd":"ls"}`}, {Kind: trajectory.Call, Name: "py", Text: "no object"}},
		trajectory.Step{By: trajectory.Model, Kind: trajectory.Answer, At: at.Add(time.Second), Model: "m-1", Usage: &trajectory.Usage{Input: 30, Cached: 10, Output: 2}})
	rec.Asked(at.Add(2*time.Second), func(add func(trajectory.Step) bool) {
		add(trajectory.Step{Kind: trajectory.Result, Call: "c1", Text: "a b"})
		add(trajectory.Step{Kind: trajectory.Result, Call: "c9", Text: "of no call", Failed: true})
	})
	rec.Answered(nil, trajectory.Step{By: trajectory.Relay, Kind: trajectory.Error, At: at.Add(3 * time.Second), Reason: "budget", Status: 400})
	salt := digest.Salt{1}
	raw := record.RawFile{Path: "restricted/a/1/agent-steps.jsonl", Digest: salt.Keyed("restricted", "a/1", rec.Lines())}
	line := func(index, attempt int, id string) *record.Line {
		return &record.Line{RunID: "run", TaskID: id, BenchmarkID: "pack", TaskType: "short_answer", Index: index, Attempt: attempt, Agent: "model",
			Status: "passed", Outcome: "passed", Passed: true, Verified: true, Labels: []string{"heuristic"}, Containment: "passive",
			Candidate: record.Candidate{Kind: task.Text, Shown: "42"}, Digests: record.Digests{Candidate: "sha256:1"},
			Summary: []task.ResourceSummary{{Name: "question", Kind: "text", Visibility: "public", Value: []byte(`"How many?"`)}, {Name: "gold", Kind: "text", Visibility: "hidden", Redacted: true}},
			Timings: map[verdict.Phase]int64{"total": 1500, verdict.PhaseProduce: 1000}, Usage: map[string]int64{"requests": 1, "input_tokens": 30, "output_tokens": 2, "cost_microusd": 1500}}
	}
	first, bad, pending := line(0, 1, "a/1"), line(1, 1, "../../=cmd()"), line(1, 2, "../../=cmd()")
	first.Restricted = []record.RawFile{raw}
	first.Measure = &verdict.Measure{Name: "checker", Value: 0.5}
	bad.Status, bad.Outcome, bad.Passed, bad.FailureReason, bad.FailureMessage = "failed", "failed", false, "wrong_answer", "</script>\x1b[2J\n;"
	bad.Candidate.Shown = "=HYPERLINK(\"x\")\nsecond"
	pending.Status, pending.Outcome, pending.Passed, pending.Verified, pending.FailureReason = "pending", "infrastructure", false, false, "infrastructure_error"
	pending.Usage, pending.Candidate, pending.Digests = nil, record.Candidate{}, record.Digests{}
	return &Run{FS: fstest.MapFS{raw.Path: {Data: rec.Lines()}}, Ended: "2026-01-02T03:04:05Z", Lines: []*record.Line{pending, bad, first}, Salt: &salt,
		Manifest: record.Manifest{RunID: "run", Started: "2026-01-02T03:00:00Z", Agent: "model", Model: "m-1", Pack: record.PackInfo{ID: "pack", Version: 3},
			Planned: record.Planned{Tasks: 2, Attempts: 2}, Version: "test", Labels: []string{}}}
}

// formats writes a run in each format.
func formats(t *testing.T, run *Run) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, write := range map[string]func(io.Writer) error{"inspect": run.Inspect, "parquet": run.Parquet, "csv": run.CSV, "jsonl": run.JSONLines} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = b.Bytes()
	}
	err := run.ATIF(func(name string, write func(io.Writer) error) error {
		var b bytes.Buffer
		err := write(&b)
		out["atif/"+name] = b.Bytes()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unzipped adds what archives hold.
func unzipped(t *testing.T, log []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestPublished: without the salt nothing of the operator's comes out, in any format; the
// same run with it has the steps, so the search finds them. Equal runs give equal bytes.
func TestPublished(t *testing.T) {
	t.Parallel()
	run := aRun(t)
	whole, again := formats(t, run), formats(t, aRun(t))
	run.Salt = nil
	for name, body := range formats(t, run) {
		if !bytes.Equal(whole[name], again[name]) {
			t.Errorf("%s differs from itself", name)
		}
		files := map[string][]byte{name: body}
		if name == "inspect" {
			files = unzipped(t, body)
		}
		for file, body := range files {
			if bytes.Contains(body, []byte(secret)) {
				t.Errorf("%s %s has what is the operator's", name, file)
			}
		}
	}
	if !bytes.Contains(whole["atif/0-1.json"], []byte(secret)) || !bytes.Contains(unzipped(t, whole["inspect"])["samples/a/1_epoch_1.json"], []byte(secret)) {
		t.Error("with the salt there are no steps")
	}
}

// TestStepsMustBeTheRecords: steps that were changed are not exported.
func TestStepsMustBeTheRecords(t *testing.T) {
	t.Parallel()
	run := aRun(t)
	for _, f := range run.FS.(fstest.MapFS) {
		f.Data = bytes.Replace(f.Data, []byte("be brief"), []byte("be cruel"), 1)
	}
	if err := run.Inspect(io.Discard); err == nil || !strings.Contains(err.Error(), `the steps of "a/1"`) {
		t.Errorf("error %v", err)
	}
}

// TestTables: the three tables say the same, with what has no value told apart from zero,
// in the order of rows.
func TestTables(t *testing.T) {
	t.Parallel()
	out := formats(t, aRun(t))
	rows, err := parquet.Read[Row](bytes.NewReader(out["parquet"]), int64(len(out["parquet"])))
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var lines []Row
	for line := range bytes.Lines(out["jsonl"]) {
		var r Row
		if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, r)
	}
	if diff := cmp.Diff(lines, rows); diff != "" {
		t.Errorf("JSON lines and Parquet differ:\n%s", diff)
	}
	if r := rows[2]; r.Passed != nil || r.Score != nil || r.Requests != nil || r.Outcome != "infrastructure" {
		t.Errorf("an attempt without a verdict: %+v", r)
	}
	if r := rows[0]; *r.MeasureValue != 0.5 || *r.CostUSD != 0.0015 || r.Public != `{"question":"How many?"}` || *r.AgentMS != 1000 {
		t.Errorf("%+v", r)
	}
	cells, err := csv.NewReader(bytes.NewReader(out["csv"])).ReadAll()
	if err != nil || len(cells) != 4 {
		t.Fatalf("%d rows, %v", len(cells), err)
	}
	for _, row := range cells[1:] {
		for i, cell := range row {
			if strings.ContainsAny(cell, "\x1b\n\r\t;") || strings.HasPrefix(cell, "=") {
				t.Errorf("column %s has %q", cells[0][i], cell)
			}
		}
	}
}

// TestInspectNames: a task's id reaches no file outside of the log's folder of samples.
func TestInspectNames(t *testing.T) {
	t.Parallel()
	files := unzipped(t, formats(t, aRun(t))["inspect"])
	if len(files) != 6 {
		t.Errorf("%d files", len(files))
	}
	for name := range files {
		if path.Clean(name) != name || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
			t.Errorf("a file is called %q", name)
		}
	}
	var head struct {
		Results struct {
			Total     int `json:"total_samples"`
			Completed int `json:"completed_samples"`
			Scores    []struct {
				Name    string `json:"name"`
				Metrics map[string]struct {
					Value float64 `json:"value"`
				} `json:"metrics"`
			} `json:"scores"`
		} `json:"results"`
	}
	if err := json.Unmarshal(files["header.json"], &head); err != nil {
		t.Fatal(err)
	}
	// The denominator is what was planned: one of four passed, and one has no record.
	if r := head.Results; r.Total != 4 || r.Completed != 2 || len(r.Scores) != 1 || r.Scores[0].Name != "computed" || r.Scores[0].Metrics["accuracy"].Value != 0.25 {
		t.Errorf("%+v", r)
	}
}

// TestTurns: what one answer said is one turn, with the calls that it made and the results
// that belong to them.
func TestTurns(t *testing.T) {
	t.Parallel()
	var got struct {
		Steps []struct {
			Source    string `json:"source"`
			Message   string `json:"message"`
			Reasoning string `json:"reasoning_content"`
			Calls     []struct {
				ID        string         `json:"tool_call_id"`
				Arguments map[string]any `json:"arguments"`
			} `json:"tool_calls"`
			Observation struct {
				Results []struct {
					Call    string `json:"source_call_id"`
					Content string `json:"content"`
				} `json:"results"`
			} `json:"observation"`
			Metrics map[string]int64 `json:"metrics"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(formats(t, aRun(t))["atif/0-1.json"], &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Steps) != 4 || got.Steps[0].Source != "system" || got.Steps[1].Source != "user" || got.Steps[3].Source != "system" {
		t.Fatalf("%+v", got.Steps)
	}
	s := got.Steps[2]
	if s.Source != "agent" || s.Message != "I look" || s.Reasoning != "hm" || s.Metrics["cached_tokens"] != 10 {
		t.Errorf("%+v", s)
	}
	if len(s.Calls) != 2 || s.Calls[0].ID != "c1" || s.Calls[0].Arguments["cmd"] != "ls" || s.Calls[1].ID != "call-2" || s.Calls[1].Arguments["input"] != "no object" {
		t.Errorf("%+v", s.Calls)
	}
	if r := s.Observation.Results; len(r) != 2 || r[0].Call != "c1" || r[0].Content != "a b" || r[1].Call != "" {
		t.Errorf("%+v", r)
	}
}
