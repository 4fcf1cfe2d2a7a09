package reader

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNodes is the number of elements of one file that are kept as a tree.
const maxNodes = 1_000_000

// maxNodeText is the length of the texts in them.
const maxNodeText = 64 << 20

type token uint8

const (
	end token = iota // of the document
	opening
	closing
	chars
)

// A scanner reads the XML of office files: UTF-8, without a DTD, without entities but the
// five of XML itself, with names as they are after their prefix. The standard library's
// reader takes ten times as long, which is most of the time that a large sheet takes.
type scanner struct {
	data    []byte
	at      int
	open    []string // names of the open elements, with their prefixes
	closing string   // of an element without content, which is to be closed

	name  string // local, of an element that was opened or closed
	attrs []attr // of an element that was opened
	text  []byte // raw, of characters
	cdata bool   // text is as it stands
}

// An attr is an attribute; its value is raw.
type attr struct {
	name     string // after its prefix
	prefixed bool
	value    []byte
}

func scanXML(data []byte) (*scanner, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, refuse("has XML that is not in UTF-8")
	}
	return &scanner{data: data}, nil
}

func (s *scanner) fault(what string) error { return refuse("has broken XML: %s", what) }

// next reads the next token.
func (s *scanner) next() (token, error) {
	if s.closing != "" {
		s.name, s.closing = local(s.closing), ""
		s.open = s.open[:len(s.open)-1]
		return closing, nil
	}
	for {
		if s.at == len(s.data) {
			if len(s.open) > 0 {
				return end, s.fault("it ends within an element")
			}
			return end, nil
		}
		if s.data[s.at] != '<' {
			return s.characters()
		}
		rest := s.data[s.at:]
		switch {
		case bytes.HasPrefix(rest, []byte("</")):
			return s.closeTag()
		case bytes.HasPrefix(rest, []byte("<!--")):
			if err := s.skip(4, "-->"); err != nil {
				return end, err
			}
		case bytes.HasPrefix(rest, []byte("<?")):
			if err := s.skip(2, "?>"); err != nil {
				return end, err
			}
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			from := s.at + 9
			if err := s.skip(9, "]]>"); err != nil {
				return end, err
			}
			s.text, s.cdata = s.data[from:s.at-3], true
			return chars, nil
		case bytes.HasPrefix(rest, []byte("<!")):
			return end, refuse("has XML with a document type, which is never read")
		default:
			return s.openTag()
		}
	}
}

func (s *scanner) skip(head int, until string) error {
	i := bytes.Index(s.data[s.at+head:], []byte(until))
	if i < 0 {
		return s.fault("a comment or an instruction does not end")
	}
	s.at += head + i + len(until)
	return nil
}

func (s *scanner) characters() (token, error) {
	n := bytes.IndexByte(s.data[s.at:], '<')
	if n < 0 {
		n = len(s.data) - s.at
	}
	s.text, s.cdata = s.data[s.at:s.at+n], false
	if s.at += n; len(s.open) == 0 && len(bytes.TrimSpace(s.text)) > 0 {
		return end, s.fault("text outside of an element")
	}
	return chars, nil
}

