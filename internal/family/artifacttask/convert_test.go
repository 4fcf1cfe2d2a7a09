package artifacttask

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// standIns are programs in the place of LibreOffice, which knows one formula, and of those
// of poppler.
const standIns = `cat >/usr/local/bin/soffice <<'END'
#!/usr/bin/env python3
import os, re, sys, zipfile
if '--version' in sys.argv:
    sys.exit(print('Stand-in 1.0'))
if open('profile/user/registrymodifications.xcu').read().count('OOXMLRecalcMode') != 1:
    sys.exit('it would not calculate')
if sys.argv[sys.argv.index('--convert-to') + 1] == 'pdf':
    os.mkdir('out')
    sys.exit(os.rename('in.docx', 'out/in.pdf'))
roman = {'4': 'IV', '5': 'V'}
os.mkdir('out')
with zipfile.ZipFile('in.xlsx') as before, zipfile.ZipFile('out/in.xlsx', 'w') as after:
    for name in before.namelist():
        part = before.read(name).decode()
        if 'crash' in part:
            sys.exit(77)
        number = re.findall('<v>([0-9]+)</v>', part)
        part = re.sub('(<f>ROMAN[^<]*</f>)(<v>[^<]*</v>)?', lambda m: m[1] + '<v>%s</v>' % roman[number[0]], part.replace('r="B1">', 'r="B1" t="str">'))
        after.writestr(name, 'no workbook' if 'garbage' in part else part)
END
cat >/usr/local/bin/pdftotext <<'END'
#!/usr/bin/env python3
import re, sys
if '-v' in sys.argv:
    sys.exit(print('pdftotext stand-in'))
text = open('in.pdf').read()
if 'crash' in text:
    sys.exit(1)
print('\n'.join(re.findall(r'\((.*?)\) Tj', text)))
END
cat >/usr/local/bin/pdftoppm <<'END'
#!/usr/bin/env python3
import struct, sys, zlib
if b'undrawn' in open('out/in.pdf', 'rb').read():
    sys.exit(1)
def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
for page in '12':
    with open(sys.argv[-1] + '-' + page + '.png', 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 3, 2, 8, 0, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'\0abc' * 2)) + chunk(b'IEND', b''))
END
chmod 755 /usr/local/bin/soffice /usr/local/bin/pdfto*`

