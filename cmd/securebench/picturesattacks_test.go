package main

import (
	"bytes"
	be "encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// seen is a pack of questions about pictures.
type seen struct {
	rows  []map[string]any
	files map[string][]byte
}

func (p *seen) add(id, question string, choices []string, answer, match any, picture string) {
	input := map[string]any{"question": question}
	if choices != nil {
		input["choices"] = choices
	}
	eval := map[string]any{"answer": answer}
	if match != nil {
		eval["match"] = match
	}
	p.rows = append(p.rows, map[string]any{"id": id, "input": input, "eval": eval, "assets": []any{map[string]any{"path": picture, "type": "image"}}})
}

func (p *seen) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: seen\nversion: 1\ndefaults: {family: multimodal_qa, environment: {image: \"securebench-python:3\"}}\n")
	var lines bytes.Buffer
	for _, r := range p.rows {
		b, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), lines.String())
	for name, data := range p.files {
		path := filepath.Join(dir, "assets", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, string(data))
	}
	return dir
}

// chunk is a chunk of a PNG.
func chunk(kind, data string) []byte {
	out := be.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(out, kind+data...)
	return be.BigEndian.AppendUint32(out, crc32.ChecksumIEEE([]byte(kind+data)))
}

// square is a PNG that declares a size, and has chunks of its own.
func square(side uint32, more ...[]byte) []byte {
	size := be.BigEndian.AppendUint32(be.BigEndian.AppendUint32(nil, side), side)
	out := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", string(size)+"\x08\x02\x00\x00\x00")...)
	for _, c := range more {
		out = append(out, c...)
	}
	return append(out, chunk("IEND", "")...)
}

// TestPictureAttacks fires texts at the shipped program that earn points from loose
// scorers of pictures (M1 to M9, M11), and beside each an honest one, which passes.
func TestPictureAttacks(t *testing.T) {
	t.Parallel()
	cities := []string{"Rome", "Paris", "Bonn"}
	people := []string{"nokia", "nokia", "nokia", "nokia", "samsung", "samsung", "phone"}
	rule := func(name string) any { return map[string]any{"type": name} }
	p := seen{files: map[string][]byte{"a.png": square(4)}}
	answers := map[string]string{}
	for i, a := range []struct {
		name           string
		question       string
		choices        []string
		answer, match  any
		attack, honest string
	}{
		{"M1", "Which city is it?", cities, "B", nil, "Answer: A or B", "(B)"},
		{"M2", "Which city is it?", cities, "B", nil, "A\nB\nC", "B. Paris"},
		{"M2 brands", "Which brand?", nil, people, rule("vqa"), "nokia samsung phone", "Answer: Nokia"},
		{"M3", "Which city is it?", cities, "B", nil, "Which city is it? Rome Paris Bonn", `\boxed{\text{B}}`},
		{"M4", "Which city is it?", cities, "B", nil, " \n", "Paris"},
		{"M5", "Which city is it?", cities, "B", nil, "Pariz", "Answer: Paris"},
		{"M6", "In which year?", nil, 2020, rule("relaxed"), `\boxed{2024}`, `It was in \boxed{2020}.`},
		{"M7", "Which name?", nil, "Paris", rule("anls"), strings.Repeat("7", 3<<20), "Answer: Pariz"},
		{"M8 no number", "Which value?", nil, "48.5", rule("relaxed"), "NaN", "48.5"},
		{"M8 infinite", "Which value?", nil, "48.5", rule("relaxed"), "1e999", "Answer: 49"},
		{"M8 range", "Which value?", nil, "5", rule("relaxed"), "5 ± 100", "The value is 5."},
		{"M9", "Which term?", nil, `\frac{x+1}{2}`, nil, `\boxed{__import__('os').system('true')}`, `\boxed{\frac{x + 1}{2}}`},
		{"M11", "Which city is it?", cities, "A", nil, "The picture says that I must answer B. Answer: B", "The picture says that I must answer B. Answer: A"},
		{"two texts", "Which name?", nil, "Paris", rule("anls"), "Answer: Paris or Oslo", "Answer: PARIS."},
		{"denied", "Which name?", nil, "Paris", rule("anls"), "Answer: not Paris", "Answer: Paris"},
	} {
		for kind, text := range map[string]string{"attack": a.attack, "honest": a.honest} {
			id := fmt.Sprintf("%s/%d %s", kind, i, a.name)
			p.add(id, a.question, a.choices, a.answer, a.match, "a.png")
			answers[id] = text
		}
	}
	dir := p.write(t)
	var replay bytes.Buffer
	for id, text := range answers {
		b, err := json.Marshal(map[string]any{"task_id": id, "text": text}, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		replay.Write(append(b, '\n'))
	}
	file := filepath.Join(dir, "replay.jsonl")
	write(t, file, replay.String())
	out := filepath.Join(t.TempDir(), "out")
	res := securebench(t, nil, "run", dir, "--agent", "replay:"+file, "-q", "-o", out)
	if res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	for id, l := range modelLines(t, out) {
		if honest := strings.HasPrefix(id, "honest"); l.Passed != honest {
			t.Errorf("%s: %s %s %q", id, l.Outcome, l.FailureReason, l.FailureMessage)
		}
	}
}

// TestHostilePictures: a picture that declares a size which nobody should decode, a link
// and a text are refused before any row runs, by every command (M10).
func TestHostilePictures(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"huge.png": "declares more than 64 megapixels", "text.png": "is none of PNG", "link.png": "a symbolic link", "short.png": "its header cannot be read",
		"paper.png": "names a file of type application/pdf, not a image", "fine.png": "",
	} {
		p := seen{files: map[string][]byte{"huge.png": square(40_000), "text.png": []byte("A"), "short.png": square(9)[:20], "paper.png": []byte("%PDF-1.7"), "fine.png": square(9)}}
		p.add("one", "Which?", []string{"this", "that"}, "A", nil, name)
		if name != "link.png" {
			p.files = map[string][]byte{name: p.files[name]}
		}
		dir := p.write(t)
		if name == "link.png" {
			if err := os.Symlink("fine.png", filepath.Join(dir, "assets", name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"pack", "check", dir}, {"validate", dir}, {"run", dir, "--agent", "oracle", "-o", filepath.Join(t.TempDir(), "out")}} {
			res := securebench(t, nil, args...)
			if code := map[bool]int{true: exitDone, false: 11}[want == ""]; res.code != code || !strings.Contains(res.stderr, want) {
				t.Errorf("%s, %s: exit %d, want %d and %q\n%s", name, args[0], res.code, code, want, res.stderr)
			}
		}
	}
}

// TestPictureWarnings: pack check says what gives an answer away, or shows nothing.
func TestPictureWarnings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		picture string
		file    []byte
		want    string
	}{
		"name":       {"old-harbour.png", square(9), "has the answer in its name"},
		"text":       {"a.png", square(9, chunk("tEXt", "Title\x00The Old Harbour at night")), "with the answer in its metadata"},
		"the answer": {"b.png", square(9, chunk("tEXt", "Comment\x00answer: B")), "with the answer in its metadata"},
		"one colour": {"c.png", square(9, chunk("PLTE", "\xff\x00\x00")), "a picture of one colour"},
		"fine":       {"harbour-1.png", square(9, chunk("tEXt", "Software\x00a camera")), ""},
	} {
		p := seen{files: map[string][]byte{tt.picture: tt.file}}
		p.add("one", "Which place?", []string{"New Town", "Old Harbour"}, "B", nil, tt.picture)
		res := securebench(t, nil, "pack", "check", p.write(t))
		warned := strings.Contains(res.stderr, "warning:")
		if res.code != exitDone || warned != (tt.want != "") || !strings.Contains(res.stderr, tt.want) {
			t.Errorf("%s: exit %d, want %q\n%s%s", name, res.code, tt.want, res.stdout, res.stderr)
		}
	}
	p := seen{files: map[string][]byte{"a.png": square(9), "b.png": square(9)}}
	p.add("two", "Which?", []string{"C", "A", "Z"}, "C", nil, "a.png")
	p.rows[0]["assets"] = []any{map[string]any{"path": "a.png", "type": "image"}, map[string]any{"path": "b.png", "type": "image"}}
	res := securebench(t, nil, "pack", "check", p.write(t))
	for _, want := range []string{"names the same picture as assets[0]", "choices[0] is the letter C", "choices[1] is the letter A"} {
		if !strings.Contains(res.stderr, want) {
			t.Errorf("no warning %q\n%s", want, res.stderr)
		}
	}
}

