package wire

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// scanned decodes a text with the scanner.
func scanned(v jsontext.Value) (any, error) {
	switch v.Kind() {
	case '{':
		out := map[string]any{}
		return out, walk(v, '{', "", func(s *scanner) error {
			name, ok := text(s.value())
			if !ok || !s.Skip(':') {
				return errScan
			}
			value, err := scanned(s.value())
			out[name] = value
			return err
		})
	case '[':
		out := []any{}
		return out, walk(v, '[', "", func(s *scanner) error {
			value, err := scanned(s.value())
			out = append(out, value)
			return err
		})
	}
	var out any
	return out, json.Unmarshal(v, &out)
}

// FuzzScanner: the scanner finds in a valid text what a decoder does, and comes to
// an end in every other one.
func FuzzScanner(f *testing.F) {
	for _, set := range []map[string]string{honestResponses, honestMessages} {
		for _, body := range set {
			f.Add([]byte(body))
		}
	}
	for _, body := range []string{` [ ] `, `{"a\\":"\\\"","b":[[],{},1e5,null]}`, `["\\\\",{"":"]"}]`, `[,]`, `{"a"}`, `[1 2]`, `["\"]`, `[}`, `{"a":}`, `[[]`, `"`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := scanned(body)
		var want any
		if json.Unmarshal(body, &want) != nil {
			return
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	})
}
