package patchtext

import (
	"slices"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/repository"
)

// section is what a patch says of one file.
type section struct {
	from, to         string // with their prefixes, except for moves and copies; "" is no file
	created, deleted bool
	moved, copied    bool
	alike            bool            // its header has the same name twice, so without prefixes
	mode             repository.Mode // that it gets; 0 is the one it has
	hunks            []hunk
}

// bare reports whether its names may have no prefix.
func (s section) bare() bool {
	return s.alike || (s.from == "" || s.to == "") && !prefixed.MatchString(s.from+s.to)
}

// prefixed is a name with one of git's prefixes.
var prefixed = lazyregexp.New(`^[abciow12]/`)

// hunk is a change at one place.
type hunk struct {
	start, old int // where the old side begins, from 1, and how many lines it has
	lines      []line
	trimmed    bool // its end was, so that all of it has to fit
}

type line struct {
	sign byte // ' ', '-' or '+'
	text string
	last bool // a mark says that no newline follows
}

var (
	headerLine = lazyregexp.New(`^(diff --git |--- |\+\+\+ |@@ -)`)
	hunkLine   = lazyregexp.New(`^@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@`)
	modeLine   = lazyregexp.New(`^(old mode|new mode|new file mode|deleted file mode) ([0-7]{6})$`)
	moveLine   = lazyregexp.New(`^(rename|copy) (from|to) (.+)$`)
	quietLine  = lazyregexp.New(`^(index [0-9a-f]|(dis)?similarity index )`)
)

// reader reads the lines of a patch.
type reader struct {
	lines []string
	at    int
	p     Patch
}

// Read reads a patch. Text around its sections is skipped. An error is an [*Unclear].
func Read(patch []byte) (*Patch, error) {
	if len(patch) > maxPatch {
		return nil, unclear("the patch is too large to be read otherwise than by git")
	}
	text := strings.TrimPrefix(string(patch), "\ufeff")
	r := &reader{lines: strings.Split(text, "\n")}
	n := len(r.lines) - 1
	ended := r.lines[n] == ""
	if ended {
		r.lines = r.lines[:n]
	} else {
		r.p.notes = append(r.p.notes, FinalNewline)
	}
	r.stripReturns()
	for r.at < len(r.lines) {
		if err := r.next(); err != nil {
			return nil, err
		}
		if len(r.p.sections) > maxSections {
			return nil, unclear("the patch has more than %d sections", maxSections)
		}
	}
	if len(r.p.sections) == 0 {
		return nil, unclear("it is not a patch")
	}
	if last := r.p.sections[len(r.p.sections)-1].hunks; len(last) > 0 && !ended {
		last[len(last)-1].trimmed = true // perhaps in the middle of a line
	}
	return &r.p, nil
}

// stripReturns takes the carriage returns away that a patch got on its way: its
// own lines have them, not only those of files.
func (r *reader) stripReturns() {
	headers := 0
	for _, l := range r.lines {
		if headerLine.MatchString(l) {
			if headers++; !strings.HasSuffix(l, "\r") {
				return
			}
		}
	}
	if headers == 0 {
		return
	}
	for i, l := range r.lines {
		r.lines[i] = strings.TrimSuffix(l, "\r")
	}
	r.p.notes = append(r.p.notes, LineEnds)
}

// line returns a line from here on, or "".
func (r *reader) line(n int) string {
	if r.at+n < len(r.lines) {
		return r.lines[r.at+n]
	}
	return ""
}

// next reads a section, or skips a line.
func (r *reader) next() error {
	l := r.line(0)
	switch {
	case strings.HasPrefix(l, "diff --git "):
		return r.git()
	case r.plainHeader():
		var s section
		if err := r.sides(&s); err != nil {
			return err
		}
		return r.hunks(s)
	case strings.HasPrefix(l, "@@ -"):
		return unclear("the patch has a hunk without a file")
	}
	r.at++
	return nil
}

// plainHeader reports whether the lines above hunks begin here.
func (r *reader) plainHeader() bool {
	return strings.HasPrefix(r.line(0), "--- ") && strings.HasPrefix(r.line(1), "+++ ") && strings.HasPrefix(r.line(2), "@@ -")
}

// git reads a section with git's header. Without anything below it, the line is one
// of the text around.
func (r *reader) git() error {
	names := strings.TrimPrefix(r.line(0), "diff --git ")
	s, begin := section{}, r.at
	for r.at++; r.at < len(r.lines); r.at++ {
		l := r.line(0)
		if m := modeLine.FindStringSubmatch(l); m != nil {
			n, _ := strconv.ParseUint(m[2], 8, 32) // its form is checked
			s.created = s.created || m[1] == "new file mode"
			s.deleted = s.deleted || m[1] == "deleted file mode"
			if strings.HasPrefix(m[1], "new") {
				s.mode = repository.Mode(n)
			}
		} else if m := moveLine.FindStringSubmatch(l); m != nil {
			if err := s.move(m); err != nil {
				return err
			}
		} else if !quietLine.MatchString(l) {
			break
		}
	}
	switch l := r.line(0); {
	case l == "GIT binary patch", strings.HasPrefix(l, "Binary files "):
		return unclear("the patch has binary parts, and does not apply as it is")
	case r.plainHeader():
		var head section // which may say more than one that has no other side
		s.alike = head.split(names) == nil && head.alike
		if err := r.sides(&s); err != nil {
			return err
		}
	case r.at == begin+1:
		return nil
	case !s.moved && !s.copied:
		if err := s.split(names); err != nil {
			return err
		}
	}
	return r.hunks(s)
}

