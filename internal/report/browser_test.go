package report

import (
	"bufio"
	"context"
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

// browser is a headless Chromium that is driven through two pipes, in its
// DevTools protocol. It is not safe for concurrent use.
type browser struct {
	t       *testing.T
	in      *bufio.Reader
	out     *os.File
	session string
	last    int
	// faults are exceptions, violations of the policy and dialogs; requests are
	// the addresses that the page asked for.
	faults, requests []string
}

// program finds the browser, or skips the test.
func program(t *testing.T) string {
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

// open starts a browser and opens a page in it.
func open(t *testing.T, url string, width, height int) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaittest.Hung)
	cmd := exec.CommandContext(ctx, program(t), "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--no-sandbox",
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
	b := &browser{t: t, in: bufio.NewReader(ourIn), out: ourOut}
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
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.until("document.readyState === 'complete' && location.href !== 'about:blank'")
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

func (b *browser) send(session, method string, params any) {
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

// call calls a method and waits for its result.
func (b *browser) call(method string, params, result any) {
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

func (b *browser) event(m message) {
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening":
		b.faults = append(b.faults, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			b.requests = append(b.requests, p.Request.URL)
		}
	}
}

// eval evaluates an expression in the page.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
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

func (b *browser) text(expression string) (s string) {
	b.t.Helper()
	b.eval("String("+expression+")", &s)
	return s
}

// until waits for a condition.
func (b *browser) until(condition string) {
	b.t.Helper()
	awaittest.Until(b.t, condition, func() bool { return b.text("!!("+condition+")") == "true" })
}
