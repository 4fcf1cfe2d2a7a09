package viewer

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/browsertest"
)

// The release of axe-core that tests use, and its integrity as the registry has it.
const (
	axeRelease   = "axe-core@4.10.3"
	axeIntegrity = "sha512-Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
)

// axe returns the script of axe-core, which finds what keeps people from using a page, or
// skips the test where npm cannot be asked for it.
func axe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "--pack-destination", dir, axeRelease)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: npm does not have %s: %v: %.200s", axeRelease, err, out)
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatal(packed, err)
	}
	raw, err := os.ReadFile(packed[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(raw)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != axeIntegrity {
		t.Fatalf("%s has the integrity %s, want %s", axeRelease, got, axeIntegrity)
	}
	z, err := gzip.NewReader(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatal("there is no axe.min.js: ", err)
		}
		if h.Name == "package/axe.min.js" {
			script, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(script)
		}
	}
}

// widths are those of a phone, a tablet, a laptop and a large screen.
func widths() []int { return []int{390, 768, 1280, 2560} }

// pages are the addresses of all kinds of pages over the runs of [threeRuns], and what is
// there when they are drawn.
func pages() map[string]string {
	return map[string]string{
		"#/":                                    "document.querySelectorAll('tbody tr').length === 3",
		"#/run/A%20b%2Fone":                     "document.querySelector('#attempts tbody')",
		"#/run/changed":                         "document.querySelector('.banner')",
		"#/attempt/A%20b%2Fone/0.1":             "document.querySelector('.step')",
		"#/attempt/A%20b%2Fone/1.1?at=network":  "document.querySelector('img.picture')",
		"#/compare?runs=A%20b%2Fone%0AA-b.zip":  "document.querySelector('h1').textContent.includes('Comparison') || document.querySelector('li')",
		"#/attempt/A%20b%2Fone/not-an-attempt1": "document.querySelector('.banner')",
	}
}

// crowded lists what does not fit the window: the page itself, and cells so narrow that
// words break to a letter a line.
const crowded = `(() => {
  const out = [];
  if (document.documentElement.scrollWidth > innerWidth) out.push("the page is " + document.documentElement.scrollWidth + " wide");
  for (const e of document.querySelectorAll("h1, h2, h3, p, dt, dd, th, td, li, bdi, label, button")) {
    const r = e.getBoundingClientRect(), text = e.textContent.trim();
    if (text.length > 4 && r.width > 0 && r.width < 28 && !e.querySelector("svg")) out.push(e.tagName + " of " + r.width + ": " + text.slice(0, 30));
    if (r.right > innerWidth + 1 && !e.closest(".scroll, pre, .skip")) out.push(e.tagName + " beyond the edge: " + text.slice(0, 30));
  }
  return out;
})()`

// TestWidths: every page fits a phone and a large screen.
func TestWidths(t *testing.T) {
	browsertest.Program(t)
	b := browsertest.Open(t, serve(t, threeRuns(t)), 390, 844)
	b.Until(shown)
	for at, there := range pages() {
		b.Eval(fmt.Sprintf("location.hash = %q", at), nil)
		b.Until(shown + " && (" + there + ")")
		for _, width := range widths() {
			b.Size(width, 900)
			var found []string
			if b.Eval(crowded, &found); len(found) > 0 {
				t.Errorf("%s at %d: %.300q", at, width, found)
			}
		}
	}
}

// TestAccess: axe-core finds nothing serious on any page, in light colours on a laptop and
// in dark ones on a phone; and does on a page without names.
func TestAccess(t *testing.T) {
	browsertest.Program(t)
	script := axe(t)
	b := browsertest.Open(t, serve(t, threeRuns(t)), 1280, 900)
	b.Until(shown)
	b.Eval(script+"\n;0", nil)
	serious := func(part string) (found []string) {
		t.Helper()
		b.Eval(`axe.run(`+part+`, {resultTypes: ["violations"]}).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) =>
			v.impact + " " + v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + (n.any[0] ? n.any[0].message : "")).join(" | ")))`, &found)
		return found
	}
	checked := 0
	for at, there := range pages() {
		b.Eval(fmt.Sprintf("location.hash = %q", at), nil)
		b.Until(shown + " && (" + there + ")")
		// Each width and each kind of colours once: neither changes what the other does.
		for _, dark := range []bool{false, true} {
			width := map[bool]int{false: 1280, true: 390}[dark]
			b.Size(width, 900)
			b.Dark(dark)
			checked++
			part := "document"
			if at == "#/run/changed" {
				part = "'.banner'" // the rest is that of any run
			}
			if found := serious(part); len(found) > 0 {
				t.Errorf("%s at %d, dark %t: %.900q", at, width, dark, found)
			}
		}
	}
	t.Logf("%d pages", checked)
	live := t.TempDir()
	goesOn(t, live).record(0)
	b.Go(serve(t, live) + "#/run/live")
	b.Until(shown + " && document.querySelector('#steer button')")
	b.Eval(script+"\n;0", nil)
	if found := serious("document"); len(found) > 0 {
		t.Errorf("a run that goes on: %.900q", found)
	}
	b.Eval("document.querySelector('main').append(Object.assign(document.createElement('button'), {type: 'button', id: 'nameless'}))", nil)
	if len(serious("'#nameless'")) == 0 {
		t.Error("a button without a name is nothing serious: the test shows nothing")
	}
}

