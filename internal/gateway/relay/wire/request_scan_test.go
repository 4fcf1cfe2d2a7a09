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

// TestMember: members and elements are found as a decoder finds them, and those of what is
// of another form are none.
func TestMember(t *testing.T) {
	for _, c := range []struct{ object, want string }{
		{`{"a":1}`, "1"}, {` { "b" : {"a":2} , "a" : [ 3, "]" ] } `, `[ 3, "]" ]`}, {`{"a":1,"a":"\"}"}`, `"\"}"`},
		{`{"\u0061":true}`, "true"}, {`{"b":1}`, ""}, {`{}`, ""}, {`[{"a":1}]`, ""}, {`"a"`, ""}, {``, ""}, {`{"a":`, ""}, {`{"`, ""},
	} {
		if got := Member(jsontext.Value(c.object), "a"); string(got) != c.want {
			t.Errorf("%s: %s", c.object, got)
		}
	}
	for _, c := range []struct{ array, want string }{
		{`[]`, ""}, {` [ 1 , {"a":[2]},"x,]" ,3,4]`, `1 {"a":[2]} "x,]" `}, {`{"a":[1]}`, ""}, {`7`, ""}, {``, ""}, {`[1,`, "1 "}, {`["`, `" `},
	} {
		got := ""
		Elements(jsontext.Value(c.array), func(v jsontext.Value) bool {
			got += string(v) + " "
			return v.Kind() != '"'
		})
		if got != c.want {
			t.Errorf("%s: %s", c.array, got)
		}
	}
}
