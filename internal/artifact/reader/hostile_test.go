package reader_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/memtest"
)

// A sheetFile is the sheet of a workbook with one sheet, and what else the workbook has.
type sheetFile struct {
	sheet, shared, styles, book, rels string
	more                              []member
}

func (s sheetFile) bytes(t testing.TB) []byte {
	t.Helper()
	wrap := func(text, whole, around string) string {
		if strings.HasPrefix(text, "<"+whole) || strings.HasPrefix(text, "<x:"+whole) || strings.HasPrefix(text, "<!") {
			return text
		}
		return fmt.Sprintf(around, text)
	}
	members := []member{
		{"xl/_rels/workbook.xml.rels", `<Relationships><Relationship Id="s1" Type="x/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="t" Type="x/sharedStrings" Target="sharedStrings.xml"/><Relationship Id="y" Type="x/styles" Target="styles.xml"/>` + s.rels + `</Relationships>`},
		{"xl/worksheets/sheet1.xml", wrap(s.sheet, "worksheet", "<worksheet><sheetData>%s</sheetData></worksheet>")},
		{"xl/sharedStrings.xml", wrap(s.shared, "sst", "<sst>%s</sst>")},
		{"xl/styles.xml", wrap(s.styles, "styleSheet", "<styleSheet>%s</styleSheet>")},
	}
	if s.book == "" {
		s.book = `<workbook xmlns:r="r"><sheets><sheet name="One" sheetId="1" r:id="s1"/></sheets></workbook>`
	}
	return packed(t, "spreadsheetml.sheet", "xl/workbook.xml", s.book, append(members, s.more...)...)
}

// forged returns a zip of one member whose directory says what it is told to.
func forged(t testing.TB, change func(h *zip.FileHeader), packed []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: "a", Method: zip.Store, UncompressedSize64: uint64(len(packed)), CompressedSize64: uint64(len(packed)), CRC32: crc32.ChecksumIEEE(packed)}
	change(h)
	part, err := w.CreateRaw(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write(packed); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// many returns a zip of empty members.
func many(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range n {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pngOf returns a PNG that declares a size and has next to nothing of it.
func pngOf(width, height uint32, depth byte) []byte {
	b := bytes.NewBufferString("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		_ = binary.Write(b, binary.BigEndian, uint32(len(data)))
		body := append([]byte(kind), data...)
		b.Write(body)
		_ = binary.Write(b, binary.BigEndian, crc32.ChecksumIEEE(body))
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)
	chunk("IHDR", append(header, depth, 6, 0, 0, 0))
	chunk("IDAT", []byte{0x78, 0x9c, 3, 0, 0, 0, 0, 1})
	chunk("IEND", nil)
	return b.Bytes()
}

// jpegOf returns the header of a JPEG in so many colours, which declares a size.
func jpegOf(width, height uint16, frame, colours byte) []byte {
	b := []byte{0xff, 0xd8, 0xff, frame, 0, 8 + 3*colours, 8}
	b = append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, height), width), colours)
	for i := range colours {
		b = append(b, i+1, 0x11, 0)
	}
	return append(b, 0xff, 0xd9)
}

const laughs = `<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>`

type hostile struct {
	name   string
	as     artifact.Type
	data   []byte
	reason string
}

