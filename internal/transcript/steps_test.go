package transcript

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

// stepped is a record with steps of two tries, and the directory of its run.
func stepped() (*record.Line, Source) {
	r := trajectory.NewRecorder(nil)
	r.Asked(time.Unix(1, 0), func(add func(trajectory.Step) bool) {
		add(trajectory.Step{Kind: trajectory.Message, Role: "user" + hostile, Text: hostile})
		add(trajectory.Step{Kind: trajectory.Message, Role: "assistant", Text: "solved"})
	})
	r.Answered([]trajectory.Step{{Kind: trajectory.Call, Call: "c" + hostile, Name: "sh" + hostile, Text: hostile}},
		trajectory.Step{By: trajectory.Model, Kind: trajectory.Answer, At: time.Unix(2, 0), Model: "m" + hostile, Reason: hostile, Usage: &trajectory.Usage{Input: 3, Output: 2}})
	r.Asked(time.Unix(3, 0), func(add func(trajectory.Step) bool) {
		add(trajectory.Step{Kind: trajectory.Result, Call: "c" + hostile, Text: "[0.0 s] model: solved\n" + hostile, Failed: true})
	})
	r.Answered(nil, trajectory.Step{By: trajectory.Relay, Kind: trajectory.Error, At: time.Unix(4, 0), Reason: "budget", Text: hostile, Status: 400})
	l := &record.Line{TaskID: "t", Outcome: verdict.Passed}
	run, salt := fstest.MapFS{}, digest.Salt{1}
	for _, name := range []string{"restricted/t/1/agent-steps.jsonl", "restricted/t/1/retry1-agent-steps.jsonl"} {
		run[name] = &fstest.MapFile{Data: r.Lines()}
		l.Restricted = append(l.Restricted, record.RawFile{Path: name, Digest: salt.Keyed("restricted", "t", r.Lines())})
	}
	return l, Source{FS: run, Salt: &salt, Limit: 1 << 20}
}

// TestStepsAreInert: steps are a line each, or whole, and whatever their texts are,
// nothing in them looks like another step or like the verdict.
func TestStepsAreInert(t *testing.T) {
	l, from := stepped()
	for _, whole := range []bool{false, true} {
		from.Steps = whole
		text := checkPlain(t, from, l)
		heads := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "  | [") {
				heads++
			}
		}
		if heads != 12 || strings.Count(text, "agent: steps") != 2 || !strings.Contains(text, "agent: steps of retry1") {
			t.Errorf("%d lines begin as steps do:\n%s", heads, text)
		}
		for _, want := range []string{"] assistant (the agent says; no answer of its model has it): solved", "3 tokens in, 0 cached, 2 out", "] error after 0.0 s, status 400, budget"} {
			if flat := strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "")), " "); !strings.Contains(flat, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		a := Read(from, l)
		if (len(a.Steps) == 12) != whole {
			t.Errorf("%d steps as such", len(a.Steps))
		}
		for _, s := range a.Steps {
			if strings.ContainsAny(s.Text+s.Name+s.Call+s.Role+s.Model+s.Reason, "\x1b\x00\u202e") {
				t.Errorf("%+v is not escaped", s)
			}
		}
	}
}

// TestStepsThatChanged: a file that is not what the record says is not shown.
func TestStepsThatChanged(t *testing.T) {
	l, from := stepped()
	file := from.FS.(fstest.MapFS)[l.Restricted[0].Path]
	file.Data = bytes.Replace(file.Data, []byte("solved"), []byte("cheats"), 1)
	l.Restricted = l.Restricted[:1]
	for _, whole := range []bool{false, true} {
		from.Steps = whole
		if text := checkPlain(t, from, l); !strings.Contains(text, "they cannot be used: restricted/t/1/agent-steps.jsonl does not match its digest") || strings.Contains(text, "cheats") {
			t.Error(text)
		}
	}
	from.Steps, from.Salt = true, nil
	if text := checkPlain(t, from, l); !strings.Contains(text, "none are there") {
		t.Error(text)
	}
}