// packed is an office file of parts: a name and its XML each.
func packed(tb testing.TB, parts ...[2]string) string {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, part := range parts {
		out, err := w.CreateHeader(&zip.FileHeader{Name: part[0], Method: zip.Store})
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(out, `<?xml version="1.0" encoding="UTF-8"?>`+part[1]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// letter is a document of one paragraph.
func letter(tb testing.TB, line string) string {
	tb.Helper()
	return packed(tb,
		[2]string{"[Content_Types].xml", `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`},
		[2]string{"_rels/.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`},
		[2]string{"word/document.xml", `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>` + line + `</w:t></w:r></w:p></w:body></w:document>`})
}

// workbook is one whose A1 is a number and whose B1 is a formula that only an office
// program knows, with what the writer says that it yields.
func workbook(tb testing.TB, number int, stored, more string) string {
	tb.Helper()
	kind := ""
	if stored != "" {
		kind, stored = ` t="str"`, "<v>"+stored+"</v>"
	}
	return packed(tb, [][2]string{
		{"[Content_Types].xml", `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>`},
		{"_rels/.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
		{"xl/_rels/workbook.xml.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`},
		{"xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="a"/></sheets></workbook>`},
		{"xl/worksheets/sheet1.xml", fmt.Sprintf(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1"><v>%d</v></c><c r="B1"%s><f>ROMAN(A1)</f>%s</c></row></sheetData></worksheet>`, number, kind, stored) + more},
	}...)
}

// paper is a PDF of one page with a line of text.
func paper(line string) string {
	var b strings.Builder
	var offsets []int
	b.WriteString("%PDF-1.4\n")
	text := "BT /F 1 Tf 1 1 Td (" + line + ") Tj ET"
	for i, object := range []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 9]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>", fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(text), text)} {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return b.String()
}

// TestConverter: what a formula yields that only an office program can calculate, and what
// a PDF says, is found out in a sandbox of the image that the row names. Without one, what
// the candidate's workbook says of such a formula is believed.
func TestConverter(t *testing.T) {
	t.Parallel()
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		converts(t, e, enginetest.Script(t, e, enginetest.Image(t, e), standIns), true)
	})
}

// TestOfficeConverter: the same with the real programs, where an image has them.
func TestOfficeConverter(t *testing.T) {
	t.Parallel()
	ref := os.Getenv("SECUREBENCH_TEST_OFFICE")
	if ref == "" {
		t.Skip("SKIPPED: SECUREBENCH_TEST_OFFICE names no image with LibreOffice and poppler")
	}
	e := enginetest.Connect(t)
	image, err := e.Image(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	converts(t, e, image, false)
	draws(t, e, image, 1)
}

func converts(t *testing.T, e sandbox.Engine, image sandbox.Image, standIn bool) {
	t.Helper()
	v := newTest(t, e, map[string]string{"want.xlsx": workbook(t, 4, "IV", ""), "want.pdf": paper("It is so.")}).(*verifier)
	v.resources.Image = func(ref string) (sandbox.Image, bool) { return image, ref == "office" }
	xlsx := object{keyReference: object{"path": "want.xlsx"}, keyRubric: object{"type": "cells", "sheet": "S", "range": "B1:B1"}}
	pdf := object{keyReference: object{"path": "want.pdf"}, keyRubric: object{"type": "document", "tables": false}}
	with := func(eval object) object {
		return object{keyReference: eval[keyReference], keyRubric: eval[keyRubric], keyConverter: "office"}
	}
	type delivery struct {
		eval       object
		file, text string
		want       verdict.Reason
	}
	deliveries := map[string]delivery{
		"right":                       {with(xlsx), "a.xlsx", workbook(t, 4, "IV", ""), ""},
		"right, with nothing stored":  {with(xlsx), "a.xlsx", workbook(t, 4, "", ""), ""},
		"another number":              {with(xlsx), "a.xlsx", workbook(t, 5, "V", ""), verdict.WrongAnswer},
		"a value that is not yielded": {with(xlsx), "a.xlsx", workbook(t, 5, "IV", ""), verdict.StoredValueDiffers},
		"such a value, believed":      {xlsx, "a.xlsx", workbook(t, 5, "IV", ""), ""},
		"a text":                      {with(pdf), "a.pdf", paper("It is so."), ""},
		"another text":                {with(pdf), "a.pdf", paper("It is not."), verdict.WrongAnswer},
		"a text of more words":        {with(pdf), "a.pdf", paper("It is so. Or not."), verdict.WrongAnswer},
	}
	if standIn {
		maps.Copy(deliveries, map[string]delivery{
			"a program that crashes":  {with(xlsx), "a.xlsx", workbook(t, 4, "IV", "<!-- crash -->"), verdict.StoredValueDiffers},
			"a program that lies":     {with(xlsx), "a.xlsx", workbook(t, 4, "IV", "<!-- garbage -->"), verdict.StoredValueDiffers},
			"a text that is not read": {with(pdf), "a.pdf", paper("It is so.%crash"), verdict.ArtifactUnreadable},
		})
	}
	for name, tt := range deliveries {
		_, kind, _ := strings.Cut(tt.file, ".")
		c := rowOf(t, object{"type": kind, "path": tt.file}, tt.eval)
		got := scored(t, v, c, tree(t, map[string]left{tt.file: {text: tt.text}}))
		if got.Reason != tt.want || (got.Outcome == verdict.Passed) != (tt.want == "") {
			t.Errorf("%s: %s %s, %s, %q", name, got.Outcome, got.Reason, got.Message, got.Restricted)
		}
		how := verdict.Passive
		if tt.eval[keyConverter] != nil {
			how = verdict.Split
		}
		if got.Containment != how || (got.Metadata[keyConverter] != nil) != (how == verdict.Split) {
			t.Errorf("%s is %s, by %s", name, got.Containment, got.Metadata[keyConverter])
		}
	}
}

// TestDrawn: the pages of what was delivered are kept as pictures, which a sandbox made of
// what the converter drew; a verdict does not depend on them.
func TestDrawn(t *testing.T) {
	t.Parallel()
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		draws(t, e, enginetest.Script(t, e, enginetest.Image(t, e), standIns), 2)
	})
}

// draws checks pictures of documents of one page each, of which stand-ins draw more.
func draws(t *testing.T, e sandbox.Engine, image sandbox.Image, pages int) {
	t.Helper()
	v := newTest(t, e, map[string]string{"want.docx": letter(t, "It is so."), "want.pdf": paper("It is so.")}).(*verifier)
	v.resources.Image = func(ref string) (sandbox.Image, bool) { return image, ref == "office" }
	for name, tt := range map[string]struct {
		kind, text string
		pages      int
		why        string
	}{
		"a PDF":                 {"pdf", paper("It is so."), pages, ""},
		"a document":            {"docx", letter(t, "It is so."), pages, ""},
		"one that is not drawn": {"docx", letter(t, "undrawn"), 0, "out.docx: its pages: the program that converts it ended with exit code"},
	} {
		if tt.why != "" && pages == 1 {
			continue // only stand-ins fail at will
		}
		eval := object{keyReference: object{"path": "want." + tt.kind}, keyRubric: object{"type": "document", "tables": false}, keyConverter: "office"}
		got := scored(t, v, rowOf(t, object{"type": tt.kind, "path": "out." + tt.kind}, eval), tree(t, map[string]left{"out." + tt.kind: {text: tt.text}}))
		if (got.Outcome == verdict.Passed) != (tt.why == "") || !strings.HasPrefix(string(got.Restricted[converterFile]), tt.why) {
			t.Errorf("%s: %s %s, %q", name, got.Outcome, got.Reason, got.Restricted[converterFile])
		}
		for n := 1; n <= tt.pages+1; n++ {
			data, ok := got.Restricted[fmt.Sprintf("picture-%d.jpg", n)]
			if ok != (n <= tt.pages) {
				t.Errorf("%s: picture %d: %t", name, n, ok)
			}
			if m, err := jpeg.DecodeConfig(bytes.NewReader(data)); ok && (err != nil || m.Width == 0) {
				t.Errorf("%s: picture %d: %v", name, n, err)
			}
		}
		if line := fmt.Sprintf("page %d: picture-%d.jpg\n", tt.pages, tt.pages); tt.pages > 0 && !strings.Contains(string(got.Restricted[deliveredFile]), line) {
			t.Errorf("%s: %q", name, got.Restricted[deliveredFile])
		}
	}
}

// TestUnpacked: an archive that a sandbox made cannot make the parent hold more than a few
// pages, though 512 bytes of it may declare a terabyte.
func TestUnpacked(t *testing.T) {
	t.Parallel()
	plain := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name))}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if files, why := unpacked(plain("page-1", "page-2")); why != "" || len(files) != 2 || string(files[1]) != "page-2" {
		t.Errorf("two pages: %q, %s", files, why)
	}
	if files, why := unpacked(plain(strings.Split(strings.Repeat("p ", 3*maxPages), " ")[:2*maxPages]...)); why != "" || len(files) != maxPages {
		t.Errorf("many pages: %d, %s", len(files), why)
	}
	const size = 1 << 40
	var link bytes.Buffer
	w := tar.NewWriter(&link)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "page-1", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}), w.Close()); err != nil {
		t.Fatal(err)
	}
	sparse := sparseArchive(size)
	if h, err := tar.NewReader(bytes.NewReader(sparse)).Next(); err != nil || h.Size != size {
		t.Fatalf("the attack does not work on who believes it: %+v, %v", h, err)
	}
	for name, archive := range map[string][]byte{"a hole of a terabyte": sparse, "a link": link.Bytes(), "no archive": []byte(strings.Repeat("x", 1024))} {
		if files, why := unpacked(archive); why == "" || files != nil {
			t.Errorf("%s: %d files", name, len(files))
		}
	}
}