// move reads a line of a move or a copy.
func (s *section) move(m []string) error {
	name, err := unquote(m[3])
	if err != nil {
		return err
	}
	s.moved, s.copied = s.moved || m[1] == "rename", s.copied || m[1] == "copy"
	if m[2] == "from" {
		s.from = name
	} else {
		s.to = name
	}
	return nil
}

// split takes the names from git's first line. They are the same except for a prefix.
func (s *section) split(names string) error {
	for i := range len(names) {
		if names[i] != ' ' {
			continue
		}
		from, err := unquote(names[:i])
		to, err2 := unquote(names[i+1:])
		if err != nil || err2 != nil {
			continue
		}
		_, a, _ := strings.Cut(from, "/")
		_, b, _ := strings.Cut(to, "/")
		if from == to || a == b && a != "" {
			s.from, s.to, s.alike = from, to, from == to
			return nil
		}
	}
	return unclear("the patch has a section whose file cannot be told")
}

// sides reads the two lines above hunks.
func (r *reader) sides(s *section) error {
	var names [2]string
	for i := range names {
		name, _, _ := strings.Cut(r.line(i)[len("--- "):], "\t")
		name, err := unquote(name)
		if err != nil {
			return err
		}
		if name != "/dev/null" {
			names[i] = name
		}
	}
	r.at += 2
	s.created, s.deleted = s.created || names[0] == "", s.deleted || names[1] == ""
	if names[0] == "" && names[1] == "" || s.created && s.deleted {
		return unclear("the patch has a section without a file")
	}
	if !s.moved && !s.copied {
		s.from, s.to = names[0], names[1]
		s.alike = s.alike || names[0] == names[1]
	}
	return nil
}

// unquote reads a name as git quotes it.
func unquote(name string) (string, error) {
	if !strings.HasPrefix(name, `"`) {
		return name, nil
	}
	var out []byte
	for i := 1; i < len(name); i++ {
		switch c := name[i]; {
		case c == '"' && i == len(name)-1:
			return string(out), nil
		case c == '"':
			return "", unclear("the patch has a name with quotes that do not close")
		case c != '\\':
			out = append(out, c)
		case i+3 < len(name) && name[i+1] >= '0' && name[i+1] <= '3':
			n, err := strconv.ParseUint(name[i+1:i+4], 8, 8)
			if err != nil {
				return "", unclear("the patch has a name with an unknown escape")
			}
			out = append(out, byte(n))
			i += 3
		default:
			i++
			at := -1
			if i < len(name) {
				at = strings.IndexByte(`abtnvfr"\`, name[i])
			}
			if at < 0 {
				return "", unclear("the patch has a name with an unknown escape")
			}
			out = append(out, "\a\b\t\n\v\f\r\"\\"[at])
		}
	}
	return "", unclear("the patch has a name with quotes that do not close")
}

// hunks reads the hunks of a section.
func (r *reader) hunks(s section) error {
	for r.at < len(r.lines) && strings.HasPrefix(r.line(0), "@@ -") {
		h, err := r.hunk()
		if err != nil {
			return err
		}
		s.hunks = append(s.hunks, h)
	}
	if len(s.hunks) > 0 {
		if l := r.line(0); l != "" && strings.ContainsRune("+- ", rune(l[0])) && !r.plainHeader() && strings.TrimRight(l, " ") != "--" {
			return errCounts
		}
	}
	r.p.sections = append(r.p.sections, s)
	return nil
}

var errCounts = unclear("the patch has a hunk with other numbers of lines than it says")

// hunk reads a hunk.
func (r *reader) hunk() (h hunk, err error) {
	m := hunkLine.FindStringSubmatch(r.line(0))
	if m == nil {
		return h, unclear("the patch has a hunk that does not say where it belongs")
	}
	number := func(text string) int {
		if text == "" {
			return 1
		}
		n, _ := strconv.Atoi(text) // its form is checked
		return n
	}
	h.start, h.old = number(m[1]), number(m[2])
	left, fresh := h.old, number(m[4])
	for r.at++; left > 0 || fresh > 0; r.at++ {
		if r.at >= len(r.lines) {
			return h, r.chopped(&h, left, fresh)
		}
		if err := h.read(r.line(0), &left, &fresh); err != nil {
			return h, err
		}
	}
	if strings.HasPrefix(r.line(0), `\`) {
		h.mark()
		r.at++
	}
	return h, nil
}

// chopped adds the blank lines that whoever trimmed the patch took from its end.
func (r *reader) chopped(h *hunk, left, fresh int) error {
	if left != fresh || left > 3 {
		return errCounts
	}
	h.lines = append(h.lines, slices.Repeat([]line{{sign: ' '}}, left)...)
	h.trimmed = true
	r.p.notes = append(r.p.notes, Whitespace)
	return nil
}

// read reads a line of a hunk.
func (h *hunk) read(l string, left, fresh *int) error {
	if l == "" {
		l = " " // as editors leave it
	}
	switch l[0] {
	case ' ':
		*left, *fresh = *left-1, *fresh-1
	case '-':
		*left--
	case '+':
		*fresh--
	case '\\':
		h.mark()
		return nil
	default:
		return errCounts
	}
	if *left < 0 || *fresh < 0 {
		return errCounts
	}
	h.lines = append(h.lines, line{sign: l[0], text: l[1:]})
	return nil
}

// mark notes that the last line has no newline.
func (h *hunk) mark() {
	if n := len(h.lines); n > 0 {
		h.lines[n-1].last = true
	}
}
