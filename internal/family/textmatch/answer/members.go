package answer

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family/textmatch/vocabulary"
)

// members adds what the members of a JSON object state, where one ends the text, and
// returns the text before it. Members are the answer whose name says so; an object or a
// list of one member is that. Names and strings may have single quotes, as Python
// writes them.
func (r *reader) members(text string) string {
	body := strings.TrimSpace(text)
	body = strings.TrimSpace(strings.TrimSuffix(body, "```"))
	closes := strings.HasSuffix(body, "}")
	if !closes && !strings.HasSuffix(body, "]") || len(body) > maxObject {
		return text
	}
	tried := 0
	for at := range body {
		if (body[at] != '{' || !closes) && (body[at] != '[' || closes) || at > 0 && body[at-1] != '\n' {
			continue
		}
		if tried++; tried > maxObjects {
			break
		}
		object := body[at:]
		answers, ok := r.answers(object)
		if !ok && !strings.Contains(object, `"`) {
			answers, ok = r.answers(strings.ReplaceAll(object, "'", `"`))
		}
		if !ok {
			continue
		}
		for _, a := range answers {
			r.enclosed(Marked, a)
		}
		return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(body[:at]), "json"), "```")
	}
	return text
}

// maxObject is the most bytes of a text that is read as JSON.
const maxObject = 64 << 10

// maxObjects is the most places where an object is tried to begin.
const maxObjects = 64

// answers returns the members of an object that are the answer; it reports false for
// what is no JSON or has none.
func (r *reader) answers(object string) ([]string, bool) {
	v := jsontext.Value(object)
	if !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, false
	}
	if v.Kind() == '[' {
		items, ok := elements(v)
		return items, ok && len(items) == 1
	}
	var out, all []string
	for member := range slices.Chunk(values(v), 2) {
		if text, ok := scalar(member[1]); ok {
			all = append(all, text)
			if name, _ := scalar(member[0]); r.names(name) {
				out = append(out, text)
			}
		}
	}
	if out == nil && len(all) == 1 {
		out = all
	}
	return out, len(out) > 0
}

// names reports whether a member's name says that it is the answer.
func (r *reader) names(name string) bool {
	return slices.ContainsFunc(Words(strings.ReplaceAll(name, "_", " ")), func(w Word) bool {
		return r.Question.Is(w, vocabulary.Answer|vocabulary.Choose|vocabulary.Option)
	})
}

// scalar returns a string, number, truth value or list of them as text.
func scalar(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case '"':
		s, err := jsontext.AppendUnquote(nil, v)
		return string(s), err == nil
	case '0', 't', 'f':
		return string(v), true
	case '[':
		items, ok := elements(v)
		return strings.Join(items, "; "), ok && len(items) > 0
	}
	return "", false
}

// elements returns the elements of a list that has no other list or object.
func elements(v jsontext.Value) (out []string, ok bool) {
	for _, item := range values(v) {
		text, ok := scalar(item)
		if !ok || item.Kind() == '[' {
			return nil, false
		}
		out = append(out, text)
	}
	return out, true
}

// values returns what a list holds that was read, or the names and values of an object in
// turn.
func values(v jsontext.Value) (out []jsontext.Value) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != ']' && d.PeekKind() != '}' {
		var item jsontext.Value
		item, err = d.ReadValue()
		out = append(out, item.Clone())
	}
	return out
}
