package transcript

import (
	"io/fs"
	"path"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
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
	switch l.Candidate.Kind {
	case task.Workspace:
		b.tree(sum)
	case task.Patch:
		b.stored(Patch, "candidate", sum, l.Candidate.Shown)
	case task.Code:
		b.stored(Code, "candidate", sum, l.Candidate.Shown)
	default:
		b.stored("", "candidate", sum, l.Candidate.Shown)
	}
	if ex := l.Digests.Extracted; ex != "" {
		b.stored(Code, "candidate: the code that was extracted from it", ex, "")
	}
}

// stored adds a stored text, or else what the record has of it.
func (b *builder) stored(form Form, title, sum, shown string) {
	if b.FS == nil {
		b.addAs(form, title, "", shown)
		return
	}
	c, err := evidence.Candidate(b.FS, candidate.Candidate{Kind: task.Text, Digest: sum})
	var data []byte
	if err == nil {
		data, err = c.Bytes()
	}
	if err != nil {
		b.addAs(form, title, "the stored one cannot be used: "+source.Words(err), shown)
		return
	}
	b.addAs(form, title, "", string(data))
}

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

// checked reads a file of the operator's folder, if it is what the record says; else it adds
// a part that says why not.
func (b *builder) checked(title string, f record.RawFile) (data []byte, ok bool) {
	if b.FS == nil || b.Salt == nil {
		return nil, false
	}
	if err := f.Check(b.FS, *b.Salt, b.line.TaskID); err != nil {
		b.add(title, "it cannot be used: "+source.Words(err), "")
		return nil, false
	}
	data, err := fs.ReadFile(b.FS, f.Path)
	if err != nil {
		b.add(title, "it cannot be read: "+source.Words(err), "")
		return nil, false
	}
	return data, true
}

// maxPictures is how many pictures of one attempt are shown.
const maxPictures = 16

// pictures adds the pictures that were made of what an agent delivered, or where they are.
func (b *builder) pictures() {
	const title = "verifier: pictures of the files"
	var files []File
	var paths []string // of those that are not shown
	for _, f := range b.line.Restricted {
		name := rawName(f.Path)
		if !strings.HasSuffix(name, verdict.PictureExt) {
			continue
		}
		data, ok := b.checked(title, f)
		if !ok {
			continue
		}
		shown := File{Path: redact.Quote(name), Kind: "file", Size: int64(len(data))}
		if len(files) < maxPictures && b.content(&shown, data) && shown.Picture != "" {
			files = append(files, shown)
		} else {
			paths = append(paths, f.Path)
		}
	}
	if len(files) > 0 {
		b.out.Parts = append(b.out.Parts, Part{Title: title, Form: Pictures, Files: files})
	}
	b.add(title, "", strings.Join(paths, "\n"))
}

// rawPart adds a file of the operator's folder.
func (b *builder) rawPart(title string, f record.RawFile) {
	data, ok := b.checked(title, f)
	if !ok {
		return
	}
	note := ""
	if len(data) > b.Limit {
		note = f.Path
	}
	b.add(title, note, string(data))
}
