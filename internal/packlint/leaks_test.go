package packlint_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"

	"securebench/internal/packlint"
)

// leaks returns the warnings about copies in a pack, without its folder.
func leaks(t *testing.T, rows string, files map[string]string) string {
	t.Helper()
	p, dir := packOf(t, "id: p\nversion: 1\nasset_roots: {public: assets, eval: eval}\n", rows, files)
	found, err := packlint.Leaks(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range found {
		out = append(out, strings.ReplaceAll(f.Error(), dir+"/", ""))
	}
	return strings.Join(out, "\n")
}

const (
	leakRow   = `{"id":"a","family":"f","assets":[{"path":"ws","mount":"ws"}],"eval":{"checker":{"source":"pytest","path":"t/test_outputs.py"},"solution":{"path":"s/solution.py"}},"environment":{"image":"localhost/p/own:1"}}` + "\n"
	licence   = "# Copyright somebody\n# Licensed under the terms of a licence\n# which is printed elsewhere.\nimport os\nimport json\nfrom pathlib import Path\n\n"
	leakTests = licence + `
def test_sum():
    report = json.loads(Path("/app/report.json").read_text())
    assert report["total"] == 1234.5, "the total is wrong"


def test_names():
    names = [entry["name"] for entry in json.loads(Path("/app/report.json").read_text())["entries"]]
    assert names == ["alpha", "beta", "gamma", "delta"]
`
	leakSolution = licence + `
def gcd(a, b):
    if b == 0:
        return a
    return gcd(b, a % b)


print(gcd(1071, 462), gcd(17, 5))
`
)

// reformatted is what a formatter makes of the tests.
const reformatted = licence + `
def test_sum() :
	report = json.loads( Path('/app/report.json').read_text(), )
	assert report['total'] == 1234.5, 'the total is wrong'
def test_names() :
	names = [
		entry['name']
		for entry in json.loads(
			Path('/app/report.json').read_text(),
		)['entries']
	]
	assert (names == ['alpha', 'beta', 'gamma', 'delta'])
`

// shuffle reverses the lines of a text.
func shuffle(text string) string {
	lines := strings.Split(text, "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return strings.Join(lines, "\n")
}

// zipOf makes an archive of members: their names, each with its content.
func zipOf(t *testing.T, members ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		w, err := z.Create(members[i])
		if err == nil {
			_, err = io.WriteString(w, members[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if z.Close() != nil {
		t.Fatal("the archive is not complete")
	}
	return b.String()
}

func tarOf(t *testing.T, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipOf(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(content)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

func utf16Of(text string) string {
	b := []byte("\xff\xfe")
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

// prefixed puts a mark before each line of a text that is not empty.
func prefixed(mark, text string) string {
	return mark + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+mark) + "\n"
}

// quotedLines are the lines of a text as they are within strings of JSON.
func quotedLines(text string) (out []string) {
	for line := range strings.Lines(text) {
		quoted := strconv.Quote(line)
		out = append(out, quoted[1:len(quoted)-1])
	}
	return out
}

// TestLeaks puts copies of what a row hides where its agent finds them. Digests, which
// are the weak comparison, know the first one alone.
func TestLeaks(t *testing.T) {
	const gets = `, which the agent of task a gets, `
	zstd, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ file, content, want string }{
		"the tests":             {"assets/ws/notes.txt", leakTests, "assets/ws/notes.txt: the file" + gets + `is the same as the evaluation file t/test_outputs.py (remove it from the assets, or`},
		"the solution":          {"assets/ws/x", leakSolution, `is the same as the evaluation file s/solution.py`},
		"other line ends":       {"assets/ws/x", strings.ReplaceAll(leakTests, "\n", "\r\n"), "is the same as"},
		"blanks at its end":     {"assets/ws/x", leakTests + "\n\n  ", "is the same as"},
		"re-indented":           {"assets/ws/x", strings.ReplaceAll(leakTests, "    ", "\t"), "is, laid out in another way, the same as"},
		"solution re-indented":  {"assets/ws/x", strings.ReplaceAll(leakSolution, "    ", "  "), "is, laid out in another way, the same as"},
		"reformatted":           {"assets/ws/x", reformatted, "in another"},
		"shuffled":              {"assets/ws/x", shuffle(leakTests), "has the lines, in another order, of"},
		"solution shuffled":     {"assets/ws/x", shuffle(leakSolution), "has the lines, in another order, of"},
		"shuffled and laid out": {"assets/ws/x", strings.ReplaceAll(shuffle(leakTests), "    ", "\t"), "has the lines, in another order, of"},
		"shuffled reformatted":  {"assets/ws/x", shuffle(reformatted), "has the words, in another order, of"},
		"within more":           {"assets/ws/README.md", "# How this is tested\n\n```\n" + leakTests + "```\nThat is all.\n", "contains the lines of"},
		"with a mark":           {"assets/ws/x", "\ufeff" + leakTests, "is the same as"},
		"in UTF-16":             {"assets/ws/x", utf16Of(leakTests), "is the same as"},
		"commented out":         {"assets/ws/x.py", prefixed("# ", leakTests), "in another"},
		"quoted":                {"assets/ws/x.md", "He wrote:\n" + prefixed("> ", leakTests), "contains the lines of"},
		"as a patch":            {"assets/ws/fix.patch", "--- /dev/null\n+++ b/t/test_outputs.py\n@@ -0,0 +1,20 @@\n" + prefixed("+", leakTests), "contains the lines of"},
		"in a row":              {"assets/ws/rows.jsonl", `{"id": 1}` + "\n" + `{"id": 2, "test": ` + strconv.Quote(leakTests) + "}\n", "assets/ws/rows.jsonl: its member /test" + gets + "is the same as"},
		"in a notebook":         {"assets/ws/x.ipynb", `{"cells": [{"cell_type": "code", "source": ["` + strings.Join(quotedLines(leakTests), `", "`) + `"]}]}`, "its member /cells/0/source" + gets + "is the same as"},
		"in a zip":              {"assets/ws/x.dat", zipOf(t, "in/here.py", leakTests), `assets/ws/x.dat: its member in/here.py` + gets + "is the same as"},
		"in a tar":              {"assets/ws/x.dat", tarOf(t, "here.py", shuffle(leakTests)), `its member here.py` + gets + "has the lines"},
		"in a tar.gz":           {"assets/ws/x.dat", gzipOf(t, tarOf(t, "here.py", leakTests)), `its member here.py`},
		"in a gzip":             {"assets/ws/x.dat", gzipOf(t, leakTests), "the file" + gets + "is the same as"},
		"in a tar.zst":          {"assets/ws/x.dat", string(zstd.EncodeAll([]byte(tarOf(t, "here.py", leakTests)), nil)), `its member here.py`},
		"in a zip in a tar.gz":  {"assets/ws/x.dat", gzipOf(t, tarOf(t, "in.zip", zipOf(t, "here.py", leakTests))), `its member in.zip/here.py`},
		"in an image":           {"images/own/x", shuffle(leakTests), "images/own/x: the image's file" + gets + "has the lines"},
		"in a base":             {"images/base/x", leakTests, "images/base/x: the image's file" + gets + "is the same as"},
	} {
		files := map[string]string{"eval/t/test_outputs.py": leakTests, "eval/s/solution.py": leakSolution, "assets/ws/data": "1\n",
			"images/own/Dockerfile": "FROM localhost/p/base:1\n", "images/base/Dockerfile": "FROM scratch\n", tt.file: tt.content}
		if got := leaks(t, leakRow, files); !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 0 {
			t.Errorf("%s: %q, want %s", name, got, tt.want)
		}
	}
}

// TestLeaksOfRows: texts within a row are looked for as files are.
func TestLeaksOfRows(t *testing.T) {
	row := func(eval string) string {
		return `{"id":"a","family":"f","assets":[{"path":"a.txt","mount":"a.txt"}],"eval":` + eval + `}` + "\n" +
			`{"id":"b","family":"f","assets":[{"path":"b.txt","mount":"b.txt"}],"eval":{"x":1}}` + "\n"
	}
	quoted := fmt.Sprintf("%q", leakTests)
	for name, tt := range map[string]struct{ eval, content, want string }{
		"tests":          {`{"tests":{"code":` + quoted + `}}`, shuffle(leakTests), `assets/a.txt: the file, which the agent of task a gets, has the lines, in another order, of eval.tests at tasks.jsonl:1:`},
		"a solution":     {`{"reference_solution":` + fmt.Sprintf("%q", leakSolution) + `}`, strings.ReplaceAll(leakSolution, "    ", " "), "laid out in another way, the same as eval.reference_solution"},
		"an answer":      {`{"accepted_answers":["sixteen letters!"]}`, "sixteen letters!\n", "is the same as eval.accepted_answers"},
		"a short one":    {`{"accepted_answers":["fifteen letters"]}`, "fifteen letters\n", ""},
		"part of a text": {`{"accepted_answers":["the tower of London"]}`, "They met at the tower of London.\n", ""},
	} {
		if got := leaks(t, row(tt.eval), map[string]string{"assets/a.txt": tt.content, "assets/b.txt": "other\n"}); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %s", name, got, tt.want)
		}
		if got := leaks(t, row(tt.eval), map[string]string{"assets/a.txt": "other\n", "assets/b.txt": tt.content}); got != "" {
			t.Errorf("%s, which another row's agent gets: %s", name, got)
		}
	}
}

// TestLeaksOfOthers: a file that a row names in either form, by its path or as a text, is that
// row's, and what another row's agent gets gives nothing away.
func TestLeaksOfOthers(t *testing.T) {
	for name, tt := range map[string]struct{ eval, gets, want string }{
		"a path":               {`{"checker":{"path":"t/test_outputs.py"}}`, "b", ""},
		"a text":               {`{"tests":{"code":{"path":"t/test_outputs.py"}}}`, "b", ""},
		"a folder":             {`{"checker":{"path":"t"}}`, "b", ""},
		"a folder of texts":    {`{"tests":{"code":{"path":"t"}}}`, "b", ""},
		"a file beside it":     {`{"checker":{"path":"t/run.sh"}}`, "b", ""},
		"a path that has it":   {`{"checker":{"path":"t/test_outputs.py"}}`, "a", "task a gets"},
		"a text that has it":   {`{"tests":{"code":{"path":"t/test_outputs.py"}}}`, "a", "task a gets, is the same as the evaluation file t/test_outputs.py"},
		"nobody's":             {`{"x":"t"}`, "b", ""},
		"nobody's, of no name": {`{"x":"tt"}`, "b", "task b gets"},
	} {
		asset := map[string]string{"a": "", "b": ""}
		asset[tt.gets] = `"assets":[{"path":"x.txt"}],`
		rows := `{"id":"a","family":"f",` + asset["a"] + `"eval":` + tt.eval + "}\n" + `{"id":"b","family":"f",` + asset["b"] + `"eval":{"y":1}}` + "\n"
		got := leaks(t, rows, map[string]string{"assets/x.txt": leakTests, "eval/t/test_outputs.py": leakTests, "eval/t/run.sh": "pytest\n"})
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %s", name, got, tt.want)
		}
	}
}

// TestHonestFiles: files that have something in common with what is hidden, as they
// should.
func TestHonestFiles(t *testing.T) {
	const table = "name,count\nalpha,1\nbeta,2\ngamma,3\ndelta,4\n"
	for name, files := range map[string]map[string]string{
		"a licence and imports":      {"assets/ws/main.py": licence + "def main():\n    pass\n"},
		"an example of a test":       {"assets/ws/test_example.py": leakTests[:strings.Index(leakTests, "def test_names")]},
		"the bug is an operator":     {"assets/ws/gcd.py": strings.Replace(leakSolution, "b == 0", "b != 0", 1)},
		"the bug is an order":        {"assets/ws/gcd.py": strings.Replace(leakSolution, "gcd(b, a % b)", "gcd(a % b, b)", 1)},
		"the bug is a line too much": {"assets/ws/gcd.py": strings.Replace(leakSolution, "    return a\n", "    return a\n    a += 1\n", 1)},
		"the bug is a missing line":  {"assets/ws/gcd.py": strings.Replace(leakSolution, "        return a\n", "", 1)},
		"the bug is a comment":       {"assets/ws/gcd.py": strings.Replace(leakSolution, "        return a\n", "        # return a\n", 1)},
		"texts of a data set":        {"assets/ws/in.jsonl": `{"text": "alpha, beta\ngamma\ndelta"}` + "\n", "eval/t/expected.json": `["alpha, beta\ngamma\ndelta"]` + "\n"},
		"lines to be sorted":         {"assets/ws/in.csv": shuffle(table), "eval/t/expected.csv": table},
		"text to be laid out":        {"assets/ws/in.json": `{"alpha": 1, "beta": [1, 2, 3]}`, "eval/t/expected.json": "{\n  \"alpha\": 1,\n  \"beta\": [1, 2, 3]\n}\n"},
		"empty modules":              {"assets/ws/__init__.py": "", "eval/t/__init__.py": ""},
		"another row's":              {"assets/other/test_outputs.py": leakTests},
		"an image of no row":         {"images/checker/Dockerfile": "FROM scratch\n", "images/checker/x.py": "print('something of its own')\n"},
		"a broken archive":           {"assets/ws/x.zip": zipOf(t, "a", leakTests)[:40], "assets/ws/x.gz": "\x1f\x8b\x08broken"},
	} {
		all := map[string]string{"eval/t/test_outputs.py": leakTests, "eval/s/solution.py": leakSolution, "assets/ws/data": "1\n"}
		for file, content := range files {
			all[file] = content
		}
		if got := leaks(t, leakRow, all); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	shared := map[string]string{"assets/ws/table.csv": table, "eval/t/table.csv": table, "eval/t/test_outputs.py": leakTests, "eval/s/solution.py": leakSolution}
	if got := leaks(t, leakRow, shared); !strings.Contains(got, `is the same as the evaluation file t/table.csv`) {
		t.Errorf("a table that both sides have: %q", got)
	}
}