// TestRateGate: a condition on the rate is what "run --fail-on" would find, and in the address.
func TestRateGate(t *testing.T) {
	browsertest.Program(t)
	b := browsertest.Open(t, serve(t, threeRuns(t))+"#/run/A%20b%2Fone?q=task", 1280, 900) // one of two passed
	b.Until(shown)
	for below, want := range map[string]string{"50": "rate<50%✓ not metthe rate is 50.0 %, 1 of 2", "50.1": "rate<50.1%✗ met: exit code 20the rate is 50.0 %, 1 of 2", "100": "rate<100%✗ met: exit code 20the rate is 50.0 %, 1 of 2", "0": "failed", "101": "failed", "": "failed"} {
		b.Eval(fmt.Sprintf("(() => { const e = document.querySelector('#gates input'); e.value = %q; e.dispatchEvent(new Event('change')); })()", below), nil)
		b.Until(fmt.Sprintf("document.querySelector('#gates tbody tr').textContent.startsWith(%q)", want))
		if got := b.Text("new URLSearchParams(location.hash.split('?')[1]).get('gate') || ''"); got != below || b.Text("location.hash.includes('q=task')") != "true" {
			t.Errorf("%q: %s in the address", below, got)
		}
	}
	if len(b.Faults) > 0 {
		t.Errorf("faults: %.500v", b.Faults)
	}
}

// TestKeyboard: a run and an attempt are found, sorted and left with the keyboard alone.
func TestKeyboard(t *testing.T) {
	browsertest.Program(t)
	b := browsertest.Open(t, serve(t, threeRuns(t)), 1280, 900)
	b.Until(shown + " && document.querySelectorAll('tbody tr').length === 3")
	tab := func(what, condition string) {
		t.Helper()
		for range 80 {
			b.Press("Tab")
			if b.Text("!!("+condition+")") == "true" {
				if b.Text("getComputedStyle(document.activeElement).outlineStyle !== 'none' && document.activeElement.matches(':focus-visible')") != "true" {
					t.Errorf("the focus on %s is not visible", what)
				}
				return
			}
		}
		t.Fatalf("the keyboard does not reach %s", what)
	}
	tab("the link to the content", "document.activeElement.className === 'skip'")
	b.Press("Enter")
	tab("the search", "document.activeElement.type === 'search'")
	b.Type("b/one")
	b.Until("document.querySelectorAll('tbody tr').length === 1")
	tab("a run", "document.activeElement.closest('tbody') && document.activeElement.tagName === 'A'")
	b.Press("Enter")
	b.Until(shown + " && document.querySelector('#attempts tbody')")
	if got := b.Text("document.activeElement.id"); got != "main" {
		t.Errorf("the focus of a new page is on %q", got)
	}
	tab("the order by task", "document.activeElement.dataset.focus === 'sort task'")
	b.Press("Enter")
	b.Until("document.querySelector('#attempts th[aria-sort=ascending]')")
	b.Press("Enter") // the focus stays
	b.Until("document.querySelector('#attempts th[aria-sort=descending]')")
	tab("an attempt", "document.activeElement.closest('#attempts tbody')")
	b.Press("Enter")
	b.Until(shown + " && document.querySelector('#verdict')")
	tab("a part", "document.activeElement.closest('.outline') && document.activeElement.textContent === 'Candidate'")
	b.Press("Enter")
	b.Until("document.activeElement.id === 'candidate'")
	tab("a text that can be scrolled", "document.activeElement.tagName === 'PRE'")
	if len(b.Faults) > 0 {
		t.Errorf("faults: %.500v", b.Faults)
	}
}
