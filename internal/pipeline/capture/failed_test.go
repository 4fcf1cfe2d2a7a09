package capture_test

import (
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestAgentFailed: an agent that ended with an error and left nothing has failed.
// One that left something is scored, whatever its exit code, and one that left
// nothing without an error has a blank candidate.
func TestAgentFailed(t *testing.T) {
	text := task.Extraction{Mode: task.FromStdout, Kind: task.Text}
	for name, tt := range map[string]struct {
		extraction task.Extraction
		space      fakeSpace
		stdout     string
		outcome    sandbox.Outcome
		reason     verdict.Reason
		limit      sandbox.End
	}{
		"nothing, with an error":      {extraction: text, outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 127}, reason: verdict.AgentFailed},
		"blanks, with an error":       {extraction: text, stdout: " \n", outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 1}, reason: verdict.AgentFailed},
		"no code, with an error":      {extraction: code, outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 1}, reason: verdict.AgentFailed},
		"no file, with an error":      {extraction: task.Extraction{Mode: task.FromFile, Kind: task.Text, Path: "a"}, stdout: "x", outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 2}, reason: verdict.AgentFailed},
		"nothing, without":            {extraction: text, outcome: exited},
		"an answer, with an error":    {extraction: text, stdout: "4", outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 1}},
		"code, with an error":         {extraction: code, space: file("x = 1\n"), outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 1}},
		"a link, with an error":       {extraction: code, space: special('2'), outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 1}, reason: verdict.CandidateNotRegular},
		"a limit explains it earlier": {extraction: text, outcome: sandbox.Outcome{End: sandbox.Exited, ExitCode: 1, Seen: []sandbox.End{sandbox.PidsLimit}}, limit: sandbox.PidsLimit},
		"a limit ended it":            {extraction: text, outcome: sandbox.Outcome{End: sandbox.OutOfMemory, ExitCode: 137}, limit: sandbox.OutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := capture.Stage{Sink: newStore(t)}.Capture(t.Context(), capture.Request{Extraction: tt.extraction, Outcome: tt.outcome,
				Stdout: []byte(tt.stdout), Stderr: []byte("Traceback"), Limit: 1000}, tt.space)
			if err != nil {
				t.Fatal(err)
			}
			var reason verdict.Reason
			if got.Rejection != nil {
				reason = got.Rejection.Reason
			}
			if reason != tt.reason || got.Limit != tt.limit || (got.Candidate != nil) != (reason == "" && tt.limit == "") {
				t.Errorf("reason %q, limit %q, candidate %v; want reason %q, limit %q", reason, got.Limit, got.Candidate, tt.reason, tt.limit)
			}
		})
	}
}

// TestAgentFailedOnTree: the same where the candidate is the workspace, in which
// nothing changed.
func TestAgentFailedOnTree(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome sandbox.Outcome
		change  bool
		failed  bool
	}{
		"no change, with an error":  {sandbox.Outcome{End: sandbox.Exited, ExitCode: 127}, false, true},
		"no change, without":        {exited, false, false},
		"a change, with an error":   {sandbox.Outcome{End: sandbox.Exited, ExitCode: 1}, true, false},
		"no change, out of time":    {sandbox.Outcome{End: sandbox.TimedOut, ExitCode: 124}, false, false},
		"a change, and out of time": {sandbox.Outcome{End: sandbox.TimedOut, ExitCode: 124}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			did := all()
			if tt.change {
				did = write("answer", "4")
			}
			p := agentChanges(t, nil, start, did)
			p.req.Outcome, p.req.ScoreTimeouts = tt.outcome, true
			res := p.capture(t)
			if failed := res.Rejection != nil && res.Rejection.Reason == verdict.AgentFailed; failed != tt.failed || (res.Candidate == nil) != tt.failed {
				t.Errorf("%+v, want failed %t", res, tt.failed)
			}
			if res.Candidate != nil && res.Candidate.Origin != candidate.File {
				t.Errorf("origin %s", res.Candidate.Origin)
			}
		})
	}
}
