package packs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/parquet-go/parquet-go"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/fault"
	"securebench/internal/importer/hub/hubtest"
)

// utf16Of writes a text as some spreadsheets do.
func utf16Of(text string, order binary.ByteOrder) string {
	b := []byte{}
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		b = append(b, 0, 0)
		order.PutUint16(b[len(b)-2:], u)
	}
	return string(b)
}

// columnar is a row of a Parquet file.
type columnar struct {
	Q string   `parquet:"q"`
	C []string `parquet:"c,list"`
	R int64    `parquet:"r"`
	B []byte   `parquet:"b"`
}

// parquetOf writes rows as Parquet.
func parquetOf(t *testing.T, rows ...columnar) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[columnar](&b)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// mistake is one of importing: what is imported, and what has to be said of it.
type mistake struct {
	name, file, text string
	args             string // separated by blanks; "" maps a question to q, choices to c and the answer to r
	say              string // of the error, with the place
	fix              string
}

// The usual mappings, for choices and for short answers.
const (
	choose = "--family multiple_choice --map question=q --map choices=c --map answer=r"
	joined = "--family multiple_choice --map question=q --map choices=A+B --map answer=r"
	answer = "--family short_answer --map question=q --map answer=r"
)

// ofText are mistakes of files of text, and of what they say.
func ofText() []mistake {
	return []mistake{
		{"empty file", "t.csv", "", answer, "t.csv: the file is empty", "to its end?"},
		{"a header alone", "t.csv", "q,r\n", answer, "t.csv: the table has no rows", "to its end?"},
		{"an unknown name", "t.txt", "q,r\n", answer, "t.txt: the name does not say", "--read-as csv"},
		{"UTF-16, little", "t.csv", utf16Of("q,r\na,b\n", binary.LittleEndian), answer, "t.csv:1:1: the file is in UTF-16", "save it as UTF-8"},
		{"UTF-16, big", "t.jsonl", utf16Of(`{"q": 1}`, binary.BigEndian), answer, "t.jsonl:1:1: the file is in UTF-16", "save it as UTF-8"},
		{"UTF-16 without a mark", "t.csv", utf16Of("q,r\na,b\n", binary.LittleEndian)[2:], answer, "t.csv:1:1: the name of column 1 has a NUL byte", "save it as UTF-8"},
		{"Latin-1", "t.csv", "q,r\nWer?,\xfcber\n", answer, `t.csv:2:6: the column "r" has a byte that is not UTF-8`, "iconv"},
		{"Latin-1 in the header", "t.csv", "q,r\xe4tsel\na,b\n", answer, "t.csv:1:3: the name of column 2 has a byte that is not UTF-8", "iconv"},
		{"Latin-1 in JSON", "t.jsonl", "{\"q\": \"\xfc\"}\n", answer, "t.jsonl:1:8: the file has a byte that is not UTF-8", "save the file as UTF-8"},
		{"a mark before JSON", "t.jsonl", "\ufeff{\"q\": 1}\n", answer, "t.jsonl:1:1: the file has a byte order mark", "without one"},
		{"joined files with marks", "t.csv", "\ufeffq,r\na,b\n\ufeffq,r\n", answer, `t.csv:3:1: the column "q" begins with a byte order mark`, "one by one"},
		{"a spreadsheet", "t.csv", "PK\x03\x04", answer, "t.csv:1:1: the file is a zip archive", "unzip"},
		{"compressed under another name", "t.csv", "\x1f\x8b\x08", answer, "t.csv:1:1: the file is compressed with gzip", "gunzip"},
		{"not compressed", "t.csv.gz", "q,r\na,b\n", answer, "t.csv.gz: the file is not compressed with gzip", "rename it"},
		{"Parquet under another name", "t.csv", "PAR1", answer, "t.csv:1:1: the file is in the format Parquet", "convert it"},
		{"another delimiter", "t.csv", "q;r\na;b\n", answer, "t.csv:1:1: there is one column only", "--delimiter ';'"},
		{"tabs in CSV", "t.csv", "q\tr\na\tb\n", answer, "t.csv:1:1: there is one column only", "--delimiter 'tab'"},
		{"too few cells", "t.csv", "q,r\na,b\nc\n", answer, "t.csv:3: the row has 1 cells, and the first line names 2 columns", "between double quotes"},
		{"too many cells", "t.csv", "q,r\na,b,c\n", answer, "t.csv:2: the row has 3 cells", "between double quotes"},
		{"a bare quote", "t.csv", "q,r\nthe \"a\" of,b\n", answer, "t.csv:2:5: there is a quote inside a text", "--no-quotes"},
		{"text after a quote", "t.csv", "q,r\n\"a\" of,b\n", answer, "t.csv:2:3: a quote is not closed, or text follows", "write quotes inside a text twice"},
		{"a quote that is not closed", "t.csv", "q,r\nx,\"a\nb,c\nd,e\n", answer, "a quote is not closed, or text follows the one that closes: the text begins on line 2", "--no-quotes"},
		{"ragged TSV without quotes", "t.tsv", "q\tr\na\n", answer + " --no-quotes", "t.tsv:2: the row has 1 cells", "neither the delimiter"},
		{"a column twice", "t.csv", "q,r,q\na,b,c\n", answer, `t.csv:1:5: the column "q" is there twice`, "rename one"},
		{"a column without a name", "t.csv", "q,,r\na,b,c\n", answer, "t.csv:1:3: column 2 has no name", "name every column"},
		{"no JSON", "t.jsonl", "{\"q\": 'a'}\n", answer, "t.jsonl:1:7: invalid JSON", ""},
		{"cut off JSON lines", "t.jsonl", "{\"q\": \"a\", \"r\": \"b\"}\n{\"q\": \"a", answer, "t.jsonl:2:9: invalid JSON: the value is cut off", "close its quotes"},
		{"a name twice in JSON", "t.jsonl", `{"q": 1, "q": 2}`, answer, `t.jsonl:1:10: invalid JSON: duplicate key "q"`, "remove one"},
		{"a list as a row", "t.jsonl", `["a", "b"]`, answer, "t.jsonl:1:1: a row must be an object, not a list", "columns as its members"},
		{"cut off JSON", "t.json", "[{\"q\": \"a\", \"r\": \"b\"},\n{\"q\"", answer, "t.json:2: invalid JSON: the file ends before its list does", "to its end?"},
		{"JSON by columns", "t.json", `{"q": {"0": "a"}, "r": {"0": "b"}}`, answer, "t.json:1: the file is one object without a list", `orient="records"`},
		{"JSON with splits", "t.json", `{"test": [{"q": "a"}]}`, answer, `t.json:1: the file is an object, whose member "test" is a list`, "--split test"},
		{"a split that is not there", "t.json", `{"test": [{"q": "a"}]}`, answer + " --split dev", `t.json:1: the object has no list "dev"`, "it has test"},
		{"a split of a list", "t.json", `[{"q": "a"}]`, answer + " --split dev", "t.json:1: the file is one list, which has no parts", "leave out --split"},
		{"a comma at the end of JSON", "t.json", "[{\"q\": \"a\", \"r\": \"b\"},\n]", answer, "t.json:2: invalid JSON", "no comma at the end"},
	}
}