func hostileArchives(t testing.TB) []hostile {
	zeros := strings.Repeat("\x00", 32<<20)
	var deflated bytes.Buffer
	w, _ := flate.NewWriter(&deflated, flate.BestCompression)
	_, _ = w.Write([]byte(zeros))
	_ = w.Close()
	set := func(change func(h *zip.FileHeader)) []byte { return forged(t, change, []byte("x")) }
	plain := zipped(t, member{"a", "x"})
	return []hostile{
		{"a bomb", artifact.ZIP, zipped(t, member{"a", zeros}), `has a member of a ratio above 200: "a"`},
		{"a bomb that says it is packed long", artifact.ZIP, forged(t, func(h *zip.FileHeader) {
			h.Method, h.CompressedSize64, h.UncompressedSize64, h.CRC32 = zip.Deflate, 1<<20, uint64(len(zeros)), crc32.ChecksumIEEE([]byte(zeros))
		}, deflated.Bytes()), `has a member that is longer than the file: "a"`},
		{"a bomb of many", artifact.ZIP, set(func(h *zip.FileHeader) { h.UncompressedSize64 = 300 << 20 }), "has more than 268435456 bytes unpacked"},
		{"a size that wraps around", artifact.ZIP, set(func(h *zip.FileHeader) { h.UncompressedSize64 = 1 << 63 }), "has more than 268435456 bytes unpacked"},
		{"more than declared", artifact.ZIP, forged(t, func(h *zip.FileHeader) { h.UncompressedSize64 = 1 }, []byte("xxxx")), `has a broken member: "a"`},
		{"less than declared", artifact.ZIP, set(func(h *zip.FileHeader) { h.UncompressedSize64 = 9 }), `has a broken member: "a"`},
		{"another sum", artifact.ZIP, set(func(h *zip.FileHeader) { h.CRC32++ }), `has a broken member: "a"`},
		{"many members", artifact.ZIP, many(t, 10_001), "has more than 10000 members"},
		{"a name that climbs", artifact.ZIP, zipped(t, member{"../a", "x"}), `has a member whose name is not that of a file below a folder: "../a"`},
		{"a name that climbs back", artifact.ZIP, zipped(t, member{"a/../../b", "x"}), `has a member whose name is not that of a file below a folder: "a/../../b"`},
		{"an absolute name", artifact.ZIP, zipped(t, member{"/etc/passwd", "x"}), `has a member whose name is not that of a file below a folder: "/etc/passwd"`},
		{"a name of Windows", artifact.ZIP, zipped(t, member{`..\a`, "x"}), `has a member whose name is not that of a file below a folder: "..\\a"`},
		{"a name with a line feed", artifact.ZIP, zipped(t, member{"a\nb", "x"}), "has a member whose name is not valid"},
		{"a name twice", artifact.ZIP, zipped(t, member{"a", "x"}, member{"a", "y"}), `has a member twice: "a"`},
		{"a link", artifact.ZIP, set(func(h *zip.FileHeader) { h.SetMode(0o777 | 1<<27) }), `has a member that is no file: "a"`},
		{"a device", artifact.ZIP, set(func(h *zip.FileHeader) { h.SetMode(0o666 | 1<<26) }), `has a member that is no file: "a"`},
		{"encryption", artifact.ZIP, set(func(h *zip.FileHeader) { h.Flags |= 1 }), "is encrypted"},
		{"an unknown compression", artifact.ZIP, set(func(h *zip.FileHeader) { h.Method = 12 }), `has a member in an unknown compression: "a"`},
		{"a PDF in front", artifact.ZIP, append(plainPDF("", catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page>>"), plain...), "does not begin as a zip archive"},
		{"half of it", artifact.ZIP, plain[:len(plain)/2], "is a broken zip archive"},
		{"a folder's name", artifact.ZIP, []byte("result.csv/"), "does not begin as a zip archive"},
	}
}

func hostileWorkbooks(t testing.TB) []hostile {
	sheet := func(xml string) []byte { return sheetFile{sheet: xml}.bytes(t) }
	long := strings.Repeat("x", 32_000)
	manySheets := &strings.Builder{}
	for i := range 1_001 {
		fmt.Fprintf(manySheets, `<sheet name="%d" r:id="s1"/>`, i)
	}
	cells := strings.Repeat(`<row>`+strings.Repeat(`<c t="s"><v>0</v></c>`, 100)+`</row>`, 30)
	full := &strings.Builder{}
	for i := range 501_000 {
		fmt.Fprintf(full, `<row><c><v>%d</v></c></row>`, i*i)
	}
	macro := packed(t, "spreadsheetml.sheet", "xl/workbook.xml", "<workbook/>", member{"xl/vbaProject.bin", "x"})
	twoParts := []member{
		{"[Content_Types].xml", `<Types><Default Extension="xml" ContentType="application/spreadsheetml.sheet.main+xml"/></Types>`},
		{"_rels/.rels", `<Relationships><Relationship Id="a" Type="x/officeDocument" Target="a.xml"/><Relationship Id="b" Type="x/officeDocument" Target="b.xml"/></Relationships>`},
		{"a.xml", "<workbook/>"}, {"b.xml", "<workbook/>"},
	}
	return []hostile{
		{"billion laughs", artifact.XLSX, sheetFile{shared: laughs + "<sst><si><t>&b;</t></si></sst>"}.bytes(t), "has XML with a document type, which is never read"},
		{"an entity", artifact.XLSX, sheetFile{shared: "<si><t>&xxe;</t></si>"}.bytes(t), `has XML with an entity, which is never read: "&xxe;"`},
		{"XML without an end", artifact.XLSX, sheet(`<worksheet><sheetData><row r="1"><c r="A1"><v>1`), "has broken XML: it ends within an element"},
		{"deep XML", artifact.XLSX, sheet("<worksheet>" + strings.Repeat("<a>", 1_001)), "has XML that is nested more than 1000 deep"},
		{"UTF-16", artifact.XLSX, sheet("<\x00w\x00"), "has XML that is not in UTF-8"},
		{"many sheets", artifact.XLSX, sheetFile{book: `<workbook xmlns:r="r"><sheets>` + manySheets.String() + `</sheets></workbook>`}.bytes(t), "has more than 1000 sheets"},
		{"one sheet twice", artifact.XLSX, sheetFile{book: `<workbook xmlns:r="r"><sheets><sheet name="a" r:id="s1"/><sheet name="b" r:id="s1"/></sheets></workbook>`}.bytes(t), `has one sheet under two names: "b"`},
		{"sheets of one name", artifact.XLSX, sheetFile{book: `<workbook xmlns:r="r"><sheets><sheet name="a" r:id="s1"/><sheet name="A" r:id="s1"/></sheets></workbook>`}.bytes(t), `has two sheets of the name "A"`},
		{"a shared text that is everywhere", artifact.XLSX, sheetFile{sheet: cells, shared: "<si><t>" + long + "</t></si>"}.bytes(t), "has more than 67108864 bytes of text in its cells"},
		{"a text that is not there", artifact.XLSX, sheet(`<row r="1"><c r="A1" t="s"><v>7</v></c></row>`), "has a cell whose text is not there"},
		{"a cell twice", artifact.XLSX, sheet(`<row r="1"><c r="A1"><v>1</v></c><c r="A1"><v>2</v></c></row>`), `has the cell A1 of "One" twice`},
		{"a row twice", artifact.XLSX, sheet(`<row r="1"><c r="A1"><v>1</v></c></row><row r="1"><c r="A1"><v>2</v></c></row>`), `has the cell A1 of "One" twice`},
		{"a cell of another row", artifact.XLSX, sheet(`<row r="1"><c r="A2"><v>1</v></c></row>`), `has a cell out of its row: "A2"`},
		{"a row beyond the last", artifact.XLSX, sheet(`<row r="1048577"><c><v>1</v></c></row>`), "has a cell beyond the last row"},
		{"too many cells", artifact.XLSX, sheet(full.String()), "has more than 500000 cells"},
		{"a number that is none", artifact.XLSX, sheet(`<row r="1"><c r="A1"><v>1e999</v></c></row>`), `has a cell with an invalid value: "1e999"`},
		{"a format that is not there", artifact.XLSX, sheet(`<row r="1"><c r="A1" s="9"><v>1</v></c></row>`), "has a cell whose format is not there"},
		{"a long formula", artifact.XLSX, sheet(`<row r="1"><c r="A1"><f>` + strings.Repeat("1+", 4_100) + `1</f></c></row>`), "has a formula of more than 8192 characters"},
		{"a link to every cell", artifact.XLSX, sheet(`<worksheet><sheetData/><hyperlinks><hyperlink ref="A1:XFD1048576" location="x"/></hyperlinks></worksheet>`), "has a link whose range is not valid or too large"},
		{"macros", artifact.XLSX, macro, "has macros"},
		{"a workbook for macros", artifact.XLSX, zipped(t, member{"[Content_Types].xml", `<Types><Override PartName="/x" ContentType="application/vnd.ms-excel.sheet.macroEnabled.main+xml"/></Types>`}), "has macros"},
		{"a text as a workbook", artifact.XLSX, packed(t, "wordprocessingml.document", "word/document.xml", "<a/>"), "is not a workbook"},
		{"two workbooks in one", artifact.XLSX, zipped(t, twoParts...), "has several main parts"},
		{"an archive as a workbook", artifact.XLSX, zipped(t, member{"a", "x"}), "is not an office file: it has no list of its parts"},
		{"encrypted, as Office does", artifact.XLSX, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 600)), "does not begin as a zip archive"},
		{"a workbook as a text", artifact.DOCX, sheet(""), "is not a word-processing document"},
		{"a slide twice", artifact.PPTX, packed(t, "presentationml.presentation", "p.xml", `<p xmlns:r="r"><sldIdLst><sldId r:id="a"/></sldIdLst></p>`), "lacks a slide, or shows one twice"},
	}
}

func hostileOthers(t testing.TB) []hostile {
	one := []string{catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Type/Page>>"}
	pdf := plainPDF("", one...)
	return []hostile{
		{"an array of objects", artifact.NPY, npy("|O", "False", "1,", []byte("\x80\x04cos\nsystem\n.")), "is an array of objects, which is never read"},
		{"an array of texts", artifact.NPY, npy("<U3", "False", "1,", make([]byte, 12)), "is an array of U3, not of numbers"},
		{"records", artifact.NPY, npy("[('a', '|O')]", "False", "1,", []byte{}), "is no array of numbers"},
		{"an expression as a header", artifact.NPY, npy("<f8', 'x': __import__('os').system('id'), 'y': '", "False", "1,", []byte{}), "is no array of numbers"},
		{"an array that is too large", artifact.NPY, npy("<f8", "False", "4000000, 4000000, 4000000", []byte{}), "is an array of more than 4000000 numbers"},
		{"a shape of nothing, many times", artifact.NPY, npy("<f8", "False", "2,", make([]byte, 8)), "has 8 bytes of numbers, and its shape 16"},
		{"a pickle", artifact.NPY, []byte("\x80\x04\x95\x00\x00\x00\x00cos\nsystem\n."), "does not begin as an array of NumPy"},
		{"a large picture", artifact.PNG, pngOf(30_000, 30_000, 8), "declares more than 64 megapixels, or more than 32768 on a side"},
		{"a picture of 16 bits", artifact.PNG, pngOf(8_000, 7_999, 16), "declares more than 16 megapixels of 16 bits, in four colours or in several passes"},
		{"a picture in four colours", artifact.JPEG, jpegOf(8_000, 7_999, 0xc0, 4), "declares more than 16 megapixels of 16 bits, in four colours or in several passes"},
		{"a picture in several passes", artifact.JPEG, jpegOf(8_000, 7_999, 0xc2, 3), "declares more than 16 megapixels of 16 bits, in four colours or in several passes"},
		{"a JPEG without pixels", artifact.JPEG, jpegOf(8_000, 7_999, 0xc0, 3), "is broken: its pixels cannot be read"},
		{"a picture without pixels", artifact.PNG, pngOf(100, 100, 8), "is broken: its pixels cannot be read"},
		{"a zip behind a picture", artifact.PNG, append(pngOf(1, 1, 8), zipped(t, member{"a", "x"})...), "goes on after the end of its picture"},
		{"another picture", artifact.JPEG, pngOf(1, 1, 8), "is not a JPEG"},
		{"a text as a picture", artifact.PNG, []byte("not a picture"), "is not a PNG"},
		{"a zip behind a PDF", artifact.PDF, append(bytes.Clone(pdf), zipped(t, member{"a", "x"})...), "does not end as a PDF"},
		{"something in front of a PDF", artifact.PDF, append([]byte("PK\x03\x04"), pdf...), "does not begin as a PDF"},
		{"pages that lie", artifact.PDF, plainPDF("", catalog, "<</Type/Pages/Count 9/Kids[3 0 R]>>", "<</Type/Page>>"), "has 1 pages and says that it has 9"},
		{"a circle of pages", artifact.PDF, plainPDF("", catalog, "<</Type/Pages/Count 1/Kids[2 0 R]>>"), "has a page twice, or a circle of pages"},
		{"a page many times", artifact.PDF, plainPDF("", catalog, "<</Type/Pages/Count 2/Kids[3 0 R 3 0 R]>>", "<</Type/Page>>"), "has a page twice, or a circle of pages"},
		{"an encrypted PDF", artifact.PDF, plainPDF("/Encrypt 9 0 R", one...), "is encrypted"},
		{"a deep PDF", artifact.PDF, plainPDF("", catalog, strings.Repeat("[", 100_000)), "is a broken PDF: it has no list of pages"},
		{"a table whose length wraps around", artifact.PDF, []byte("%PDF-1.4\nxref\n0 1\n0000000000 65535 f \n1 9223372036854775807\n0000000000 00000 n \ntrailer\n<<>>\nstartxref\n9\n%%EOF"), "has a table of objects that is broken or too long"},
		{"a packed table whose length wraps around", artifact.PDF, streamPDF("[0 1 1 9223372036854775807]", "<<>>"), "is a broken PDF: its table of objects cannot be read"},
		{"an object that is cut off", artifact.PDF, streamPDF("[0 7]", "<"), "is a broken PDF: it has no list of pages"},
		{"a PDF without a table", artifact.PDF, []byte("%PDF-1.4\nstartxref\n99999\n%%EOF"), "is a broken PDF: its table of objects is not where it should be"},
	}
}

// TestHostile: each file is refused with what is wrong with it, and allocates no more for it
// than the sandbox has.
func TestHostile(t *testing.T) {
	var all []hostile
	all = append(append(append(all, hostileArchives(t)...), hostileWorkbooks(t)...), hostileOthers(t)...)
	if len(all) < 40 {
		t.Errorf("only %d files", len(all))
	}
	for _, c := range all {
		reason := ""
		used := memtest.Allocated(func() { _, reason = read(t, c.data, c.as) })
		if reason != c.reason {
			t.Errorf("%s: %q, want %q", c.name, reason, c.reason)
		}
		if used > 640<<20 { // with what was collected since
			t.Errorf("%s: %d MiB", c.name, used>>20)
		}
	}
}
