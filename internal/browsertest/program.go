package browsertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"securebench/internal/awaittest"
)

// program is a headless Chromium that runs.
type program struct {
	cmd  *exec.Cmd
	home string // with its profile
	from *os.File
	in   *bufio.Reader // from it
	out  *os.File
	last int
	gone bool // it answers no more
}

// start starts a browser without a page.
func start(path string) (*program, error) {
	home, err := os.MkdirTemp("", "browser")
	if err != nil {
		return nil, err
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--no-sandbox",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-extensions", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+home, "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirIn.Close()
	theirOut.Close()
	return &program{cmd: cmd, home: home, from: ourIn, in: bufio.NewReader(ourIn), out: ourOut}, nil
}

// end ends the browser and removes what it left behind.
func (p *program) end() {
	shared = nil
	if !p.gone {
		_, _ = p.call("", "Browser.close", nil, func(message) {})
	}
	p.out.Close()
	p.from.Close()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	endGroup(p.cmd.Process.Pid)
	os.RemoveAll(p.home)
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
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// call calls a method, for a page or for the browser, and waits for the answer. What
// happens meanwhile is told to event.
func (p *program) call(session, method string, params any, event func(message)) (message, error) {
	p.last++
	question := map[string]any{"id": p.last, "method": method}
	if params != nil {
		question["params"] = params
	}
	if session != "" {
		question["sessionId"] = session
	}
	text, err := json.Marshal(question)
	if err != nil {
		return message{}, err
	}
	if _, err := p.out.Write(append(text, 0)); err != nil {
		return message{}, p.lost(err)
	}
	for {
		if err := p.from.SetReadDeadline(time.Now().Add(awaittest.Hung)); err != nil {
			return message{}, p.lost(err)
		}
		text, err := p.in.ReadBytes(0)
		if err != nil {
			return message{}, p.lost(err)
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			return message{}, p.lost(err)
		}
		if m.ID != p.last {
			event(m)
			continue
		}
		if m.Error != nil {
			return message{}, fmt.Errorf("%s", m.Error)
		}
		return m, nil
	}
}

// lost ends a browser that answers no more: the next page has another.
func (p *program) lost(err error) error {
	if !p.gone {
		p.gone = true
		p.end()
	}
	return fmt.Errorf("the browser has gone: %w", err)
}
