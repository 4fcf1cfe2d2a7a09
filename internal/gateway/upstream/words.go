package upstream

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"securebench/internal/lazyregexp"
)

// The bounds of what is read for the words of an error: values inside one another, and
// those of a list.
const (
	maxDepth = 6
	maxItems = 3
)

// title matches the heading of an error that is a page.
var title = lazyregexp.New(`(?is)<(?:title|h1)[^>]*>(.*?)</`)

// Words returns what an error says, in one line, "" if it says nothing: the message of any
// API's form, what FastAPI and its like call the detail, the title of a page, or a text.
func Words(body []byte) string {
	body = bytes.TrimSpace(body)
	if !utf8.Valid(body) {
		return ""
	}
	var v any
	text := string(body)
	switch {
	case len(body) == 0:
	case strings.ContainsRune(`{["`, rune(body[0])) && Decode(body, &v) == nil:
		text = said(v, maxDepth)
	case body[0] == '<':
		text = ""
		if m := title.FindSubmatch(body); m != nil {
			text = string(m[1])
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// said returns the words in a value of an error.
func said(v any, depth int) string {
	if depth == 0 {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var out []string
		for _, item := range v[:min(len(v), maxItems)] {
			if text := said(item, depth-1); text != "" {
				out = append(out, text)
			}
		}
		return strings.Join(out, "; ")
	case map[string]any:
		return saidOf(v, depth)
	}
	return ""
}

// saidOf returns the words in an object of an error.
func saidOf(v map[string]any, depth int) string {
	for _, key := range []string{"message", "msg", "error", "detail", "errors", "error_description", "response"} {
		text := said(v[key], depth-1)
		if text == "" {
			continue
		}
		if at := place(v["loc"]); at != "" { // of a field that FastAPI refuses
			return at + ": " + text
		}
		if meta, ok := v["metadata"].(map[string]any); ok { // what OpenRouter was told itself
			if raw, _ := meta["raw"].(string); raw != "" {
				text += ": " + Words([]byte(raw))
			}
		}
		return text
	}
	return ""
}

// place returns where a field is, as names with dots between them.
func place(v any) string {
	list, _ := v.([]any)
	var names []string
	for _, item := range list {
		if name, ok := item.(string); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}