// ofRows are mistakes of the mapping and of rows.
func ofRows() []mistake {
	const row = "t.jsonl"
	return []mistake{
		{"a misspelt column", "t.csv", "qs,r\na,b\n", answer, `t.csv: --map question=q: there is no column "q"`, "the columns are qs, r"},
		{"a near column", "t.csv", "question,r\na,b\n", "--family short_answer --map question=qestion --map answer=r", `there is no column "qestion"`, `did you mean "question"?`},
		{"a field of no family", "t.csv", "q,r\na,b\n", answer + " --map awnser=r", `have no field "awnser"`, "they have question, context"},
		{"a field twice", "t.csv", "q,r\na,b\n", answer + " --map answer=q", `gives the field "answer" twice`, "COLUMN+COLUMN"},
		{"a field without a column", "t.csv", "q,r\na,b\n", answer + " --map id", `--map is "id"`, "write FIELD=COLUMN"},
		{"a needed field", "t.csv", "q,r\na,b\n", "--family multiple_choice --map question=q", "needs answer", "give --map answer=COLUMN"},
		{"no choices", "t.csv", "q,r\na,b\n", "--family multiple_choice --map question=q --map answer=r", "t.csv: a row of multiple_choice needs choices", "give --map choices=COLUMN"},
		{"a pattern that is none", "t.csv", "q,r\na,b\n", "--family short_answer --map question=q --map answer=r~(", "the pattern cannot be read", "--map answer=r~("},
		{"a condition that is none", "t.csv", "q,r\na,b\n", answer + " --where q", `--where is "q"`, "write COLUMN=VALUE"},
		{"a condition on words", "t.csv", "q,r\na,b\n", answer + " --where q>1", `t.csv:2:1: the column "q" is no number, which --where q>1 compares`, "compare it with = or ~"},
		{"nothing meets the conditions", "t.csv", "q,r\na,b\n", answer + " --where q=x", "no row of 1 meets q=x", ""},
		{"an empty question", "t.csv", "q,r\n ,b\n", answer, "t.csv:2:1: the row has no question: q is empty", "--leave-out"},
		{"no answer", row, `{"q": "a", "r": null}`, answer, "t.jsonl:1:17: the row has no answer: r is empty", "--leave-out"},
		{"an object for a text", row, `{"q": {"text": "a"}, "r": "b"}`, answer, "t.jsonl:1:7: the field question is an object, which is no text", ".text"},
		{"a pattern without a match", row, `{"q": "a", "r": "b"}`, "--family short_answer --map question=q --map answer=r~#(.+)", `t.jsonl:1:17: the column "r" has nothing that #(.+) finds`, "correct the pattern"},
		{"an id twice", "t.csv", "q,r\na,b\nc,b\n", answer + " --map id=r", `t.csv:3: the id "b" is that of row 1 too`, "map another column to id"},
		{"an id with a line break", "t.csv", "q,r\na,\"b\nc\"\n", answer + " --map id=r", "t.csv:2:3: id contains a line break", "remove it"},
		{"a label too many", row, `{"q": "a", "c": ["x", "y"], "r": "C"}`, choose, `t.jsonl:1:34: the answer "C" is neither a label, a position nor the text of a choice`, "correct the row"},
		{"positions from 1", row, `{"q": "a", "c": ["x", "y"], "r": 2}`, choose, "t.jsonl:1:34: the answer is 2, and the choices have the positions 0 to 1", "--answers index-from-1"},
		{"positions that may be from 1", "t.csv", "q,A,B,r\n" + strings.Repeat("a,x,y,1\n", 8), joined, "none of 8 answers is 0", "--answers index-from-1"},
		{"no labels in a split", row, `{"q": "a", "c": ["x", "y"], "r": -1}`, choose, "t.jsonl:1:34: the answer is -1", "another with --split"},
		{"a label that is another's text", row, `{"q": "a", "c": ["B", "A"], "r": "A"}`, choose, `the answer "A" names choice A, and is the text of choice B`, "--answers text, label or index"},
		{"two choices of a text", row, `{"q": "a", "c": ["x", "x"], "r": "x"}`, choose, `the answer "x" is the text of 2 choices`, "correct the row"},
		{"other labels", row, `{"q": "a", "c": ["x", "y"], "l": ["1"], "r": "1"}`, choose + " --map labels=l", "t.jsonl:1:1: the row has 2 choices, and other labels than that", "correct the row"},
		{"a label by force", row, `{"q": "a", "c": ["x", "y"], "r": "x"}`, choose + " --answers label", `the answer "x" is no label of 2 choices`, "correct the row"},
		{"marks or positions", row, `{"q": "a", "c": ["x", "y"], "r": [0, 1]}`, choose, "t.jsonl:1:35: the answer is a list of 0 and 1", "--answers marks or index"},
		{"marks of nothing", row, `{"q": "a", "c": ["x", "y"], "r": [0, 0]}`, choose, "t.jsonl:1:35: the answer marks no choice as right", "correct the row"},
		{"marks of others", row, `{"q": "a", "c": ["x", "y"], "r": [0, 1, 0]}`, choose + " --answers marks", "the answer has 3 marks for 2 choices", "correct the row"},
		{"one choice", row, `{"q": "a", "c": ["x"], "r": 0}`, choose, "t.jsonl:1:1: the row has 1 choices: there must be at least 2", "--leave-out"},
		{"27 choices", row, `{"q": "a", "c": ["x"` + strings.Repeat(`, "x"`, 26) + `], "r": 0}`, choose, "t.jsonl:1:1: the row has 27 choices: there can be at most 26", "--leave-out"},
		{"a hole among choices", "t.csv", "q,A,B,C,r\na,x,,y,A\n", "--family multiple_choice --map question=q --map choices=A+B+C --map answer=r", "t.csv:2:5: choice 2 of 3 is empty", "--leave-out"},
		{"choices without a separator", "t.csv", "q,c,r\na,x/y,x\n", choose, "t.csv:2:3: choices are one text without labels such as A) or lines", "--separator '|'"},
		{"choices that are a number", row, `{"q": "a", "c": 4, "r": 0}`, choose, "t.jsonl:1:17: choices are a number", "several columns joined by +"},
		{"a way that is none", "t.csv", "q,A,B,r\na,x,y,A\n", joined + " --answers letter", `--answers is "letter"`, "want one of auto, label"},
		{"a family that is none", "t.csv", "q,r\na,b\n", "--family quiz --map question=q", `--family is "quiz"`, "code_completion, "},
		{"a tolerance in words", "t.csv", "q,r,t\na,1,some\n", answer + " --map tolerance=t", `t.csv:2:5: the field tolerance is "some", which is no number`, "plain digits"},
		{"a value of the wrong type", row, `{"q": "a", "r": "b", "m": "text"}`, answer + " --map match=m", "t.jsonl:1:27: task 't/1' (short_answer).eval.match must be an object", ""},
		{"a picture that is none", row, `{"q": "a", "r": "b", "i": "aGVsbG8gd29ybGQ="}`, "--family multimodal_qa --map question=q --map answer=r --map image=i", "t.jsonl:1:27: the picture cannot be read", "--leave-out"},
		{"a picture elsewhere", row, `{"q": "a", "r": "b", "i": "../secret.png"}`, "--family multimodal_qa --map question=q --map answer=r --map image=i", "neither base64 nor the name of a file beside the table", "--leave-out"},
		{"candidates that are the same", "t.csv", "q,c,r\na,x,x\n", "--family preference_pair --map prompt=q --map chosen=c --map rejected=r", "t.csv:2:3: the chosen and the rejected candidate are the same", "--leave-out"},
	}
}

