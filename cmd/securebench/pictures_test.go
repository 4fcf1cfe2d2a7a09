package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/scripted"
)

// picturesPack is the folder of the sample with pictures, and its rows.
func picturesPack(t *testing.T) (dir string, rows []pictureRow) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "packs", "pictures-sample"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r pictureRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return dir, rows
}

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

// TestPicturesForModels: a model is shown the pictures of each row, over each API, and
// neither the journal nor what was asked keeps a pixel.
func TestPicturesForModels(t *testing.T) {
	dir, rows := picturesPack(t)
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
	dir, rows := picturesPack(t)
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
