package artifacttask

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/artifact/reader"
	"securebench/internal/artifact/readprogram"
	"securebench/internal/artifact/wire"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

type object = map[string]any

// engine is an engine in memory with the program that reads files.
func engine() *sandboxtest.Engine {
	return sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		wire.Name: func(_ context.Context, p *sandboxtest.Process) int {
			if readprogram.Run(p.Stdin, p.Stdout, reader.Read) != nil {
				return 1
			}
			return 0
		}}})
}

// newTest makes a verifier of a pack with evaluation files.
func newTest(tb testing.TB, e sandbox.Engine, files map[string]string) family.Verifier {
	tb.Helper()
	dir, digests := tb.TempDir(), map[string]string{}
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		digests[name] = digest.Bytes([]byte(text))
	}
	opened, err := family.OpenFiles(filepath.Join(dir, "none"), dir, nil, digests)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = opened.Close() })
	return newVerifier(family.Resources{Engine: e, RunID: "test", Files: opened})
}

// rowOf is a case of a row.
func rowOf(tb testing.TB, output any, eval object) family.Case {
	tb.Helper()
	resources := []task.Resource{{Name: "brief", Lane: task.Public, Value: familytest.JSON(tb, "Do it.")},
		{Name: keyOutput, Lane: task.Public, Value: familytest.JSON(tb, output)}}
	for name, v := range eval {
		resources = append(resources, task.Resource{Name: name, Lane: Family().Lanes[name], Value: familytest.JSON(tb, v)})
	}
	return familytest.Case(tb, "artifact_task", resources...)
}

// left is a file that an agent left; a mode makes it something else.
type left struct {
	text string
	mode fs.FileMode
}

