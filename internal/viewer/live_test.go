package viewer

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"securebench/internal/browsertest"
	"securebench/internal/pipeline/record"
	"securebench/internal/steer"
	"securebench/internal/task"
)

// living is a run that goes on: its directory is locked, records come, and it takes orders.
type living struct {
	*runMaker
	d      *record.Dir
	served *steer.Server

	mu     sync.Mutex
	state  steer.State
	orders []steer.Order
}

// goesOn makes a run of ten attempts, of which none has a record.
func goesOn(t *testing.T, dir string) *living {
	t.Helper()
	l := &living{runMaker: newMaker(t, filepath.Join(dir, "live"), 10), state: steer.State{Workers: 2, Most: 64, Running: 2}}
	l.d = l.begin()
	s, err := steer.Listen(l.dir, l.obey)
	l.check(err)
	l.served = s
	t.Cleanup(func() { l.check(l.served.Close(), l.d.Close()) })
	return l
}

func (l *living) obey(o steer.Order) (steer.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o.Act {
	case steer.Look:
		return l.state, nil
	case steer.Pause, steer.Resume:
		l.state.Paused = o.Act == steer.Pause
	case steer.Workers:
		if o.Workers > l.state.Most {
			return l.state, fmt.Errorf("%d workers: want 1 to %d%s", o.Workers, l.state.Most, attacks()[1])
		}
		l.state.Workers = o.Workers
	}
	l.orders = append(l.orders, o)
	return l.state, nil
}

// record adds the record of an attempt.
func (l *living) record(index int) {
	l.t.Helper()
	m, _, err := record.ReadManifest(l.d.FS())
	l.check(err)
	line := l.line(m.Digests, l.d.Salt(), index, 1)
	l.store(l.d, line, task.Text, []byte("an answer"))
	l.check(l.d.Append(line))
}

// TestLive: a page follows a run that goes on, and changes it; what the run says is a text.
func TestLive(t *testing.T) {
	browsertest.Program(t)
	dir := t.TempDir()
	l := goesOn(t, dir)
	l.record(0)
	b := browsertest.Open(t, serve(t, dir)+"#/run/live?q=task", 1280, 900)
	b.Until("document.querySelector('.state.running') && document.querySelector('#steer button')")
	b.Until("document.querySelector('#attempts .found').textContent === '1 of 1 attempt'")
	b.Eval("document.querySelector('#attempts input').focus()", nil)
	l.record(1)
	l.record(2)
	b.Until("document.querySelector('#attempts .found').textContent === '3 of 3 attempts'")
	if got := b.Text("document.activeElement.type + ' ' + document.activeElement.value + (document.activeElement.type ? '' : document.activeElement.outerHTML.slice(0, 100))"); got != "search task" {
		t.Errorf("the focus went to %s", got)
	}
	for i, field := range []string{"#gates input", "#steer input"} {
		b.Eval(fmt.Sprintf("document.querySelector(%q).select(); document.activeElement.typed = true", field), nil)
		b.Type("4")
		l.record(3 + i)
		b.Until(fmt.Sprintf("document.querySelector('#attempts .found').textContent === '%[1]d of %[1]d attempts'", 4+i))
		if i == 0 {
			b.Type("5")
		}
		want := []string{"45 true true", "4 true true"}[i]
		if got := b.Text(fmt.Sprintf("document.querySelector(%q).value + ' ' + document.activeElement.matches(%[1]q) + ' ' + document.activeElement.typed", field)); got != want {
			t.Errorf("%s: of %s that was typed, there is %s", field, want, got)
		}
	}
	b.Until("document.querySelector('#gates tbody').textContent.startsWith('rate<45%')")
	b.Eval("document.querySelector('#gates input').select()", nil)
	b.Type("60")
	l.record(5)
	b.Until("document.querySelector('#attempts .found').textContent === '6 of 6 attempts' && document.activeElement.matches('#gates input')")
	b.Press("Tab")
	b.Until("document.querySelector('#gates tbody').textContent.startsWith('rate<60%') && location.hash.includes('gate=60')")
	press := func(name string) {
		t.Helper()
		b.Eval(fmt.Sprintf("Array.from(document.querySelectorAll('#steer button')).find((e) => e.textContent === %q).click()", name), nil)
	}
	press("pause")
	b.Until("document.querySelector('#steer').textContent.includes('paused: no other begins')")
	press("resume")
	b.Until("!document.querySelector('#steer').textContent.includes('paused: no other begins')")
	for _, workers := range []string{"5", "65"} {
		b.Eval(fmt.Sprintf("document.querySelector('#steer input').removeAttribute('max'); document.querySelector('#steer input').value = %s", workers), nil)
		press("set")
		b.Until(map[string]string{"5": "document.querySelector('#steer').textContent.includes('5 workers')", "65": "document.querySelector('#steer .foreign')"}[workers])
	}
	l.mu.Lock()
	got := fmt.Sprint(l.orders)
	l.mu.Unlock()
	if got != "[{pause 0} {resume 0} {workers 5}]" {
		t.Errorf("orders %s", got)
	}
	var found []string
	if b.Eval(strings.Replace(strange, `if (document.querySelector(".state.verified, .outcome.passed"))`, "if (false)", 1), &found); len(found) > 0 || len(b.Faults) > 0 && !strings.Contains(b.Faults[0], "500 (Internal Server Error)") {
		t.Errorf("%.300q, faults %.500v", found, b.Faults)
	}
}

// TestOrdersAreGuarded: an order needs the viewer's own page, and a run that goes on.
func TestOrdersAreGuarded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := goesOn(t, dir)
	newMaker(t, filepath.Join(dir, "done"), 1).make()
	address := serve(t, dir)
	root, _, _ := strings.Cut(strings.TrimPrefix(address, "http://"), "/")
	own := "http://" + root
	for name, c := range map[string]struct {
		run, origin, kind, body string
		ok                      bool
	}{
		"honest":             {"live", own, "application/json", `{"act":"pause"}`, true},
		"another page":       {"live", "https://attacker.example", "application/json", `{"act":"pause"}`, false},
		"no page":            {"live", "", "application/json", `{"act":"pause"}`, false},
		"a form":             {"live", own, "text/plain", `{"act":"pause"}`, false},
		"nonsense":           {"live", own, "application/json", `{"act":"pause"`, false},
		"a run that ended":   {"done", own, "application/json", `{"act":"pause"}`, false},
		"a folder elsewhere": {"..", own, "application/json", `{"act":"pause"}`, false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"api/steer?run="+c.run, strings.NewReader(c.body))
		l.check(err)
		r.Header.Set("Content-Type", c.kind)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		l.mu.Lock()
		before := len(l.orders)
		l.mu.Unlock()
		answer, err := http.DefaultTransport.RoundTrip(r)
		l.check(err)
		answer.Body.Close()
		l.mu.Lock()
		obeyed := len(l.orders) > before
		l.mu.Unlock()
		if (answer.StatusCode == http.StatusOK) != c.ok || obeyed != c.ok {
			t.Errorf("%s: status %d, obeyed %t", name, answer.StatusCode, obeyed)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
