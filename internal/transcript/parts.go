package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"securebench/internal/candidate"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
)

// candidate adds what was scored: all of it where the store is there, else what
// the record has.
func (b *builder) candidate() {
	l := b.line
	sum := l.Digests.Candidate
	if sum == "" {
		b.add("candidate", "none was captured", "")
		return
	}
	if l.Candidate.Kind == task.Workspace {
		b.tree(sum)
	} else {
		b.stored("candidate", sum, l.Candidate.Shown)
	}
	if ex := l.Digests.Extracted; ex != "" {
		b.stored("candidate: the code that was extracted from it", ex, "")
	}
}

// stored adds a stored text, or else what the record has of it.
func (b *builder) stored(title, sum, shown string) {
	if b.FS == nil {
		b.add(title, "", shown)
		return
	}
	c, err := evidence.Candidate(b.FS, candidate.Candidate{Kind: task.Text, Digest: sum})
	var data []byte
	if err == nil {
		data, err = c.Bytes()
	}
	if err != nil {
		b.add(title, "the stored one cannot be used: "+source.Words(err), shown)
		return
	}
	b.add(title, "", string(data))
}

// Bounds on what is shown of a tree: how many changes are listed, and the content of
// how many files of what size, in bytes.
const (
	maxEntries  = 200
	maxContents = 20
	maxContent  = 32 << 10
)

// listed is what is shown of a tree.
type listed struct {
	lines    []string
	more     int // changes that are not listed
	contents []Part
}

// tree lists the changes of a tree, with the content of small files.
func (b *builder) tree(sum string) {
	const title = "candidate: changed files"
	if b.FS == nil {
		b.add(title, "a tree, stored as "+sum, "")
		return
	}
	l, err := b.entries(sum)
	note := ""
	switch {
	case err != nil:
		b.add(title, "the stored one cannot be used: "+source.Words(err), "")
		return
	case l.more > 0:
		note = fmt.Sprintf("%d more are not listed", l.more)
	case len(l.lines) == 0:
		note = "the agent changed nothing"
	}
	b.add(title, note, strings.Join(l.lines, "\n"))
	for _, c := range l.contents {
		b.add(c.Title, c.Note, c.Text)
	}
}

// entries reads a stored tree. What it returns is that of the digest.
func (b *builder) entries(sum string) (l listed, err error) {
	name, err := record.CandidatePath(sum)
	if err != nil {
		return listed{}, err
	}
	f, err := b.FS.Open(name)
	if err != nil {
		return listed{}, err
	}
	defer f.Close()
	got, err := candidate.ReadTree(f, candidate.Bounds{Bytes: maxTree, Files: maxTreeFiles}, func(e candidate.Entry, content io.Reader) error {
		if len(l.lines) == maxEntries {
			l.more++
			return nil
		}
		l.lines = append(l.lines, fmt.Sprintf("%-8s %04o %9d  %s", entryKind(e), e.Mode.Perm(), e.Size, redact.Quote(e.Path)+target(e)))
		if !e.Mode.IsRegular() || e.Deleted || e.Size == 0 || e.Size > maxContent || len(l.contents) == maxContents {
			return nil
		}
		text, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
			l.contents = append(l.contents, Part{Title: "candidate: " + redact.Quote(e.Path), Text: string(text)})
		}
		return nil
	})
	if err == nil && got != sum {
		err = errors.New("it is not what its name says")
	}
	if err != nil {
		return listed{}, err
	}
	return l, nil
}

// Bounds of a tree that is only listed.
const (
	maxTree      = 1 << 40
	maxTreeFiles = 1 << 24
)

// raw finds a raw file of the agent's or verifier's.
func (b *builder) raw(name string) (record.RawFile, bool) {
	if b.FS == nil || b.Salt == nil {
		return record.RawFile{}, false
	}
	for _, f := range b.line.Restricted {
		if rawName(f.Path) == name {
			return f, true
		}
	}
	return record.RawFile{}, false
}

func rawName(file string) string { return path.Base(file) }

// rawPart adds a file of the operator's folder, if it is what the record says.
func (b *builder) rawPart(title string, f record.RawFile) {
	if b.FS == nil || b.Salt == nil {
		return
	}
	if err := f.Check(b.FS, *b.Salt, b.line.TaskID); err != nil {
		b.add(title, "it cannot be used: "+source.Words(err), "")
		return
	}
	data, err := fs.ReadFile(b.FS, f.Path)
	if err != nil {
		b.add(title, "it cannot be read: "+source.Words(err), "")
		return
	}
	note := ""
	if len(data) > b.Limit {
		note = f.Path
	}
	b.add(title, note, string(data))
}

// entryKind names what became of a path.
func entryKind(e candidate.Entry) string {
	switch {
	case e.Deleted:
		return "deleted"
	case e.Mode.IsDir():
		return "folder"
	case e.Mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "file"
}

func target(e candidate.Entry) string {
	if e.Target == "" {
		return ""
	}
	return " -> " + redact.Quote(e.Target)
}
