package viewer

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/browsertest"
	"securebench/internal/earlier"
	"securebench/internal/pipeline/record"
)

// pairOfRuns makes two runs of the same 300 tasks: the second gains three and loses one.
func pairOfRuns(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"after", "before"} {
		m := newMaker(t, filepath.Join(dir, name), 300)
		m.name = "pack"
		m.change = func(_ *record.Dir, l *record.Line) {
			l.TaskID = attacks()[1] + l.TaskID
			switch {
			case name == "before":
			case l.Index == 1, l.Index == 2, l.Index == 203:
				l.Status, l.Outcome, l.Passed, l.FailureReason = "passed", "passed", true, ""
			case l.Index == 4:
				l.Status, l.Outcome, l.Passed, l.FailureReason = "failed", "failed", false, "wrong_answer"
			}
		}
		m.make()
	}
	return dir
}

// TestCompare: a comparison has the figures of "compare", and a row for each task.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short; the race detector makes it many times slower")
	}
	t.Parallel()
	l, err := OpenLibrary(pairOfRuns(t), trusting())
	if err != nil {
		t.Fatal(err)
	}
	for show, want := range map[string]int{"": 300, "changed": 4, "gained": 3, "lost": 1} {
		c, err := l.Compare(t.Context(), url.Values{"runs": {"before\nafter"}, "show": {show}, "page": {"2"}})
		if err != nil || len(c.Refused) > 0 {
			t.Fatal(err, c)
		}
		if c.Found != want || c.Total != 300 || c.Pages != max(1, want/PerPage) || c.Page != min(2, c.Pages) {
			t.Errorf("%q: %d of %d, page %d of %d", show, c.Found, c.Total, c.Page, c.Pages)
		}
		if a := c.Parts[0].Against[0]; a.Gained != 3 || a.Lost != 1 || a.Difference < 0.006 || a.Difference > 0.007 || a.Interval == nil || a.P == nil {
			t.Errorf("%+v", a)
		}
	}
	for name, by := range map[string]url.Values{"one run": {"runs": {"before"}}, "unknown": {"runs": {"before\n../before"}}, "not to be allowed": {"runs": {"before\nafter"}, "allow": {"pack"}}} {
		if _, err := l.Compare(t.Context(), by); err == nil {
			t.Errorf("%s: compared", name)
		}
	}
}

// TestCompareRefused: runs that do not verify, and those of other packs, are not compared.
func TestCompareRefused(t *testing.T) {
	t.Parallel()
	l, err := OpenLibrary(threeRuns(t), trusting())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Compare(t.Context(), url.Values{"runs": {"A b/one\nchanged"}})
	if err != nil || len(c.Refused) != 1 || !strings.Contains(c.Refused[0].What, "does not verify") || c.Refused[0].Kind != "" || len(c.Grid) > 0 {
		t.Errorf("%v: %+v", err, c)
	}
}

