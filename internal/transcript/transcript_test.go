package transcript

import (
	"bytes"
	"encoding/base64"
	"go/ast"
	"go/parser"
	"go/token"
	"image"
	"image/jpeg"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestEveryWord: every outcome and reason that records can have is explained.
func TestEveryWord(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "verdict", "verdict.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		v, ok := node.(*ast.ValueSpec)
		if !ok || v.Type == nil || len(v.Values) != 1 {
			return true
		}
		kind := v.Type.(*ast.Ident).Name
		word, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		var known bool
		switch kind {
		case "Outcome":
			_, known = outcomes()[verdict.Outcome(word)]
		case "Reason":
			_, known = reasons()[verdict.Reason(word)]
		default:
			return true
		}
		if n++; !known {
			t.Errorf("%s %q is not explained", kind, word)
		}
		return true
	})
	if n < 30 {
		t.Errorf("only %d words were found", n)
	}
	if got := words(&record.Line{Outcome: "odd\x1b[2J"}); !strings.Contains(got, `"odd\x1b[2J"`) {
		t.Error(got)
	}
}

// TestEveryLabel: every label that docs/records.md names is explained, and no other.
func TestEveryLabel(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "records.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `labels` | sorted;") {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_]+)`(?: and the like)? \\(").FindAllStringSubmatch(line, -1) {
			documented[m[1]] = true
			if LabelWords(m[1]) == "" {
				t.Errorf("%s is not explained", m[1])
			}
		}
	}
	for label := range labels() {
		if !documented[label] {
			t.Errorf("docs/records.md does not name %s", label)
		}
	}
	if len(documented) < 10 || LabelWords("none of ours") != "" {
		t.Errorf("%d labels were found", len(documented))
	}
}

const hostile = "one\nverdict      passed\x1b[2J\x1b]0;owned\x07\u202etxt\r\n\x00</script>\xff"

// hostileLine has text from outside in every field.
func hostileLine() *record.Line {
	text := hostile
	meta := verdict.NewMetadata(map[string]any{"key" + hostile: hostile, "list": []string{hostile}})
	return &record.Line{
		RunID: hostile, TaskID: hostile, BenchmarkID: hostile, TaskType: hostile, Status: verdict.Status(hostile),
		Candidate: record.Candidate{Kind: task.Text, Shown: text}, ProducerStdout: hostile, ProducerStderr: hostile, ProducerMetadata: meta,
		Summary: []task.ResourceSummary{
			{Name: "question" + hostile, Value: jsontext.Value(`"a\u001b[2J\nverdict passed"`)},
			{Name: "choices", Value: jsontext.Value(`["\u202e", 1]`)}, {Name: "tests" + hostile, Redacted: true},
			{Name: "large", Bytes: 9, Digest: hostile}},
		Verified: true, VerifierStdout: hostile, VerifierStderr: hostile, VerifierMetadata: meta,
		Attempt: 1, Retries: []record.Retry{{Error: hostile, Phase: verdict.Phase(hostile)}}, Agent: hostile,
		Outcome: verdict.Outcome(hostile), FailureReason: verdict.Reason(hostile), FailurePhase: verdict.Phase(hostile), FailureMessage: hostile + "x",
		Containment: verdict.Containment(hostile), Labels: []string{hostile}, Digests: record.Digests{Candidate: hostile, Image: hostile, Extracted: hostile},
		Timings: map[verdict.Phase]int64{verdict.Phase(hostile): 3}, Usage: map[string]int64{hostile: 2},
		Restricted: []record.RawFile{{Path: hostile, Digest: hostile}},
	}
}

// TestHostileText: text from outside has no control character, and begins no line.
func TestHostileText(t *testing.T) {
	naive := hostileLine().ProducerStdout
	if !strings.Contains(naive, "\nverdict      passed\x1b") {
		t.Fatal("as it is, the text does no harm: the test shows nothing")
	}
	for name, from := range map[string]Source{
		"record": {Limit: 1 << 20}, "directory": {FS: fstest.MapFS{}, Salt: &digest.Salt{}, Limit: 1 << 20}, "short": {Limit: 20},
	} {
		if got := checkPlain(t, from, hostileLine()); name == "record" && strings.Count(got, `\x1b[2J`) < 10 {
			t.Errorf("the hostile text is not there: %s", got)
		}
	}
}

// checkPlain fails if a shown attempt has a character that a terminal would
// interpret, or a line that looks like the verdict and is none.
func checkPlain(t *testing.T, from Source, l *record.Line) string {
	t.Helper()
	a := Read(from, l)
	var b bytes.Buffer
	if err := a.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	verdicts := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "verdict      ") {
			verdicts++
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if r != '\t' && !unicode.IsGraphic(r) {
				t.Errorf("%q in %q", r, line)
			}
		}
	}
	if verdicts != 1 {
		t.Errorf("%d lines look like the verdict:\n%s", verdicts, b.String())
	}
	return b.String()
}

// FuzzText: whatever a record contains, it is shown as [TestHostileText] wants.
func FuzzText(f *testing.F) {
	f.Add(hostile, "passed", 100)
	f.Add("a\u2028b", "\nverdict      passed", 1<<20)
	f.Fuzz(func(t *testing.T, text, word string, limit int) {
		l := hostileLine()
		l.TaskID, l.ProducerStdout, l.FailureMessage, l.VerifierStderr = word, text, text, word
		l.Outcome, l.FailureReason, l.Labels, l.Candidate.Shown = verdict.Outcome(word), verdict.Reason(word), []string{word, text}, text
		l.Summary[1].Name, l.Retries[0].Error, l.Digests.Image = word, text, word
		checkPlain(t, Source{Limit: min(max(limit, 0), 1<<20)}, l)
	})
}

// TestCutsSayWhat: a text that is too long is cut, and says by how much.
func TestCutsSayWhat(t *testing.T) {
	l := &record.Line{Outcome: verdict.Failed, ProducerStdout: strings.Repeat("a", 5000) + "end"}
	a := Read(Source{Limit: 1000}, l)
	for _, p := range a.Parts {
		if p.Title != "agent: standard output" {
			continue
		}
		if p.Note != "cut to 1000 of 5003 bytes" || len(p.Text) > 1000 || !strings.HasSuffix(p.Text, "end") {
			t.Errorf("%q, %d bytes", p.Note, len(p.Text))
		}
		return
	}
	t.Error("no such part")
}

// TestStored: what was scored is read from the store, a changed one is named, and
// of a tree the changes are listed.
func TestStored(t *testing.T) {
	text, tree := []byte("whole answer"), bytes.Buffer{}
	w := candidate.NewTreeWriter(&tree, candidate.Bounds{Bytes: 100, Files: 10})
	for _, e := range []candidate.Entry{{Path: "app/gone", Deleted: true}, {Path: "app/link", Mode: 0o777 | fs.ModeSymlink, Target: "/etc/\x1b"}, {Path: "app/new", Mode: 0o644, Size: 3}} {
		if err := w.Add(e, strings.NewReader("abc"[:e.Size])); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	textSum := digest.Bytes(text)
	run := fstest.MapFS{
		"candidates/" + strings.TrimPrefix(textSum, "sha256:"): {Data: text},
		"candidates/" + strings.TrimPrefix(sum, "sha256:"):     {Data: tree.Bytes()},
	}
	short := "whole"
	shown := func(l *record.Line) string {
		a := Read(Source{FS: run, Limit: 1 << 20}, l)
		var b bytes.Buffer
		if err := a.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	inline := &record.Line{Outcome: verdict.Passed, Candidate: record.Candidate{Kind: task.Text, Shown: short}, Digests: record.Digests{Candidate: textSum}}
	if got := shown(inline); !strings.Contains(got, "candidate\n  | whole answer\n") {
		t.Error(got)
	}
	changes := &record.Line{Outcome: verdict.Passed, Candidate: record.Candidate{Kind: task.Workspace, Shown: sum}, Digests: record.Digests{Candidate: sum}}
	if got := shown(changes); !strings.Contains(got, "  | deleted  0000         0  app/gone\n  | link     0777         0  app/link -> \"/etc/\\x1b\"\n  | file     0644         3  app/new\n") {
		t.Error(got)
	}
	if got := shown(changes); !strings.Contains(got, "candidate: app/new\n  | abc\n") {
		t.Error(got)
	}
	run["candidates/"+strings.TrimPrefix(sum, "sha256:")].Data = bytes.Replace(tree.Bytes(), []byte("abc"), []byte("abd"), 1)
	if got := shown(changes); !strings.Contains(got, "the stored one cannot be used: it is not what its name says") || strings.Contains(got, "abd") {
		t.Error(got)
	}
	run["candidates/"+strings.TrimPrefix(textSum, "sha256:")].Data = []byte("whole Answer")
	if got := shown(inline); !strings.Contains(got, "the stored one cannot be used") || !strings.Contains(got, "| whole\n") {
		t.Error(got)
	}
}

// TestPictures: pictures of what was delivered are shown where pictures can be, and else it
// is said where they are; one that has been changed since is not.
func TestPictures(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2)), nil); err != nil {
		t.Fatal(err)
	}
	const name = "restricted/t/1/verifier-picture-1.jpg"
	salt := digest.Salt{}
	l := &record.Line{TaskID: "t", Verified: true, Outcome: verdict.Passed, Restricted: []record.RawFile{{Path: name, Digest: salt.Keyed("restricted", "t", b.Bytes())}}}
	from := Source{FS: fstest.MapFS{name: {Data: b.Bytes()}}, Salt: &salt, Limit: 1 << 20}
	find := func() Part {
		for _, p := range Read(from, l).Parts {
			if p.Title == "verifier: pictures of the files" {
				return p
			}
		}
		t.Fatal("there is no such part")
		return Part{}
	}
	if p := find(); p.Text != name {
		t.Errorf("as text: %+v", p)
	}
	from.Apart = true
	p := find()
	if len(p.Files) != 1 || p.Form != Pictures || p.Files[0].Type != "image/jpeg" || p.Files[0].Picture != base64.StdEncoding.EncodeToString(b.Bytes()) {
		t.Errorf("as a picture: %+v", p)
	}
	from.FS = fstest.MapFS{name: {Data: append(b.Bytes(), 0)}}
	if p := find(); p.Files != nil || !strings.Contains(p.Note, "it cannot be used") {
		t.Errorf("changed: %+v", p)
	}
}
