package verdict

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PictureExt ends the names of restricted output that is a picture for people: a JPEG that
// was made in a sandbox.
const PictureExt = ".jpg"

// Metadata holds what a stage reports beyond the common fields. The values are
// JSON, so that they are unchanged in another process or after they are read
// from a record.
type Metadata map[string]jsontext.Value

// NewMetadata encodes values. One that JSON cannot represent becomes null.
func NewMetadata(values map[string]any) Metadata {
	m := make(Metadata, len(values))
	for key, v := range values {
		m.Set(key, v)
	}
	return m
}

// Set encodes one value.
func (m Metadata) Set(key string, value any) {
	b, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		b = []byte("null")
	}
	m[key] = b
}

// Text returns a value that is a string, or "".
func (m Metadata) Text(key string) string {
	var s string
	if m[key].Kind() != '"' || json.Unmarshal(m[key], &s) != nil {
		return ""
	}
	return s
}

// Int returns a value that is a whole number, or 0.
func (m Metadata) Int(key string) int64 {
	var n int64
	if m[key].Kind() != '0' || json.Unmarshal(m[key], &n) != nil {
		return 0
	}
	return n
}