// sparseArchive is an archive of GNU's old form with one file, which is a hole of a size.
func sparseArchive(size int64) []byte {
	h := make([]byte, 512)
	copy(h, "page-1")
	copy(h[100:], "0000644\x00")
	copy(h[108:], "0000000\x00")
	copy(h[116:], "0000000\x00")
	copy(h[124:], "00000000000\x00") // bytes in the archive
	copy(h[136:], "00000000000\x00")
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	number := func(at int, n int64) { // in base 256
		binary.BigEndian.PutUint64(h[at+4:], uint64(n))
		h[at] = 0x80
	}
	number(386, size) // where the only data is: none, at the end
	number(398, 0)
	number(483, size)
	sum := 8 * int(' ')
	for i, b := range h {
		if i < 148 || i >= 156 {
			sum += int(b)
		}
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(h, make([]byte, 1024)...)
}

// TestPages: a text has no more pages than its file, whatever form feeds its writer put in.
func TestPages(t *testing.T) {
	t.Parallel()
	if got, why := pages([]byte("one\ntwo\f\fthree\f"), 3); why != "" || len(got) != 2 || got[0].Text != "one\ntwo" || got[1].Page != 3 {
		t.Errorf("%+v, %s", got, why)
	}
	if got, why := pages([]byte(strings.Repeat("a\f", 1000)), 3); why == "" || got != nil {
		t.Errorf("%d pages", len(got))
	}
}
