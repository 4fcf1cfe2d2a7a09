package reader_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
)

const office = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>`

// packed returns an office file with a main part and others.
func packed(t testing.TB, kind, main, xml string, others ...member) []byte {
	t.Helper()
	return zipped(t, append([]member{
		{"[Content_Types].xml", office + `<Types xmlns="ct"><Default Extension="xml" ContentType="application/xml"/><Override PartName="/` + main + `" ContentType="application/vnd.openxmlformats-officedocument.` + kind + `.main+xml"/></Types>`},
		{"_rels/.rels", office + `<Relationships><Relationship Id="r1" Type="http://x/officeDocument" Target="` + main + `"/></Relationships>`},
		{main, office + xml},
	}, others...)...)
}

func TestDOCX(t *testing.T) {
	body := `<w:document xmlns:w="w"><w:body>
<w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>A </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">title &amp; more</w:t></w:r></w:p>
<w:p/><w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:r><w:rPr><w:vanish/></w:rPr><w:t>the gold</w:t></w:r><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>
<w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt><w:sectPr/></w:body></w:document>`
	f, reason := read(t, packed(t, "wordprocessingml.document", "word/document.xml", body,
		member{"word/_rels/document.xml.rels", `<Relationships><Relationship Id="s" Type="http://x/styles" Target="styles.xml"/></Relationships>`},
		member{"word/styles.xml", `<w:styles xmlns:w="w"><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>`}), artifact.DOCX)
	if reason != "" {
		t.Fatal(reason)
	}
	want := []artifact.Block{{Style: "heading 1", Text: "A title & more"}, {Text: "one\ttwo\nnewlink"}, {Table: [][]string{{"a\nb", ""}}}, {Text: "control"}}
	if d := cmp.Diff(want, f.Document.Blocks); d != "" {
		t.Error(d)
	}
}

func TestPPTX(t *testing.T) {
	slide := func(attrs, shapes string) string {
		return `<p:sld xmlns:p="p" xmlns:a="a"` + attrs + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:sld>`
	}
	text := func(place, s string) string {
		return `<p:sp><p:nvSpPr><p:nvPr>` + place + `</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>` + s + `</a:t></a:r></a:p></p:txBody></p:sp>`
	}
	f, reason := read(t, packed(t, "presentationml.presentation", "ppt/presentation.xml",
		`<p:presentation xmlns:p="p" xmlns:r="r"><p:sldIdLst><p:sldId id="256" r:id="b"/><p:sldId id="257" r:id="h"/><p:sldId id="258" r:id="a"/></p:sldIdLst></p:presentation>`,
		member{"ppt/_rels/presentation.xml.rels", `<Relationships><Relationship Id="a" Type="x/slide" Target="slides/slide1.xml"/><Relationship Id="b" Type="x/slide" Target="/ppt/slides/slide2.xml"/><Relationship Id="h" Type="x/slide" Target="slides/slide3.xml"/></Relationships>`},
		member{"ppt/slides/slide2.xml", slide("", text(`<p:ph type="title"/>`, "First")+`<p:grpSp>`+text("", "inner")+`</p:grpSp>`)},
		member{"ppt/slides/slide3.xml", slide(` show="0"`, text("", "the gold"))},
		member{"ppt/slides/slide1.xml", slide("", text(`<p:ph idx="1"/>`, "Second")+`<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>x</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>`)},
	), artifact.PPTX)
	if reason != "" {
		t.Fatal(reason)
	}
	want := &artifact.Document{Pages: 2, Blocks: []artifact.Block{{Page: 1, Style: "title", Text: "First"}, {Page: 1, Text: "inner"}, {Page: 2, Style: "body", Text: "Second"}, {Page: 2, Table: [][]string{{"x"}}}}}
	if d := cmp.Diff(want, f.Document); d != "" {
		t.Error(d)
	}
}

