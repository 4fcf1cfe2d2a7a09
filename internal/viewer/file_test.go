package viewer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/browsertest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
)

// written writes a run as one file.
func written(t testing.TB, dir string) []byte {
	t.Helper()
	r, err := Load(t.Context(), dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	return file(t, r)
}

// file writes a run that was loaded as one file.
func file(t testing.TB, r *Run) []byte {
	t.Helper()
	run, err := evidence.OpenRun(r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	var b bytes.Buffer
	if err := r.WriteFile(&b, run, "0"); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// onDisk writes a page and returns its address.
func onDisk(t testing.TB, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}

// everything is a run with every attack in one of its attempts.
func everything(t testing.TB) string {
	t.Helper()
	m := newMaker(t, filepath.Join(t.TempDir(), "run"), len(attacks()))
	m.open = true
	m.change = func(d *record.Dir, l *record.Line) {
		text := strings.ToValidUTF8(attacks()[l.Index], "\ufffd")
		m.hostile(d, l, text)
	}
	return m.make()
}

// TestFileSources: nothing in a file comes from elsewhere, and no text of a run is markup.
func TestFileSources(t *testing.T) {
	t.Parallel()
	html := string(written(t, everything(t)))
	for _, bad := range []string{"<img", "<iframe", "<svg onload", "<link", "<base", "</style><style>", "\u2028", "unsafe-"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(html, "<script"); n != 2 {
		t.Errorf("%d scripts, want the data and the page's own", n)
	}
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-"} {
		if !strings.Contains(strings.ReplaceAll(html, "&#39;", "'"), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// FuzzData: whatever the texts of a run are, the data of a page are those texts, and have
// no character that could end them.
func FuzzData(f *testing.F) {
	for _, text := range attacks() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := encode(map[string]string{"text": text})
		if err != nil || bytes.ContainsAny(data, "<>&\u2028\u2029") {
			t.Errorf("%v: %q", err, data)
		}
		var got map[string]string
		if err := json.Unmarshal(data, &got); err != nil || got["text"] != strings.ToValidUTF8(text, "\ufffd") && !strings.Contains(got["text"], "\ufffd") {
			t.Errorf("%v: %q, want %q", err, got, text)
		}
	})
}

// TestHostileFile opens a file of attacks in a browser, and one whose escaping is broken,
// in which its policy still stops them.
func TestHostileFile(t *testing.T) {
	browsertest.Program(t)
	html := written(t, everything(t))
	t.Run("broken escaping", func(t *testing.T) {
		broken := bytes.Replace(html, []byte("<main"), []byte(attacks()[1]+attacks()[2]+"<script>window.owned = 1</script><main"), 1)
		b := browsertest.Open(t, onDisk(t, broken), 800, 600)
		b.Until(shown)
		if got := b.Text("window.owned"); got != "undefined" || len(b.Faults) == 0 {
			t.Errorf("owned is %s, faults %v", got, b.Faults)
		}
	})
	address := onDisk(t, html)
	b := browsertest.Open(t, address, 800, 600)
	for i := range attacks() {
		b.Eval(fmt.Sprintf("location.hash = '#/attempt/run/%d.1'", i), nil)
		b.Until(shown + " && document.querySelector('#verdict')")
		var found []string
		if b.Eval(strange, &found); len(found) > 0 {
			t.Errorf("attempt %d: %.600q", i, found)
		}
		if b.Text("!!document.querySelector('#steps, #network')") == "true" {
			t.Error("a file for publication has what is the operator's")
		}
	}
	if len(b.Faults) > 0 || len(b.Requests) != 1 || b.Requests[0] != address {
		t.Errorf("faults %v, requests %q", b.Faults, b.Requests)
	}
}

// TestQueriesAgree: the page finds what the server finds.
func TestQueriesAgree(t *testing.T) {
	browsertest.Program(t)
	m := newMaker(t, filepath.Join(t.TempDir(), "run"), 2)
	b := browsertest.Open(t, onDisk(t, written(t, m.make())), 800, 600)
	b.Until(shown)
	rows, err := json.Marshal(manyRows(1000))
	if err != nil {
		t.Fatal(err)
	}
	b.Eval("window.rows = "+string(rows)+"; 0", nil)
	for text, want := range queries() {
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
		var got string
		b.Eval(fmt.Sprintf("(() => { const f = sb.query(window.rows, %s); return f.found + ' ' + (f.rows.length ? f.rows[0].task : ''); })()", asks), &got)
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// manyAttempts is how large the run of [TestLarge] is.
const manyAttempts = 10_000

// TestLarge: a run of many attempts opens, and can be searched, filtered, sorted, paged
// and linked into, on the page of a server and in a file.
func TestLarge(t *testing.T) {
	browsertest.Program(t)
	dir := t.TempDir()
	m := newMaker(t, filepath.Join(dir, "large"), manyAttempts)
	m.change = func(d *record.Dir, l *record.Line) {
		if l.Index == 0 {
			m.store(d, l, task.Text, []byte(strings.Repeat("hay ", 500)))
		}
		l.ProducerStdout = fmt.Sprintf("needle%d ", l.Index) + strings.Repeat("hay ", 50)
	}
	m.make()
	l, err := OpenLibrary(dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := l.Get(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct{ kind, address, id string }{{"server", serveLibrary(t, l), "large"}, {"file", onDisk(t, file(t, run)), "run"}} {
		t.Run(at.kind, func(t *testing.T) { large(t, at.address, at.id) })
	}
}

func large(t *testing.T, address, id string) {
	b := browsertest.Open(t, address+"#/run/"+id+"?page=44", 1000, 800)
	found := func(want string) {
		t.Helper()
		b.Until("document.querySelector('#attempts .found') && document.querySelector('#attempts .found').textContent === '" + want + "'")
	}
	found("10000 of 10000 attempts")
	b.Until("document.querySelector('#attempts tbody a').textContent === 'task/4300'")
	var opened float64
	b.Eval("performance.now()", &opened)
	t.Logf("opened within %.0f ms of the request", opened)
	set := func(label, value, want string) {
		t.Helper()
		var took float64
		b.Eval(fmt.Sprintf(`(async () => {
			const l = Array.from(document.querySelectorAll('#attempts label')).find((l) => l.textContent.trim().startsWith(%q)), e = l.querySelector('input, select'), began = performance.now();
			if (e.type === 'checkbox') e.click();
			else {
				e.value = %q;
				e.dispatchEvent(new Event(e.tagName === 'INPUT' ? 'input' : 'change'));
			}
			while (document.querySelector('#attempts .found').textContent.split(';')[0] !== %q) await new Promise((done) => setTimeout(done, 1));
			return performance.now() - began;
		})()`, label, value, want), &took)
		t.Logf("%s %q within %.0f ms", label, value, took)
	}
	set("outcome", "passed", "2500 of 10000 attempts")
	set("family", "multiple_choice", "0 of 10000 attempts")
	set("outcome", "", "5000 of 10000 attempts")
	set("search", "TASK/999", "6 of 10000 attempts") // 999 and 999[13579]
	set("search", "what answer 999", "0 of 10000 attempts")
	set("in prompts and answers", "", "14 of 10000 attempts")
	set("in prompts and answers", "", "0 of 10000 attempts")
	set("search", "", "5000 of 10000 attempts")
	b.Eval("document.querySelector('#attempts .pager').children[3].click()", nil)
	b.Until("document.querySelector('#attempts tbody a').textContent === 'task/201'")
	if got := b.Text("location.hash"); got != "#/run/"+id+"?family=multiple_choice&page=2" {
		t.Errorf("the state is not in the address: %s", got)
	}
	b.Eval("document.querySelector('#attempts tbody a').click()", nil)
	b.Until(shown + " && document.querySelector('#verdict')")
	if got := b.Text("Array.from(document.querySelectorAll('pre'), (e) => e.textContent).find((t) => t.startsWith('needle')).split(' ')[0]"); got != "needle201" {
		t.Error(got)
	}
	b.Eval("history.back()", nil)
	b.Until("document.querySelector('#attempts tbody a') && document.querySelector('#attempts tbody a').textContent === 'task/201'")
	if len(b.Faults) > 0 {
		t.Errorf("faults: %.2000v", b.Faults)
	}
}
