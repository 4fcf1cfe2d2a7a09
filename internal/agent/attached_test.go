package agent

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/digest"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// drawn is a small picture, padded to a size.
func drawn(tb testing.TB, size int) *fstest.MapFile {
	tb.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		tb.Fatal(err)
	}
	return &fstest.MapFile{Data: append(b.Bytes(), make([]byte, max(0, size-b.Len()))...)}
}

// asking is a task with files.
func asking(tb testing.TB, paths ...string) task.AgentView {
	tb.Helper()
	c := task.Config{ID: "t", Family: "multimodal_qa", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}}
	for _, p := range paths {
		c.Assets = append(c.Assets, task.Asset{Path: p, Mount: p})
	}
	t, err := task.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return t.Agent()
}

func TestAttachable(t *testing.T) {
	t.Parallel()
	huge := drawn(t, 0)
	copy(huge.Data[16:], "\x00\x00\x9c\x40\x00\x00\x9c\x40") // 40,000 on each side
	files := fstest.MapFS{"a.png": drawn(t, 0), "b.pdf": {Data: []byte("%PDF-1.7\n")}, "large.png": drawn(t, maxAttachedBytes), "larger.png": drawn(t, maxAttachedBytes+1),
		"huge.png": huge, "notes.csv": {Data: []byte("a,b\n")}, "long.csv": {Data: make([]byte, maxAttachedText+1)}, "raw": {Data: []byte("a\x00b")}, "latin": {Data: []byte("\xe9")}}
	for i := range files["long.csv"].Data {
		files["long.csv"].Data[i] = 'a'
	}
	var many []string
	for i := range maxAttached + 1 {
		name := fmt.Sprintf("%d.png", i)
		many, files[name] = append(many, name), drawn(t, 0)
	}
	for name, tt := range map[string]struct {
		files []string
		want  string
	}{
		"none":           {nil, ""},
		"two":            {[]string{"a.png", "b.pdf"}, ""},
		"as many as may": {many[1:], ""},
		"one more":       {many, "has 21 files (assets), and the model harness sends at most 20"},
		"large":          {[]string{"large.png", "large.png", "large.png", "large.png"}, ""},
		"too large":      {[]string{"larger.png"}, "has 5242881 bytes, more than 5 MiB"},
		"too much":       {[]string{"large.png", "large.png", "large.png", "large.png", "large.png"}, "more than 24 MiB"},
		"declared":       {[]string{"huge.png"}, "declares more than 64 megapixels"},
		"a text":         {[]string{"a.png", "notes.csv"}, ""},
		"a long text":    {[]string{"long.csv"}, `"long.csv", that the model harness cannot give to a model: it is none of PNG`},
		"no text":        {[]string{"raw"}, "nor a text in UTF-8 of at most 256 KiB"},
		"another code":   {[]string{"latin"}, "nor a text in UTF-8 of at most 256 KiB"},
		"missing":        {[]string{"c.png"}, "is none of PNG"},
	} {
		err := Attachable(files, asking(t, tt.files...))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if err := Attachable(nil, asking(t, "a.png")); err == nil {
		t.Error("a task whose files nobody has is accepted")
	}
}

// TestParts: pictures stand where the question has their marks.
func TestParts(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"a.png": drawn(t, 0), "b.png": drawn(t, 100)}
	m := &Model{Files: files, Expect: map[string]string{"a.png": digest.Bytes(files["a.png"].Data), "b.png": digest.Bytes(files["b.png"].Data)}}
	for _, tt := range []struct{ text, want string }{
		{"What is in <image1>?", "B text:What is in <image1> A text:?"},
		{"Compare <image 2> with <image 1>.", "text:Compare <image 2> B text: with <image 1> A text:."},
		{"<image1> and <image1> again, <image9>", "B text:<image1> A text: and <image1> again, <image9>"},
		{"Nothing here", "A B text:Nothing here"},
		{"Last: <image2>", "A text:Last: <image2> B"},
		{"<image0> <image99>", "A B text:<image0> <image99>"},
	} {
		got, err := m.parts(tt.text, asking(t, "a.png", "b.png"))
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, p := range got {
			switch {
			case p.Type == "":
				said = append(said, "text:"+p.Text)
			case bytes.Equal(p.Data, files["a.png"].Data):
				said = append(said, "A")
			default:
				said = append(said, "B")
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(said, " ")); diff != "" {
			t.Error(diff)
		}
	}
	for name, text := range map[string]string{"notes.csv": "a,b\n1,2\n", "read.md": "Use\n```\nit\n```\n"} {
		files[name], m.Expect[name] = &fstest.MapFile{Data: []byte(text)}, digest.Bytes([]byte(text))
	}
	got, err := m.parts("Add them.", asking(t, "notes.csv", "read.md"))
	if want := []harness.Part{{Text: "The file notes.csv:\n```\na,b\n1,2\n```\n"}, {Text: "The file read.md:\n````\nUse\n```\nit\n```\n````\n"}, {Text: "Add them."}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("texts: %+v, %v", got, err)
	}
	if got, err := m.parts("no files", asking(t)); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	files["a.png"].Data[40] ^= 1
	for _, name := range []string{"a.png", "gone.png"} {
		if _, err := m.parts("changed", asking(t, name)); !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