// ofParquet are mistakes of Parquet files.
func ofParquet(t *testing.T) []mistake {
	t.Helper()
	whole := parquetOf(t, columnar{"a", []string{"x", "y"}, 0, []byte("b")}, columnar{"b", []string{"x", "y"}, 7, nil})
	damaged := []byte(whole)
	for i := 4; i < 60; i++ {
		damaged[i] ^= 0xff
	}
	return []mistake{
		{"text as Parquet", "t.parquet", "q,r\na,b\n", choose, "t.parquet: the file is not in the format Parquet", "--read-as csv"},
		{"cut off Parquet", "t.parquet", whole[:len(whole)-10], choose, fmt.Sprintf("t.parquet: the Parquet file is cut off or damaged: it has %d bytes", len(whole)-10), "fetch it again"},
		{"damaged Parquet", "t.parquet", string(damaged), choose, "t.parquet:1: the values of the column", "fetch it again"},
		{"a row of Parquet", "t.parquet", whole, choose, "t.parquet:2: the answer is 7, and the choices have the positions 0 to 1", "--leave-out"},
		{"compressed Parquet", "t.parquet.gz", whole, choose, "t.parquet.gz: a Parquet file inside a compressed one cannot be read", "unpack it"},
	}
}

// tried runs "pack import table" in a folder with the file.
func tried(t *testing.T, m mistake, env map[string]string) error {
	t.Helper()
	dir := t.TempDir()
	var args []string
	if m.file != "" {
		at := filepath.Join(dir, m.file)
		if err := os.WriteFile(at, []byte(m.text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = []string{at}
	}
	args = append(args, strings.Fields(m.args)...)
	g := group{&subcommand.Shell{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer), Say: func(string, ...any) {}, Getenv: func(k string) string { return env[k] }}}
	c := g.tableCommand(time.Millisecond)
	c.SilenceErrors, c.SilenceUsage = true, true
	out := filepath.Join(dir, "out")
	c.SetArgs(append(args, "-o", out, "--id", "t"))
	err := c.ExecuteContext(t.Context())
	if _, there := os.Stat(out); err != nil && !errors.Is(there, os.ErrNotExist) {
		t.Errorf("%s: %v, and left a pack", m.name, err)
	}
	return err
}

// TestMistakes: each mistake of importing is refused, named with its place and with what to
// do about it, and nothing is left.
func TestMistakes(t *testing.T) {
	t.Parallel()
	all := append(append(ofText(), ofRows()...), ofParquet(t)...)
	for _, m := range all {
		checkMistake(t, m, tried(t, m, nil))
	}
	if remote := ofElsewhere(); len(all)+len(remote) < 60 {
		t.Errorf("only %d mistakes are tried", len(all)+len(remote))
	}
}

// checkMistake checks what is said of a mistake, and whose it is.
func checkMistake(t *testing.T, m mistake, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: it was imported", m.name)
	case !strings.Contains(err.Error(), m.say):
		t.Errorf("%s: the error is\n%v\nwant %q", m.name, err, m.say)
	case !strings.Contains(err.Error(), m.fix):
		t.Errorf("%s: the error is\n%v\nand does not say %q", m.name, err, m.fix)
	case fault.KindOf(err) != fault.Pack && fault.KindOf(err) != fault.Usage && fault.KindOf(err) != fault.Config:
		t.Errorf("%s: the fault is that of %v", m.name, fault.KindOf(err))
	}
}

