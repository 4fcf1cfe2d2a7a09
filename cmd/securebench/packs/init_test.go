package packs

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAsk: answers, defaults and mistakes at the questions of init.
func TestAsk(t *testing.T) {
	terminal := strconv.Itoa(slices.Index(templateFamilies(), "terminal_task") + 1)
	for _, c := range []struct {
		in       string
		given    newPack
		want     newPack
		says     string
		complete bool
	}{
		{in: "\n\n\n", want: newPack{defaultDir, "my-pack", defaultFamilies()}, says: "Folder of the new pack [my-pack]: ", complete: true},
		{in: "a/Sums of 2\n\n2 short_answer,2\n", want: newPack{"a/Sums of 2", "sums-of-2", []string{"code_completion", "short_answer"}}, says: "  2  code_completion\n", complete: true},
		{in: "x\n99\nshort\n" + terminal + "\n", given: newPack{dir: "d"}, want: newPack{"d", "x", []string{"terminal_task"}}, says: "99 is not one of them\n", complete: true},
		{in: "", given: newPack{dir: "d", id: "e", families: []string{"short_answer"}}, want: newPack{"d", "e", []string{"short_answer"}}, complete: true},
		{in: "here\n"},
	} {
		p, out := c.given, new(bytes.Buffer)
		err := p.ask(strings.NewReader(c.in), out)
		if (err == nil) != c.complete {
			t.Errorf("%q: %v", c.in, err)
		}
		if !c.complete {
			continue
		}
		if p.dir != c.want.dir || p.id != c.want.id || !slices.Equal(p.families, c.want.families) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: %+v, want %+v\n%s", c.in, p, c.want, out)
		}
	}
}
