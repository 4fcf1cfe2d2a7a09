package reader_test

import (
	"bytes"
	"image"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
)

// sound reads a file, in which no reader may fail.
func sound(t *testing.T, data []byte, as artifact.Type) *artifact.File {
	t.Helper()
	f, reason := read(t, data, as)
	if strings.HasPrefix(reason, "stops its reader") {
		t.Errorf("%q: %s", data, reason)
	}
	again, second := read(t, data, as)
	if reason != second || !cmp.Equal(f, again) {
		t.Errorf("%q: two readings differ: %s, %s", data, reason, second)
	}
	return f
}

// FuzzXLSX: the cells of a sheet are in order, in bounds, and each once.
func FuzzXLSX(f *testing.F) {
	f.Add(`<row r="1"><c r="A1"><v>1</v></c><c t="s"><v>0</v></c></row><row><c t="b"><v>1</v></c></row>`, "<si><t>a</t></si>", "")
	f.Add(formulaSheet([]string{"SUM(A1:A4)", `IF(A1>5,"a",C1&"b")`, "E1+1", "E4", "INDEX(A1:C1,2)", "[1]S!A1"}, "<v>42</v>"), "", "")
	f.Add(`<row r="2"><c r="B2" s="1"><f t="shared" ref="B2:B3" si="0">A1</f></c></row><row r="3"><c r="B3"><f t="shared" si="0"/></c></row>`, "", `<numFmts><numFmt numFmtId="164" formatCode="yyyy"/></numFmts><cellXfs><xf/><xf numFmtId="164"/></cellXfs>`)
	f.Add(`<worksheet><sheetViews><sheetView><pane state="frozen" xSplit="1"/></sheetView></sheetViews><sheetData/><mergeCells><mergeCell ref="A1:B2"/></mergeCells></worksheet>`, laughs, "")
	f.Fuzz(func(t *testing.T, sheet, shared, styles string) {
		file := sound(t, sheetFile{sheet: sheet, shared: shared, styles: styles}.bytes(t), artifact.XLSX)
		if file == nil {
			return
		}
		last := [2]int{}
		for _, c := range file.Workbook.Sheets[0].Cells {
			if c.Row < last[0] || c.Row == last[0] && c.Column <= last[1] || c.Column < 1 || c.Column > 16_384 || c.Row > 1_048_576 {
				t.Errorf("%+v after %v", c, last)
			}
			if c.Formula == "" && (c.Stored != nil || c.Uncomputed) {
				t.Errorf("%+v", c)
			}
			last = [2]int{c.Row, c.Column}
		}
	})
}

func FuzzDOCX(f *testing.F) {
	f.Add(`<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>a</w:t></w:r></w:p><w:tbl><w:tr><w:tc/></w:tr></w:tbl></w:body></w:document>`)
	f.Add(laughs + `<a>&b;</a>`)
	f.Fuzz(func(t *testing.T, xml string) {
		sound(t, packed(t, "wordprocessingml.document", "word/document.xml", xml), artifact.DOCX)
	})
}

func FuzzPPTX(f *testing.F) {
	f.Add(`<p:sld xmlns:p="p"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>`)
	f.Fuzz(func(t *testing.T, slide string) {
		sound(t, packed(t, "presentationml.presentation", "p.xml", `<p xmlns:r="r"><sldIdLst><sldId r:id="a"/></sldIdLst></p>`,
			member{"_rels/p.xml.rels", `<Relationships><Relationship Id="a" Type="x/slide" Target="s.xml"/></Relationships>`}, member{"s.xml", slide}), artifact.PPTX)
	})
}

// FuzzZip: no member has a name that leaves a folder, and none is there twice.
func FuzzZip(f *testing.F) {
	f.Add(zipped(f, member{"a/b", "x"}, member{"c", ""}))
	f.Add(zipped(f, member{"../a", "x"}))
	f.Add(zipped(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := sound(t, data, artifact.ZIP)
		if file == nil {
			return
		}
		for i, m := range file.Members {
			if strings.HasPrefix(m.Name, "/") || strings.Contains("/"+m.Name+"/", "/../") || i > 0 && file.Members[i-1].Name >= m.Name {
				t.Errorf("%+v", file.Members)
			}
		}
	})
}

func FuzzPDF(f *testing.F) {
	f.Add(plainPDF("", catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page>>"))
	f.Add(packedPDF(true))
	f.Add(packedPDF(false))
	f.Add(changedPDF())
	f.Add(streamPDF("[0 7]", "<</Pages<</Count 1/Kids[<</Type/Page>>]>>>>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if file := sound(t, data, artifact.PDF); file != nil && file.Document.Pages < 1 {
			t.Errorf("%+v", file.Document)
		}
	})
}

func FuzzNPY(f *testing.F) {
	f.Add(npy("<f8", "False", "3,", []float64{1, -0.5, 2}))
	f.Add(npy("<i4", "True", "2, 3", []int32{1, 4, 2, 5, 3, 6}))
	f.Add(npy("|O", "False", "1,", []byte("\x80\x04")))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, reason := read(t, data, artifact.NPY)
		if strings.HasPrefix(reason, "stops its reader") {
			t.Errorf("%q: %s", data, reason)
		}
		if file == nil {
			return
		}
		n := 1
		for _, side := range file.Array.Shape {
			n *= side
		}
		if n != len(file.Array.Values) {
			t.Errorf("%v has %d numbers", file.Array.Shape, len(file.Array.Values))
		}
	})
}

func FuzzPicture(f *testing.F) {
	f.Add(encoded(f, image.NewGray(image.Rect(0, 0, 3, 2))))
	f.Add(encoded(f, image.NewNRGBA64(image.Rect(0, 0, 2, 3))))
	f.Add(pngOf(30_000, 30_000, 8))
	f.Add([]byte("\xff\xd8\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00\xff\xd9"))
	f.Fuzz(func(t *testing.T, data []byte) {
		as := artifact.PNG
		if bytes.HasPrefix(data, []byte("\xff\xd8")) {
			as = artifact.JPEG
		}
		if file := sound(t, data, as); file != nil && len(file.Image.Small) != artifact.SmallSide*artifact.SmallSide {
			t.Errorf("%+v", file.Image)
		}
	})
}
