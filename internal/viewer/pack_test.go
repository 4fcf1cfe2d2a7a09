package viewer

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/pipeline/record"
)

// TestPack: what agents did not see is shown of runs of the pack alone, and in nothing
// that is written for others.
func TestPack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"mine", "other"} {
		newMaker(t, filepath.Join(dir, name), 1).make()
	}
	p := &Pack{Of: func(m record.Manifest, hidden *record.PackDigests) bool { return m.Pack.ID == "mine" && hidden != nil }}
	picture, ok := p.picture(fstest.MapFS{"dot.gif": {Data: []byte(dot)}, "text.gif": {Data: []byte("GIF89a")}}, "dot.gif")
	if _, text := p.picture(fstest.MapFS{"text.gif": {Data: []byte("no picture")}}, "text.gif"); !ok || text || picture.Type != "image/gif" {
		t.Errorf("%t %t %+v", ok, text, picture)
	}
	p.rows = map[string]packRow{"task/0": {tags: []string{"easy"}, eval: jsontext.Value(`{"accepted_answers": ["` + secret + `\u202e"]}`)}}
	o := trusting()
	o.Pack = p
	l, err := OpenLibrary(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", "other"} {
		run, _, err := l.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := run.Whole("0.1")
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(whole.Attempt.Parts)
		if mine := name == "mine"; strings.Contains(text, "hidden: accepted_answers") != mine || strings.Contains(text, secret) != mine || strings.Contains(text, "\u202e") || fmt.Sprint(run.Rows[0].Tags) != map[bool]string{true: "[easy]", false: "[]"}[mine] {
			t.Errorf("%s: %v, %s", name, run.Rows[0].Tags, text)
		}
	}
	if html := written(t, filepath.Join(dir, "mine")); strings.Contains(string(html), secret) {
		t.Error("a page for others has what agents did not see")
	}
}
