package rubric_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
)

// picture is a grey picture with stripes and a bright field.
func picture(change func(row, column int, v byte) byte) *artifact.File {
	small := make([]byte, artifact.SmallSide*artifact.SmallSide)
	for i := range small {
		row, column := i/artifact.SmallSide, i%artifact.SmallSide
		v := byte(column*7 + row*3)
		if row >= 60 && row < 120 && column >= 60 && column < 200 {
			v = 250
		}
		small[i] = change(row, column, v)
	}
	return &artifact.File{Type: artifact.PNG, Image: &artifact.Image{Width: 640, Height: 480, Pixels: fmt.Sprintf("%v of %d", small[:1000], len(small)), Small: small}}
}

// TestImage: the values of mean SSIM are those of scikit-image 0.26 with the weights of
// the paper.
func TestImage(t *testing.T) {
	want := picture(func(_, _ int, v byte) byte { return v })
	r := parse(t, `{"type":"image","compare":"ssim","at_least":0.95}`)
	for value, change := range map[float64]func(row, column int, v byte) byte{
		1: func(_, _ int, v byte) byte { return v },
		0.9865810512487201: func(row, column int, v byte) byte {
			if row >= 130 && row < 140 && column >= 100 && column < 150 {
				return 0
			}
			return v
		},
		0.9614443559537771: func(row, column int, v byte) byte {
			return byte(min(max(int(v)+(row*column)%11-5, 0), 255))
		},
		0: func(_, _ int, v byte) byte { return 255 - v },
	} {
		res, err := r.Compare(picture(change), want)
		if err != nil || res.Measure == nil || math.Abs(res.Measure.Value-value) > 1e-9 || res.Pass != (value > 0.95) {
			t.Errorf("%+v with %+v, %v, want %v", res, res.Measure, err, value)
		}
		holds(t, res)
	}
	pixels := parse(t, `{"type":"image"}`)
	larger := picture(func(_, _ int, v byte) byte { return v })
	larger.Image.Width = 641
	for got, pass := range map[*artifact.File]bool{want: true, larger: false, picture(func(_, _ int, v byte) byte { return v ^ 1 }): false, textFile("x"): false} {
		if passes(t, pixels, got, want) != pass {
			t.Errorf("%v passes: %t", got.Type, !pass)
		}
	}
	if passes(t, r, larger, want) || !passes(t, parse(t, `{"type":"image","compare":"ssim","size":"any","at_least":0.95}`), larger, want) {
		t.Error("the size does not count as it should")
	}
	if faults := r.Check(want); len(faults) > 0 {
		t.Errorf("the reference has %q", faults)
	}
	grey := picture(func(row, _ int, _ byte) byte { return byte(200 + row/128) })
	if faults := r.Check(grey); len(faults) != 1 || !strings.Contains(faults[0], "one grey would pass") {
		t.Errorf("a grey picture has %q", faults)
	}
	for _, raw := range []string{`{"type":"image","at_least":1}`, `{"type":"image","compare":"ssim"}`, `{"type":"image","compare":"ssim","at_least":0}`, `{"type":"image","compare":"ssim","at_least":1.1}`, `{"type":"image","size":"any"}`} {
		if _, err := rubric.Parse([]byte(raw)); err == nil {
			t.Errorf("%s is a rubric", raw)
		}
	}
}

func document(t artifact.Type, pages int, blocks ...artifact.Block) *artifact.File {
	return &artifact.File{Type: t, Document: &artifact.Document{Pages: pages, Blocks: blocks}}
}

