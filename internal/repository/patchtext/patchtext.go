// Package patchtext reads patches as people and models write them, and writes them
// as git does. It takes what git apply or patch with a fuzz of two lines would take,
// less what these would guess: a hunk has one place, or the patch is refused.
//
// It reads bytes of candidates, so its work is bounded, and it keeps that apart from the
// family that scores them. What it returns is given to git in the sandbox, and the
// policy decides on what that changed on disk.
package patchtext

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/repository"
)

// What was odd about a patch, in the words of records.
const (
	FinalNewline = "final_newline" // its last line had no end
	LineEnds     = "line_ends"     // its lines end otherwise than the file's
	NoPrefix     = "no_prefix"     // its names have no a/ and b/
	Whitespace   = "whitespace"    // blanks at ends of lines differ, or blank lines are missing at its end
	EndOfFile    = "end_of_file"   // it is wrong about the newline at the end of a file
	Fuzz         = "fuzz"          // lines around a change differ
	Created      = "created"       // it changes an empty file that is not there
	Rewritten    = "rewritten"     // git did not take it for another reason, such as the text around it
)

// The bounds of what is read.
const (
	maxPatch    = 4 << 20 // bytes
	maxSections = 10_000
	maxFile     = 4 << 20  // bytes of one file that it names
	maxBase     = 32 << 20 // of all of them
	maxWork     = 50_000_000
)

// Unclear is why a patch has no one meaning.
type Unclear struct {
	Why string
	// Ambiguous is set if it has several.
	Ambiguous bool
}

func (u *Unclear) Error() string { return u.Why }

func unclear(format string, args ...any) error { return &Unclear{Why: fmt.Sprintf(format, args...)} }

// File is what the base has at a path; the zero mode is nothing.
type File struct {
	Mode repository.Mode
	Data []byte
}

// Base returns what is at a path before the patch.
type Base func(path string) (File, error)

// Complete ends the last line of a patch, if it has no end, and reports whether it
// had one.
func Complete(patch []byte) (complete []byte, was bool) {
	if bytes.HasSuffix(patch, []byte("\n")) {
		return patch, true
	}
	end := "\n"
	if bytes.Contains(patch, []byte("\nGIT binary patch\n")) {
		end = "\n\n"
	}
	return append(bytes.Clone(patch), end...), false
}

// Patch is a patch that was read.
type Patch struct {
	sections []section
	notes    []string
}

// Bare reports whether its names evidently have no prefix, so that git apply, which
// takes one away, would look elsewhere.
func (p *Patch) Bare() bool {
	return slices.ContainsFunc(p.sections, func(s section) bool {
		return s.alike && strings.Contains(s.from+s.to, "/")
	})
}

// Canonical returns the patch as git would have written it, and what was odd about
// it, sorted. An error is an [*Unclear] or one of base.
func (p *Patch) Canonical(base Base) (patch []byte, odd []string, err error) {
	levels := []int{1}
	if slices.ContainsFunc(p.sections, section.bare) {
		levels = []int{0, 1}
	}
	fits := 0
	var first error
	for _, level := range levels {
		a := &applied{level: level, base: base, work: maxWork, room: maxBase, before: map[string]File{}, after: map[string]File{}}
		text, notes, err := a.all(p)
		var why *Unclear
		switch {
		case err == nil && fits == 0:
			patch, odd, fits = text, notes, 1
		case err == nil && !bytes.Equal(text, patch):
			fits++
		case err != nil && !errors.As(err, &why):
			return nil, nil, err
		case err != nil && (first == nil || why.Ambiguous):
			first = err
		}
	}
	switch created := !slices.ContainsFunc(p.sections, func(s section) bool { return !s.created }); {
	case fits == 0:
		return nil, nil, first
	case fits > 1 && !created: // new files fit anywhere, and are meant as they are named
		return nil, nil, &Unclear{Why: "the patch names files without a/ and b/, and fits in two places", Ambiguous: true}
	}
	return patch, odd, nil
}

// applied are the files of the base with a patch.
type applied struct {
	level         int // how many folders names lose
	base          Base
	work          int // that is left
	room          int // bytes of the base that may be read
	before, after map[string]File
	notes         []string
}

func (a *applied) note(what string) { a.notes = append(a.notes, what) }

