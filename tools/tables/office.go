package main

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
)

// part is a file of an archive.
type part struct{ name, text string }

// archive makes a ZIP file, the same each time.
func archive(parts ...part) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, p := range parts {
		f, err := w.CreateHeader(&zip.FileHeader{Name: p.name, Method: zip.Deflate})
		if err == nil {
			_, err = f.Write([]byte(p.text))
		}
		if err != nil {
			panic(err) // memory takes all
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

const head = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"

func escaped(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err)
	}
	return b.String()
}

// relations is a part that says what belongs to what.
func relations(name string, targets ...[3]string) part {
	var b strings.Builder
	for _, t := range targets {
		fmt.Fprintf(&b, `<Relationship Id="%s" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/%s" Target="%s"/>`, t[0], t[1], t[2])
	}
	return part{name, head + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` + b.String() + `</Relationships>`}
}

// types is the part that names the types of others.
func types(of ...[2]string) part {
	b := `<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>`
	for _, t := range of {
		b += fmt.Sprintf(`<Override PartName="%s" ContentType="application/vnd.openxmlformats-officedocument.%s+xml"/>`, t[0], t[1])
	}
	return part{"[Content_Types].xml", head + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` + b + `</Types>`}
}

// sheet is a sheet of a workbook: its rows of texts, numbers, days and formulas.
type sheet struct {
	name string
	rows [][]any
}

// formula is a formula and what it yields.
type formula struct {
	text  string
	value float64
}

// day is a date, as days since 1899-12-30.
type day int

// workbook makes an xlsx file.
func workbook(sheets ...sheet) []byte {
	list, kinds, targets := "", [][2]string{{"/xl/workbook.xml", "spreadsheetml.sheet.main"}, {"/xl/styles.xml", "spreadsheetml.styles"}}, [][3]string{}
	var parts []part
	for i, s := range sheets {
		name := fmt.Sprintf("sheet%d.xml", i+1)
		list += fmt.Sprintf(`<sheet name="%s" sheetId="%d" r:id="rId%d"/>`, escaped(s.name), i+1, i+1)
		targets = append(targets, [3]string{fmt.Sprintf("rId%d", i+1), "worksheet", "worksheets/" + name})
		kinds = append(kinds, [2]string{"/xl/worksheets/" + name, "spreadsheetml.worksheet"})
		parts = append(parts, part{"xl/worksheets/" + name, s.xml()})
	}
	targets = append(targets, [3]string{fmt.Sprintf("rId%d", len(sheets)+1), "styles", "styles.xml"})
	const ns = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	return archive(append([]part{
		types(kinds...),
		relations("_rels/.rels", [3]string{"rId1", "officeDocument", "xl/workbook.xml"}),
		{"xl/workbook.xml", head + `<workbook ` + ns + ` xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>` + list + `</sheets></workbook>`},
		relations("xl/_rels/workbook.xml.rels", targets...),
		{"xl/styles.xml", head + `<styleSheet ` + ns + `><fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>` +
			`<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>` +
			`<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>` +
			`<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>` +
			`<cellXfs count="2"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/><xf numFmtId="14" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs></styleSheet>`},
	}, parts...)...)
}

func (s sheet) xml() string {
	var b strings.Builder
	b.WriteString(head + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`)
	for i, values := range s.rows {
		fmt.Fprintf(&b, `<row r="%d">`, i+1)
		for k, v := range values {
			at := fmt.Sprintf("%c%d", 'A'+k, i+1)
			switch v := v.(type) {
			case nil:
			case string:
				fmt.Fprintf(&b, `<c r="%s" t="inlineStr"><is><t>%s</t></is></c>`, at, escaped(v))
			case day:
				fmt.Fprintf(&b, `<c r="%s" s="1"><v>%d</v></c>`, at, v)
			case formula:
				fmt.Fprintf(&b, `<c r="%s"><f>%s</f><v>%v</v></c>`, at, escaped(v.text), v.value)
			default:
				fmt.Fprintf(&b, `<c r="%s"><v>%v</v></c>`, at, v)
			}
		}
		b.WriteString(`</row>`)
	}
	return b.String() + `</sheetData></worksheet>`
}

// letter makes a docx file of paragraphs, of which those that begin with # are headings,
// and a table.
func letter(paragraphs []string, table [][]string) []byte {
	var b strings.Builder
	for _, p := range paragraphs {
		style := ""
		if rest, ok := strings.CutPrefix(p, "# "); ok {
			p, style = rest, `<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>`
		}
		fmt.Fprintf(&b, `<w:p>%s<w:r><w:t xml:space="preserve">%s</w:t></w:r></w:p>`, style, escaped(p))
	}
	if len(table) > 0 {
		b.WriteString(`<w:tbl><w:tblPr/><w:tblGrid>` + strings.Repeat(`<w:gridCol/>`, len(table[0])) + `</w:tblGrid>`)
		for _, r := range table {
			b.WriteString(`<w:tr>`)
			for _, c := range r {
				fmt.Fprintf(&b, `<w:tc><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:tc>`, escaped(c))
			}
			b.WriteString(`</w:tr>`)
		}
		b.WriteString(`</w:tbl><w:p/>`)
	}
	const ns = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	return archive(
		types([2]string{"/word/document.xml", "wordprocessingml.document.main"}, [2]string{"/word/styles.xml", "wordprocessingml.styles"}),
		relations("_rels/.rels", [3]string{"rId1", "officeDocument", "word/document.xml"}),
		part{"word/document.xml", head + `<w:document ` + ns + `><w:body>` + b.String() + `</w:body></w:document>`},
		relations("word/_rels/document.xml.rels", [3]string{"rId1", "styles", "styles.xml"}),
		part{"word/styles.xml", head + `<w:styles ` + ns + `><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style></w:styles>`},
	)
}

// stripes draws a flag of three vertical stripes.
func stripes(width, height int, colours ...color.NRGBA) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.SetNRGBA(x, y, colours[x*len(colours)/width])
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err)
	}
	return out.Bytes()
}