// TestCompareAlone: a folder has the comparisons of its runs, as the server does, with what
// stands against one; and nothing of the operator's.
func TestCompareAlone(t *testing.T) {
	browsertest.Program(t)
	dir := pairOfRuns(t)
	other := newMaker(t, filepath.Join(dir, "version"), 300)
	other.name = "pack"
	other.change = func(_ *record.Dir, l *record.Line) { l.TaskID = attacks()[1] + l.TaskID }
	other.build = "another build"
	other.make()
	newMaker(t, filepath.Join(dir, "elsewhere"), 3).make()
	l, err := OpenLibrary(dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	address := "file://" + filepath.Join(exported(t, dir), "index.html")
	b := browsertest.Open(t, address, 1000, 800)
	b.Until(shown + " && document.querySelectorAll('tbody tr').length === 4")
	if got := b.Text("Array.from(document.querySelectorAll('tbody input'), (e) => e.getAttribute('aria-label')).join()"); got != "compare after,compare before,compare version" {
		t.Error(got)
	}
	for _, name := range []string{"before", "after"} {
		b.Eval(fmt.Sprintf("document.querySelector('[aria-label=\"compare %s\"]').click()", name), nil)
		b.Until(fmt.Sprintf("location.hash.includes('%s')", name))
	}
	b.Until("document.querySelector('main a.button')")
	b.Eval("document.querySelector('main a.button').click()", nil)
	b.Until(shown + " && document.querySelector('#tasks tbody')")
	inert := func(where string) {
		t.Helper()
		var found []string
		if b.Eval(strange, &found); len(found) > 0 {
			t.Errorf("%s: %.600q", where, found)
		}
	}
	inert("a comparison")
	for text, want := range map[string]string{"": "300", "show=changed": "4", "show=gained": "1", "show=lost": "3", "show=__proto__": "300", "show=lost&q=task%2F203": "1", "q=short_answer&page=2": "150", "q=%00": "0", "page=3": "300", "page=x": "300"} {
		by, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		by.Set("runs", "after\nbefore")
		c, err := l.Compare(t.Context(), by)
		if err != nil {
			t.Fatal(err)
		}
		rows := []string{}
		for _, r := range c.Grid {
			rows = append(rows, fmt.Sprint(r.Task, r.Cells[1].Change))
		}
		served := fmt.Sprintf("%d %d %d %s", c.Found, c.Page, c.Pages, strings.Join(rows, ","))
		one := map[string]string{}
		for k := range by {
			one[k] = by.Get(k)
		}
		asks, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var alone string
		b.Eval(fmt.Sprintf("sb.source.compare(%s).then((c) => [c.found, c.page, c.pages, c.grid.map((r) => r.task + (r.cells[1].change || 0)).join()].join(' '))", asks), &alone)
		if served != alone || !strings.HasPrefix(served, want+" ") {
			t.Errorf("%s: %.100s, served %.100s", text, alone, served)
		}
	}
	if got := b.Text("document.querySelector('section table').textContent"); !strings.Contains(got, "−0.7 points") || !strings.Contains(got, "1 gained, 3 lost") {
		t.Error(got)
	}
	for at, there := range map[string]string{
		"after%0Aversion":                "document.querySelector('h1').textContent === 'These runs were not given the same' && document.querySelector('main a.button')",
		"after%0Aversion&allow=verifier": "document.querySelector('.banner')?.textContent?.startsWith('ALLOWED')",
		"after%0Aelsewhere":              "document.querySelector('.banner')?.textContent === 'this folder has no comparison of these runs'",
		"after%0Aafter":                  "document.querySelector('.banner')?.textContent === 'this folder has no comparison of these runs'",
		"after%0Abefore%0Aversion":       "document.querySelector('.banner')?.textContent === 'this folder has no comparison of these runs'",
		"..%2F..%2Fx%0A" + "__proto__":   "document.querySelector('.banner')?.textContent === 'this folder has no comparison of these runs'",
	} {
		b.Eval(fmt.Sprintf("location.hash = '#/'; location.hash = '#/compare?runs=%s'", at), nil)
		b.Until(shown + " && " + there)
		inert(at)
	}
	if len(b.Faults) > 0 {
		t.Errorf("faults %.500v", b.Faults)
	}
}

// TestPairsWithoutRoom: runs whose comparison has no room are not read for it.
func TestPairsWithoutRoom(t *testing.T) {
	t.Parallel()
	l, err := OpenLibrary(pairOfRuns(t), trusting())
	if err != nil {
		t.Fatal(err)
	}
	list := List{}
	for _, id := range []string{"after", "before"} {
		_, s, err := l.Get(t.Context(), id)
		if err != nil || s.tasks() != 300 {
			t.Fatal(s.tasks(), err)
		}
		list.Runs = append(list.Runs, s)
	}
	p := &pairs{paths: []string{"not", "there"}, opened: map[string]*earlier.Run{}, rows: maxGridRows - 299}
	if err := p.write(t.Context(), &list); err != nil || len(list.Compared) > 0 {
		t.Errorf("%v, %v", list.Compared, err)
	}
	if p.rows--; p.write(t.Context(), &list) == nil {
		t.Error("what is not there is compared: the test shows nothing")
	}
}

// TestCompareNone: the list of a folder without comparisons is shown whatever its address
// names, and offers none.
func TestCompareNone(t *testing.T) {
	browsertest.Program(t)
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		newMaker(t, filepath.Join(dir, name), 1).make()
	}
	b := browsertest.Open(t, "file://"+filepath.Join(exported(t, dir), "index.html")+"#/?runs=one%0Atwo", 1000, 800)
	b.Until(shown)
	if rows, offered := b.Text("document.querySelectorAll('tbody tr').length"), b.Text("document.querySelectorAll('main a.button, tbody input').length"); rows != "2" || offered != "0" {
		t.Errorf("%s runs, %s offers to compare: %s", rows, offered, b.Text("document.querySelector('main').textContent"))
	}
}

// TestComparePage: runs are chosen in the list, and compared.
func TestComparePage(t *testing.T) {
	browsertest.Program(t)
	b := browsertest.Open(t, serve(t, pairOfRuns(t)), 1000, 800)
	b.Until(shown)
	for _, name := range []string{"before", "after"} {
		b.Until(shown + fmt.Sprintf(" && document.querySelector('[aria-label=\"compare %s\"]')", name))
		b.Eval(fmt.Sprintf("document.querySelector('[aria-label=\"compare %s\"]').click()", name), nil)
	}
	b.Until("Array.from(document.querySelectorAll('main a.button')).some((a) => a.textContent === 'compare 2 runs')")
	b.Eval("document.querySelector('main a.button').click()", nil)
	b.Until(shown + " && document.querySelector('#tasks tbody')")
	if got := b.Text("document.querySelector('#tasks .found').textContent"); got != "300 of 300 tasks" {
		t.Error(got)
	}
	if got := b.Text("document.querySelector('section table').textContent"); !strings.Contains(got, "+0.7 points") || !strings.Contains(got, "3 gained, 1 lost") {
		t.Error(got)
	}
	b.Eval("(() => { const s = document.querySelector('#tasks select'); s.value = 'changed'; s.dispatchEvent(new Event('change')); })()", nil)
	b.Until("document.querySelectorAll('#tasks tbody tr').length === 4")
	if got := b.Text("Array.from(document.querySelectorAll('#tasks .change'), (e) => e.textContent).join()"); got != "▲ gained,▲ gained,▼ lost,▲ gained" {
		t.Error(got)
	}
	if got := b.Text("location.hash"); !strings.Contains(got, "show=changed") || b.Text("window.owned") != "undefined" || len(b.Faults) > 0 {
		t.Errorf("%s, faults %.500v", got, b.Faults)
	}
}
