package transcript

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"securebench/internal/candidate"
	"securebench/internal/picture"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// File is a change of a tree.
type File struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // file, folder, link or deleted
	Mode   string `json:"mode"`
	Size   int64  `json:"size"`
	Target string `json:"target,omitzero"` // of a link
	// Text is the content of a small text, and Picture that of a small picture, in base64,
	// with its type.
	Text    string `json:"text,omitzero"`
	Picture string `json:"picture,omitzero"`
	Type    string `json:"type,omitzero"`
}

// Bounds on what is shown of a tree: how many changes are listed, and the content of
// how many files of what size, in bytes.
const (
	maxEntries  = 200
	maxContents = 20
	maxContent  = 32 << 10
	maxPicture  = 256 << 10
	maxPixels   = 40 << 20
)

// tree shows the changes of a tree, with the content of small files.
func (b *builder) tree(sum string) {
	const title = "candidate: changed files"
	if b.FS == nil {
		b.add(title, "a tree, stored as "+sum, "")
		return
	}
	files, more, err := b.files(sum)
	note := ""
	switch {
	case err != nil:
		b.add(title, "the stored one cannot be used: "+source.Words(err), "")
		return
	case more > 0:
		note = fmt.Sprintf("%d more are not listed", more)
	case len(files) == 0:
		note = "the agent changed nothing"
	}
	if b.Apart && len(files) > 0 {
		b.out.Parts = append(b.out.Parts, Part{Title: title, Form: Tree, Note: note, Files: files})
		return
	}
	var lines []string
	for _, f := range files {
		lines = append(lines, f.line())
	}
	b.addAs(Tree, title, note, strings.Join(lines, "\n"))
	for _, f := range files {
		if f.Text != "" {
			b.add("candidate: "+f.Path, "", f.Text)
		}
	}
}

// line is a file in a list.
func (f File) line() string {
	line := fmt.Sprintf("%-8s %s %9d  %s", f.Kind, f.Mode, f.Size, f.Path)
	if f.Target != "" {
		line += " -> " + f.Target
	}
	return line
}

// files reads a stored tree, and returns how many of its changes it leaves out. What it
// returns is that of the digest.
func (b *builder) files(sum string) (files []File, more int, err error) {
	name, err := record.CandidatePath(sum)
	if err != nil {
		return nil, 0, err
	}
	f, err := b.FS.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	contents := 0
	got, err := candidate.ReadTree(f, candidate.Bounds{Bytes: maxTree, Files: maxTreeFiles}, func(e candidate.Entry, content io.Reader) error {
		if len(files) == maxEntries {
			more++
			return nil
		}
		file := File{Path: redact.Quote(e.Path), Kind: entryKind(e), Mode: fmt.Sprintf("%04o", e.Mode.Perm()), Size: e.Size}
		if e.Target != "" {
			file.Target = redact.Quote(e.Target)
		}
		if e.Mode.IsRegular() && !e.Deleted && contents < maxContents && e.Size > 0 && e.Size <= maxPicture {
			data, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			if b.content(&file, data) {
				contents++
			}
		}
		files = append(files, file)
		return nil
	})
	if err == nil && got != sum {
		err = errors.New("it is not what its name says")
	}
	if err != nil {
		return nil, 0, err
	}
	return files, more, nil
}

// content adds what can be shown of a file, and reports whether there is anything.
func (b *builder) content(f *File, data []byte) bool {
	if b.Apart {
		if info, err := picture.Size(bytes.NewReader(data)); err == nil && strings.HasPrefix(info.Type, "image/") && info.Width > 0 && info.Height <= maxPixels/info.Width {
			f.Picture, f.Type = base64.StdEncoding.EncodeToString(data), info.Type
			return true
		}
	}
	if len(data) > maxContent || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return false
	}
	f.Text = string(data)
	if b.Apart {
		f.Text = redact.EscapeText(f.Text)
	}
	return true
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

// Bounds of a tree that is only listed.
const (
	maxTree      = 1 << 40
	maxTreeFiles = 1 << 24
)