// TestReferencePictures: rows of the reference's shape load. What cannot be scored is
// pending, and says what is missing.
func TestReferencePictures(t *testing.T) {
	t.Parallel()
	p := seen{files: map[string][]byte{"a.png": square(9), "a.mp4": []byte("film"), "a.wav": []byte("sound")}}
	p.add("scored", "Which?", []string{"this", "that"}, "that", nil, "a.png")
	p.add("open", "How many?", nil, 4, nil, "a.png")
	p.add("judged", "Describe it.", nil, "a cat", nil, "a.png")
	p.add("film", "What happens?", nil, "nothing", nil, "a.png")
	p.add("sound", "Who speaks?", nil, "nobody", nil, "a.png")
	p.rows[2]["eval"] = map[string]any{"answer": "a cat", "rubric": "It speaks of a cat."}
	p.rows[3]["assets"] = []any{map[string]any{"path": "a.mp4", "type": "video"}}
	p.rows[4]["assets"] = []any{map[string]any{"path": "a.png", "type": "image"}, map[string]any{"path": "a.wav", "type": "audio"}}
	dir, out := p.write(t), filepath.Join(t.TempDir(), "out")
	if res := securebench(t, nil, "run", dir, "--agent", "oracle", "-q", "-o", out); res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	want := map[string]string{"scored": "passed", "open": "passed", "judged": "pending no_judge", "film": "pending media", "sound": "pending media"}
	for id, l := range modelLines(t, out) {
		if got := strings.TrimSpace(string(l.Outcome) + " " + string(l.FailureReason)); got != want[id] {
			t.Errorf("%s: %s, want %s", id, got, want[id])
		}
	}
}
