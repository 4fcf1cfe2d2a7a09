package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/gateway/scripted"
)

type pictureRow struct {
	ID    string `json:"id"`
	Input struct {
		Question string `json:"question"`
	} `json:"input"`
	Assets []struct {
		Path string `json:"path"`
	} `json:"assets"`
	Eval struct {
		Answer any `json:"answer"`
	} `json:"eval"`
}

// say is the right answer of a row.
func (r pictureRow) say() string {
	switch a := r.Eval.Answer.(type) {
	case []any:
		if r.ID == "pictures/colours" {
			return fmt.Sprintf("Answer: %v, %v and %v", a[2], a[0], a[1])
		}
		return fmt.Sprintf("Answer: %v", a[1])
	default:
		return fmt.Sprintf("Answer: %v", a)
	}
}

// painter is a script that knows the right answers by the pictures, and the pictures of
// the rows as they are sent.
func painter(t *testing.T, dir string, rows []pictureRow) (*scripted.Script, map[string]string) {
	t.Helper()
	script := &scripted.Script{Turns: []scripted.Turn{{Say: "OK"}}}
	pixels := map[string]string{}
	for _, r := range rows {
		for i, a := range r.Assets {
			data, err := os.ReadFile(filepath.Join(dir, "assets", a.Path))
			if err != nil {
				t.Fatal(err)
			}
			pixels[a.Path] = base64.StdEncoding.EncodeToString(data)
			if i == 0 { // the text of a question may be asked about several pictures
				script.Conversations = append(script.Conversations, scripted.Conversation{Seen: pixels[a.Path], Turns: []scripted.Turn{{Say: r.say()}}})
			}
		}
	}
	return script, pixels
}

// TestHubPictures: a run with a hub shows its model the pictures itself, and workers score
// what it answers.
func TestHubPictures(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir, rows := samplePack[pictureRow](t, "pictures-sample")
	script, _ := painter(t, dir, rows)
	b, f := newModelBench(t, script), newMachines(t)
	run, addr := f.run(dir, "--model", "m-1", "--base-url", b.url, "--env-file", b.envFile, "-o", b.out)
	scorers := f.start("worker", "--hub", addr, "--credentials", f.invite("scorers", "verify"))
	f.ends(run, exitDone)
	f.ends(scorers, exitDone)
	for id, l := range modelLines(t, b.out) {
		if !l.Passed || l.Workers.Produce != "" || !strings.HasPrefix(l.Workers.Verify, "scorers.") {
			t.Errorf("%s: %s %s, by %+v", id, l.Outcome, l.FailureReason, l.Workers)
		}
	}
}

