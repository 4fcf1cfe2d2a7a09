package table_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"securebench/internal/importer/table"
	"securebench/internal/source"
)

// write writes a file of a test.
func write(t testing.TB, name, text string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// rows reads a table whole, each row as JSON after its line.
func rows(name string, o table.Options, want ...string) (out []string, f *table.File, err error) {
	f, err = table.Open(name, name, o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if want != nil {
		f.Want(want)
	}
	for {
		row, err := f.Next()
		if errors.Is(err, io.EOF) {
			return out, f, nil
		}
		if err != nil {
			return out, f, err
		}
		pos := row.Pos
		pos.File, pos.Col = "", 0
		out = append(out, strings.TrimPrefix(pos.String(), ":")+" "+string(row.JSON()))
	}
}

func packed(t testing.TB, text string, to func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := to(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zipped(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func zstdPacked(w io.Writer) io.WriteCloser {
	out, err := zstd.NewWriter(w)
	if err != nil {
		panic(err)
	}
	return out
}

// TestText reads the same two rows from each format of text.
func TestText(t *testing.T) {
	t.Parallel()
	const csv = "q,n\n\"a,\n\"\"b\"\"\",1\nc,\n"
	tests := []struct {
		name, text string
		o          table.Options
		want       []string
	}{
		{"t.csv", csv, table.Options{}, []string{`2 {"q":"a,\n\"b\"","n":"1"}`, `4 {"q":"c","n":null}`}},
		{"t.csv", "\ufeff" + strings.ReplaceAll(csv, "\n", "\r\n"), table.Options{}, []string{`2 {"q":"a,\n\"b\"","n":"1"}`, `4 {"q":"c","n":null}`}},
		{"t.csv.gz", packed(t, csv, zipped), table.Options{}, []string{`2 {"q":"a,\n\"b\"","n":"1"}`, `4 {"q":"c","n":null}`}},
		{"t.txt", "q;n\na,b;1\n", table.Options{As: table.CSV, Delimiter: ';'}, []string{`2 {"q":"a,b","n":"1"}`}},
		{"t.tsv", "q\tn\n\"a\tb\"\t1\n", table.Options{}, []string{`2 {"q":"a\tb","n":"1"}`}},
		{"t.tsv", "q\tn\nsaid \"a\t1\n\nb\t\n", table.Options{NoQuotes: true}, []string{`2 {"q":"said \"a","n":"1"}`, `4 {"q":"b","n":null}`}},
		{"t.csv", ",q\n0,a\n", table.Options{}, []string{`2 {"index":"0","q":"a"}`}},
		{"t.jsonl", `{"q":"a","n":1}` + "\n\n" + `{"q":["b"],"n":null}`, table.Options{}, []string{`1 {"q":"a","n":1}`, `3 {"q":["b"],"n":null}`}},
		{"t.jsonl.zst", packed(t, `{"q":"a"}`, zstdPacked), table.Options{}, []string{`1 {"q":"a"}`}},
		{"t.json", "[\n {\"q\": \"a\",\n  \"n\": 1},\n\n {\"q\": \"b\"}\n]\n", table.Options{}, []string{`2 {"q":"a","n":1}`, `5 {"q":"b"}`}},
		{"t.json", "{\"version\": 1, \"train\": [{\"q\": 1}],\n\"test\": [\n{\"q\": 2}]}", table.Options{Split: "test"}, []string{`3 {"q":2}`}},
	}
	for _, tt := range tests {
		got, _, err := rows(write(t, tt.name, tt.text), tt.o)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestLongRows: a row without an end is refused before it fills the memory.
func TestLongRows(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65<<20)
	for name, text := range map[string]string{"t.csv": "q\n\"" + long, "t.json": `[{"q": "` + long} {
		if _, _, err := rows(write(t, name, text), table.Options{}); err == nil || !strings.Contains(err.Error(), "is longer than 64 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// about is the schema of a Parquet file of a test.
type about struct {
	Question string   `parquet:"question,dict"`
	Choices  []string `parquet:"choices,list"`
	Answer   *int64   `parquet:"answer,optional"`
	Small    uint8    `parquet:"small"`
	Score    float64  `parquet:"score"`
	Good     bool     `parquet:"good"`
	Image    *image   `parquet:"image,optional"`
	Deep     []deep   `parquet:"deep,list"`
	Old      []string `parquet:"old"`
	Pairs    []pair   `parquet:"pairs,list"`
	Counts   map[string]int64
	Day      int32 `parquet:"day,date"`
	Money    int64 `parquet:"money,decimal(2:10)"`
}

type image struct {
	Bytes []byte `parquet:"bytes,optional"`
	Path  string `parquet:"path,optional"`
}

type deep struct {
	In []int64 `parquet:"in,list"`
}

type pair struct {
	Name  string `parquet:"name"`
	Value *int64 `parquet:"value,optional"`
}

// parquetFile writes a Parquet file with small pages and row groups.
func parquetFile[T any](t testing.TB, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[T](f, append([]parquet.WriterOption{parquet.PageBufferSize(64), parquet.MaxRowsPerRowGroup(3)}, options...)...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return at
}

func number(n int64) *int64 { return &n }

// TestParquet puts rows together from columns: what is nested, empty and missing, over the
// borders of pages and groups, in each compression.
func TestParquet(t *testing.T) {
	t.Parallel()
	var in []about
	var want []string
	for range 3 {
		in = append(in,
			about{"ü?", []string{"a", "b"}, number(1), 255, 1.5, true, &image{[]byte("\x89PNG"), "a.png"}, []deep{{[]int64{1}}, {[]int64{2, 3}}}, []string{"o", "p"}, []pair{{"x", number(1)}, {"y", nil}}, map[string]int64{"k": 7}, 1, -150},
			about{"b", nil, nil, 0, 0.1, false, nil, []deep{{}}, nil, nil, nil, -1, 5})
		want = append(want,
			`{"question":"ü?","choices":["a","b"],"answer":1,"small":255,"score":1.5,"good":true,"image":{"bytes":"iVBORw==","path":"a.png"},`+
				`"deep":[{"in":[1]},{"in":[2,3]}],"old":["o","p"],"pairs":[{"name":"x","value":1},{"name":"y","value":null}],"Counts":{"k":7},"day":"1970-01-02","money":-1.50}`,
			`{"question":"b","choices":[],"answer":null,"small":0,"score":0.1,"good":false,"image":null,"deep":[{"in":[]}],"old":[],"pairs":[],"Counts":{},"day":"1969-12-31","money":0.05}`)
	}
	for i := range want {
		want[i] = string(rune('1'+i)) + " " + want[i]
	}
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		at := parquetFile(t, in, parquet.Compression(codec), parquet.KeyValueMetadata("huggingface", `{"info": {"features": {"answer": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}`))
		got, f, err := rows(at, table.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", codec, diff)
		}
		if diff := cmp.Diff([]string{"no", "yes"}, f.Columns[2].Classes); diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
		if f.Columns[9].Type != "list of object (name, value)" || f.Columns[0].Type != "text" || f.Columns[2].Type != "integer" {
			t.Errorf("columns %+v", f.Columns)
		}
		got, _, err = rows(at, table.Options{}, "pairs", "answer")
		if err != nil || got[0] != `1 {"answer":1,"pairs":[{"name":"x","value":1},{"name":"y","value":null}]}` {
			t.Errorf("two columns: %q, %v", got, err)
		}
	}
}

// FuzzOpen: whatever the bytes, a table is read to its end or refused with its name.
func FuzzOpen(f *testing.F) {
	plain, err := os.ReadFile(parquetFile(f, []about{{Question: "a", Choices: []string{"b"}}, {Question: "b"}}))
	if err != nil {
		f.Fatal(err)
	}
	for i, text := range []string{"q,n\na,1\n", "q\tn\n\"a", "q\n\xff", "[{\"q\": 1}]", "{\"q\": 1}\n", string(plain)} {
		f.Add(i, []byte(text))
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		o := table.Options{As: table.Formats()[uint(which)%uint(len(table.Formats()))]}
		at := write(t, "t", string(data))
		got, _, err := rows(at, o)
		if err != nil && !strings.Contains(err.Error(), at) {
			t.Errorf("the error does not name the file: %v", err)
		}
		for _, row := range got {
			_, text, _ := strings.Cut(row, " ")
			if _, err := source.ParseJSON("row", 1, []byte(text)); err != nil && o.As != table.Parquet {
				t.Errorf("a row is no JSON: %v", err)
			}
		}
	})
}
