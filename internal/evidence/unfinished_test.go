package evidence_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
)

// TestUnfinished: what an interruption leaves is no problem, and what it cannot
// leave is one, with and without the operator's folder.
func TestUnfinished(t *testing.T) {
	original := snapshot(t, newMaker(t, 4).make())
	delete(original, record.StatementName)
	cut := func(lines int) func(fstest.MapFS) {
		return func(run fstest.MapFS) {
			f := run[record.LinesName]
			f.Data = bytes.Join(bytes.SplitAfter(f.Data, []byte("\n"))[:lines], nil)
		}
	}
	for name, c := range map[string]struct {
		change   func(fstest.MapFS)
		progress string
		problem  string // of both kinds of copy
	}{
		"before the end":   {func(fstest.MapFS) {}, "8 of 8", ""},
		"in the middle":    {cut(3), "3 of 8", ""},
		"before the first": {cut(0), "0 of 8", ""},
		"torn": {func(run fstest.MapFS) {
			cut(3)(run)
			run[record.LinesName].Data = run[record.LinesName].Data[:len(run[record.LinesName].Data)-1]
		}, "3 of 8", ""},
		"an orphan":        {func(run fstest.MapFS) { run["candidates/x"] = &fstest.MapFile{} }, "8 of 8", ""},
		"a temporary file": {func(run fstest.MapFS) { run[".new-run.json"] = &fstest.MapFile{} }, "8 of 8", ""},
		"a foreign file":   {func(run fstest.MapFS) { run["notes"] = &fstest.MapFile{} }, "8 of 8", "notes: not part of a run"},
		"a changed line": {func(run fstest.MapFS) {
			run[record.LinesName].Data = bytes.Replace(run[record.LinesName].Data, []byte(`"exit_code": 0`), []byte(`"exit_code": 1`), 1)
		}, "8 of 8", "candidates.jsonl:1: "},
		"a removed line": {func(run fstest.MapFS) {
			l := bytes.SplitAfter(run[record.LinesName].Data, []byte("\n"))
			run[record.LinesName].Data = bytes.Join(append(l[:2:2], l[3:]...), nil)
		}, "7 of 8", "candidates.jsonl:3: hash chain broken between lines 2 and 3: missing there: 1"},
		"two lines changed places": {func(run fstest.MapFS) {
			l := bytes.SplitAfter(run[record.LinesName].Data, []byte("\n"))
			l[4], l[5] = l[5], l[4]
			run[record.LinesName].Data = bytes.Join(l, nil)
		}, "8 of 8", "candidates.jsonl:6: hash chain broken between lines 5 and 6: line 6 was moved or copied"},
	} {
		t.Run(name, func(t *testing.T) {
			for copied, published := range map[string]bool{"directory": false, "copy": true} {
				run := clone(original)
				if published {
					maps.DeleteFunc(run, func(name string, _ *fstest.MapFile) bool {
						return strings.HasPrefix(name, record.RestrictedName+"/") || strings.HasPrefix(name, record.HistoryName+"/")
					})
				}
				c.change(run)
				res := verify(t, run)
				if res.OK() || !res.Unfinished || res.Progress() != c.progress {
					t.Errorf("%s: OK %t, unfinished %t, %s", copied, res.OK(), res.Unfinished, res.Progress())
				}
				err := evidence.Signer{}.Judge(res)
				if isUnfinished := errors.As(err, new(*evidence.UnfinishedError)); isUnfinished != (c.problem == "") || fault.KindOf(err) != fault.Integrity {
					t.Errorf("%s: %v", copied, err)
				}
				found := c.problem == ""
				for _, p := range res.Problems {
					found = found || strings.HasPrefix(p.String(), c.problem)
				}
				if !found || c.problem == "" && len(res.Problems) > 0 {
					t.Errorf("%s: %q, want %q", copied, res.Problems, c.problem)
				}
			}
		})
	}
}

// TestSuspect: lines with a problem of their own are known, and no others.
func TestSuspect(t *testing.T) {
	original := snapshot(t, newMaker(t, 4).make())
	maps.DeleteFunc(original, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, record.RestrictedName+"/") })
	for n := 1; n <= 8; n++ {
		run := clone(original)
		l := bytes.SplitAfter(run[record.LinesName].Data, []byte("\n"))
		l[n-1] = bytes.Replace(l[n-1], []byte(`"exit_code": 0`), []byte(`"exit_code": 1`), 1)
		run[record.LinesName].Data = bytes.Join(l, nil)
		if res := verify(t, run); len(res.Suspect) != 1 || !res.Suspect[n] {
			t.Errorf("line %d was changed, suspect are %v: %v", n, res.Suspect, res.Problems)
		}
	}
}
