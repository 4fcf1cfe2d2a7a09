// Package browsertest drives a real browser in tests: a headless Chromium, through two
// pipes, in its DevTools protocol.
package browsertest

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"securebench/internal/awaittest"
)

// envBrowser says whether tests need a browser: "require" or "never"; without it
// they are skipped where there is none. envProgram names its program.
const (
	envBrowser = "SECUREBENCH_TEST_BROWSER"
	envProgram = "SECUREBENCH_BROWSER"
)

// Browser is a page in a headless Chromium, with a profile of its own. Pages of tests share
// the program, and take turns: it is not safe for concurrent use.
type Browser struct {
	t       testing.TB
	in      *program
	session string
	// Faults are exceptions, violations of the policy and dialogs; Requests are
	// the addresses that the page asked for.
	Faults, Requests []string
}

// Program finds the browser, or skips the test. That without windows starts sooner and does
// less beside the page.
func Program(t testing.TB) string {
	t.Helper()
	mode := os.Getenv(envBrowser)
	if mode == "never" {
		t.Skip("SKIPPED: tests in a browser are switched off by " + envBrowser)
	}
	for _, name := range []string{os.Getenv(envProgram), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if mode == "require" {
		t.Fatal("there is no Chromium: install it, or name one in " + envProgram)
	}
	t.Skip("SKIPPED: there is no Chromium to test the page in: install it, or name one in " + envProgram)
	return ""
}

// Tests are the tests of a package. They share one browser, which starts when the first of
// them opens a page and ends with the last: a start takes longer than most tests.
type Tests struct{ *testing.M }

// shared is the program of all pages; nil while none runs.
var shared *program

// sharing is set while somebody ends what is shared.
var sharing bool

// Run runs the tests.
func (m Tests) Run() int {
	sharing = true
	defer func() {
		if shared != nil {
			shared.end()
		}
	}()
	return m.M.Run()
}

// Open opens an address in a new window of the browser, which closes when the test ends.
func Open(t testing.TB, url string, width, height int) *Browser {
	t.Helper()
	path := Program(t)
	if !sharing {
		t.Fatal("TestMain does not run browsertest.Tests, and nobody would end the browser")
	}
	if shared == nil {
		p, err := start(path)
		if err != nil {
			t.Fatal(err)
		}
		shared = p
	}
	b := &Browser{t: t, in: shared}
	var profile struct {
		ID string `json:"browserContextId"`
	}
	b.Call("Target.createBrowserContext", nil, &profile)
	t.Cleanup(func() {
		b.session = ""
		b.Call("Target.disposeBrowserContext", map[string]any{"browserContextId": profile.ID}, nil)
	})
	var target struct {
		ID string `json:"targetId"`
	}
	b.Call("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": profile.ID, "width": width, "height": height}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(domain+".enable", nil, nil)
	}
	b.Size(width, height)
	b.Go(url)
	return b
}

// Call calls a method and waits for its result.
func (b *Browser) Call(method string, params, result any) {
	b.t.Helper()
	m, err := b.in.call(b.session, method, params, b.event)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *Browser) event(m message) {
	if m.Session != b.session {
		return // of a page that was closed
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening":
		b.Faults = append(b.Faults, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			b.Requests = append(b.Requests, p.Request.URL)
		}
	}
}

// Eval evaluates an expression in the page.
func (b *Browser) Eval(expression string, into any) {
	b.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if out.Exception != nil {
		b.t.Fatalf("%s: %s", expression, out.Exception)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out.Result.Value, into); err != nil {
		b.t.Fatalf("%s: %s: %v", expression, out.Result.Value, err)
	}
}

// Text returns what an expression of the page gives, as text.
func (b *Browser) Text(expression string) (s string) {
	b.t.Helper()
	b.Eval("String("+expression+")", &s)
	return s
}

// Until waits for a condition.
func (b *Browser) Until(condition string) {
	b.t.Helper()
	awaittest.Until(b.t, condition, func() bool { return b.Text("!!("+condition+")") == "true" })
}

// Size changes the size of the window.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Dark asks the page for dark colours, or for light ones.
func (b *Browser) Dark(dark bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Go opens another address in the same window.
func (b *Browser) Go(url string) {
	b.t.Helper()
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	b.Until("document.readyState === 'complete' && location.href !== 'about:blank'")
}

// Press presses a key, such as Tab or Enter.
func (b *Browser) Press(key string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "PageDown": 34}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	b.Call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	b.Call("Input.dispatchKeyEvent", event, nil)
}

// Type types a text.
func (b *Browser) Type(text string) {
	b.t.Helper()
	b.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// Picture takes a picture of the window, or of more of the page: of the rectangle of its
// parts.
func (b *Browser) Picture(x, y, width, height float64) []byte {
	b.t.Helper()
	var picture struct {
		Data string `json:"data"`
	}
	b.Call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": x, "y": y, "width": width, "height": height, "scale": 1}}, &picture)
	png, err := base64.StdEncoding.DecodeString(picture.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}
