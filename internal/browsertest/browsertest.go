// Package browsertest drives a real browser in tests: a headless Chromium, through two
// pipes, in its DevTools protocol.
package browsertest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
)

// envBrowser says whether tests need a browser: "require" or "never"; without it
// they are skipped where there is none. envProgram names its program.
const (
	envBrowser = "SECUREBENCH_TEST_BROWSER"
	envProgram = "SECUREBENCH_BROWSER"
)

// Browser is a headless Chromium. It is not safe for concurrent use.
type Browser struct {
	t       testing.TB
	in      *bufio.Reader
	out     *os.File
	session string
	last    int
	// Faults are exceptions, violations of the policy and dialogs; Requests are
	// the addresses that the page asked for.
	Faults, Requests []string
}

// Program finds the browser, or skips the test.
func Program(t testing.TB) string {
	t.Helper()
	mode := os.Getenv(envBrowser)
	if mode == "never" {
		t.Skip("SKIPPED: tests in a browser are switched off by " + envBrowser)
	}
	for _, name := range []string{os.Getenv(envProgram), "chromium", "chromium-browser", "google-chrome", "chrome"} {
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

// Open starts a browser and opens a page in it.
func Open(t testing.TB, url string, width, height int) *Browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaittest.Hung)
	cmd := exec.CommandContext(ctx, Program(t), "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--no-sandbox",
		"--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars", fmt.Sprintf("--window-size=%d,%d", width, height),
		"--user-data-dir="+t.TempDir(), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &Browser{t: t, in: bufio.NewReader(ourIn), out: ourOut}
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		ourOut.Close()
		_ = cmd.Wait()
		endGroup(cmd.Process.Pid) // before the folders of its profile are removed
		cancel()
		ourIn.Close()
	})
	var target struct {
		ID string `json:"targetId"`
	}
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(domain+".enable", nil, nil)
	}
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	b.Until("document.readyState === 'complete' && location.href !== 'about:blank'")
	return b
}

// endGroup ends what a browser has left behind, and waits for it.
func endGroup(leader int) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if syscall.Kill(-leader, syscall.SIGKILL) != nil {
			return // nobody is left
		}
	}
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

func (b *Browser) send(session, method string, params any) {
	b.last++
	m := map[string]any{"id": b.last, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.out.Write(append(text, 0))
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		b.t.Log(err)
	}
}

// Call calls a method and waits for its result.
func (b *Browser) Call(method string, params, result any) {
	b.t.Helper()
	b.send(b.session, method, params)
	for {
		text, err := b.in.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: the browser has gone: %v", method, err)
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.t.Fatal(err)
		}
		if m.ID != b.last {
			b.event(m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

func (b *Browser) event(m message) {
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