// far is a mistake of fetching.
type far struct {
	mistake
	fault *hubtest.Fault // of test.parquet
	env   map[string]string
}

// ofElsewhere are mistakes of names, and faults of the hub.
func ofElsewhere() []far {
	of := func(name, from, say, fix string) far {
		return far{mistake: mistake{name: name, args: choose + " --from " + from, say: say, fix: fix}}
	}
	failing := func(name string, f hubtest.Fault, say, fix string) far {
		out := of(name, "hf:o/large", say, fix)
		out.fault = &f
		return out
	}
	with := func(f far, env map[string]string) far {
		f.env = env
		return f
	}
	return []far{
		of("no data set", "hf:o/nothing", "fetching hf:o/nothing: the host does not have it: there is no such data set", "a token that may read it in HF_TOKEN"),
		of("a gated data set", "hf:o/gated", "fetching hf:o/gated: the host denies access: the data set is gated", "accept its conditions"),
		of("a private data set", "hf:o/private", "there is no such data set, or it is private", "HF_TOKEN"),
		with(of("a wrong token", "hf:o/large", "the host denies access (401 Unauthorized)", "check the credentials in HF_TOKEN"), map[string]string{"HF_TOKEN": "hf_wrong"}),
		of("no revision", "hf:o/large@v9", "the data set has no such revision", "correct what follows the @"),
		of("a disabled data set", "hf:o/disabled", "has disabled it", ""),
		of("no tables", "hf:o/script", "hf:o/script has no files in CSV", "give the address of its files"),
		of("several parts", "hf:o/parts", "hf:o/parts has several parts: default/test, default/train", "--from hf:o/parts:CONFIG/SPLIT"),
		of("another split", "hf:o/parts:default/dev", "hf:o/parts has no part default/dev", "it has default/test, default/train"),
		of("two splits", "hf:o/parts:default/test --split train", "--from names the split test, and --split train", "give one of the two"),
		of("several formats", "hf:o/formats", "default/test is there in several formats", "--from https://"),
		of("a name that is none", "hf:o//large", "names no data set", "want hf:OWNER/NAME[@REVISION][:CONFIG/SPLIT]"),
		of("a path as a revision", "hf:o/large@../main", "is no revision", "want hf:OWNER/NAME[@REVISION]"),
		of("a file with --from", "t.csv", `--from is "t.csv"`, "given without --from"),
		of("plain HTTP", "http://data.example/t.csv", "--from http://data.example/t.csv must be an https address", ""),
		of("a digest that is none", "https://data.example/t.csv#sha256=abc", "pins no SHA-256", "64 hexadecimal digits"),
		failing("a download that is cut off", hubtest.Fault{Times: -1, After: 20}, "fetching hf:o/large/test.parquet: the host cannot be reached", "HTTPS_PROXY"),
		failing("a file that shrank", hubtest.Fault{Times: -1, Other: "PAR1"}, "it has 4 bytes, and the hub says", "try again"),
		failing("a file that somebody changed", hubtest.Fault{Times: -1, Other: strings.Repeat("x", 600)}, "and the hub says", "try again"),
		failing("too many questions", hubtest.Fault{Times: -1, Status: http.StatusTooManyRequests}, "it answered 429 Too Many Requests", "HTTPS_PROXY"),
		failing("an outage of the store", hubtest.Fault{Times: -1, Status: http.StatusServiceUnavailable}, "it answered 503 Service Unavailable", "HTTPS_PROXY"),
		failing("a file that is gone", hubtest.Fault{Times: -1, Status: http.StatusNotFound}, "the host does not have it (404 Not Found)", ""),
		with(of("another hub", "hf:o/large", "HF_ENDPOINT is no address", "such as https://huggingface.co"), map[string]string{"HF_ENDPOINT": "hub"}),
		with(of("certificates that are none", "hf:o/large", "reading the certificates of REQUESTS_CA_BUNDLE", ""), map[string]string{"REQUESTS_CA_BUNDLE": "/nonexistent/ca.pem"}),
	}
}

