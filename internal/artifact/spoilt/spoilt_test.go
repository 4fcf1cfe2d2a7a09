package spoilt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
	"securebench/internal/artifact/spoilt"
)

func said(s string) *string { return &s }

// files are one of each type with values, and how many it has.
func files() map[string]struct {
	file   *artifact.File
	values int
} {
	type entry = struct {
		file   *artifact.File
		values int
	}
	return map[string]entry{
		"table":    {&artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: [][]string{{"a", "b"}, {"1", "x"}, {"", "-2.5"}}}}, 4},
		"data":     {&artifact.File{Type: artifact.JSON, Text: said(`{"a": [1, true, null], "b": {"c": "x", "d": ""}}`)}, 5},
		"document": {&artifact.File{Type: artifact.DOCX, Document: &artifact.Document{Blocks: []artifact.Block{{Text: "x"}, {Table: [][]string{{"1", "2"}}}}}}, 2},
		"array":    {&artifact.File{Type: artifact.NPY, Array: &artifact.Array{Shape: []int{2}, Values: []float64{0, -7}}}, 2},
		"workbook": {&artifact.File{Type: artifact.XLSX, Workbook: &artifact.Workbook{Sheets: []artifact.Sheet{
			{Name: "A", Cells: []artifact.Cell{{Row: 1, Column: 1, Value: artifact.Value{Kind: artifact.Number, Number: 3}, Formula: "1+2"}}},
			{Name: "B", Cells: []artifact.Cell{{Row: 2, Column: 2, Value: artifact.Value{Kind: artifact.Bool}}, {Row: 3, Column: 1, Value: artifact.Value{Kind: artifact.Failed, Text: "#REF!"}}}},
		}}}, 3},
	}
}

// TestChanged: each value changes in each way, and the file that it was made of does not.
func TestChanged(t *testing.T) {
	for name, tt := range files() {
		if got := spoilt.Values(tt.file); got != tt.values {
			t.Errorf("%s has %d values, want %d", name, got, tt.values)
			continue
		}
		seen := []*artifact.File{files()[name].file}
		for _, how := range []spoilt.How{spoilt.Slightly, spoilt.Beyond} {
			for i := range tt.values {
				got := spoilt.Changed(tt.file, i, how)
				for _, other := range seen {
					if cmp.Equal(other, got) {
						t.Errorf("%s: value %d changed by %d is no other file", name, i, how)
					}
				}
				if how == spoilt.Slightly {
					seen = append(seen, got)
				}
			}
		}
		if diff := cmp.Diff(files()[name].file, tt.file); diff != "" {
			t.Errorf("%s was changed itself:\n%s", name, diff)
		}
		for _, empty := range spoilt.Empty(tt.file) {
			if empty.Type != tt.file.Type || spoilt.Values(empty) > 1 {
				t.Errorf("%s: an empty file with values: %+v", name, empty)
			}
		}
		if len(spoilt.Empty(tt.file)) == 0 && name != "array" {
			t.Errorf("%s has no empty file", name)
		}
	}
}

// TestGuesses: every column is there, under another name.
func TestGuesses(t *testing.T) {
	got := spoilt.Guesses(files()["table"].file)
	want := [][]string{{"qwzxvbnk0", "qwzxvbnk1", "qwzxvbnk2", "qwzxvbnk3"}, {"2", "1", "x wrong", "x"}, {" wrong", "", "-1.5", "-2.5"}}
	if diff := cmp.Diff(want, got.Table.Rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if spoilt.Guesses(files()["data"].file) != nil {
		t.Error("data has columns")
	}
}
