package artifacttask

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/picture"
	"securebench/internal/verdict"
)

// deliveredFile is what files say that are no texts, in words, for the operator.
const deliveredFile = "delivered.txt"

// maxDelivered is the most bytes of it for one file.
const maxDelivered = 64 << 10

// maxColumns bounds how far right a sheet is shown.
const maxColumns = 64

// delivered returns what a file says that a reader cannot see as a text: tables of its
// sheets, its paragraphs, its size in pixels, its members. It was made in the sandbox that
// read the file, so nothing of the file can act.
func delivered(f *artifact.File) string {
	var b strings.Builder
	switch {
	case f.Text != nil || f.Table != nil: // the candidate itself is shown
	case f.Workbook != nil:
		for _, s := range f.Workbook.Sheets {
			fmt.Fprintf(&b, "sheet %q%s\n", s.Name, map[bool]string{true: ", hidden"}[s.Hidden])
			cells(&b, s.Cells)
		}
	case f.Image != nil:
		fmt.Fprintf(&b, "a picture of %d x %d pixels\n", f.Image.Width, f.Image.Height)
	case f.Array != nil:
		fmt.Fprintf(&b, "an array of %v\n%v\n", f.Array.Shape, f.Array.Values[:min(len(f.Array.Values), 1000)])
	case f.Members != nil:
		for _, m := range f.Members {
			fmt.Fprintf(&b, "%10d  %s  %q\n", m.Bytes, m.SHA256, m.Name)
		}
	default:
		b.WriteString(said(f))
	}
	out := b.String()
	if len(out) > maxDelivered {
		out = strings.ToValidUTF8(out[:maxDelivered], "") + "\n(more is not shown)\n"
	}
	return out
}

// cells writes the cells of a sheet as lines of a table, each with the number of its row.
func cells(b *strings.Builder, list []artifact.Cell) {
	row, column := 0, 0
	for _, c := range list {
		if c.Column > maxColumns || c.Value.Kind == artifact.Empty && c.Formula == "" {
			continue
		}
		if b.Len() > maxDelivered {
			return
		}
		if c.Row != row {
			if row > 0 {
				b.WriteByte('\n')
			}
			row, column = c.Row, 1
			fmt.Fprintf(b, "%d:", row)
		}
		b.WriteString(strings.Repeat(" |", c.Column-column) + " " + shown(c))
		column = c.Column
	}
	if row > 0 {
		b.WriteByte('\n')
	}
}

// shown is a cell in words: its formula, and its value.
func shown(c artifact.Cell) string {
	out := c.Value.Text
	switch c.Value.Kind {
	case artifact.Number:
		out = fmt.Sprint(c.Value.Number)
	case artifact.Date:
		out = fmt.Sprintf("day %v", c.Value.Number)
	case artifact.Bool:
		out = strings.ToUpper(fmt.Sprint(c.Value.Number != 0))
	case artifact.String:
		out = fmt.Sprintf("%q", out)
	}
	if c.Formula != "" {
		out = "=" + c.Formula + " → " + out
	}
	return out
}

// deliver keeps what a file says for the operator.
func (s *scorer) deliver(o output, f *artifact.File) {
	text := delivered(f)
	if f.Image != nil {
		text += s.keepPicture(f.Image)
	}
	if text != "" {
		s.restricted[deliveredFile] = append(s.restricted[deliveredFile], o.Path+":\n"+text...)
	}
}

// keepPicture keeps a picture for people, and returns a line that names its file. What is
// none came from a sandbox that the file has taken over.
func (s *scorer) keepPicture(m *artifact.Image) string {
	info, err := picture.Size(bytes.NewReader(m.Shown))
	if err != nil || info.Type != picture.JPEG || max(info.Width, info.Height) > artifact.ShownSide {
		return "(it is not shown)\n"
	}
	s.pictures++
	name := fmt.Sprintf("picture-%d%s", s.pictures, verdict.PictureExt)
	s.restricted[name] = m.Shown
	return name + "\n"
}

// maxPage bounds the picture of a page, in bytes: [artifact.ShownSide] squared, uncompressed,
// fits in.
const maxPage = 8 << 20

// drawPages keeps pictures of the first pages of a file, for the operator: no verdict
// depends on them. What cannot be drawn is said.
func (s *scorer) drawPages(ctx context.Context, name string, t artifact.Type, content []byte) error {
	out, why, err := s.converter.run(ctx, drawers()[t], content)
	var drawn [][]byte
	if err == nil && why == "" {
		drawn, why = unpacked(out)
	}
	var lines strings.Builder
	for i, page := range drawn {
		var f *artifact.File
		if f, why, err = s.readAlone(ctx, artifact.PNG, page); f == nil {
			break
		}
		fmt.Fprintf(&lines, "page %d: %s", i+1, s.keepPicture(f.Image))
	}
	if why != "" {
		s.notConverted(name, "its pages: "+why)
	}
	if lines.Len() > 0 {
		s.restricted[deliveredFile] = append(s.restricted[deliveredFile], name+", its pages:\n"+lines.String()...)
	}
	return err
}

// unpacked returns the first files of an archive that a sandbox made. Its holes count as
// what they read as: a short archive can declare any length.
func unpacked(archive []byte) (files [][]byte, why string) {
	for tr := tar.NewReader(bytes.NewReader(archive)); len(files) < maxPages; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || h.Typeflag != tar.TypeReg || h.Size > maxPage {
			return nil, "what came of them is no archive of pictures"
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return nil, "what came of them is no archive of pictures"
		}
		files = append(files, data)
	}
	return files, ""
}
