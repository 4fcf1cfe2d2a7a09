package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/transcript"
	"securebench/internal/verdict"
)

// attacks are texts that run a script, or leave the place that they were put in, in
// a page that takes them as they are.
var attacks = []string{
	`</script><script>window.owned = 1</script>`,
	`<!--<script>`,
	`]]></script><img src=x onerror="window.owned = 1">`,
	`<svg onload="window.owned = 1">`,
	`"><iframe srcdoc="<script>parent.owned = 1</script>">`,
	`'; window.owned = 1; '`,
	"\u2028window.owned = 1\u2029",
	`{{.Script}} ${window.owned = 1} javascript:window.owned=1`,
	`__proto__`, `constructor`, `</style><style>*{display:none}</style>`, `<base href="https://example.org/">`,
	`<link rel=stylesheet href="https://example.org/x.css"><meta http-equiv=refresh content="0;url=https://example.org/">`,
}

// hostilePage has every attack in every text.
func hostilePage() *Page {
	b := NewBuilder(Run{RunID: attacks[0], Agent: attacks[2], PackID: attacks[3], Engine: attacks[4], PlannedTasks: len(attacks), PlannedAttempts: 1,
		Evidence: "NOT VERIFIED: " + attacks[0], Labels: attacks})
	p := &Page{Version: attacks[0]}
	for i, text := range attacks {
		b.Add(Attempt{TaskID: text, Index: i, Attempt: 1, Family: text, Status: verdict.StatusFailed, Outcome: verdict.Outcome(text),
			Reason: verdict.Reason(text), Containment: verdict.Containment(text), Labels: []string{text}, Tags: []string{text}})
		p.Attempts = append(p.Attempts, PageAttempt{Tags: []string{text}, Attempt: transcript.Attempt{TaskID: text, Index: i, Number: 1, Family: text, Outcome: text, Reason: text,
			Containment: text, Labels: []string{text}, Verdict: text, Message: text, Parts: []transcript.Part{{Title: text, Note: text, Text: text}}}})
		p.Facts = append(p.Facts, Fact{Name: text, Value: text})
	}
	p.Report = b.Report()
	return p
}

func rendered(t *testing.T, p *Page) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// file writes a page and returns its address.
func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}

