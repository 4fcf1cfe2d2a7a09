package viewer

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/browsertest"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
)

// told makes a run of eight tasks that ask for the capital of a country and are answered,
// with what only the operator may read.
func told(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	m := newMaker(t, filepath.Join(dir, "told"), 8)
	m.change = func(d *record.Dir, l *record.Line) {
		l.Summary = []task.ResourceSummary{{Name: "question", Kind: "text", Visibility: "public", Value: jsontext.Value(fmt.Sprintf(`"The CAPITAL of land%d?"`, l.Index))},
			{Name: "gold", Kind: "text", Visibility: "hidden", Redacted: true}}
		m.restrict(d, l, "agent-stdout", []byte(secret))
		m.restrict(d, l, "agent-steps.jsonl", steps(secret))
		if l.Index == 7 {
			m.store(d, l, task.Workspace, tree(t, map[string]string{"land.txt": "It is in a tree"}))
			return
		}
		m.store(d, l, task.Text, []byte(fmt.Sprintf("It is City%d, İzmir\x1b[1m", l.Index)))
	}
	m.make()
	return dir
}

// searches are questions about the run of [told], and how many attempts are found.
func searches() map[string]int {
	return map[string]int{
		"q=capital":                                0, // texts are searched if they are asked for
		"q=capital&in=texts":                       8,
		"q=capital&in=everything":                  0,
		"q=capital+city3&in=texts":                 1, // words in both
		"q=land3+task%2F3&in=texts":                1, // and in the name
		"q=CITY&in=texts&outcome=passed":           2,
		"q=city&in=texts&family=nothing":           0,
		"q=it+is+city&in=texts&sort=-task":         7,
		"in=texts":                                 8,
		"q=" + secret + "&in=texts":                0,
		"q=gold&in=texts":                          0,
		"q=__proto__&in=texts":                     0,
		"q=" + url.QueryEscape(".*") + "&in=texts": 0,
	}
}

// TestSearch: what was asked and answered is found, and nothing that others may not read,
// whoever asks.
func TestSearch(t *testing.T) {
	t.Parallel()
	o := trusting()
	o.Pack = &Pack{Of: func(record.Manifest, *record.PackDigests) bool { return true }, rows: map[string]packRow{"task/0": {eval: jsontext.Value(`{"accepted_answers": ["` + secret + `"]}`)}}}
	l, err := OpenLibrary(told(t), o)
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := l.Get(t.Context(), "told")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range searches() {
		by, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Query(by); got.Found != want || got.Cut {
			t.Errorf("%s: %d, want %d, cut %t", text, got.Found, want, got.Cut)
		}
	}
}

// TestSearchAlone: a folder and a file find the same without a server.
func TestSearchAlone(t *testing.T) {
	browsertest.Program(t)
	dir := told(t)
	for kind, address := range map[string]string{"folder": "file://" + filepath.Join(exported(t, dir), "index.html"), "file": onDisk(t, written(t, filepath.Join(dir, "told")))} {
		b := browsertest.Open(t, address, 1000, 800)
		b.Until(shown)
		id := map[string]string{"folder": "told", "file": alone}[kind]
		for text, want := range searches() {
			by, err := url.ParseQuery(text)
			if err != nil {
				t.Fatal(err)
			}
			one := map[string]string{}
			for k := range by {
				one[k] = by.Get(k)
			}
			asks, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			var got int
			if b.Eval(fmt.Sprintf("sb.source.attempts(%q, %s).then((f) => f.cut ? -1 : f.found)", id, asks), &got); got != want {
				t.Errorf("%s: %s: %d, want %d", kind, text, got, want)
			}
		}
		b.Eval(fmt.Sprintf("location.hash = %q", "#/run/"+id+"?q=city3"), nil)
		b.Until(shown + " && document.querySelector('#attempts .found').textContent === '0 of 8 attempts'")
		b.Eval("document.querySelector('#attempts .check input').click()", nil)
		b.Until("document.querySelector('#attempts .found').textContent === '1 of 8 attempts'")
		if got := b.Text("location.hash"); got != "#/run/"+id+"?q=city3&in=texts" || len(b.Faults) > 0 {
			t.Errorf("%s: %s, faults %.500v", kind, got, b.Faults)
		}
	}
}

// TestIndexBounds: however many texts there are and however long, what is kept of them is
// bounded, and it is said that they were cut.
func TestIndexBounds(t *testing.T) {
	t.Parallel()
	lines, x := Lines{}, index{limit: 100, most: 10_000}
	for n := range 1000 {
		value, err := jsontext.AppendQuote(nil, fmt.Sprintf("Q%d ", n)+strings.Repeat("é", n%300))
		if err != nil {
			t.Fatal(err)
		}
		x.add(lines, record.Entry{Number: n, Line: &record.Line{Summary: []task.ResourceSummary{{Value: value}}, Candidate: record.Candidate{Kind: task.Text, Shown: "A"}}})
		if x.total > x.most {
			t.Fatal("too much is kept")
		}
	}
	total := 0
	for _, at := range lines {
		total += len(at.texts[0]) + len(at.texts[1])
	}
	if total != x.total || !x.cut || x.limit < 5 {
		t.Errorf("%d bytes, %d counted, limit %d, cut %t", total, x.total, x.limit, x.cut)
	}
	if at := lines[999]; !at.texts.have("q99") || !at.texts.have("a") {
		t.Errorf("%q", at.texts)
	}
}
