package reader_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/xuri/excelize/v2"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
	"securebench/internal/datatest"
)

// TestSheetCopilot: all workbooks of the set are read.
func TestSheetCopilot(t *testing.T) {
	var paths []string
	err := filepath.WalkDir(filepath.Join(datatest.Dir(t), "sheetcopilot"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".xlsx") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Skipf("no workbooks: %v", err)
	}
	formulas, missing, computed, differ := 0, 0, 0, 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, reason := read(t, data, artifact.XLSX)
		if reason != "" {
			t.Errorf("%s: %s", path, reason)
			continue
		}
		for _, s := range f.Workbook.Sheets {
			for _, c := range s.Cells {
				if c.Formula == "" {
					continue
				}
				formulas++
				if c.Stored == nil {
					missing++
				}
				if !c.Uncomputed {
					computed++
					if c.Stored != nil && !near(*c.Stored, c.Value) {
						differ++
						t.Logf("%s %s!%d,%d =%s: %+v, stored %+v", filepath.Base(path), s.Name, c.Row, c.Column, c.Formula, c.Value, *c.Stored)
					}
				} else {
					t.Logf("%s %s!%d,%d =%s: not calculated", filepath.Base(path), s.Name, c.Row, c.Column, c.Formula)
				}
			}
		}
	}
	t.Logf("%d workbooks, %d formulas, %d without a stored value, %d calculated, %d of these other than stored", len(paths), formulas, missing, computed, differ)
}

// near says whether two values are equal but for the last digits of numbers.
func near(a, b artifact.Value) bool {
	return a.Kind == b.Kind && a.Text == b.Text && math.Abs(a.Number-b.Number) <= 1e-9*max(1, math.Abs(a.Number))
}

