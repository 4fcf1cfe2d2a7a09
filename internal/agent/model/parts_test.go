package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/awaittest"
	"securebench/internal/digest"
	"securebench/internal/gateway/access"
)

// TestParts: each API gets the texts, pictures and documents of a question in their order.
func TestParts(t *testing.T) {
	want := map[string]string{
		access.Responses: `[{"content":[{"text":"What is in <image1>","type":"input_text"},{"image_url":"data:image/png;base64,cGl4ZWxz","type":"input_image"},` +
			`{"file_data":"data:application/pdf;base64,cGFnZXM=","filename":"a.pdf","type":"input_file"},{"text":"?","type":"input_text"}],"role":"user","type":"message"}]`,
		access.Chat: `[{"content":"Be brief.","role":"system"},{"content":[{"text":"What is in <image1>","type":"text"},{"image_url":{"url":"data:image/png;base64,cGl4ZWxz"},"type":"image_url"},` +
			`{"file":{"file_data":"data:application/pdf;base64,cGFnZXM=","filename":"a.pdf"},"type":"file"},{"text":"?","type":"text"}],"role":"user"}]`,
		access.Messages: `[{"content":[{"text":"What is in <image1>","type":"text"},{"source":{"data":"cGl4ZWxz","media_type":"image/png","type":"base64"},"type":"image"},` +
			`{"source":{"data":"cGFnZXM=","media_type":"application/pdf","type":"base64"},"type":"document"},{"text":"?","type":"text"}],"role":"user"}]`,
		access.Gemini: `[{"parts":[{"text":"What is in <image1>"},{"inlineData":{"data":"cGl4ZWxz","mimeType":"image/png"}},` +
			`{"inlineData":{"data":"cGFnZXM=","mimeType":"application/pdf"}},{"text":"?"}],"role":"user"}]`,
	}
	for _, api := range apis() {
		b := newBench(t, api, `turns: [{say: "A cat."}]`, nil)
		q := withFiles(b.question("What is in <image1>?"))
		res, err := b.Ask(t.Context(), q, awaittest.Hung, discard{})
		if err != nil || res.Text != "A cat." {
			t.Fatalf("%s: %+v, %v", api, res, err)
		}
		all := b.server.Requests()
		var body struct {
			Input    jsontext.Value `json:"input"`
			Messages jsontext.Value `json:"messages"`
			Contents jsontext.Value `json:"contents"`
		}
		if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
			t.Fatal(err)
		}
		got := string(body.Input) + string(body.Messages) + string(body.Contents)
		if diff := cmp.Diff(want[api], got); diff != "" {
			t.Errorf("%s:\n%s", api, diff)
		}
	}
}

func withFiles(q model.Question) model.Question {
	q.Parts = []harness.Part{{Text: "What is in <image1>"}, {Type: "image/png", Name: "a.png", Data: []byte("pixels")}, {Type: "application/pdf", Name: "a.pdf", Data: []byte("pages")}, {Text: "?"}}
	return q
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// TestPicturesInJournal: an answer is kept by what was shown, which is not in the journal
// itself.
func TestPicturesInJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers")
	b := newBench(t, access.Chat, `turns: [{say: "A cat."}]`, nil)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	j, err := model.OpenJournal(file, func(key string, answer []byte) string { return digest.Bytes(append([]byte(key), answer...)) })
	if err != nil {
		t.Fatal(err)
	}
	b.Keep(j, nil)
	q := withFiles(b.question("What is in <image1>?"))
	for _, change := range []func(*model.Question){
		func(*model.Question) {},
		func(*model.Question) {}, // as before
		func(q *model.Question) { q.Parts[1].Data = []byte("others") },
		func(q *model.Question) { q.Parts[1].Type = "image/gif" },
	} {
		change(&q)
		if _, err := b.Ask(t.Context(), q, awaittest.Hung, discard{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.server.Requests()); n != 3 {
		t.Errorf("%d requests for three different questions", n)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(kept), "cGl4ZWxz") || strings.Contains(string(kept), "pixels") {
		t.Errorf("the journal has the picture: %v", err)
	}
}

// TestMostOfParts: pictures, documents and tools count in what a request may use, and the
// texts between them are those of the question.
func TestMostOfParts(t *testing.T) {
	b := newBench(t, access.Chat, `turns: []`, nil)
	q := b.question("What is in <image1>?")
	bare := b.Most(q)
	q.Tools = offered()
	tools := b.Most(q)
	if tools-bare < int64(len(q.Tools[0].Parameters))/4 {
		t.Errorf("%d tokens without tools, %d with", bare, tools)
	}
	if got := b.Most(withFiles(q)); got-tools != 2*1600 {
		t.Errorf("%d tokens without files, %d with two", tools, got)
	}
}