// path returns the path that a name means.
func (a *applied) path(name string, level int) (string, error) {
	for range level {
		_, rest, ok := strings.Cut(name, "/")
		if !ok {
			return "", unclear("the patch names %.80q, which has no prefix", name)
		}
		name = rest
	}
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." || strings.ContainsRune(name, 0) ||
		slices.ContainsFunc(strings.Split(name, "/"), repository.IsDotGit) {
		return "", unclear("the patch names %.80q, where no file can be", name)
	}
	return name, nil
}

// file returns what is at a path by now.
func (a *applied) file(path string) (File, error) {
	if f, ok := a.after[path]; ok {
		return f, nil
	}
	f, err := a.base(path)
	if err != nil {
		return f, err
	}
	if a.room -= len(f.Data); a.room < 0 || len(f.Data) > maxFile {
		return f, unclear("the patch names files that are too large to be compared with it")
	}
	a.before[path], a.after[path] = f, f
	return f, nil
}

// all applies a patch, and writes it as git would have.
func (a *applied) all(p *Patch) ([]byte, []string, error) {
	for i := range p.sections {
		if err := a.section(&p.sections[i]); err != nil {
			return nil, nil, err
		}
	}
	return a.write(p.notes)
}

// section applies a section.
func (a *applied) section(s *section) error {
	from, to, err := a.names(s)
	if err != nil {
		return err
	}
	old, err := a.file(from)
	if err != nil {
		return err
	}
	created := s.created
	switch {
	case s.mode == repository.Symlink, old.Mode == repository.Symlink:
		return unclear("the patch makes or changes a symbolic link")
	case s.mode != 0 && s.mode != repository.Regular && s.mode != repository.Executable:
		return unclear("the patch gives %.80q a mode that no file has", to)
	case !created && old.Mode == 0 && len(s.hunks) == 1 && s.hunks[0].old == 0:
		created = true
		a.note(Created)
	}
	if created != (old.Mode == 0) {
		return unclear("the patch is not made for this tree: it creates %.80q, or misses it", from)
	}
	if old.Mode == 0 {
		old.Mode = repository.Regular
	}
	if to != from {
		if there, err := a.file(to); err != nil || there.Mode != 0 {
			return errors.Join(err, unclear("the patch moves a file to %.80q, where one is", to))
		}
	}
	text, err := a.hunks(s, old.Data)
	if err != nil {
		return err
	}
	if s.mode != 0 {
		old.Mode = s.mode
	}
	if s.moved {
		a.after[from] = File{}
	}
	a.after[to] = File{old.Mode, text}
	if s.deleted {
		if len(text) > 0 {
			return unclear("the patch deletes %.80q, and leaves lines of it", to)
		}
		a.after[to] = File{}
	}
	return nil
}

// names returns the paths that a section reads and writes.
func (a *applied) names(s *section) (from, to string, err error) {
	if s.moved || s.copied {
		if from, err = a.path(s.from, 0); err == nil {
			to, err = a.path(s.to, 0)
		}
		return from, to, err
	}
	if a.level == 0 {
		a.note(NoPrefix)
	}
	name := s.to
	if s.deleted || name == "" {
		name = s.from
	}
	if to, err = a.path(name, a.level); err != nil {
		return "", "", err
	}
	if s.from != "" && s.to != "" {
		if from, err = a.path(s.from, a.level); err != nil {
			return "", "", err
		}
		if from != to {
			return "", "", unclear("the patch names both %.80q and %.80q for one file", from, to)
		}
	}
	return to, to, nil
}

// write writes the difference.
func (a *applied) write(notes []string) ([]byte, []string, error) {
	var changes []repository.Change
	for path, after := range a.after {
		c := repository.Change{Path: path, Before: entry(a.before[path]), After: entry(after)}
		if c.Before != c.After {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil, nil, unclear("the patch changes nothing")
	}
	var out bytes.Buffer
	err := repository.WritePatch(&out, changes, func(c repository.Change) ([]byte, []byte, error) {
		return a.before[c.Path].Data, a.after[c.Path].Data, nil
	})
	notes = slices.Concat(notes, a.notes)
	slices.Sort(notes)
	return out.Bytes(), slices.Compact(notes), err
}

func entry(f File) repository.Entry {
	if f.Mode == 0 {
		return repository.Entry{}
	}
	return repository.Entry{Mode: f.Mode, Size: int64(len(f.Data)), Sum: sha256.Sum256(f.Data)}
}
