package wire

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// leadsOut reports whether a field of content names, in one API or another, what is
// not in the request: an address that the provider would fetch, or a file that it
// has. Content that is in the request itself lies in fields of other names.
func leadsOut(name string) bool {
	return slices.ContainsFunc([]string{"url", "urls", "uri", "uris", "file_id", "file_ids"}, func(word string) bool {
		return name == word || strings.HasSuffix(name, "_"+word)
	}) || name == "file_data"
}

// addressed refuses content that the provider would fetch, or has.
func (c *checker) addressed(f fields) error {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		switch {
		case !leadsOut(name):
		case name == "image_url" && isData(f[name]):
		case name == "file_data" && (isData(f[name]) || isBase64(f[name])):
		default:
			if err := c.external("content by %.40s", name); err != nil {
				return err
			}
		}
	}
	return nil
}

// isData reports whether a value is an address that holds the content itself.
func isData(v jsontext.Value) bool {
	s, ok := text(v)
	return ok && strings.HasPrefix(s, "data:")
}

// isBase64 reports whether a string can be content in base64. No address can: it has
// a colon.
func isBase64(v jsontext.Value) bool {
	s, ok := text(v)
	return ok && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("+/-_=\r\n", r)
	})
}

// carriers are the fields in which an input item brings what it is about. An item
// with an id, and none of them refers to one that the provider keeps.
func carriers() []string {
	return []string{"content", "output", "summary", "encrypted_content", "arguments", "input", "action", "operation", "tools", "call_id"}
}

// referred refuses an input item that only refers to one that the provider keeps.
func (c *checker) referred(kind string, item fields) error {
	role, _ := text(item["role"])
	_, named := item["id"]
	brings := slices.ContainsFunc(carriers(), func(name string) bool {
		v, ok := item[name]
		// A text that is missing can only be what the provider has in its place.
		missing := kind == "reasoning" || strings.Contains(kind, "compaction")
		return ok && (!missing || !empty(v) && string(v) != `""`)
	})
	if kind == "" && role == "" || named && !brings {
		return c.external("a reference to an item that the provider keeps")
	}
	return nil
}