// TestSources: nothing in a page comes from elsewhere, and no text from outside is
// markup.
func TestSources(t *testing.T) {
	html := string(rendered(t, hostilePage()))
	for _, bad := range []string{"<img", "<iframe", "<svg onload", "<link", "<base", "</style><style>", "\u2028"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(html, "<script"); n != 2 {
		t.Errorf("%d scripts, want the data and the page's own", n)
	}
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "NOT VERIFIED"} {
		if !strings.Contains(strings.ReplaceAll(html, "&#39;", "'"), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(html, "unsafe-") {
		t.Error("the policy allows unsafe sources")
	}
}

// FuzzPage: whatever the texts are, the page's data are those texts, and have no
// character that could end them.
func FuzzPage(f *testing.F) {
	for _, text := range attacks {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := hostilePage()
		text = strings.ToValidUTF8(text, "\uFFFD")
		p.Attempts = []PageAttempt{{Attempt: transcript.Attempt{TaskID: text, Parts: []transcript.Part{{Title: text, Text: text}}}}}
		_, rest, _ := strings.Cut(string(rendered(t, p)), `id="data">`)
		data, _, _ := strings.Cut(rest, "</script>")
		if strings.ContainsAny(data, "<>&\u2028\u2029") {
			t.Errorf("data %q", data)
		}
		var got []struct {
			Task  string `json:"task"`
			Parts []struct {
				Title, Text string
			} `json:"parts"`
		}
		if err := json.Unmarshal([]byte(data), &got); err != nil || len(got) != 1 || got[0].Task != text || got[0].Parts[0].Text != text || got[0].Parts[0].Title != text {
			t.Errorf("%v: %+v, want %q", err, got, text)
		}
	})
}

// TestHostilePage opens a page of attacks in a browser: as text they do nothing and
// are shown as they are. In a page without escaping they run, and where the
// escaping is broken, the policy still stops them.
func TestHostilePage(t *testing.T) {
	t.Run("weak", func(t *testing.T) {
		var weak strings.Builder
		weak.WriteString("<!DOCTYPE html><title>weak</title>")
		for _, text := range attacks[:5] {
			weak.WriteString("<p>" + text + "</p>")
		}
		b := open(t, file(t, []byte(weak.String())), 800, 600)
		b.until("window.owned === 1")
	})
	html := rendered(t, hostilePage())
	t.Run("broken escaping", func(t *testing.T) {
		broken := bytes.Replace(html, []byte("<main>"), []byte("<main>"+attacks[2]+attacks[3]+"<script>window.owned = 1</script>"), 1)
		b := open(t, file(t, broken), 800, 600)
		b.until("document.querySelectorAll('#rows tbody tr').length > 0")
		if got := b.text("window.owned"); got != "undefined" || len(b.faults) == 0 {
			t.Errorf("owned is %s, faults %v", got, b.faults)
		}
	})
	address := file(t, html)
	b := open(t, address, 800, 600)
	b.until(fmt.Sprintf("document.querySelectorAll('#rows button').length === %d", len(attacks)))
	for i, text := range attacks {
		b.eval(fmt.Sprintf("document.querySelectorAll('#rows button')[%d].click()", i), nil)
		var shown []string
		b.eval("[document.querySelectorAll('#rows button')["+fmt.Sprint(i)+"].textContent].concat(Array.from(document.querySelectorAll('.whole pre'), e => e.textContent))", &shown)
		if want := []string{text, text, text}; fmt.Sprintf("%q", shown) != fmt.Sprintf("%q", want) {
			t.Errorf("shown %q, want %q", shown, want)
		}
	}
	for _, id := range []string{"outcome", "family", "containment", "tag"} {
		for _, text := range attacks {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			b.eval(fmt.Sprintf("(() => { const s = document.getElementById('%s'); s.value = %s; s.dispatchEvent(new Event('change')); })()", id, quoted), nil)
			if got := b.text("document.getElementById('found').textContent"); got != fmt.Sprintf("1 of %d attempts", len(attacks)) {
				t.Errorf("%s %q: %s", id, text, got)
			}
		}
		b.eval(fmt.Sprintf("(() => { const s = document.getElementById('%s'); s.value = ''; s.dispatchEvent(new Event('change')); })()", id), nil)
	}
	if got := b.text("window.owned"); got != "undefined" {
		t.Errorf("an attack ran: %s", got)
	}
	if len(b.faults) > 0 {
		t.Errorf("faults: %v", b.faults)
	}
	if len(b.requests) != 1 || b.requests[0] != address {
		t.Errorf("requests %q, want the page alone", b.requests)
	}
}

// manyAttempts is how large the page of [TestLargePage] is.
const manyAttempts = 10_000

// TestLargePage: a page of many attempts opens, and can be searched, filtered, paged
// and linked into.
func TestLargePage(t *testing.T) {
	b := NewBuilder(Run{Verified: true, RunID: "large", PackID: "large", PlannedTasks: manyAttempts, PlannedAttempts: 1})
	p := &Page{}
	limit := TextLimit(manyAttempts)
	for i := range manyAttempts {
		a := Attempt{TaskID: fmt.Sprintf("task/%d", i), Index: i, Attempt: 1, Family: []string{"one", "two"}[i%2], Status: verdict.StatusFailed, Outcome: verdict.Failed, Reason: verdict.TestsFailed}
		if i%4 == 0 {
			a.Status, a.Outcome, a.Reason, a.Passed = verdict.StatusPassed, verdict.Passed, "", true
		}
		b.Add(a)
		text := fmt.Sprintf("needle%d ", i) + strings.Repeat("hay ", limit/4)
		p.Attempts = append(p.Attempts, PageAttempt{Attempt: transcript.Attempt{TaskID: a.TaskID, Index: i, Number: 1, Family: a.Family, Outcome: string(a.Outcome),
			Reason: string(a.Reason), Passed: a.Passed, TotalMS: 1500, Parts: []transcript.Part{{Title: "prompt", Text: text}, {Title: "agent", Text: text}, {Title: "candidate", Text: text}}}})
	}
	p.Report = b.Report()
	html := rendered(t, p)
	if mib := len(html) >> 20; mib < 20 || mib > 60 {
		t.Errorf("the page has %d MiB", mib)
	}
	program(t)
	w := open(t, file(t, html)+"#task%2F4321/1", 1000, 800)
	w.until("document.querySelectorAll('.whole pre').length === 3")
	found := func(want string) {
		t.Helper()
		w.until("document.getElementById('found').textContent === '" + want + "'")
	}
	found("10000 of 10000 attempts")
	if got := w.text("document.getElementById('where').textContent"); got != "page 44 of 100" {
		t.Error(got)
	}
	if got := w.text("document.querySelector('.whole pre').textContent.split(' ')[0]"); got != "needle4321" {
		t.Error(got)
	}
	set := func(id, value, event string) {
		w.eval(fmt.Sprintf("(() => { const e = document.getElementById('%s'); e.value = '%s'; e.dispatchEvent(new Event('%s')); })()", id, value, event), nil)
	}
	set("outcome", "passed", "change")
	found("2500 of 10000 attempts")
	set("family", "two", "change")
	found("0 of 10000 attempts")
	set("outcome", "", "change")
	found("5000 of 10000 attempts")
	set("search", "NEEDLE999 hay", "input")
	found("6 of 10000 attempts") // needle999 and needle999[13579]
	if got := w.text("document.getElementById('pages').hidden"); got != "true" {
		t.Error("one page of results has others")
	}
	set("search", "", "input")
	found("5000 of 10000 attempts")
	w.eval("document.getElementById('next').click()", nil)
	if got := w.text("document.querySelectorAll('#rows button')[0].textContent"); got != "task/201" {
		t.Error(got)
	}
	if len(w.faults) > 0 {
		t.Errorf("faults: %.2000v", w.faults)
	}
}

// TestPictures makes the pictures of the documents, from the page that
// SECUREBENCH_PICTURE_PAGE names, into the folder SECUREBENCH_PICTURES.
func TestPictures(t *testing.T) {
	html, dir := os.Getenv("SECUREBENCH_PICTURE_PAGE"), os.Getenv("SECUREBENCH_PICTURES")
	if html == "" || dir == "" {
		t.Skip("SKIPPED: only make pictures makes pictures")
	}
	b := open(t, "file://"+html, 1000, 900)
	b.until("document.querySelectorAll('#rows button').length > 0")
	shoot := func(name, from, to string) {
		t.Helper()
		var clip struct{ Top, Bottom float64 }
		b.eval(fmt.Sprintf("({Top: %s.getBoundingClientRect().top + scrollY - 12, Bottom: %s.getBoundingClientRect().bottom + scrollY + 12})", from, to), &clip)
		var picture struct {
			Data string `json:"data"`
		}
		b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
			"clip": map[string]any{"x": 0, "y": max(clip.Top, 0), "width": 1000, "height": min(clip.Bottom-max(clip.Top, 0), 1000), "scale": 1}}, &picture)
		png, err := base64.StdEncoding.DecodeString(picture.Data)
		if err != nil {
			t.Fatal(err)
		}
		if len(png) < 5<<10 || len(png) > 300<<10 {
			t.Errorf("%s has %d bytes", name, len(png))
		}
		if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	q := func(selector string) string { return "document.querySelector('" + selector + "')" }
	shoot("report.png", q("header"), q(".columns"))
	b.eval("Array.from(document.querySelectorAll('#rows tr')).find(r => r.querySelector('td.failed')).querySelector('button').click()", nil)
	shoot("report-attempt.png", q("#list"), q(".whole"))
}

// TestMadeAgain: the head says what was made more than once, if anything was.
func TestPageMadeAgain(t *testing.T) {
	for retries, want := range map[int]bool{0: false, 2: true} {
		b := NewBuilder(Run{PackID: "p", Verified: true, PlannedTasks: 1, PlannedAttempts: 1})
		b.Add(Attempt{TaskID: "a", Attempt: 1, Status: verdict.StatusPassed, Outcome: verdict.Passed, Passed: true, Retries: retries})
		html := string(rendered(t, &Page{Report: b.Report()}))
		head, _, _ := strings.Cut(html, "</header>")
		if got := strings.Contains(head, "made again: 1 attempt after 2 infrastructure errors"); got != want {
			t.Errorf("%d retries: it says so: %t", retries, got)
		}
	}
}
