package artifacttask

import (
	"bytes"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"securebench/internal/artifact"
	"securebench/internal/bounded"
	"securebench/internal/family"
	"securebench/internal/family/readbox"
	"securebench/internal/family/sandboxed"
	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/task"
)

// convertLimit bounds the conversion of one file, and desk is where it is done.
const (
	convertLimit = 2 * time.Minute
	desk         = "/tmp"
)

// maxPages is how many pages of a document are shown.
const maxPages = 8

//go:embed office.sh
var office string

// converters are the programs that complete files, in the words of a shell, by type.
func converters() map[artifact.Type]string {
	return map[artifact.Type]string{
		artifact.XLSX: office + "cat >in.xlsx; as xlsx 'Calc MS Excel 2007 XML'; cat out/in.xlsx",
		artifact.PDF:  "cat >in.pdf && pdftotext -q -enc UTF-8 in.pdf -",
	}
}

// drawers are the programs that write an archive of pictures of pages, by type.
func drawers() map[artifact.Type]string {
	draw := fmt.Sprintf("\npdftoppm -q -png -scale-to %d -l %d out/in.pdf page; tar -cf - page*", artifact.ShownSide, maxPages)
	return map[artifact.Type]string{
		artifact.PDF:  "set -e; mkdir out; cat >out/in.pdf" + draw,
		artifact.DOCX: office + "cat >in.docx; as pdf" + draw,
		artifact.PPTX: office + "cat >in.pptx; as pdf" + draw,
	}
}

// converterOf names the image in which a row has files converted, "" for none.
func converterOf(v task.SandboxView) string {
	ref, _ := v.Get(keyConverter)
	name, _ := ref.Text()
	return name
}

// images are those that a row's verification needs.
func images(v task.SandboxView) []string {
	if ref := converterOf(v); ref != "" {
		return []string{ref}
	}
	return nil
}

// converter has what the reader does not know of a file found out by an office program.
// That parses a whole file in code that nobody can vouch for, so each file has a sandbox of
// its own, and what comes of it is read as a candidate's file is.
type converter struct {
	images *sandboxed.Images
	image  sandbox.Image
	site   *sandboxed.Site
	name   string // what the image's programs say that they are
}

// openConverter has files of a row that names a converter converted.
func (s *scorer) openConverter(ctx context.Context, site *sandboxed.Site) (err error) {
	ref := converterOf(s.c.Sandbox)
	if ref == "" {
		return nil
	}
	image, ok := s.verifier.resources.Image(ref)
	if !ok {
		return fmt.Errorf("the image %s of eval.%s was not looked up", ref, keyConverter)
	}
	s.converter = &converter{images: &s.verifier.images, image: image, site: site}
	s.converter.name, err = s.converter.version(ctx)
	return err
}

// imageID tells a converter from others; "" is none.
func (c *converter) imageID() string {
	if c == nil {
		return ""
	}
	return c.image.ID
}