func (s *scanner) closeTag() (token, error) {
	n := bytes.IndexByte(s.data[s.at:], '>')
	if n < 0 || len(s.open) == 0 {
		return end, s.fault("a closing tag too many")
	}
	name := bytes.TrimRight(s.data[s.at+2:s.at+n], " \t\r\n")
	last := s.open[len(s.open)-1]
	if string(name) != last {
		return end, s.fault("a closing tag of another element")
	}
	s.open = s.open[:len(s.open)-1]
	s.at += n + 1
	s.name = local(last)
	return closing, nil
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// word reads a name, which ends before a character that none has.
func (s *scanner) word() string {
	from := s.at
	for s.at < len(s.data) {
		if c := s.data[s.at]; blank(c) || c < ' ' || strings.IndexByte("/>=<\"'&", c) >= 0 {
			break
		}
		s.at++
	}
	return intern(s.data[from:s.at])
}

func (s *scanner) blanks() bool {
	from := s.at
	for s.at < len(s.data) && blank(s.data[s.at]) {
		s.at++
	}
	return s.at > from
}

func (s *scanner) openTag() (token, error) {
	s.at++
	name := s.word()
	if name == "" {
		return end, s.fault("a tag without a name")
	}
	if len(s.open) >= maxDepth {
		return end, refuse("has XML that is nested more than %d deep", maxDepth)
	}
	s.open, s.name, s.attrs = append(s.open, name), local(name), s.attrs[:0]
	for {
		apart := s.blanks()
		if s.at == len(s.data) {
			return end, s.fault("a tag does not end")
		}
		switch s.data[s.at] {
		case '>':
			s.at++
			return opening, nil
		case '/':
			if s.at++; s.at == len(s.data) || s.data[s.at] != '>' {
				return end, s.fault("a tag does not end")
			}
			s.at++
			s.closing = name
			return opening, nil
		}
		if !apart {
			return end, s.fault("two attributes in one")
		}
		if err := s.attribute(); err != nil {
			return end, err
		}
	}
}

func (s *scanner) attribute() error {
	name := s.word()
	s.blanks()
	if name == "" || s.at == len(s.data) || s.data[s.at] != '=' {
		return s.fault("an attribute without a value")
	}
	s.at++
	s.blanks()
	if s.at == len(s.data) || s.data[s.at] != '"' && s.data[s.at] != '\'' {
		return s.fault("an attribute without quotes")
	}
	n := bytes.IndexByte(s.data[s.at+1:], s.data[s.at])
	if n < 0 {
		return s.fault("an attribute does not end")
	}
	value := s.data[s.at+1 : s.at+1+n]
	s.at += n + 2
	if bytes.IndexByte(value, '<') >= 0 {
		return s.fault("a tag within an attribute")
	}
	if len(s.attrs) > 200 {
		return s.fault("too many attributes")
	}
	a := attr{name: local(name), prefixed: strings.Contains(name, ":"), value: value}
	for _, other := range s.attrs {
		if other.name == a.name && other.prefixed == a.prefixed && !strings.HasPrefix(name, "xmlns") {
			return s.fault("an attribute twice")
		}
	}
	if !strings.HasPrefix(name, "xmlns") {
		s.attrs = append(s.attrs, a)
	}
	return nil
}

// raw returns the raw value of an attribute without a prefix, nil if there is none.
func (s *scanner) raw(name string) []byte {
	for _, a := range s.attrs {
		if a.name == name && !a.prefixed {
			return a.value
		}
	}
	return nil
}

// content returns the text of the last token of characters.
func (s *scanner) content() (string, error) {
	if s.cdata {
		return string(lineFeeds(s.text)), nil
	}
	return unescape(s.text)
}

// pass leaves the element that was opened last, with all that is in it.
func (s *scanner) pass() error {
	for depth := 1; depth > 0; {
		t, err := s.next()
		if err != nil {
			return err
		}
		switch t {
		case opening:
			depth++
		case closing:
			depth--
		}
	}
	return nil
}

// local returns a name after its prefix.
func local(name string) string { return name[strings.IndexByte(name, ':')+1:] }

// intern returns the text of a name without keeping a copy of the frequent ones.
func intern(b []byte) string {
	switch string(b) {
	case "c":
		return "c"
	case "r":
		return "r"
	case "s":
		return "s"
	case "t":
		return "t"
	case "v":
		return "v"
	case "f":
		return "f"
	case "si":
		return "si"
	case "is":
		return "is"
	case "row":
		return "row"
	case "spans":
		return "spans"
	case "ref":
		return "ref"
	}
	return string(b)
}

// lineFeeds returns a raw text in which each line ends with a line feed.
func lineFeeds(b []byte) []byte {
	if bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// unescape returns a text in which the references to characters are replaced.
func unescape(b []byte) (string, error) {
	b = lineFeeds(b)
	if bytes.IndexByte(b, '&') < 0 {
		return string(b), nil
	}
	var out strings.Builder
	for len(b) > 0 {
		i := bytes.IndexByte(b, '&')
		if i < 0 {
			out.Write(b)
			break
		}
		out.Write(b[:i])
		n := bytes.IndexByte(b[i:], ';')
		if n < 0 || n > 12 {
			return "", refuse("has broken XML: an ampersand alone")
		}
		c, ok := entity(string(b[i+1 : i+n]))
		if !ok {
			return "", refuse("has XML with an entity, which is never read: %q", b[i:i+n+1])
		}
		out.WriteRune(c)
		b = b[i+n+1:]
	}
	return out.String(), nil
}

func entity(name string) (rune, bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	digits, numeric := strings.CutPrefix(name, "#")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	c := rune(n)
	return c, numeric && err == nil && n > 0 && utf8.ValidRune(c)
}

// A node is an element with what is in it.
type node struct {
	name  string
	attrs []property
	text  []byte // of the characters directly in it
	nodes []*node
}

// A property is an attribute whose value is a text.
type property struct {
	name     string // after its prefix
	value    string
	prefixed bool
}

// A forest keeps elements as trees, up to a bound.
type forest struct{ nodes, text int }

// parse returns the root of a document.
func (f *forest) parse(data []byte) (*node, error) {
	s, err := scanXML(data)
	if err != nil {
		return nil, err
	}
	var root *node
	for {
		t, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case t == end && root == nil:
			return nil, s.fault("no element")
		case t == end:
			return root, nil
		case t == opening && root != nil:
			return nil, s.fault("a second root")
		case t == opening:
			if root, err = f.tree(s); err != nil {
				return nil, err
			}
		}
	}
}

// tree returns the element that a scanner has opened, and leaves it.
func (f *forest) tree(s *scanner) (*node, error) {
	root, err := f.node(s)
	if err != nil {
		return nil, err
	}
	for path := []*node{root}; len(path) > 0; {
		t, err := s.next()
		if err != nil {
			return nil, err
		}
		last := path[len(path)-1]
		switch t {
		case opening:
			n, err := f.node(s)
			if err != nil {
				return nil, err
			}
			last.nodes, path = append(last.nodes, n), append(path, n)
		case closing:
			path = path[:len(path)-1]
		case chars:
			text, err := s.content()
			if err != nil {
				return nil, err
			}
			if f.text += len(text); f.text > maxNodeText {
				return nil, refuse("has more than %d bytes of text in its elements", maxNodeText)
			}
			last.text = append(last.text, text...)
		}
	}
	return root, nil
}

func (f *forest) node(s *scanner) (*node, error) {
	if f.nodes++; f.nodes > maxNodes {
		return nil, refuse("has more than %d elements", maxNodes)
	}
	n := &node{name: s.name}
	if len(s.attrs) > 0 {
		n.attrs = make([]property, len(s.attrs))
	}
	for i, a := range s.attrs {
		value, err := unescape(a.value)
		if err != nil {
			return nil, err
		}
		n.attrs[i] = property{a.name, value, a.prefixed}
		f.text += len(value)
	}
	if f.text > maxNodeText {
		return nil, refuse("has more than %d bytes of text in its elements", maxNodeText)
	}
	return n, nil
}

// The methods of a node work on nil, which is an element that is not there.

// attr returns the value of an attribute, "" if there is none. A name that begins with a
// colon is one with a prefix.
func (n *node) attr(name string) string {
	if n == nil {
		return ""
	}
	name, prefixed := strings.CutPrefix(name, ":")
	for _, a := range n.attrs {
		if a.name == name && a.prefixed == prefixed {
			return a.value
		}
	}
	return ""
}

// content returns the characters directly in n.
func (n *node) content() []byte {
	if n == nil {
		return nil
	}
	return n.text
}

// child returns the first element in n along a path of names, or nil.
func (n *node) child(path ...string) *node {
	for _, name := range path {
		n = n.first(name)
	}
	return n
}

func (n *node) first(name string) *node {
	if n != nil {
		for _, c := range n.nodes {
			if c.name == name {
				return c
			}
		}
	}
	return nil
}

// all returns the elements of a name directly in n.
func (n *node) all(name string) []*node {
	var found []*node
	if n != nil {
		for _, c := range n.nodes {
			if c.name == name {
				found = append(found, c)
			}
		}
	}
	return found
}

// on says whether a setting such as <b/> is there and not switched off.
func (n *node) on() bool {
	return n != nil && n.attr("val") != "0" && n.attr("val") != "false" && n.attr("val") != "none" && n.attr(":val") != "0" && n.attr(":val") != "false" && n.attr(":val") != "none"
}