// plainPDF returns a PDF of objects, from number 1, whose table consists of lines.
func plainPDF(trailer string, objects ...string) []byte {
	b := bytes.NewBufferString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	table := fmt.Sprintf("xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for i, o := range objects {
		table += fmt.Sprintf("%010d 00000 n \n", b.Len())
		fmt.Fprintf(b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	fmt.Fprintf(b, "%strailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", table, len(objects)+1, trailer, b.Len())
	return b.Bytes()
}

// packedPDF returns a PDF whose objects and table are in streams, as newer writers do.
func packedPDF(predict bool) []byte {
	pack := func(s []byte) string {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		_, _ = w.Write(s)
		_ = w.Close()
		return b.String()
	}
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>", "<</Type/Page/Parent 2 0 R>>", "<</Type/Page/Parent 2 0 R>>"}
	head, body := "", ""
	for i, o := range objects {
		head += fmt.Sprintf("%d %d ", i+1, len(body))
		body += o + " "
	}
	b := bytes.NewBufferString("%PDF-1.5\n")
	at := b.Len()
	inner := pack([]byte(head + body))
	fmt.Fprintf(b, "5 0 obj\n<</Type/ObjStm/N %d/First %d/Filter/FlateDecode/Length %d>>stream\r\n%s\nendstream\nendobj\n", len(objects), len(head), len(inner), inner)
	start := b.Len()
	var table []byte
	for i := range 7 {
		row := []byte{2, 0, 0, 0, 0}
		switch i {
		case 0:
			row[0] = 0
		case 5:
			row[0] = 1
			binary.BigEndian.PutUint16(row[2:], uint16(at))
		case 6:
			row[0] = 1
			binary.BigEndian.PutUint16(row[2:], uint16(start))
		default:
			row[3], row[4] = 5, byte(i-1)
			row = []byte{2, 0, 0, 5, byte(i - 1)}
		}
		if predict {
			table = append(table, 0)
		}
		table = append(table, row...)
	}
	parms := ""
	if predict {
		parms = "/DecodeParms<</Predictor 12/Columns 5>>"
	}
	packed := pack(table)
	fmt.Fprintf(b, "6 0 obj\n<</Type/XRef/Size 7/W[1 3 1]/Root 1 0 R/Filter/FlateDecode%s/Length %d>>stream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF", parms, len(packed), packed, start)
	return b.Bytes()
}

// streamPDF returns a PDF whose first object is in a stream, and whose table, in another,
// says which objects it has.
func streamPDF(index, object string) []byte {
	b := bytes.NewBufferString("%PDF-1.5\n")
	at := b.Len()
	fmt.Fprintf(b, "5 0 obj\n<</Type/ObjStm/N 1/First 4/Length %d>>stream\n1 0 %s\nendstream\nendobj\n", len("1 0 "+object), object)
	start := b.Len()
	table := []byte{0, 0, 0, 0, 2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, byte(at), 0, 1, 0, byte(start), 0}
	fmt.Fprintf(b, "6 0 obj\n<</Type/XRef/Size 7/W[1 2 1]/Index%s/Root 1 0 R/Length %d>>stream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF", index, len(table), table, start)
	return b.Bytes()
}

const catalog = "<< /Type /Catalog /Pages 2 0 R >>"

func TestPDF(t *testing.T) {
	nested := plainPDF("", catalog, "<</Count 3 /Kids [3 0 R 6 0 R] /Type /Pages>>", "<</Type/Pages/Count 2/Kids [4 0 R 5 0 R]>>", "<</Type/Page>>", "<</Type/Page /X (a\\)b (c)) /Y <AB CD>>>", "<</Type/Page % a comment\n>>")
	for name, c := range map[string]struct {
		data  []byte
		pages int
	}{
		"a table of lines": {plainPDF("", catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page>>"), 1},
		"a tree":           {nested, 3},
		"streams":          {packedPDF(false), 2},
		"a predictor":      {packedPDF(true), 2},
		"a changed file":   {changedPDF(), 2},
	} {
		if f, reason := read(t, c.data, artifact.PDF); reason != "" || f.Document.Pages != c.pages {
			t.Errorf("%s: %s, %+v", name, reason, f)
		}
	}
}

// changedPDF returns a PDF to which a page was added at its end.
func changedPDF() []byte {
	old := plainPDF("", catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page>>")
	was := bytes.LastIndex(old, []byte("xref\n0"))
	b := bytes.NewBuffer(bytes.Clone(old))
	list := b.Len()
	b.WriteString("2 0 obj\n<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>\nendobj\n")
	page := b.Len()
	b.WriteString("4 0 obj\n<</Type/Page>>\nendobj\n")
	fmt.Fprintf(b, "xref\n2 1\n%010d 00000 n \n4 1\n%010d 00000 n \ntrailer\n<</Size 5/Root 1 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n", list, page, was, b.Len())
	return b.Bytes()
}
