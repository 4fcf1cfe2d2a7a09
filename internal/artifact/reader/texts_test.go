package reader_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
)

// read reads bytes as a file, and returns the reason if they are refused.
func read(t testing.TB, data []byte, as artifact.Type) (*artifact.File, string) {
	t.Helper()
	f, err := reader.Read(data, as)
	if err == nil {
		if f.Type != as || f.Bytes != int64(len(data)) || len(f.SHA256) != 64 {
			t.Errorf("%s of %d bytes: %+v", as, len(data), f)
		}
		return f, ""
	}
	refused, ok := errors.AsType[*reader.Unreadable](err)
	if !ok || f != nil {
		t.Fatalf("%s: %v and %v, which is not the file's fault", as, f, err)
	}
	return nil, refused.Reason
}

func TestCSV(t *testing.T) {
	for text, want := range map[string][][]string{
		"a,b\n1,2\n":                           {{"a", "b"}, {"1", "2"}},
		"a,b\r\n1,2\r\n":                       {{"a", "b"}, {"1", "2"}},
		"\ufeffa,b\r\n1,2":                     {{"a", "b"}, {"1", "2"}},
		"a,\"b,\"\"c\"\"\"\n\"1\",\"2\"\n":     {{"a", `b,"c"`}, {"1", "2"}},
		"a,b\n\"1\r\n2\",3\n":                  {{"a", "b"}, {"1\n2", "3"}},
		"a,b\n\"1\r2\",3\n":                    {{"a", "b"}, {"1\r2", "3"}},
		"a\n\"\"\n\n2\n":                       {{"a"}, {""}, {"2"}},
		"x\n1e400\nNaN\n0.30000000000000004\n": {{"x"}, {"1e400"}, {"NaN"}, {"0.30000000000000004"}},
		"größe,名\n1,=1+1\n":                    {{"größe", "名"}, {"1", "=1+1"}},
	} {
		f, reason := read(t, []byte(text), artifact.CSV)
		if reason != "" {
			t.Errorf("%q: refused: %s", text, reason)
		} else if d := cmp.Diff(want, f.Table.Rows); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestJSON(t *testing.T) {
	deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
	for _, text := range []string{`{"a": [1, 2.50, "\u00e9", null]}`, "1\r\n", " \"x\" ", deep, `{"a":{"b":1},"b":{"b":1}}`} {
		if f, reason := read(t, []byte("\ufeff"+text), artifact.JSON); reason != "" || *f.Text != text {
			t.Errorf("%.40q: %s, %v", text, reason, f)
		}
	}
}

func TestText(t *testing.T) {
	for _, text := range []string{"", "a\r\nb\n", "naïve \ufffd 👍"} {
		if f, reason := read(t, []byte("\ufeff"+text), artifact.Text); reason != "" || *f.Text != text {
			t.Errorf("%q: %s, %v", text, reason, f)
		}
	}
}

// TestTextsAtFault: each file is refused for what is wrong with it.
func TestTextsAtFault(t *testing.T) {
	for _, c := range []struct {
		as           artifact.Type
		text, reason string
	}{
		{artifact.Text, "a\nb\x00", "is no text: it has a NUL in line 2"},
		{artifact.Text, "a\n\xff\xfea\n", "is not in UTF-8: line 2"},
		{artifact.CSV, "a,b\n1,2\n\x003,4\n", "is no text: it has a NUL in line 3"},
		{artifact.CSV, "\xff\xfea\x00,\x00b\x00", "is no text: it has a NUL in line 1"},
		{artifact.CSV, "a\ncaf\xe9\n", "is not in UTF-8: line 2"},
		{artifact.CSV, "", "has no rows"},
		{artifact.CSV, "\n\r\n\n", "has no rows"},
		{artifact.CSV, "a,b\n1\n", "has 1 fields in line 2, and 2 in the first"},
		{artifact.CSV, "a,b\n1,2,3\n", "has 3 fields in line 2, and 2 in the first"},
		{artifact.CSV, "title\na,b\n1,2\n", "has 2 fields in line 2, and 1 in the first"},
		{artifact.CSV, "a,b\n1,\"2\n3,4\n5,6\n", "has a quote out of place in the row of line 2"},
		{artifact.CSV, "a,b\n1,2\"\n3,\"4\n", "has a quote out of place in the row of line 2"},
		{artifact.CSV, "a,b\n1,\"2\"x\n", "has a quote out of place in the row of line 2"},
		{artifact.CSV, "a,b\r1,2\r3,4\r", "has a carriage return without a line feed in line 1"},
		{artifact.CSV, "a,b\n1,2\r3,4\n", "has a carriage return without a line feed in line 2"},
		{artifact.CSV, strings.Repeat(",", 2_000_001), "has more than 2000000 fields"},
		{artifact.JSON, "", "has no JSON value"},
		{artifact.JSON, "{\"a\":1,\n\"a\":2}", "has an object with a key twice, in line 2"},
		{artifact.JSON, "[1,\nNaN]", "is not JSON: line 2"},
		{artifact.JSON, `{"a":1}{"a":2}`, "has more than one JSON value: line 1"},
		{artifact.JSON, `"\ud800"`, "is not JSON: line 1"},
		{artifact.JSON, "[1", "is not JSON: line 1"},
		{artifact.JSON, "{'a': 1}", "is not JSON: line 1"},
		{artifact.JSON, strings.Repeat("[", 1_001), "is nested more than 1000 deep"},
	} {
		if _, reason := read(t, []byte(c.text), c.as); reason != c.reason {
			t.Errorf("%s %.40q: %q, want %q", c.as, c.text, reason, c.reason)
		}
	}
}

// TestAny: of a file of any type the digest is known, and nothing else is looked at.
func TestAny(t *testing.T) {
	f, reason := read(t, []byte("\x00\xff"), artifact.Any)
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("\x00\xff"))); reason != "" || f.SHA256 != want || f.Text != nil {
		t.Errorf("%s, %+v", reason, f)
	}
}

// TestTooLong: a file that is too long is refused before it is read.
func TestTooLong(t *testing.T) {
	_, err := reader.Read(make([]byte, reader.MaxBytes+1), artifact.CSV)
	if refused, ok := errors.AsType[*reader.Unreadable](err); !ok || refused.Reason != "has 67108865 bytes, which is more than 67108864" {
		t.Error(err)
	}
	if _, err := reader.Read(nil, "exe"); err == nil || errors.As(err, new(*reader.Unreadable)) {
		t.Errorf("a type without a reader: %v", err)
	}
}