func TestDocument(t *testing.T) {
	title, text := artifact.Block{Page: 1, Style: "Heading 1", Text: "Results"}, artifact.Block{Page: 2, Style: "Normal", Text: "Sales  rose by 5 %."}
	blank, table := artifact.Block{Page: 1}, artifact.Block{Page: 2, Table: [][]string{{"Name", "Sum"}, {"Bread", "1.50"}}}
	same := artifact.Block{Page: 2, Table: [][]string{{"Name ", "Sum"}, {"Bread", "1.5"}}}
	other := artifact.Block{Page: 2, Table: [][]string{{"Name", "Sum"}, {"Bread", "1.6"}}}
	want := document(artifact.DOCX, 2, title, text, table)
	plain := title
	plain.Style = "Normal"
	moved := text
	moved.Page = 1
	for name, tt := range map[string]struct {
		rubric string
		got    *artifact.File
		pass   bool
	}{
		"the same":                    {`{}`, want, true},
		"other blanks":                {`{}`, document(artifact.DOCX, 2, blank, title, artifact.Block{Text: " Sales rose\nby 5 %. "}, blank, same), true},
		"another number":              {`{}`, document(artifact.DOCX, 2, title, text, other), false},
		"a number within a tolerance": {`{"tolerance":0.1}`, document(artifact.DOCX, 2, title, text, other), true},
		"tables count not":            {`{"tables":false}`, document(artifact.DOCX, 2, title, text), true},
		"no table":                    {`{}`, document(artifact.DOCX, 2, title, text), false},
		"no paragraph":                {`{}`, document(artifact.DOCX, 2, title, table), false},
		"another order":               {`{}`, document(artifact.DOCX, 2, text, title, table), false},
		"a paragraph more":            {`{}`, document(artifact.DOCX, 2, title, text, text, table), false},
		"another case":                {`{}`, document(artifact.DOCX, 2, title, artifact.Block{Text: "sales rose by 5 %."}, table), false},
		"another case, ignored":       {`{"ignore_case":true}`, document(artifact.DOCX, 2, title, artifact.Block{Text: "sales rose by 5 %."}, table), true},
		"another style":               {`{"styles":["Heading 1"]}`, document(artifact.DOCX, 2, plain, text, table), false},
		"another style, not asked":    {`{}`, document(artifact.DOCX, 2, plain, text, table), true},
		"a style more":                {`{"styles":["heading 1"]}`, document(artifact.DOCX, 2, title, artifact.Block{Style: "Heading 1", Text: text.Text}, table), false},
		"pages":                       {`{"pages":true}`, document(artifact.DOCX, 3, title, text, table), false},
		"pages, not asked":            {`{}`, document(artifact.DOCX, 3, title, text, table), true},
		"on another page":             {`{"per_page":true}`, document(artifact.PPTX, 2, title, moved, table), false},
		"on the same":                 {`{"per_page":true}`, document(artifact.PPTX, 2, title, text, table), true},
		"pages alone":                 {`{"paragraphs":false,"tables":false,"pages":true}`, document(artifact.PDF, 2), true},
		"no document":                 {`{}`, textFile("Results"), false},
	} {
		r := parse(t, `{"type":"document"`+more(tt.rubric))
		if faults := r.Check(want); len(faults) > 0 {
			t.Errorf("%s: the reference has %q", name, faults)
		}
		if pass := passes(t, r, tt.got, want); pass != tt.pass {
			t.Errorf("%s passes: %t", name, pass)
		}
	}
	for raw, fault := range map[string]string{
		`{"type":"document","styles":["Title"]}`: `styles names "Title"`,
		`{"type":"document","pages":true}`:       `does not say`,
		`{"type":"document"}`:                    `an empty document would pass`,
	} {
		if faults := parse(t, raw).Check(document(artifact.DOCX, 0, blank)); len(faults) != 1 || !strings.Contains(faults[0], fault) {
			t.Errorf("%s has %q", raw, faults)
		}
	}
	if _, err := rubric.Parse([]byte(`{"type":"document","paragraphs":false,"tables":false}`)); err == nil {
		t.Error("a rubric that compares nothing is one")
	}
}

// TestSuits: of a PDF only the pages are known. A rubric that asks for more would pass
// any, so a row that has it is not scored.
func TestSuits(t *testing.T) {
	for raw, suits := range map[string]bool{
		`{"type":"document"}`:              false,
		`{"type":"document","pages":true}`: false,
		`{"type":"document","pages":true,"paragraphs":false,"tables":false}`:           true,
		`{"all":[{"type":"document","paragraphs":false,"styles":["A"]}]}`:              false,
		`{"all":[{"type":"document","paragraphs":false,"tables":false,"pages":true}]}`: true,
	} {
		r := parse(t, raw)
		if err := r.Suits(artifact.PDF, false); (err == nil) != suits {
			t.Errorf("%s suits a PDF: %v", raw, err)
		}
		if err := r.Suits(artifact.DOCX, false); err != nil {
			t.Errorf("%s does not suit a DOCX: %v", raw, err)
		}
	}
	if _, err := parse(t, `{"type":"document","tables":false}`).Compare(document(artifact.PDF, 2), document(artifact.PDF, 2)); err == nil {
		t.Error("a PDF without its text is compared with another")
	}
}

