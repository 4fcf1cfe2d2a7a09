package importer

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/lazyregexp"
)

// book is what an importer reads of a data set's workbook: the texts of its cells. Of an
// answer, only what runs in a sandbox reads anything.
type book []bookSheet

// bookSheet is a sheet, in the order of the workbook. Its cells are the stored values and
// the formulas, as texts.
type bookSheet struct {
	name          string
	cells         map[[2]int]string // by row and column, from 1
	rows, columns int               // of the part in use
}

// maxPart is the most bytes of a part of a workbook.
const maxPart = 64 << 20

// used is the range of the cells in use, from A1; "" if there are none.
func (s bookSheet) used() string {
	if s.rows == 0 {
		return ""
	}
	return "A1:" + artifact.CellName(s.rows, s.columns)
}

// named returns the sheet with a name.
func (b book) named(name string) (bookSheet, bool) {
	for _, s := range b {
		if s.name == name {
			return s, true
		}
	}
	return bookSheet{}, false
}

// book reads a workbook of the data set.
func (m *materials) book(name string) (book, error) {
	if _, why := m.stat(name); why != "" {
		return nil, errors.New(why)
	}
	z, err := zip.OpenReader(path.Join(m.dir, name))
	if err != nil {
		return nil, fmt.Errorf("%s is no workbook: %w", name, err)
	}
	defer z.Close()
	b, err := readBook(&z.Reader)
	if err != nil {
		return nil, fmt.Errorf("%s is no workbook that can be read: %w", name, err)
	}
	return b, nil
}

func readBook(z *zip.Reader) (book, error) {
	var workbook struct {
		Sheets []struct {
			Name string `xml:"name,attr"`
			ID   string `xml:"http://schemas.openxmlformats.org/officeDocument/2006/relationships id,attr"`
		} `xml:"sheets>sheet"`
	}
	var relations struct {
		List []struct {
			ID     string `xml:"Id,attr"`
			Target string `xml:"Target,attr"`
		} `xml:"Relationship"`
	}
	var shared struct {
		Items []richText `xml:"si"`
	}
	if err := errors.Join(part(z, "xl/workbook.xml", &workbook), part(z, "xl/_rels/workbook.xml.rels", &relations)); err != nil {
		return nil, err
	}
	if err := part(z, "xl/sharedStrings.xml", &shared); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out book
	for _, s := range workbook.Sheets {
		target := ""
		for _, r := range relations.List {
			if r.ID == s.ID {
				target = r.Target
			}
		}
		if rest, ok := strings.CutPrefix(target, "/"); ok {
			target = rest
		} else {
			target = path.Join("xl", target)
		}
		sheet := bookSheet{name: s.Name, cells: map[[2]int]string{}}
		if err := sheet.read(z, target, shared.Items); err != nil {
			return nil, err
		}
		out = append(out, sheet)
	}
	return out, nil
}

// richText is a text in one part or several.
type richText struct {
	Text string `xml:"t"`
	Runs []struct {
		Text string `xml:"t"`
	} `xml:"r"`
}

func (t richText) String() string {
	out := t.Text
	for _, r := range t.Runs {
		out += r.Text
	}
	return out
}

// part decodes a part of a workbook.
func part(z *zip.Reader, name string, into any) error {
	f, err := z.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return xml.NewDecoder(io.LimitReader(f, maxPart)).Decode(into)
}

var cellName = lazyregexp.New(`^([A-Z]{1,3})([1-9][0-9]{0,6})$`)

// place is the row and the column of a cell's name, 0 for none.
func place(name string) (row, column int) {
	m := cellName.FindStringSubmatch(name)
	if m == nil {
		return 0, 0
	}
	row, _ = strconv.Atoi(m[2]) // digits only
	for _, c := range m[1] {
		column = column*26 + int(c-'A') + 1
	}
	return row, column
}

func (s *bookSheet) read(z *zip.Reader, name string, shared []richText) error {
	var sheet struct {
		Cells []struct {
			Name    string   `xml:"r,attr"`
			Type    string   `xml:"t,attr"`
			Value   string   `xml:"v"`
			Formula string   `xml:"f"`
			Inline  richText `xml:"is"`
		} `xml:"sheetData>row>c"`
	}
	if err := part(z, name, &sheet); err != nil {
		return err
	}
	for _, c := range sheet.Cells {
		row, column := place(c.Name)
		text := c.Value + c.Inline.String()
		if i, err := strconv.Atoi(c.Value); c.Type == "s" && err == nil && i >= 0 && i < len(shared) {
			text = shared[i].String()
		}
		if text == "" && c.Formula != "" {
			text = "=" + c.Formula
		}
		if row == 0 || text == "" {
			continue
		}
		s.cells[[2]int{row, column}] = text
		s.rows, s.columns = max(s.rows, row), max(s.columns, column)
	}
	return nil
}
