package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faultyRows are rows whose own fault makes them impossible, with what has to be said
// of each; "good" is possible, and what "hostile" does to its own workspace is no fault
// of the row's.
func faultyRows() map[string]struct{ environment, said string } {
	return map[string]struct{ environment, said string }{
		"good":        {`"workdir": "/app"`, ""},
		"readable":    {`"workdir": "/home", "materialize_workdir_from_image": true, "user": "65534"`, ""}, // and not to be written to
		"hostile":     {`"workdir": "/app"`, ""},
		"user":        {`"workdir": "/root", "materialize_workdir_from_image": true, "user": "65534"`, "user 65534:65534 cannot read /root"},
		"no user":     {`"workdir": "/app", "user": "nobody-has-this-name"`, `looking up user \"nobody-has-this-name\"`},
		"a file":      {`"workdir": "/root/.profile"`, "the image has a file at /root/.profile"},
		"below":       {`"workdir": "/root/.profile/sub"`, "the image has a file at /root/.profile"},
		"a link":      {`"workdir": "/var/run/sub"`, "the image has a link at /var/run: name the folder itself"},
		"no folder":   {`"workdir": "/missing", "materialize_workdir_from_image": true`, "the image has no such folder"},
		"a long name": {`"workdir": "/app/` + strings.Repeat("n", 300) + `"`, "a name in it has 300 bytes"},
		"no solution": {`"workdir": "/app"`, "the command of the row's solution is not in image"},
		"no checker":  {`"workdir": "/app"`, "the command of eval.checker is not in the checker's image"},
	}
}

// faultyPack writes a pack of these rows and returns its folder.
func faultyPack(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: faulty\nversion: 1\ndefaults:\n  family: terminal_task\n")
	var rows strings.Builder
	for id, row := range faultyRows() {
		work, shell, checker := "echo 42 > answer.txt", "sh", "grep"
		switch id {
		case "no solution":
			shell = "no-such-shell"
		case "no checker":
			checker = "no-such-checker"
		case "hostile":
			work += "; ln -s /etc/passwd securebench.old; rm -rf securebench task.json; ln -s /etc securebench; chmod 0 ."
		}
		rows.WriteString(`{"id": "` + id + `", "environment": {"image": "` + image + `", "timeout_seconds": 600, ` + row.environment +
			`}, "input": {"instructions": "Write 42 to answer.txt."}, "eval": {"checker": {"command": ["` + checker + `", "-qx", "42", "answer.txt"]}, ` +
			`"solution": {"command": ["` + shell + `", "-c", "` + work + `"]}}}` + "\n")
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	return dir
}

// TestRowsFaults: a row's own fault ends neither a run nor a validation, is not tried
// again, and stays what it is until the pack changes; the record verifies.
func TestRowsFaults(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir := faultyPack(t, image)
	out := filepath.Join(t.TempDir(), "out")
	run := []string{"run", dir, "--agent", "oracle", "-o", out, "-q"}
	if res := securebench(t, nil, run...); res.code != exitPack || !strings.Contains(res.stderr, "9 attempts could not be made") {
		t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	checkFaultyRecords(t, out)
	before, err := os.ReadFile(filepath.Join(out, "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if res := securebench(t, nil, append(run, "--resume")...); res.code != exitPack {
		t.Errorf("the resume: exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	if after, err := os.ReadFile(filepath.Join(out, "candidates.jsonl")); err != nil || string(after) != string(before) {
		t.Errorf("the resume changed the records: %v", err)
	}
	if res := securebench(t, nil, "verify", out); res.code != exitDone {
		t.Errorf("verify: exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	if res := securebench(t, nil, "reverify", out, "--pack", dir); res.code != exitDone {
		t.Errorf("reverify: exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	res := securebench(t, nil, "validate", dir)
	if res.code != exitProblems {
		t.Fatalf("validate: exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	for id, row := range faultyRows() {
		if said := strings.ReplaceAll(row.said, `\"`, `"`); !strings.Contains(res.stdout, said) {
			t.Errorf("validate does not say of %q: %s\n%s", id, said, res.stdout)
		}
	}
}

// checkFaultyRecords checks the records of faultyRows.
func checkFaultyRecords(t *testing.T, out string) {
	t.Helper()
	lines, _ := wholeLines(t, out)
	if len(lines) != len(faultyRows()) {
		t.Fatalf("%d records, want %d", len(lines), len(faultyRows()))
	}
	for _, l := range lines {
		said := strings.ReplaceAll(faultyRows()[l.TaskID].said, `\"`, `"`)
		phase := "prepare"
		if found, ok := map[string]string{"no solution": "producer", "no checker": "checker"}[l.TaskID]; ok {
			phase = found
		}
		switch {
		case l.TaskID == "good":
			if !l.Passed {
				t.Errorf("the good row: %s, %s", l.Outcome, l.FailureMessage)
			}
		case l.TaskID == "hostile" || l.TaskID == "readable":
			if l.FailureReason == "pack" || l.Outcome == "infrastructure" {
				t.Errorf("the %s row: %s, %s", l.TaskID, l.Outcome, l.FailureMessage)
			}
		case l.Outcome != "pending" || l.FailureReason != "pack" || string(l.FailurePhase) != phase || len(l.Retries) > 0 || !strings.Contains(l.FailureMessage, said):
			t.Errorf("%s: %s, %s in %s after %d retries: %q, want %q", l.TaskID, l.Outcome, l.FailureReason, l.FailurePhase, len(l.Retries), l.FailureMessage, said)
		}
	}
}
