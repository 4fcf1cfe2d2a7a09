package viewer

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/browsertest"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// mark is in every attack, so that each place where a page shows one is found.
const mark = "zqx"

// attacks are texts that run a script, change how a page looks, pass for what the viewer
// itself says, or leave the place that they were put in, in a page that takes them as they
// are.
func attacks() []string {
	out := []string{
		`</script><script>window.owned = 1</script>`,
		`<img src=x onerror="window.owned = 1">`,
		`<svg onload="window.owned = 1"></svg>`,
		`"><iframe srcdoc="<script>parent.owned = 1</script>"></iframe>`,
		`<body onload="window.owned = 1"><input autofocus onfocus="window.owned = 1">`,
		`<!--<script>`,
		`'; window.owned = 1; '`,
		"\u2028window.owned = 1\u2029",
		`{{.Script}} ${window.owned = 1} javascript:window.owned=1`,
		`__proto__`,
		`</style><style>*{display:none}</style>`,
		`" style="position:fixed;inset:0;background:red" class="state verified`,
		`<base href="https://attacker.example/"><link rel=stylesheet href="https://attacker.example/x.css">`,
		`<meta http-equiv=refresh content="0;url=https://attacker.example/">`,
		`<form action="https://attacker.example/"><button formaction="javascript:window.owned=1">next</button></form>`,
		`✓ verified, signed by your own key`,
		"failed\x1b[2K\r\u202edessap\u202c ✓ passed\u200b\u2066",
		"<span class=\"state verified\">✓ verified</span>\n✓ passed The candidate passed.",
		"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<script>window.owned=1</script>\n+✓ verified",
		"%3Cscript%3Ewindow.owned=1%3C/script%3E&#60;img src=x onerror=window.owned=1&#62;\x00\xff",
	}
	for i := range out {
		out[i] += mark
	}
	return out
}

// hostileRuns makes a run for each attack, which has it wherever a text can be.
func hostileRuns(t *testing.T, dir string) {
	t.Helper()
	for i, text := range attacks() {
		name := filepath.Join(dir, fmt.Sprintf("%02d", i), strings.Map(func(r rune) rune {
			if r == '/' || r == 0 {
				return '_'
			}
			return r
		}, text))
		if len(filepath.Base(name)) > 120 {
			name = name[:len(filepath.Dir(name))+100] + mark
		}
		m := newMaker(t, name, 2)
		text = strings.ToValidUTF8(text, "\ufffd")
		m.name, m.open = text, i%2 == 0
		m.change = func(d *record.Dir, l *record.Line) { m.hostile(d, l, text) }
		m.make()
		if !m.open { // a signature that does not hold
			file := filepath.Join(name, record.ManifestName)
			raw, err := os.ReadFile(file)
			m.check(err, os.WriteFile(file, []byte(strings.Replace(string(raw), `"version":"test"`, `"version":"rest"`, 1)), 0o600))
		}
	}
}