// tree stores a candidate.
func tree(tb testing.TB, files map[string]left) candidate.Candidate {
	tb.Helper()
	var b bytes.Buffer
	w := candidate.NewTreeWriter(&b, candidate.Bounds{Bytes: 1 << 30, Files: 1 << 16})
	for _, name := range slices.SortedFunc(maps.Keys(files), candidate.ComparePaths) {
		f := files[name]
		e := candidate.Entry{Path: "workspace/" + name, Mode: f.mode | 0o644, Size: int64(len(f.text))}
		if f.mode&fs.ModeSymlink != 0 {
			e.Target, e.Size = f.text, 0
		}
		if err := w.Add(e, strings.NewReader(f.text)); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	store, err := candidate.OpenStore(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	c, err := store.Put(task.Workspace, candidate.Given, &b)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestVerdicts: rows of the types that are texts, with one reference or several, and of
// several files; what is missing, not regular or not of its type is named.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	v := newTest(t, engine(), map[string]string{"sum.csv": "name,n\na,1\nb,2\n", "all/a.csv": "x\n1\n", "all/b/c.txt": "yes\n"})
	csv := object{"type": "csv", "path": "out/sum.csv"}
	table := object{keyReference: object{"path": "sum.csv"}, keyRubric: object{"type": "table"}}
	text := object{"type": "text", "path": "a.txt"}
	either := object{keyReference: []string{"yes", "no"}, keyRubric: object{"type": "text"}}
	both := []object{{"type": "text", "path": "b/c.txt"}, {"type": "csv", "path": "a.csv"}}
	each := object{keyReference: object{"path": "all"}, keyRubric: object{"files": object{"a.csv": object{"type": "table"}, "b/c.txt": object{"type": "text"}}}}
	for name, tt := range map[string]struct {
		output any
		eval   object
		files  map[string]left
		want   verdict.Reason
	}{
		"right":                 {csv, table, map[string]left{"out/sum.csv": {text: "name,n\r\na,1\r\nb,2\r\n"}}, ""},
		"wrong":                 {csv, table, map[string]left{"out/sum.csv": {text: "name,n\na,1\nb,3\n"}}, verdict.WrongAnswer},
		"missing":               {csv, table, map[string]left{"sum.csv": {text: "name,n\na,1\nb,2\n"}}, verdict.CandidateMissing},
		"no table":              {csv, table, map[string]left{"out/sum.csv": {text: "name,n\n\"a,1\nb,2\n"}}, verdict.ArtifactUnreadable},
		"empty":                 {csv, table, nil, verdict.CandidateMissing},
		"a link":                {csv, table, map[string]left{"out/sum.csv": {text: "/etc/passwd", mode: fs.ModeSymlink}}, verdict.CandidateNotRegular},
		"a folder":              {csv, table, map[string]left{"out/sum.csv": {mode: fs.ModeDir}}, verdict.CandidateNotRegular},
		"too large":             {object{"type": "csv", "path": "out/sum.csv", "max_bytes": 10}, table, map[string]left{"out/sum.csv": {text: "name,n\na,1\nb,2\n"}}, verdict.CandidateTooLarge},
		"first of two":          {text, either, map[string]left{"a.txt": {text: "yes"}}, ""},
		"second of two":         {text, either, map[string]left{"a.txt": {text: "no\n"}}, ""},
		"none of two":           {text, either, map[string]left{"a.txt": {text: "maybe"}}, verdict.WrongAnswer},
		"several files":         {both, each, map[string]left{"a.csv": {text: "x\n1\n"}, "b/c.txt": {text: "yes"}}, ""},
		"one of several wrong":  {both, each, map[string]left{"a.csv": {text: "x\n1\n"}, "b/c.txt": {text: "no"}}, verdict.WrongAnswer},
		"one of several absent": {both, each, map[string]left{"a.csv": {text: "x\n1\n"}}, verdict.CandidateMissing},
		"others beside it":      {text, either, map[string]left{"a.txt": {text: "yes"}, "notes.md": {text: "no"}}, ""},
		"no such reference":     {csv, object{keyReference: object{"path": "none.csv"}, keyRubric: object{"type": "table"}}, map[string]left{"out/sum.csv": {text: "a\n"}}, verdict.PackFault},
		"a reference to doubt":  {csv, object{keyReference: "id,n\n1,secret\n", keyRubric: object{"type": "metric", "metric": "rmse", "id": "id", "target": "n", "at_most": 1}}, map[string]left{"out/sum.csv": {text: "id,n\n1,1\n"}}, verdict.PackFault},
		"unreadable reference":  {text, object{keyReference: "\x00", keyRubric: object{"type": "text"}}, map[string]left{"a.txt": {text: "a\n"}}, verdict.PackFault},
	} {
		c := rowOf(t, tt.output, tt.eval)
		if tt.files != nil {
			for name, f := range tt.files {
				if f.mode&fs.ModeDir != 0 {
					f.text = ""
					tt.files[name] = f
				}
			}
		}
		got := familytest.Verify(t, v, c, tree(t, tt.files))
		want := family.VerdictOf(&family.Failure{Reason: tt.want}).Outcome
		if tt.want == "" {
			want = verdict.Passed
		}
		if strings.Contains(got.Message, "secret") {
			t.Errorf("%s: the message says what is hidden: %s", name, got.Message)
		}
		if got.Reason != tt.want || got.Outcome != want || got.Containment != verdict.Passive {
			t.Errorf("%s: %s %s %s, %q; want %s", name, got.Outcome, got.Reason, got.Message, got.Restricted, tt.want)
		}
	}
}

// TestPending: a row that lacks something says what, and is no error.
func TestPending(t *testing.T) {
	t.Parallel()
	csv := object{"type": "csv", "path": "a.csv"}
	table := object{"type": "table"}
	for name, tt := range map[string]struct {
		output any
		eval   object
		want   string // part of the message; "" is a row that is scored
	}{
		"scored":              {csv, object{keyReference: "a\n", keyRubric: table}, ""},
		"no reference":        {csv, object{keyRubric: table}, "eval.reference_artifact: the row has none"},
		"another type":        {object{"type": "markdown", "path": "a.md"}, object{keyRubric: "good"}, `its type "markdown" is none`},
		"no path":             {object{"type": "csv"}, object{keyReference: "a\n", keyRubric: table}, "it has no path"},
		"a path that climbs":  {object{"type": "csv", "path": "../a.csv"}, object{keyReference: "a\n", keyRubric: table}, "it has no path"},
		"one place":           {[]object{csv, csv}, object{keyReference: object{"path": "x"}, keyRubric: table}, "a.csv is the place of two files"},
		"an inline workbook":  {object{"type": "xlsx", "path": "a.xlsx"}, object{keyReference: "a\n", keyRubric: table}, "a file of type xlsx needs a path"},
		"a picture to judge":  {object{"type": "png", "path": "a.png"}, object{keyRubric: "good"}, "a judge reads texts"},
		"a PDF to judge":      {object{"type": "pdf", "path": "a.pdf"}, object{keyRubric: "good"}, "a judge reads the text of a.pdf only with a converter"},
		"a PDF's tables":      {object{"type": "pdf", "path": "a.pdf"}, object{keyReference: object{"path": "x"}, keyRubric: object{"type": "document"}, keyConverter: "office"}, "a PDF has neither tables"},
		"a PDF, converted":    {object{"type": "pdf", "path": "a.pdf"}, object{keyReference: object{"path": "x"}, keyRubric: object{"type": "document", "tables": false}, keyConverter: "office"}, ""},
		"a PDF's text":        {object{"type": "pdf", "path": "a.pdf"}, object{keyReference: object{"path": "x"}, keyRubric: object{"type": "document", "tables": false}}, "a.pdf: the text of a PDF is known only with eval.converter"},
		"a PDF's pages":       {object{"type": "pdf", "path": "a.pdf"}, object{keyReference: object{"path": "x"}, keyRubric: object{"type": "document", "pages": true, "paragraphs": false, "tables": false}}, ""},
		"a text to judge":     {csv, object{keyRubric: "good"}, ""},
		"an unknown rubric":   {csv, object{keyReference: "a\n", keyRubric: object{"type": "vibes"}}, "vibes"},
		"several, one inline": {[]object{csv, {"type": "text", "path": "b"}}, object{keyReference: "a\n", keyRubric: table}, "the path of a folder"},
	} {
		c := rowOf(t, tt.output, tt.eval)
		reason, message := pending(c.Sandbox, c.Evaluator)
		if (reason == "") != (tt.want == "") || !strings.Contains(message, tt.want) {
			t.Errorf("%s: %s %s", name, reason, message)
		}
	}
}
