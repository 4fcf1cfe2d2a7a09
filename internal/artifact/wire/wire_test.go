package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/artifact/wire"
)

func encoded(tb testing.TB, f *artifact.File) string {
	tb.Helper()
	if err := wire.Check(f); err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	if err := wire.Write(&b, f); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func models() []*artifact.File {
	text := "hello"
	stored := artifact.Value{Kind: artifact.Number, Number: 42}
	bold := artifact.Format{Number: "0.00", Bold: true, Font: "Calibri", Size: 11, Color: "FF0000"}
	return []*artifact.File{
		{Type: artifact.CSV, Bytes: 8, SHA256: "ab", Table: &artifact.Table{Rows: [][]string{{"a", "b"}, {"1", "é"}, {"", "2"}}}},
		{Type: artifact.Text, Text: &text},
		{Type: artifact.XLSX, Workbook: &artifact.Workbook{Sheets: []artifact.Sheet{{Name: "S", Hidden: true, Merged: []string{"A1:B2"}, Freeze: "B2", Filter: "A1:C9",
			Cells: []artifact.Cell{{Row: 1, Column: 1, Value: artifact.Value{Kind: artifact.String, Text: "x"}, Format: bold},
				{Row: 1, Column: 2, Value: artifact.Value{Kind: artifact.Number, Number: 0.1}, Formula: "1+1", Stored: &stored, Uncomputed: true},
				{Row: 2, Column: 1, Format: bold}},
			Charts:     []artifact.Chart{{Type: "bar", Title: "T", Legend: true, Series: []artifact.Series{{Name: "n", Categories: "c", Values: "v"}}}},
			Pivots:     []artifact.Pivot{{Name: "p", Source: "s", Rows: []string{"r"}, Columns: []string{"c"}, Filters: []string{"f"}, Values: []artifact.PivotValue{{Field: "f", Summary: "sum"}}}},
			Conditions: []artifact.Condition{{Range: "A1", Type: "cellIs", Operator: "equal", Formulas: []string{"1"}, Format: bold}}}}}},
		{Type: artifact.DOCX, Document: &artifact.Document{Pages: 2, Blocks: []artifact.Block{{Page: 1, Style: "Heading 1", Text: "t"}, {Table: [][]string{{"a"}}}}}},
		{Type: artifact.PNG, Image: &artifact.Image{Width: 3, Height: 4, Pixels: "cd", Small: []byte{0, 255, 1}, Shown: []byte{0xff, 0xd8}}},
		{Type: artifact.NPY, Array: &artifact.Array{Shape: []int{2}, Values: []float64{1.5, math.Inf(1)}}},
		{Type: artifact.ZIP, Members: []artifact.Member{{Name: "a", Bytes: 1, SHA256: "ef"}}},
		{Type: artifact.Any, Bytes: 1 << 40},
	}
}

// TestRoundTrip: what is written is read again, and nothing that was cut, goes on or was
// changed to something that a model cannot be.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, f := range models() {
		message := encoded(t, f)
		got, err := wire.Read(message)
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%s: %+v, %v", f.Type, got, err)
		}
		for cut := range len(message) {
			if _, err := wire.Read(message[:cut]); err == nil {
				t.Errorf("%s is read from its first %d bytes", f.Type, cut)
			}
		}
		if _, err := wire.Read(message + "\x00"); !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%s and one more byte: %v", f.Type, err)
		}
	}
}

// TestBounds: neither side passes more than may be kept, and a number that announces more
// than follows allocates nothing.
func TestBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", wire.MaxMemory/4)
	rows := [][]string{{long, long}, {long, long}}
	if err := wire.Check(&artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: rows}}); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("a table of %d bytes: %v", wire.MaxMemory, err)
	}
	for name, message := range map[string]string{
		"a list that is not there":  "\x03csv\x00\x00\x01\xff\xff\xff\x07",
		"a text that is not there":  "\x03csv\x00\xff\xff\xff\xff\x07",
		"another type":              "\x03exe\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a number that is padded":   "\x03csv\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a number beyond the range": "\x03csv\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
		"a text that is not UTF-8":  "\x03csv\x00\x01\xff\x00\x00\x00\x00\x00\x00\x00",
		"a Boolean of 2":            "\x03csv\x00\x00\x02",
		"nothing":                   "",
	} {
		if _, err := wire.Read(message); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// TestPromises: a model has what its type says, whoever wrote it: rules and texts of the
// runner rely on that, on tables with rows of one length, and on cells in order, inside of a sheet.
func TestPromises(t *testing.T) {
	t.Parallel()
	const head, tail = "\x03csv\x00\x00\x01", "\x00\x00\x00\x00\x00\x00"
	tables := map[string]string{"\x02\x01\x01a\x01\x01b": "", "\x02\x01\x01a\x00": "shorter", "\x02\x01\x01a\x02\x01b\x01c": "longer"}
	for rows, bad := range tables {
		if _, err := wire.Read(head + rows + tail); (bad != "") != errors.Is(err, wire.ErrInvalid) {
			t.Errorf("a row that is %q: %v", bad, err)
		}
	}
	for _, m := range models() {
		if bare := encoded(t, &artifact.File{Type: artifact.Any, Bytes: m.Bytes}); m.Type != artifact.Any && m.Type != artifact.ZIP {
			if _, err := wire.Read(fmt.Sprintf("%c%s%s", len(m.Type), m.Type, bare[4:])); !errors.Is(err, wire.ErrInvalid) {
				t.Errorf("%s without what it says: %v", m.Type, err)
			}
		}
	}
	cells := encoded(t, &artifact.File{Type: artifact.XLSX, Workbook: &artifact.Workbook{Sheets: []artifact.Sheet{{Cells: []artifact.Cell{{Row: 7, Column: 9}, {Row: 7, Column: 10}}}}}})
	for from, to := range map[string]string{"": "", "\x07\x0a": "\x08\x01", "\x07\x09": "\x00\x09", "\x07\x0a\x00": "\x07\x00\x00", "\x07\x0a\x00\x00": "\x07\x09\x00\x00",
		"\x0a": "\x08", "\x07\x0a\x00\x00\x00": "\x07\x81\x80\x01\x00\x00\x00", "\x07\x0a\x00\x00\x00\x00": "\x81\x80\x40\x0a\x00\x00\x00\x00"} {
		changed := strings.Replace(cells, from, to, 1)
		good := changed == cells || to == "\x08\x01"
		if _, err := wire.Read(changed); good != (err == nil) || !good && !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("%q for %q: %v", to, from, err)
		}
	}
}

// FuzzRead: whatever a sandbox sends is refused, or is a model that is written and read
// again.
func FuzzRead(f *testing.F) {
	for _, m := range models() {
		f.Add(encoded(f, m))
	}
	f.Fuzz(func(t *testing.T, message string) {
		m, err := wire.Read(message)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := wire.Write(&again, m); err != nil {
			t.Fatal(err)
		}
		if got, err := wire.Read(again.String()); err != nil || len(got.Members) != len(m.Members) {
			t.Fatalf("read again: %v", err)
		}
	})
}