func archive(members ...string) *artifact.File {
	f := &artifact.File{Type: artifact.ZIP}
	for _, m := range members {
		name, sum, _ := strings.Cut(m, "=")
		f.Members = append(f.Members, artifact.Member{Name: name, SHA256: sum})
	}
	return f
}

func TestArchive(t *testing.T) {
	want := archive("a=1", "b=2", "log=9")
	for _, tt := range []struct {
		rubric string
		got    *artifact.File
		pass   bool
	}{
		{`{}`, want, true},
		{`{}`, archive("log=9", "b=2", "a=1"), true},
		{`{}`, archive("a=1", "b=3", "log=9"), false},
		{`{}`, archive("a=1", "log=9"), false},
		{`{}`, archive("a=1", "b=2", "log=9", "c=1"), false},
		{`{"extra_members":"allow"}`, archive("a=1", "b=2", "log=9", "c=1"), true},
		{`{"extra_members":"allow"}`, archive("a=1", "b=2", "b=3", "log=9"), false},
		{`{"ignore":["log"]}`, archive("a=1", "b=2", "log=8"), true},
		{`{"ignore":["log"]}`, archive("a=1", "b=2"), true},
		{`{}`, textFile("x"), false},
	} {
		if pass := passes(t, parse(t, `{"type":"archive"`+more(tt.rubric)), tt.got, want); pass != tt.pass {
			t.Errorf("%s: %+v passes: %t", tt.rubric, tt.got.Members, pass)
		}
	}
	for raw, n := range map[string]int{`{}`: 0, `{"ignore":["c"]}`: 1, `{"ignore":["a","b","log"]}`: 1} {
		if faults := parse(t, `{"type":"archive"`+more(raw)).Check(want); len(faults) != n {
			t.Errorf("%s has %q", raw, faults)
		}
	}
}

func TestArray(t *testing.T) {
	array := func(shape []int, values ...float64) *artifact.File {
		return &artifact.File{Type: artifact.NPY, Array: &artifact.Array{Shape: shape, Values: values}}
	}
	want := array([]int{2, 2}, 1, 0.3, math.NaN(), math.Inf(1))
	for _, tt := range []struct {
		rubric string
		got    *artifact.File
		pass   bool
	}{
		{`{}`, want, true},
		{`{}`, array([]int{2, 2}, 1, 0.1+0.2, math.NaN(), math.Inf(1)), true},
		{`{}`, array([]int{4}, 1, 0.3, math.NaN(), math.Inf(1)), false},
		{`{}`, array([]int{2, 2}, 1, 0.31, math.NaN(), math.Inf(1)), false},
		{`{"tolerance":0.1}`, array([]int{2, 2}, 1, 0.31, math.NaN(), math.Inf(1)), true},
		{`{"tolerance":1e300}`, array([]int{2, 2}, 1, math.NaN(), math.NaN(), math.Inf(1)), false},
		{`{"tolerance":1e300}`, array([]int{2, 2}, 1, 0.3, 0, math.Inf(1)), false},
		{`{"tolerance":1e300}`, array([]int{2, 2}, 1, 0.3, math.NaN(), 1e308), false},
		{`{"relative_tolerance":1e300}`, array([]int{2, 2}, math.Inf(1), 0.3, math.NaN(), math.Inf(1)), false},
		{`{}`, textFile("x"), false},
	} {
		if pass := passes(t, parse(t, `{"type":"array"`+more(tt.rubric)), tt.got, want); pass != tt.pass {
			t.Errorf("%s: %+v passes: %t", tt.rubric, tt.got.Array, pass)
		}
	}
	if faults := parse(t, `{"type":"array"}`).Check(array([]int{0})); len(faults) != 1 {
		t.Errorf("an empty array has %q", faults)
	}
}

// The types of rubrics are those that the documentation lists.
func TestTypes(t *testing.T) {
	if got := rubric.Types(); !slices.Equal(got, []string{"archive", "array", "cells", "document", "image", "json", "metric", "table", "text", "workbook"}) {
		t.Errorf("the types are %q", got)
	}
}