// hostile puts a text everywhere into a record.
func (m *runMaker) hostile(d *record.Dir, l *record.Line, text string) {
	l.TaskID, l.TaskType, l.FailureMessage, l.Labels = fmt.Sprint(text, l.Index), text, text, []string{text}
	l.Containment, l.ProducerStdout, l.ProducerStderr, l.VerifierStdout, l.VerifierStderr = verdict.Containment(text), text, text, text, text
	l.ProducerMetadata = verdict.NewMetadata(map[string]any{text: text})
	l.VerifierMetadata = verdict.NewMetadata(map[string]any{text: text})
	value, err := json.Marshal(text)
	m.check(err)
	l.Summary = []task.ResourceSummary{{Name: "prompt", Kind: "text", Visibility: "public", Value: value}, {Name: text, Kind: "text", Visibility: "public", Value: value}}
	l.Status, l.Outcome, l.Passed, l.FailureReason = "failed", "failed", false, "wrong_answer"
	if m.open { // what is signed has no words of its own there
		l.Outcome, l.FailureReason, l.Passed = verdict.Outcome(text), verdict.Reason(text), true
	}
	if l.Index == 0 {
		m.store(d, l, task.Patch, []byte(text))
	} else {
		m.store(d, l, task.Workspace, tree(m.t, map[string]string{strings.NewReplacer("\x00", "", "/", "_", "\n", "_").Replace(text): text, "picture.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="window.owned=1"/>` + mark}))
	}
	m.restrict(d, l, "agent-steps.jsonl", steps(text))
	m.restrict(d, l, "agent-network.jsonl", requests(text))
	m.restrict(d, l, "agent-stdout", []byte(text))
}

// strange lists what a page has that is not its own: texts of runs outside of what is
// marked as theirs, elements that no page of ours has, and signs of a verdict that the run
// does not have.
const strange = `(() => {
  const out = [];
  const allowed = new Set("A B BDI BODY BUTTON CODE DD DIV DL DT FIGCAPTION FIGURE FOOTER FORM H1 H2 H3 H4 HEADER IMG INPUT LABEL LI MAIN META NAV NOSCRIPT OL OPTION P PRE RECT SECTION SELECT SMALL SPAN SVG TABLE TBODY TD TH THEAD TR UL HTML HEAD TITLE LINK SCRIPT STYLE".split(" "));
  for (const e of document.querySelectorAll("*")) {
    if (!allowed.has(e.tagName.toUpperCase())) out.push("element " + e.tagName);
    for (const a of e.attributes) if (/^on|^style$|^srcdoc$|^formaction$/i.test(a.name)) out.push("attribute " + a.name);
  }
  const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const n = texts.currentNode;
    if (n.textContent.includes("zqx") && !n.parentElement.closest(".foreign, option, title, script")) out.push("text in " + n.parentElement.outerHTML);
    if (/[\u202a-\u202e\u2066-\u2069\u200b\u0000-\u0008\u001b]/.test(n.textContent)) out.push("control character in " + n.parentElement.tagName);
  }
  if (document.querySelector(".foreign .state, .foreign .outcome, .foreign a, .foreign button, .foreign img")) out.push("something of ours in a text of theirs");
  if (document.querySelector(".state.verified, .outcome.passed")) out.push("a verdict that nothing has");
  if (window.owned) out.push("owned");
  if (!document.querySelector("h1") || getComputedStyle(document.querySelector("h1")).display === "none") out.push("nothing is shown");
  return out;
})()`

// shown waits until a page is drawn.
const shown = "document.querySelector('h1') && !document.querySelector('[aria-busy]') && !document.querySelector('.state.checking')"

// TestHostileRuns opens runs of attacks in a browser: as text they do nothing and are
// shown as what a run wrote. In a page that takes texts as they are, they run.
func TestHostileRuns(t *testing.T) {
	browsertest.Program(t)
	t.Run("weak", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "weak.html")
		page := "<!DOCTYPE html><title>weak</title>"
		for _, text := range attacks()[:5] {
			page += "<p>" + text + "</p>"
		}
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		b := browsertest.Open(t, "file://"+name, 800, 600)
		b.Until("window.owned === 1")
		var found []string
		if b.Eval(strange, &found); len(found) == 0 {
			t.Error("nothing is strange about a page that is taken over")
		}
	})
	dir := t.TempDir()
	hostileRuns(t, dir)
	address := serve(t, dir)
	b := browsertest.Open(t, address, 1000, 800)
	b.Until(shown)
	b.Until(fmt.Sprintf("document.querySelectorAll('tbody tr').length === %d", len(attacks())))
	clean := func(where string) {
		t.Helper()
		var found []string
		if b.Eval(strange, &found); len(found) > 0 {
			t.Errorf("%s: %.600q", where, found)
		}
	}
	clean("list")
	var runs []string
	b.Eval("Array.from(document.querySelectorAll('tbody a'), a => a.href)", &runs)
	for i, run := range runs {
		b.Eval(fmt.Sprintf("location.href = %q", run), nil)
		b.Until(shown + " && document.querySelectorAll('#attempts tbody tr').length === 2")
		clean(fmt.Sprintf("run %d", i))
		for key := range 2 {
			b.Eval(fmt.Sprintf("location.hash = %q", "#/attempt/"+run[strings.Index(run, "#/run/")+len("#/run/"):]+fmt.Sprintf("/%d.1", key)), nil)
			b.Until(shown + " && document.querySelectorAll('.step').length === 4")
			clean(fmt.Sprintf("run %d, attempt %d", i, key))
		}
	}
	// What is in an address is a text as well.
	for _, text := range attacks() {
		text = url.PathEscape(strings.ToValidUTF8(text, "."))
		for _, at := range []string{"#/run/" + text, "#/attempt/" + text + "/" + text, "#/" + text, "#/?q=" + text + "&state=" + text + "&sort=" + text,
			strings.TrimPrefix(runs[0], address) + "?in=texts&q=" + text + "&outcome=" + text + "&gate=" + text} {
			b.Eval(fmt.Sprintf("location.hash = %q", at), nil)
			b.Until(shown)
			clean(at)
		}
	}
	for _, at := range b.Requests {
		if !strings.HasPrefix(at, address) {
			t.Errorf("the page asked for %s", at)
		}
	}
	for _, fault := range b.Faults {
		if !strings.Contains(fault, "404 (Not Found)") { // of runs that the addresses made up
			t.Errorf("fault: %.600s", fault)
		}
	}
}
