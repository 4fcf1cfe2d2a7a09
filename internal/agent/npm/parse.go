package npm

import (
	"strings"

	"github.com/go-json-experiment/json"
)

// setting is one line of a file.
type setting struct {
	text string
	line int
}

// parse reads npm's dialect of INI: keys contain colons and slashes, both ; and
// # start a comment anywhere, a quoted text is JSON, KEY[] adds to a list, and a
// key without a value is true. What is in a section is not configuration.
func parse(text string) map[string][]setting {
	out, lists := map[string][]setting{}, map[string]bool{}
	section := false
	for i, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == ';' || line[0] == '#':
			continue
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = true
			continue
		case section || line[0] == '=':
			continue
		}
		name, value, given := strings.Cut(line, "=")
		key, value := unquote(name), unquote(value)
		if !given {
			value = "true"
		}
		s := setting{value, i + 1}
		list, isList := strings.CutSuffix(key, "[]")
		switch {
		case isList && list != "":
			lists[list] = true
			out[list] = append(out[list], s)
		case lists[key]: // a list stays one
			out[key] = append(out[key], s)
		default:
			out[key] = []setting{s}
		}
	}
	return out
}

// unquote reads a key or a value.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		quoted := s
		if s[0] == '\'' {
			s = s[1 : len(s)-1]
			quoted = s
		}
		var out string
		if json.Unmarshal([]byte(quoted), &out) == nil {
			return out
		}
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ';' || c == '#':
			return strings.TrimSpace(b.String())
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`\;#`, s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimSpace(b.String())
}
