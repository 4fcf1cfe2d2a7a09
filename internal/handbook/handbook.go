// Package handbook finds what the documents say: which pages there are for whom, and the
// sections that answer a question. It keeps the reading of Markdown apart from the command.
package handbook

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
)

// Book is the documents.
type Book struct {
	fsys     fs.FS
	pages    []string // names, such as families/math
	sections []section
}

// section is what stands below one heading.
type section struct {
	page, title string // of the page
	heading     string
	anchor      string
	text        string // without the heading
}

// folder holds the pages, and ending ends their names.
const (
	folder = "docs"
	ending = ".md"
	readme = "README.md"
)

// Open reads the documents: README.md, and the pages below docs.
func Open(fsys fs.FS) (*Book, error) {
	b := &Book{fsys: fsys}
	err := fs.WalkDir(fsys, folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ending {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		page := strings.TrimSuffix(strings.TrimPrefix(name, folder+"/"), ending)
		b.pages = append(b.pages, page)
		b.sections = append(b.sections, sections(page, string(text))...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the documents: %w", err)
	}
	return b, nil
}

// sections divides a page at its headings.
func sections(page, text string) (out []section) {
	title, fenced := "", false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if marks := strings.TrimLeft(line, "#"); !fenced && marks != line && strings.HasPrefix(marks, " ") {
			heading := strings.TrimSpace(marks)
			if title == "" {
				title = heading
			}
			out = append(out, section{page: page, title: title, heading: heading, anchor: anchor(heading)})
		}
		if len(out) > 0 && (fenced || !strings.HasPrefix(line, "#")) {
			out[len(out)-1].text += line
		}
	}
	return out
}

// anchor is what the heading is called in addresses.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// words are the words of a text, in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Text returns a page, or the section of one that follows "#".
func (b *Book) Text(name string) (string, error) {
	page, at, part := strings.Cut(strings.TrimPrefix(name, folder+"/"), "#")
	page = strings.TrimSuffix(page, ending)
	if !slices.Contains(b.pages, page) {
		return "", fmt.Errorf("there is no page %s: see the list that securebench docs prints", redact.Quote(page))
	}
	if !part {
		text, err := fs.ReadFile(b.fsys, path.Join(folder, page)+ending)
		return string(text), err
	}
	for _, s := range b.sections {
		if s.page == page && s.anchor == at {
			return "# " + s.heading + "\n" + s.text, nil
		}
	}
	return "", fmt.Errorf("the page %s has no section %s", page, redact.Quote(at))
}

// Group is pages for one kind of reader.
type Group struct {
	For   string // who does what, such as "You write a pack"
	Pages []Entry
}

// Entry is a page in a list.
type Entry struct{ Name, About string }

// Links of the README to pages and elsewhere, and what may be between two words.
var (
	link   = lazyregexp.New(`\[([^\]]+)\]\((?:docs/([^)#]+)\.md|[^)]*)\)`)
	spaces = lazyregexp.New(`\s+`)
)

// Groups are the pages by reader, as the README lists them.
func (b *Book) Groups() ([]Group, error) {
	text, err := fs.ReadFile(b.fsys, readme)
	if err != nil {
		return nil, fmt.Errorf("reading the list of documents: %w", err)
	}
	_, list, _ := strings.Cut(string(text), "\n## Documentation\n")
	out := []Group{{For: "You are new here"}}
	for _, block := range strings.Split(list, "\n\n") {
		items := strings.Split(strings.TrimPrefix(strings.TrimSpace(block), "- "), "\n- ")
		if len(items) == 1 && strings.HasSuffix(items[0], ":") {
			out = append(out, Group{For: strings.TrimSuffix(items[0], ":")})
			continue
		}
		last := &out[len(out)-1]
		for _, item := range items {
			last.Pages = append(last.Pages, entries(item, len(items) == 1)...)
		}
	}
	return out, nil
}

// plain is a text in one line, with the words of its links.
func plain(text string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(link.ReplaceAllString(text, "$1"), " "))
}

// entries are the pages that an item links to, or a paragraph.
func entries(item string, paragraph bool) (out []Entry) {
	about := ""
	if at := strings.LastIndex(item, "): "); at >= 0 && !paragraph {
		about = ": " + item[at+3:]
	}
	for _, m := range link.FindAllStringSubmatch(item, -1) {
		if m[2] != "" {
			out = append(out, Entry{Name: m[2], About: plain(m[1] + about)})
		}
	}
	return out
}
