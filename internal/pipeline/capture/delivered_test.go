package capture_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// asked is a task that names files.
func asked(orPrinted bool, names ...string) task.Extraction {
	return task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace, Files: names, OrStdout: orPrinted}
}

// TestDelivered: of a task that names files, these are the tree, each a regular file that
// is not as it was; what else there is is counted.
func TestDelivered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		was, is map[string]string
		special func(dir string) error
		names   []string
		want    []string
		reason  verdict.Reason
	}{
		"one of several files": {is: map[string]string{"out/a.csv": "1", "out/b.csv": "2", "c": "3"}, names: []string{"out/a.csv"}, want: []string{"-rw-r--r-- app/out/a.csv 1"}},
		"two":                  {is: map[string]string{"a": "1", "b/c": "2"}, names: []string{"a", "b/c"}, want: []string{"-rw-r--r-- app/a 1", "-rw-r--r-- app/b/c 2"}},
		"one of two":           {is: map[string]string{"a": "1"}, names: []string{"a", "b"}, reason: verdict.CandidateMissing},
		"none":                 {is: map[string]string{"other.csv": "1"}, names: []string{"a.csv"}, reason: verdict.CandidateMissing},
		"unchanged":            {was: map[string]string{"a": "1"}, names: []string{"a"}, reason: verdict.CandidateMissing},
		"changed":              {was: map[string]string{"a": "1"}, is: map[string]string{"a": "2"}, names: []string{"a"}, want: []string{"-rw-r--r-- app/a 2"}},
		"a folder":             {is: map[string]string{"a.csv/b": "1"}, names: []string{"a.csv"}, reason: verdict.CandidateNotRegular},
		"a link":               {special: func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "a")) }, names: []string{"a"}, reason: verdict.CandidateNotRegular},
		"a pipe":               {special: func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "a"), 0o600) }, names: []string{"a"}, reason: verdict.CandidateNotRegular},
		"a link on the way": {is: map[string]string{"real/a": "1"}, special: func(dir string) error { return os.Symlink("real", filepath.Join(dir, "out")) },
			names: []string{"out/a"}, reason: verdict.CandidateMissing},
		"removed": {was: map[string]string{"a": "1"}, special: func(dir string) error { return os.Remove(filepath.Join(dir, "a")) }, names: []string{"a"}, reason: verdict.CandidateMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agentChanges(t, nil, files(tt.was), func(s *sandboxtest.Process) error {
				if err := files(tt.is)(s.Dir); err != nil || tt.special == nil {
					return err
				}
				return tt.special(s.Dir)
			})
			p.req.Extraction = asked(false, tt.names...)
			if tt.reason != "" {
				p.refused(t, tt.reason, "")
				return
			}
			p.want(t, tt.want...)
		})
	}
}

// TestLeftBehind: what an agent made beside the files that are asked for is counted, and
// what was there before is not.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	p := agentChanges(t, nil, files(map[string]string{"in/data.csv": "1"}), func(s *sandboxtest.Process) error {
		return files(map[string]string{"a.csv": "2", "scratch/x": "3", "scratch/y": "4"})(s.Dir)
	})
	p.req.Extraction = asked(false, "a.csv")
	res := p.want(t, "-rw-r--r-- app/a.csv 2")
	if got := string(res.Metadata["left_behind_count"]); got != "3" { // the folder and its two files
		t.Errorf("%s files and folders are left behind", got)
	}
}

// TestPrinted: where a text can be the file, what is printed is it if there is none, or
// what stands in the block of code that this consists of.
func TestPrinted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		is      map[string]string
		printed string
		want    string // "" is no candidate
	}{
		"printed":         {nil, "a,b\n1,2\n", "a,b\n1,2\n"},
		"a block":         {nil, "```csv\na,b\n1,2\n```\n", "a,b\n1,2\n"},
		"a text around":   {nil, "Here:\n```csv\na\n```\n", "Here:\n```csv\na\n```\n"},
		"two blocks":      {nil, "```\na\n```\n```\nb\n```", "```\na\n```\n```\nb\n```"},
		"an open block":   {nil, "```csv\na\n", "```csv\na\n"},
		"blanks":          {nil, " \n", ""},
		"nothing":         {nil, "", ""},
		"a file and said": {map[string]string{"a.csv": "x"}, "I have written it.", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agentLeaves(t, files(tt.is))
			p.req.Extraction, p.req.Stdout = asked(true, "a.csv"), []byte(tt.printed)
			if tt.want == "" {
				p.refused(t, verdict.CandidateMissing, "")
				return
			}
			res := p.capture(t)
			if res.Candidate == nil {
				t.Fatalf("%+v", res)
			}
			if got := read(t, *res.Candidate); len(got) != 1 || !strings.HasSuffix(got[0], strings.TrimSpace(tt.want)) && !strings.Contains(got[0], tt.want) {
				t.Errorf("%q", got)
			}
		})
	}
	// A model has no workspace.
	stage := capture.Stage{Sink: newStore(t)}
	res, err := stage.Capture(t.Context(), capture.Request{Extraction: asked(true, "a.csv"), Outcome: exited, Tree: roomy, Workdir: "/app", Stdout: []byte("a\n")}, nil)
	if err != nil || res.Candidate == nil || len(read(t, *res.Candidate)) != 1 {
		t.Errorf("of a model: %+v, %v", res, err)
	}
}
