package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"securebench/internal/source"
)

// rowStream reads the rows of a pack in their order.
type rowStream interface {
	// next reads the next row, of which Raw and the place are set whatever is wrong. more is
	// false behind the last. An err ends the stream.
	next() (r read, more bool, err error)
	// pos is the place of the row that next returned last, or of what is behind it.
	pos() source.Pos
	// digest is that of the file of rows, once next has reported the end.
	digest() string
	close()
}

// read is a row, and what is wrong with it.
type read struct {
	Row
	errs, warnings source.Problems
}

// openRows opens the rows of a pack, in either form.
func openRows(loc Location, texts *textReader) (rowStream, error) {
	if loc.folders() {
		return openTasks(loc, texts)
	}
	if err := loc.oneForm(); err != nil {
		return nil, err
	}
	lines, err := openLines(loc.Tasks)
	if err != nil {
		return nil, err
	}
	return &lineStream{lineReader: lines, texts: texts}, nil
}

// folders reports whether the pack is a folder of tasks.
func (l Location) folders() bool {
	info, err := os.Lstat(l.Tasks)
	return err == nil && info.IsDir() && filepath.Base(l.Tasks) != tasksName
}

// oneForm refuses a pack that has both forms.
func (l Location) oneForm() error {
	dir := filepath.Dir(l.Tasks)
	if name := filepath.Base(l.Tasks); name != tasksName && name != tasksFolder {
		return nil
	}
	for _, name := range []string{tasksName, tasksFolder} {
		if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	found, err := fs.Glob(os.DirFS(dir), tasksFolder+"/*/"+taskFile)
	if err != nil || len(found) == 0 {
		return nil // another folder of that name
	}
	return &source.Problem{Pos: source.Pos{File: filepath.Join(dir, found[0])}, Message: fmt.Sprintf("the pack has both %s and a folder of tasks", tasksName),
		Fix: "keep one of them: which tasks it has must be beyond doubt"}
}

// lineStream reads rows in JSON lines.
type lineStream struct {
	*lineReader
	texts *textReader
	index int
}

func (s *lineStream) next() (r read, more bool, err error) {
	raw, more, err := s.lineReader.next()
	if err != nil || !more {
		return r, false, err
	}
	r.Row, r.errs, r.warnings, err = parseRow(s.texts, s.pos(), s.index, raw)
	r.Offset = s.start
	s.index++
	return r, true, err
}