// written returns a workbook as excelize writes it.
func written(t testing.TB, fill func(f *excelize.File) error) []byte {
	t.Helper()
	f := excelize.NewFile()
	defer f.Close()
	if err := fill(f); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// book reads a workbook that is in order.
func book(t testing.TB, data []byte) *artifact.Workbook {
	t.Helper()
	f, reason := read(t, data, artifact.XLSX)
	if reason != "" {
		t.Fatal(reason)
	}
	return f.Workbook
}

// TestWorkbook reads what another program wrote.
func TestWorkbook(t *testing.T) {
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	got := book(t, written(t, func(f *excelize.File) error {
		style, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true, Family: "Arial", Size: 9.5, Color: "112233"}, Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"#FFEE00"}}, NumFmt: 4})
		return errors.Join(err,
			f.SetCellValue("Sheet1", "A1", "a<b & \"c\"\nd"), f.SetCellValue("Sheet1", "B1", 0.1+0.2), f.SetCellValue("Sheet1", "C1", true),
			f.SetCellValue("Sheet1", "D1", day), f.SetCellStyle("Sheet1", "B1", "B1", style), f.SetCellStyle("Sheet1", "E9", "E9", style),
			f.SetCellHyperLink("Sheet1", "A1", "https://example.org/x?a=1&b=2", "External"),
			f.MergeCell("Sheet1", "A3", "B4"), f.AutoFilter("Sheet1", "A1:D9", nil),
			f.SetPanes("Sheet1", &excelize.Panes{Freeze: true, XSplit: 1, YSplit: 2, TopLeftCell: "B3", ActivePane: "bottomRight"}),
			f.AddChart("Sheet1", "F1", &excelize.Chart{Type: excelize.ColStacked, Title: excelize.ChartTitle{Paragraph: []excelize.RichTextRun{{Text: "Two "}, {Text: "words"}}}, Series: []excelize.ChartSeries{{Name: "Sheet1!$A$1", Categories: "Sheet1!$A$2:$A$3", Values: "Sheet1!$B$2:$B$3"}}}),
			func() error { _, err := f.NewSheet("It's 2"); return err }(), f.SetSheetVisible("It's 2", false), f.SetCellValue("It's 2", "XFD9", -1.5e-7))
	}))
	plain := artifact.Format{Number: "General", Font: "Calibri", Size: 11, Color: "000000"}
	link, date, bold := plain, plain, artifact.Format{Number: "#,##0.00", Bold: true, Font: "Arial", Size: 9.5, Color: "112233", Fill: "FFEE00"}
	link.Link, date.Number = "https://example.org/x?a=1&b=2", "mm-dd-yy"
	want := &artifact.Workbook{Sheets: []artifact.Sheet{{
		Name: "Sheet1", Merged: []string{"A3:B4"}, Freeze: "B3", Filter: "A1:D9",
		Charts: []artifact.Chart{{Type: "column_stacked", Title: "Two \nwords", Legend: true, Series: []artifact.Series{{Name: "Sheet1!A1", Categories: "Sheet1!A2:A3", Values: "Sheet1!B2:B3"}}}},
		Cells: []artifact.Cell{
			{Row: 1, Column: 1, Value: artifact.Value{Kind: artifact.String, Text: "a<b & \"c\"\nd"}, Format: link},
			{Row: 1, Column: 2, Value: artifact.Value{Kind: artifact.Number, Number: 0.1 + 0.2}, Format: bold},
			{Row: 1, Column: 3, Value: artifact.Value{Kind: artifact.Bool, Number: 1}, Format: plain},
			{Row: 1, Column: 4, Value: artifact.Value{Kind: artifact.Date, Number: 45351}, Format: date},
			{Row: 9, Column: 5, Format: bold},
		},
	}, {Name: "It's 2", Hidden: true, Cells: []artifact.Cell{{Row: 9, Column: 16_384, Value: artifact.Value{Kind: artifact.Number, Number: -1.5e-7}, Format: plain}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestWriters: what programs write in different ways reads the same.
func TestWriters(t *testing.T) {
	styles := `<cellXfs><xf/><xf numFmtId="14"/></cellXfs>`
	want := book(t, sheetFile{sheet: `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1"><v>0.5</v></c></row><row r="2"><c r="A2" s="1"><v>45351</v></c><c r="B2" t="b"><v>1</v></c></row>`, shared: "<si><t>a &lt; b</t></si>", styles: styles}.bytes(t))
	for name, file := range map[string]sheetFile{
		"texts in the cells":     {sheet: `<row r="1"><c r="A1" t="inlineStr"><is><t>a &lt; b</t></is></c><c r="B1"><v>0.5</v></c></row><row r="2"><c r="A2" s="1"><v>45351</v></c><c r="B2" t="b"><v>1</v></c></row>`},
		"rich text":              {sheet: `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1"><v>5E-1</v></c></row><row r="2"><c r="A2" s="1"><v>45351</v></c><c r="B2" t="b"><v>1</v></c></row>`, shared: `<si><r><t xml:space="preserve">a </t></r><r><rPr><b/></rPr><t>&#60; b</t></r><rPh sb="0" eb="1"><t>ruby</t></rPh></si>`},
		"prefixes":               {sheet: `<x:worksheet xmlns:x="y"><x:sheetData><x:row r="1"><x:c r="A1" t="s"><x:v>0</x:v></x:c><x:c r="B1"><x:v>0.5</x:v></x:c></x:row><x:row r="2"><x:c r="A2" s="1"><x:v>45351</x:v></x:c><x:c r="B2" t="b"><x:v>1</x:v></x:c></x:row></x:sheetData></x:worksheet>`, shared: "<x:sst xmlns:x='y'><x:si><x:t>a &lt; b</x:t></x:si></x:sst>"},
		"no places":              {sheet: `<row><c t="s"><v>0</v></c><c><v>0.5</v></c></row><row><c s="1"><v>45351</v></c><c t="b"><v>1</v></c><c/></row><row/>`, shared: "<si><t><![CDATA[a < b]]></t></si>"},
		"dates as texts":         {sheet: `<row r="1"><c r="A1" t="str"><v>a &lt; b</v></c><c r="B1"><v>0.5</v></c></row><row r="2"><c r="A2" t="d" s="1"><v>2024-02-29</v></c><c r="B2" t="b"><v>1</v></c></row>`},
		"days from 1904":         {sheet: `<row r="1"><c r="A1" t="str"><v>a &lt; b</v></c><c r="B1"><v>0.5</v></c></row><row r="2"><c r="A2" s="1"><v>43889</v></c><c r="B2" t="b"><v>1</v></c></row>`, book: `<workbook xmlns:r="r"><workbookPr date1904="1"/><sheets><sheet name="One" r:id="s1"/></sheets></workbook>`},
		"rows in another order":  {sheet: `<row r="2"><c r="B2" t="b"><v>1</v></c><c r="A2" s="1"><v>45351</v></c></row><row r="1"><c r="A1" t="str"><v>a &lt; b</v></c><c r="B1"><v>0.5</v></c></row>`},
		"a sheet of other parts": {sheet: `<worksheet><dimension ref="A1:XFD9"/><sheetFormatPr/><cols><col min="1" max="2"/></cols><sheetData><row r="1"><c r="A1" t="str"><v>a &lt; b</v></c><c r="B1"><v>0.5</v></c></row><row r="2"><c r="A2" s="1"><v>45351</v></c><c r="B2" t="b"><v>1</v></c></row></sheetData><pageMargins/><extLst><ext><a><c r="Z9"><v>1</v></c></a></ext></extLst></worksheet>`},
	} {
		file.styles = styles
		if d := cmp.Diff(want, book(t, file.bytes(t))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestDates: which number formats show a date.
func TestDates(t *testing.T) {
	for code, date := range map[string]bool{
		"yyyy-mm-dd": true, "m/d/yy h:mm": true, "[h]:mm:ss": true, "[$-409]d\\-mmm\\-yyyy;@": true, "mm:ss.0": true, `yyyy"年"m"月"`: true, "AM/PM": true,
		"General": false, "0.00": false, `#,##0 "days"`: false, `0.00\ \d`: false, "[Red]0": false, "0.00E+00": false, "@": false, `"d"0`: false, "_d0": false, "# ?/?": false, "[$EUR] 0": false, "": false,
	} {
		if reader.DateCode(code) != date {
			t.Errorf("%q: %v", code, !date)
		}
	}
}
