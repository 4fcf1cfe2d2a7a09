package likeness

import (
	"bytes"
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxTexts is how many texts of one JSON content are looked at.
const maxTexts = 1000

// look calls each for a content, and for the programs among its texts if it is JSON, as
// notebooks and rows of data sets are.
func look(name string, content []byte, each func(member string, content []byte, m Marks)) {
	each(name, content, Of(content))
	if trimmed := bytes.TrimSpace(decoded(content)); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		t := texts{name: name, each: each}
		t.read(trimmed)
	}
}

// texts are the texts of a JSON content.
type texts struct {
	name  string
	each  func(member string, content []byte, m Marks)
	count int
	// lines are those of the innermost array, as long as it has nothing but texts.
	lines []string
	array bool
}

// read reads until the content ends or is no JSON any more.
func (t *texts) read(content []byte) {
	d := jsontext.NewDecoder(bytes.NewReader(content), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for t.count < maxTexts {
		token, err := d.ReadToken()
		if err != nil {
			return
		}
		at := path.Join(t.name, string(d.StackPointer()))
		switch kind := token.Kind(); kind {
		case '[':
			t.array, t.lines = true, nil
		case ']':
			if t.array {
				t.text(at, strings.Join(t.lines, ""))
			}
			t.array = false
		case '"':
			if parent, n := d.StackIndex(d.StackDepth()); parent == '{' && n%2 == 1 {
				continue // a name
			}
			text := token.String()
			if t.array {
				t.lines = append(t.lines, text)
			}
			t.text(at, text)
		default:
			t.array = false
		}
	}
}

// text looks at one text, which is worth it if it is a program of several lines.
func (t *texts) text(at, text string) {
	if strings.Count(strings.TrimSpace(text), "\n")+1 < minLines || !IsCode("", []byte(text)) {
		return
	}
	t.count++
	t.each(at, []byte(text), Of([]byte(text)))
}