// TestPicturesForModels: a model is shown the pictures of each row, over each API, and
// neither the journal nor what was asked keeps a pixel.
func TestPicturesForModels(t *testing.T) {
	t.Parallel()
	dir, rows := samplePack[pictureRow](t, "pictures-sample")
	script, pixels := painter(t, dir, rows)
	for _, api := range []string{"responses", "chat", "messages"} {
		b := newModelBench(t, script)
		code, stdout, stderr := b.run(dir, "--model", "m-1", "--base-url", b.url, "--api", api)
		if want := fmt.Sprintf(" verified=%d passed=%d ", len(rows), len(rows)); code != exitDone || !strings.Contains(stdout, want) {
			t.Fatalf("%s: exit %d, want %q\n%s%s", api, code, want, stdout, stderr)
		}
		for _, r := range rows {
			for _, a := range r.Assets {
				if b.asked(pixels[a.Path]) != 1 {
					t.Errorf("%s: %s was shown %d times", api, a.Path, b.asked(pixels[a.Path]))
				}
			}
		}
		kept := ""
		err := filepath.WalkDir(b.out, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			kept += string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range pixels {
			if strings.Contains(kept, p[:60]) {
				t.Errorf("%s: the run keeps the pixels of %s", api, name)
			}
		}
		if !strings.Contains(kept, `"files":[{"digest":"sha256:`) {
			t.Errorf("%s: what was asked does not name the pictures", api)
		}
	}
}

// TestBlindModels: a model that refuses pictures makes its rows fail, by name, and ends no
// run; one that refuses everything ends it, with 10.
func TestBlindModels(t *testing.T) {
	t.Parallel()
	dir, rows := samplePack[pictureRow](t, "pictures-sample")
	blind := scripted.Fault{Status: http.StatusBadRequest, Times: -1, Message: "this model does not read images"}
	for _, all := range []bool{false, true} {
		script := &scripted.Script{Turns: []scripted.Turn{{Say: "OK"}}, Conversations: []scripted.Conversation{{Seen: ";base64,", Turns: []scripted.Turn{{Before: []scripted.Fault{blind}}}}}}
		if all {
			script.Turns[0].Before = []scripted.Fault{blind}
		}
		b := newModelBench(t, script)
		code, stdout, stderr := b.run(dir, "--model", "m-1", "--base-url", b.url, "--api", "chat", "--limit", "2", "--keep-going")
		switch {
		case all && code != 10:
			t.Errorf("a provider that rejects everything: exit %d\n%s%s", code, stdout, stderr)
		case !all:
			l := modelLines(t, b.out)[rows[0].ID]
			if code != exitDone || l.FailureReason != "provider_refused" || !strings.Contains(l.FailureMessage, "does not read images") {
				t.Errorf("exit %d, %s %q\n%s%s", code, l.FailureReason, l.FailureMessage, stdout, stderr)
			}
		}
	}
}

// TestWithoutAssets: agents that get no files answer blind, and all that is recorded says
// so. A run is not resumed with the files.
func TestWithoutAssets(t *testing.T) {
	t.Parallel()
	dir, rows := samplePack[pictureRow](t, "pictures-sample")
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "B"}}})
	args := []string{dir, "--model", "m-1", "--base-url", b.url, "--api", "messages"}
	code, stdout, stderr := b.run(append(args, "--without-assets")...)
	if want := fmt.Sprintf(" verified=%d passed=1 ", len(rows)); code != exitDone || !strings.Contains(stdout, want) {
		t.Fatalf("exit %d, want %q\n%s%s", code, want, stdout, stderr)
	}
	if n := b.asked("base64"); n != 0 {
		t.Errorf("%d questions have a picture", n)
	}
	for id, l := range modelLines(t, b.out) {
		if !slices.Contains(l.Labels, "ablated") {
			t.Errorf("%s is labelled %q", id, l.Labels)
		}
	}
	var out, errs bytes.Buffer
	if code := execute([]string{"reverify", b.out, "--pack", dir}, &out, &errs); code != exitDone {
		t.Errorf("the verdicts are derived again: exit %d\n%s%s", code, out.String(), errs.String())
	}
	if code, _, stderr := b.run(append(args, "--resume")...); code == exitDone || !strings.Contains(stderr, "without_assets") {
		t.Errorf("a resume with the files: exit %d\n%s", code, stderr)
	}
}

// TestReportMeasures: what a candidate that did not pass came to is in a report only where
// the operator asks for it, and never in one of a published copy.
func TestReportMeasures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pack, _ := samplePack[pictureRow](t, "pictures-sample")
	out, answers := filepath.Join(dir, "out"), filepath.Join(dir, "answers.jsonl")
	write(t, answers, `{"task_id": "pictures/brand", "attempt": 1, "text": "breeze"}`+"\n"+`{"task_id": "pictures/brand", "attempt": 2, "text": "breezy"}`+"\n")
	if res := securebench(t, nil, "run", pack, "--task", "pictures/brand", "--attempts", "2", "--agent", "replay:"+answers, "-o", out, "-q"); res.code != exitDone || !strings.Contains(res.stdout, "passed=1") {
		t.Fatalf("exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	report := func(args ...string) string {
		t.Helper()
		res := securebench(t, nil, append([]string{"report", out}, args...)...)
		if res.code != exitDone {
			t.Fatalf("report %s: exit %d: %s", args, res.code, res.stderr)
		}
		return res.stdout
	}
	page, xml := filepath.Join(dir, "page.html"), filepath.Join(dir, "junit.xml")
	const passes, all = `{"name":"vqa","of":"passed","attempts":1,"mean":1}`, `{"name":"vqa","of":"all","attempts":2,"mean":0.65}` // (1 + 0.3) / 2
	for _, tt := range []struct {
		args       []string
		want, lack string
	}{
		{nil, passes, all},
		{[]string{"--measures"}, all, passes},
	} {
		text := strings.Join(strings.Fields(report(append(tt.args, "--json", "--html", page, "--junit", xml)...)), "")
		if !strings.Contains(text, tt.want) || strings.Contains(text, tt.lack) {
			t.Errorf("report %s: %s", tt.args, text)
		}
		for _, name := range []string{page, xml} {
			file, err := os.ReadFile(name)
			if err != nil || strings.Contains(string(file), "0.65") != (tt.args != nil) {
				t.Errorf("report %s: %s, %v", tt.args, file, err)
			}
		}
	}
	if err := os.RemoveAll(filepath.Join(out, "restricted")); err != nil {
		t.Fatal(err)
	}
	if res := securebench(t, nil, "report", out, "--measures"); res.code != exitUsage || !strings.Contains(res.stderr, "--measures: this is a published copy") {
		t.Errorf("a published copy: exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
}
