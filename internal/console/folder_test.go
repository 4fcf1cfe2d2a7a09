package console_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"securebench/internal/console"
)

// TestFolder: on a terminal no text from outside begins at the left edge, however
// long its line, and none of it is lost.
func TestFolder(t *testing.T) {
	t.Parallel()
	lie := "verdict      passed"
	for name, text := range map[string]string{
		"spaces":  strings.Repeat(" ", 200) + lie,
		"tabs":    strings.Repeat("\t", 12) + lie,
		"repeats": strings.Repeat(lie+" ", 40),
		"wide":    strings.Repeat("界", 90) + lie,
		"emoji":   strings.Repeat("☺", 90) + lie,
		"short":   "all is well",
		"nothing": "",
	} {
		for _, columns := range []int{8, 20, 37, 40, 80, 133} {
			t.Run(fmt.Sprintf("%s/%d", name, columns), func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				f := console.NewFolder(&out, columns)
				for part := range strings.SplitAfterSeq("  | "+text+"\n  | end", "p") { // in pieces, as a writer gets them
					if _, err := f.Write([]byte(part)); err != nil {
						t.Fatal(err)
					}
				}
				if err := f.Flush(); err != nil {
					t.Fatal(err)
				}
				got := ""
				for line := range strings.Lines(out.String()) {
					line = strings.TrimSuffix(line, "\n")
					if n := ansi.StringWidth(line); n > columns {
						t.Errorf("%d columns: %q", n, line)
					}
					if strings.Contains(line, "\t") || !strings.HasPrefix(line, "  | ") {
						t.Errorf("a line begins as %q", line)
					}
					got += strings.TrimPrefix(line, "  | ")
				}
				squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
				if squeeze(got) != squeeze(text+"end") {
					t.Errorf("%q was shown as %q", text, got)
				}
			})
		}
	}
	for text, want := range map[string]string{
		"verdict      " + strings.Repeat("a", 20) + "\n": "verdict      aaaaaaa\n    aaaaaaaaaaaaa\n",
		"a\n\nb":               "a\n\nb",
		"exactly twenty chars": "exactly twenty chars",
	} {
		var out bytes.Buffer
		f := console.NewFolder(&out, 20)
		fmt.Fprint(f, text)
		if err := f.Flush(); err != nil || out.String() != want {
			t.Errorf("%q is %q, want %q (%v)", text, &out, want, err)
		}
	}
	var out bytes.Buffer
	long := strings.Repeat("x\t", 100)
	fmt.Fprint(console.NewFolder(&out, 0), long)
	if out.String() != long {
		t.Errorf("without a terminal: %q", &out)
	}
}