// readFile has a file read in a sandbox, and completed by the converter, if there is one.
// A candidate's workbook may keep cells whose values are not known.
func (s *scorer) readFile(ctx context.Context, box *readbox.Box, name string, ofCandidate bool, t artifact.Type, size int64, content io.Reader) (*artifact.File, error) {
	if s.converter == nil || converters()[t] == "" && drawers()[t] == "" {
		return box.Read(ctx, t, size, content)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	f, err := box.Read(ctx, t, size, bytes.NewReader(data))
	if err == nil && ofCandidate && drawers()[t] != "" {
		err = s.drawPages(ctx, name, t, data)
	}
	if err != nil || converters()[t] == "" || f.Workbook != nil && !open(f.Workbook) {
		return f, err
	}
	s.converted = s.converted || ofCandidate
	why, err := s.complete(ctx, f, data)
	if why == "" || err != nil {
		return f, err
	}
	s.notConverted(name, why)
	if f.Document != nil || !ofCandidate {
		return nil, &readbox.Unreadable{Type: t, Why: why} // a document without its text would be as any other
	}
	return f, nil
}

// notConverted says for the operator why a file was not.
func (s *scorer) notConverted(name, why string) {
	s.restricted[converterFile] = fmt.Appendf(s.restricted[converterFile], "%s: %s\n", name, why)
}

// complete adds to a file what the reader does not know of it. What is not found out stays
// unknown, which no candidate passes by; why says the reason.
func (s *scorer) complete(ctx context.Context, f *artifact.File, content []byte) (why string, err error) {
	out, why, err := s.converter.run(ctx, converters()[f.Type], content)
	if why != "" || err != nil {
		return why, err
	}
	if f.Document != nil {
		f.Document.Blocks, why = pages(out, f.Document.Pages)
		return why, nil
	}
	by, why, err := s.readAlone(ctx, f.Type, out)
	if by != nil {
		adopt(f.Workbook, by.Workbook)
	}
	if why != "" {
		why = "what came of it cannot be read: " + why
	}
	return why, err
}

// run runs a program over a file. If it fails, why says how.
func (c *converter) run(ctx context.Context, script string, content []byte) (out []byte, why string, err error) {
	box, err := c.site.Open(ctx, "converter", convertLimit+sandboxed.StartLimit, sandbox.Spec{Image: c.image,
		Capabilities: sandbox.Supervisor()})
	if err != nil {
		return nil, "", err
	}
	var stdout bytes.Buffer
	said := bounded.Head{Max: 4 << 10}
	res, err := box.Client.Run(ctx, initproc.Command{Argv: []string{"/bin/sh", "-c", script}, Dir: desk, Inherit: true,
		Env: []string{"HOME=" + desk, "TMPDIR=" + desk}, User: sandbox.Nobody, Stdin: bytes.NewReader(content),
		Stdout: &bounded.Writer{W: &stdout, Left: readbox.MaxBytes, Err: bounded.ErrTooLong}, Stderr: &said, Output: readbox.MaxBytes, Timeout: convertLimit})
	limits, endErr := box.End(ctx)
	if errors.Is(err, bounded.ErrTooLong) {
		return nil, "the converted file is too large", endErr
	}
	err = sandboxed.Settle(err, limits, endErr, true)
	if failed, ok := errors.AsType[*family.Failure](err); ok {
		return nil, "converting it: " + failed.Message, nil
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("converting a file: %w", err)
	case res.End != sandbox.Exited, res.ExitCode != 0, stdout.Len() == 0:
		return nil, fmt.Sprintf("the program that converts it ended with exit code %d: %s", res.ExitCode, said.String()), nil
	}
	return stdout.Bytes(), "", nil
}

// version says which programs convert, as they say it themselves.
func (c *converter) version(ctx context.Context) (string, error) {
	out, err := c.images.Ask(ctx, c.site, c.image, convertLimit, map[string]any{"image": c.image.ID, "asked": "converter"}, func(client *initproc.Client) ([]byte, error) {
		var b bytes.Buffer
		_, err := client.Run(ctx, initproc.Command{Argv: []string{"/bin/sh", "-c", "HOME=/tmp soffice --version; pdftotext -v 2>&1 | head -n 1"},
			Inherit: true, User: sandbox.Nobody, Stdout: &b, Timeout: time.Minute})
		return b.Bytes(), err
	})
	return bounded.Text(strings.Join(strings.Fields(strings.ToValidUTF8(string(out), "")), " "), 200), err
}

// open reports whether a workbook has cells whose value is not known.
func open(w *artifact.Workbook) bool {
	for _, s := range w.Sheets {
		for i := range s.Cells {
			if adoptable(&s.Cells[i]) {
				return true
			}
		}
	}
	return false
}

// changing are functions that yield something else each time.
var changing = lazyregexp.New(`(?i)\b(RAND|RANDBETWEEN|RANDARRAY|NOW|TODAY)\(`)

// adoptable reports whether an office program can say what a cell is.
func adoptable(c *artifact.Cell) bool { return c.Uncomputed && !changing.MatchString(c.Formula) }

// adopt takes the values of formulas that only the office program could calculate.
func adopt(to, from *artifact.Workbook) {
	for i := range to.Sheets {
		s := &to.Sheets[i]
		at := slices.IndexFunc(from.Sheets, func(other artifact.Sheet) bool { return other.Name == s.Name })
		for j := range s.Cells {
			c := &s.Cells[j]
			if at < 0 || !adoptable(c) {
				continue
			}
			if k, ok := slices.BinarySearchFunc(from.Sheets[at].Cells, *c, artifact.ByPlace); ok {
				take(c, &from.Sheets[at].Cells[k])
			}
		}
	}
}

// take takes the value that the office program stored, unless it does not know the function.
func take(c, from *artifact.Cell) {
	v := from.Value
	if from.Stored != nil {
		v = *from.Stored
	}
	if v.Kind != artifact.Failed || v.Text != "#NAME?" {
		c.Value, c.Uncomputed = v, false
	}
}

// pages are the pages of a text, each of which ends with a form feed. There are no more
// than the file is known to have: its writer may have put form feeds into the text.
func pages(text []byte, most int) (blocks []artifact.Block, why string) {
	if !utf8.Valid(text) {
		return nil, "what came of it is no text"
	}
	page := 0
	for part := range strings.SplitSeq(string(text), "\f") {
		page++
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if page > most {
			return nil, "what came of it has more pages than the file"
		}
		blocks = append(blocks, artifact.Block{Page: page, Text: part})
	}
	return blocks, ""
}
