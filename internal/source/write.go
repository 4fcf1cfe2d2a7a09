package source

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"securebench/internal/lazyregexp"
)

// plainKey is a key that needs no quotes.
var plainKey = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]*$`)

// YAML returns the value as a document that people edit, which [ParseYAML] reads as the same
// value: texts of several lines as they are, all other texts in quotes.
func (n *Node) YAML() []byte {
	var b bytes.Buffer
	if n.isBlock() {
		n.block(&b, "")
		return b.Bytes()
	}
	return append(inYAML(n.JSON()), '\n')
}

// inYAML writes JSON as YAML reads it: what breaks a line there, or may not be in a text, is
// escaped. Such characters occur in strings only.
func inYAML(b []byte) []byte {
	if !bytes.ContainsFunc(b, odd) {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		if odd(r) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// odd reports whether YAML has no place for a character, or takes it for a line's end.
func odd(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

// isBlock reports whether a value has lines of its own.
func (n *Node) isBlock() bool { return len(n.Items) > 0 && !n.short() || len(n.Fields) > 0 }

// short reports whether a list is written on one line.
func (n *Node) short() bool {
	for _, item := range n.Items {
		if item.Kind == List || item.Kind == Map {
			return false
		}
	}
	return len(n.JSON()) <= 80
}

func (n *Node) block(b *bytes.Buffer, indent string) {
	for _, item := range n.Items {
		b.WriteString(indent + "-")
		item.value(b, indent+"  ")
	}
	for _, f := range n.Fields {
		key := string(inYAML(appendString(nil, f.Name)))
		if plainKey.MatchString(f.Name) && !isWord(f.Name) {
			key = f.Name
		}
		b.WriteString(indent + key + ":")
		f.Value.value(b, indent+"  ")
	}
}

// isWord reports whether a text is read as another value by some readers.
func isWord(s string) bool {
	switch strings.ToLower(s) {
	case "null", "true", "false", "y", "n", "yes", "no", "on", "off":
		return true
	}
	return false
}

// value writes what is behind a key or a dash.
func (n *Node) value(b *bytes.Buffer, indent string) {
	switch {
	case n.isBlock():
		b.WriteString("\n")
		n.block(b, indent)
	case n.Kind == String && literal(n.Text):
		b.WriteString(" |")
		if !strings.HasSuffix(n.Text, "\n") {
			b.WriteString("-")
		}
		b.WriteString("\n")
		for line := range strings.SplitSeq(strings.TrimSuffix(n.Text, "\n"), "\n") {
			if line != "" {
				b.WriteString(indent + line)
			}
			b.WriteString("\n")
		}
	default:
		b.WriteString(" ")
		b.Write(inYAML(n.JSON()))
		b.WriteString("\n")
	}
}

// literal reports whether a text can be written line by line: it has several, none of which
// has anything that would be read differently.
func literal(s string) bool {
	body := strings.TrimSuffix(s, "\n")
	if !strings.Contains(s, "\n") || body == "" || strings.HasPrefix(body, " ") || strings.HasPrefix(body, "\n") || strings.HasSuffix(body, "\n") {
		return false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimRight(line, " \t") != line {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' || odd(r) || r == 0xfffd
	})
}
