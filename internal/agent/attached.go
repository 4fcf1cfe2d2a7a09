package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"securebench/internal/agent/harness"
	"securebench/internal/digest"
	"securebench/internal/lazyregexp"
	"securebench/internal/picture"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// What a question may have of files: providers refuse more, and all of it is in memory.
const (
	maxAttached      = 20
	maxAttachedBytes = 5 << 20 // of one
	maxAttachedTotal = 24 << 20
	maxAttachedText  = 256 << 10 // of a text
)

// errUnsendable says what a file is that no model takes.
var errUnsendable = fmt.Errorf("%w, nor a text in UTF-8 of at most %d KiB", picture.ErrType, maxAttachedText>>10)

// Attachable returns an error for a task whose files cannot be sent with a question. It
// reads the headers of pictures, and texts.
func Attachable(files fs.FS, v task.AgentView) error {
	assets := v.Assets()
	if len(assets) > maxAttached {
		return fmt.Errorf("task %q has %d files (assets), and the model harness sends at most %d with a question: use a harness with a sandbox", v.ID(), len(assets), maxAttached)
	}
	total := int64(0)
	for _, a := range assets {
		size, err := sendable(files, a)
		if err != nil {
			return fmt.Errorf("task %q has a file, %q, that the model harness cannot give to a model: it %w (use a harness with a sandbox)", v.ID(), a.Path, err)
		}
		if total += size; total > maxAttachedTotal {
			return fmt.Errorf("task %q has files of more than %d MiB, which is the most that the model harness sends with a question: make them smaller, or use a harness with a sandbox", v.ID(), maxAttachedTotal>>20)
		}
	}
	return nil
}

// sendable returns the size of a file that can be sent.
func sendable(files fs.FS, a task.Asset) (int64, error) {
	if files == nil {
		return 0, errUnsendable
	}
	f, err := files.Open(a.Path)
	if err != nil {
		return 0, errUnsendable // a folder
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot be read: %w", err)
	}
	if info.Size() > maxAttachedBytes {
		return 0, fmt.Errorf("has %d bytes, more than %d MiB", info.Size(), maxAttachedBytes>>20)
	}
	var head bytes.Buffer
	if _, err = picture.Size(io.TeeReader(f, &head)); !errors.Is(err, picture.ErrType) {
		return info.Size(), err
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxAttachedText+1))
	if err != nil {
		return 0, fmt.Errorf("cannot be read: %w", err)
	}
	_, err = attached(a, append(head.Bytes(), rest...))
	return info.Size(), err
}

// attached is a file as a part of a question: a picture, a document, or a text between
// fences, under the name by which agents find it.
func attached(a task.Asset, data []byte) (harness.Part, error) {
	info, err := picture.Size(bytes.NewReader(data))
	switch {
	case err == nil:
		return harness.Part{Type: info.Type, Name: path.Base(a.Path), Data: data}, nil
	case !errors.Is(err, picture.ErrType):
		return harness.Part{}, err
	case len(data) > maxAttachedText || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return harness.Part{}, errUnsendable
	}
	fence := "```"
	for bytes.Contains(data, []byte(fence)) {
		fence += "`"
	}
	return harness.Part{Text: fmt.Sprintf("The file %s:\n%s\n%s\n%s\n", a.Mount, fence, bytes.TrimSuffix(data, []byte("\n")), fence)}, nil
}

// mark is where the text of a question has a picture.
var mark = lazyregexp.New(`<image ?([0-9]{1,2})>`)

// parts returns a question's text with the files of its task: each behind the first mark
// with its number, and those without a mark before the text. It returns nil for a task
// without files.
func (m *Model) parts(text string, v task.AgentView) ([]harness.Part, error) {
	var files []harness.Part
	for _, a := range v.Assets() {
		p, err := m.attach(a)
		if err != nil {
			return nil, fmt.Errorf("reading the file %q of the task: %w", a.Path, err)
		}
		files = append(files, p)
	}
	if files == nil {
		return nil, nil
	}
	var out, marked []harness.Part
	placed, from := make([]bool, len(files)), 0
	for _, at := range mark.Regexp().FindAllStringSubmatchIndex(text, -1) {
		n, err := strconv.Atoi(text[at[2]:at[3]])
		if err != nil || n < 1 || n > len(files) || placed[n-1] {
			continue
		}
		placed[n-1] = true
		marked = append(marked, harness.Part{Text: text[from:at[1]]}, files[n-1])
		from = at[1]
	}
	for i, p := range files {
		if !placed[i] {
			out = append(out, p)
		}
	}
	out = append(out, marked...)
	if rest := text[from:]; strings.TrimSpace(rest) != "" {
		out = append(out, harness.Part{Text: rest})
	}
	return out, nil
}

// attach reads a file that the pack had when it was loaded.
func (m *Model) attach(a task.Asset) (harness.Part, error) {
	f, err := m.Files.Open(a.Path)
	if err != nil {
		return harness.Part{}, fmt.Errorf("%w: %w", workspace.ErrChanged, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAttachedBytes+1))
	switch {
	case err != nil:
		return harness.Part{}, err
	case len(data) > maxAttachedBytes || digest.Bytes(data) != m.Expect[a.Path]:
		return harness.Part{}, fmt.Errorf("%w: %s", workspace.ErrChanged, a.Path)
	}
	part, err := attached(a, data)
	if err != nil {
		return harness.Part{}, fmt.Errorf("it %w", err)
	}
	return part, nil
}
