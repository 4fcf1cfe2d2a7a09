package progress

import (
	"fmt"
	"strings"
	"testing"
)

// TestShownIsBoundedByTask: an agent that prints without end is shown up to a
// bound, over all its streams and attempts, and what is missing is counted; a
// quiet neighbour is shown whole.
func TestShownIsBoundedByTask(t *testing.T) {
	budget := shownBudget{used: map[string]int{}}
	shown := map[string][]string{}
	say := func(task, text string, times int) {
		l := budget.lines(task, func(line string) { shown[task] = append(shown[task], line) })
		for range times {
			fmt.Fprintln(l, text)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	say("loud", "", 1<<20) // empty lines cost as well
	say("quiet", "4", 3)
	say("loud", "more", 2) // of another stream, or another attempt
	lines := shown["loud"]
	if n := maxShown / lineOverhead; len(lines) != n+2 {
		t.Fatalf("%d lines of the loud one are shown, want %d and two that say what is not", len(lines), n)
	}
	for i, want := range []string{fmt.Sprintf("[%d bytes are not shown", 1<<20-maxShown/lineOverhead), "[10 bytes are not shown"} {
		if got := lines[len(lines)-2+i]; !strings.HasPrefix(got, want) || !strings.Contains(got, "in restricted/") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := strings.Join(shown["quiet"], " "); got != "4 4 4" {
		t.Errorf("of the quiet one is shown %q", got)
	}
}
