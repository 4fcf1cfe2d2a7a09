package agent

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

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
)

// Attachable returns an error for a task whose files cannot be sent with a question. It
// reads the headers of pictures only.
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

// sendable returns the size of a picture or document that can be sent.
func sendable(files fs.FS, a task.Asset) (int64, error) {
	if files == nil {
		return 0, picture.ErrType
	}
	f, err := files.Open(a.Path)
	if err != nil {
		return 0, picture.ErrType // a folder
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot be read: %w", err)
	}
	if info.Size() > maxAttachedBytes {
		return 0, fmt.Errorf("has %d bytes, more than %d MiB", info.Size(), maxAttachedBytes>>20)
	}
	_, err = picture.Size(f)
	return info.Size(), err
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
	info, err := picture.Size(bytes.NewReader(data))
	if err != nil {
		return harness.Part{}, fmt.Errorf("it %w", err)
	}
	return harness.Part{Type: info.Type, Name: path.Base(a.Path), Data: data}, nil
}
