package artifacttask

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
)

// TestDelivered: what a workbook, a picture and an archive say is a text within bounds, and
// a text is not said twice.
func TestDelivered(t *testing.T) {
	number := func(v float64) artifact.Value { return artifact.Value{Kind: artifact.Number, Number: v} }
	book := &artifact.File{Workbook: &artifact.Workbook{Sheets: []artifact.Sheet{
		{Name: "Sums", Cells: []artifact.Cell{
			{Row: 1, Column: 1, Value: artifact.Value{Kind: artifact.String, Text: "a\nb"}}, {Row: 1, Column: 3, Value: number(2.5)},
			{Row: 3, Column: 2, Value: number(5), Formula: "2*C1"}, {Row: 4, Column: 1}}},
		{Name: "x", Hidden: true, Cells: []artifact.Cell{{Row: 1, Column: 100, Value: number(1)}}}}}}
	want := "sheet \"Sums\"\n1: \"a\\nb\" | | 2.5\n3: | =2*C1 → 5\nsheet \"x\", hidden\n"
	if diff := cmp.Diff(want, delivered(book)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var many []artifact.Cell
	for i := range 100_000 {
		many = append(many, artifact.Cell{Row: i + 1, Column: 1, Value: number(float64(i))})
	}
	if got := delivered(&artifact.File{Workbook: &artifact.Workbook{Sheets: []artifact.Sheet{{Name: "m", Cells: many}}}}); len(got) > maxDelivered+100 || !strings.HasSuffix(got, "(more is not shown)\n") {
		t.Errorf("%d bytes of a large sheet", len(got))
	}
	text := "said"
	for want, f := range map[string]*artifact.File{
		"":                            {Text: &text},
		"a picture of 3 x 2 pixels\n": {Image: &artifact.Image{Width: 3, Height: 2}},
		"an array of [2]\n[1 2]\n":    {Array: &artifact.Array{Shape: []int{2}, Values: []float64{1, 2}}},
		"         5  00  \"a\"\n":     {Members: []artifact.Member{{Name: "a", Bytes: 5, SHA256: "00"}}},
		"Title\na,b\n":                {Document: &artifact.Document{Blocks: []artifact.Block{{Text: "Title"}, {Table: [][]string{{"a", "b"}}}}}},
	} {
		if got := delivered(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