// TestMistakesElsewhere: the same for what is fetched, from a hub that answers as the real one
// does.
func TestMistakesElsewhere(t *testing.T) {
	t.Parallel()
	large := parquetOf(t, columnar{"a", []string{"x", "y"}, 0, []byte("b")})
	for _, f := range ofElsewhere() {
		s := hubtest.New(t, map[string]*hubtest.Set{
			"o/large": {Files: map[string]string{"test.parquet": large}}, "o/gated": {Gated: true}, "o/private": {Private: true}, "o/disabled": {Disabled: true},
			"o/script": {Files: map[string]string{"script.py": "x"}}, "o/parts": {Files: map[string]string{"train.csv": "q\n", "test.csv": "q\n"}},
			"o/formats": {Files: map[string]string{"test.csv": "q\n", "test.jsonl": "{}"}},
		})
		s.Token = "hf_x"
		if f.fault != nil {
			s.Fail("test.parquet", *f.fault)
		}
		env := map[string]string{"HF_ENDPOINT": s.URL, "XDG_CACHE_HOME": t.TempDir()}
		for k, v := range f.env {
			env[k] = v
		}
		err := tried(t, f.mistake, env)
		checkMistake(t, f.mistake, err)
		if err != nil && strings.Contains(err.Error(), "hf_") {
			t.Errorf("%s: the error has the token: %v", f.name, err)
		}
	}
}

