package catalogue

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// placeholder matches a name in braces. Other braces are what they are.
var placeholder = lazyregexp.New(`\{[a-z_]+\}`)

// The conditions: that the operator allows what the provider itself runs, and that the
// model is a name and no alias.
const (
	ExternalTools = "external_tools"
	NamedModel    = "named_model"
)

// whole returns the name of the placeholder that is all of a text.
func whole(text string) (string, bool) {
	if at := placeholder.FindStringIndex(text); at == nil || at[0] != 0 || at[1] != len(text) {
		return "", false
	}
	return text[1 : len(text)-1], true
}

// Text returns a text with its placeholders replaced, once: what they stand for is
// not looked at again.
func (v Values) Text(text string) string {
	return placeholder.Regexp().ReplaceAllStringFunc(text, func(p string) string {
		if word, ok := v.Words[p[1:len(p)-1]]; ok {
			return word
		}
		return p
	})
}

// holds reports whether a condition holds, as the empty one does.
func (v Values) holds(condition string) bool {
	name, not := strings.CutPrefix(condition, "not ")
	return condition == "" || v.Holds[name] != not
}

// JSON returns a value with the placeholders of all texts and names in it replaced, in
// canonical form.
func (v Values) JSON(value jsontext.Value) (string, error) {
	var tree any
	if err := json.Unmarshal(value, &tree); err != nil {
		return "", err
	}
	text, err := json.Marshal(v.tree(tree), json.Deterministic(true))
	return string(text), err
}

func (v Values) tree(value any) any {
	switch value := value.(type) {
	case string:
		return v.Text(value)
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = v.tree(value[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, of := range value {
			out[v.Text(name)] = v.tree(of)
		}
		return out
	}
	return value
}