// TestFromHub: two commands lead from the name of a data set to a pack, whose readers learn
// its revision, digests and licence.
func TestFromHub(t *testing.T) {
	t.Parallel()
	s := hubtest.New(t, map[string]*hubtest.Set{"o/large": {Card: map[string]any{"license": "mit"}, Files: map[string]string{
		"data/test-00000-of-00002.parquet": parquetOf(t, columnar{"Which?", []string{"x", "y"}, 0, nil}),
		"data/test-00001-of-00002.parquet": parquetOf(t, columnar{"Who?", []string{"x", "y"}, 1, nil})}}})
	env := map[string]string{"HF_ENDPOINT": s.URL, "XDG_CACHE_HOME": t.TempDir()}
	out := filepath.Join(t.TempDir(), "p")
	g := group{&subcommand.Shell{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer), Say: func(string, ...any) {}, Getenv: func(k string) string { return env[k] }}}
	c := g.tableCommand(time.Millisecond)
	c.SetArgs(strings.Fields("--from hf:o/large " + choose + " -o " + out))
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.check(t.Context(), out, true); err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile(filepath.Join(out, "ATTRIBUTION.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hf:o/large@" + hubtest.Commit + ":default/test", "Licence: mit", "Rows: 2 of 2", "test-00001-of-00002.parquet`: ", "`sha256:", "/resolve/" + hubtest.Commit + "/data/test-00000"} {
		if !strings.Contains(string(about), want) {
			t.Errorf("ATTRIBUTION.md does not say %q:\n%s", want, about)
		}
	}
}
