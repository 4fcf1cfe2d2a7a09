package ledger_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/gateway/ledger"
)

func entry(target string) ledger.Entry {
	return ledger.Entry{Gate: ledger.Proxy, Method: "CONNECT", Target: target,
		Began: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600)), Took: 1500 * time.Millisecond}
}

func TestLines(t *testing.T) {
	var l ledger.Ledger
	if got := l.Lines(); len(got) != 0 || len(l.Counts()) != 0 {
		t.Errorf("the zero value holds %q, %v", got, l.Counts())
	}
	e := entry("a.example:443")
	e.Allowed, e.Address, e.Status, e.Sent, e.Received = true, "192.0.2.1:443", 200, 10, 20
	l.Add(e)
	l.Add(ledger.Entry{Gate: ledger.Relay, Method: "GET", Target: "/v1/files", Reason: "path", Status: 403, Began: e.Began})
	want := `{"gate":"proxy","method":"CONNECT","target":"a.example:443","allowed":true,"address":"192.0.2.1:443","status":200,` +
		`"sent":10,"received":20,"began":"2026-01-02T02:04:05.000000006Z","took_ns":1500000000}
{"gate":"relay","method":"GET","target":"/v1/files","allowed":false,"reason":"path","status":403,"began":"2026-01-02T02:04:05.000000006Z","took_ns":0}
`
	if d := cmp.Diff(want, string(l.Lines())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff(map[string]int64{"proxy_allowed": 1, "relay_denied": 1}, l.Counts()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// forgeries are targets by which an agent would write lines of its own (N22).
func forgeries() []string {
	return []string{
		"x\n{\"gate\":\"proxy\",\"allowed\":true}\n",
		"x\r\n{\"gate\":\"proxy\",\"allowed\":true}",
		`x","allowed":true,"y":"`,
		"x\u2028{\"allowed\":true}\u2029\u0085",
		"x\x00\x1b[2J\xff\xfe\xed\xa0\x80",
		"x\u202e\u200b\U000e0041",
		strings.Repeat("a", 511) + "\u20ac" + strings.Repeat("\n", 1<<20),
	}
}

func TestForgedLines(t *testing.T) {
	for _, target := range forgeries()[:1] { // a ledger that prints what it is given
		weak := fmt.Sprintf("{\"target\":\"%s\",\"allowed\":false}\n", target)
		if lines := strings.Split(weak, "\n"); len(lines) < 3 || !jsontext.Value(lines[1]).IsValid() {
			t.Errorf("%q forges no line of a weak ledger", target)
		}
	}
	for _, target := range append(forgeries(), "honest.example:443") {
		var l ledger.Ledger
		e := entry(target)
		e.Method, e.Reason, e.Address = target, target, target
		l.Add(e)
		check(t, l.Lines(), 1)
		var got ledger.Entry
		if err := json.Unmarshal(l.Lines(), &got); err != nil || got.Allowed {
			t.Errorf("%.80q: %v, %+v", target, err, got)
		}
		if target == "honest.example:443" && got.Target != target {
			t.Errorf("target %q", got.Target)
		}
	}
}

// check requires so many lines, each a bounded object in ASCII.
func check(t *testing.T, text []byte, lines int) {
	t.Helper()
	got := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(got) != lines {
		t.Fatalf("%d lines, want %d", len(got), lines)
	}
	for _, line := range got {
		if len(line) > 16<<10 || !jsontext.Value(line).IsValid() || line[0] != '{' {
			t.Fatalf("a line of %d bytes: %.200q", len(line), line)
		}
		for _, b := range line {
			if b < ' ' || b > '~' {
				t.Fatalf("byte %#x in %.200q", b, line)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for name, target := range map[string]string{"lines": "x", "bytes": strings.Repeat("\x01", 1000)} {
		var l ledger.Ledger
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 3000 {
					l.Add(entry(target))
				}
			})
		}
		wg.Wait()
		text := l.Lines()
		lines := bytes.Count(text, []byte("\n"))
		if len(text) > 4<<20+100 || lines > 10_001 || lines < 500 {
			t.Errorf("%s: %d bytes in %d lines", name, len(text), lines)
		}
		check(t, text, lines)
		if want := fmt.Sprintf("{\"left_out\":%d}\n", 12_000-(lines-1)); !bytes.HasSuffix(text, []byte(want)) {
			t.Errorf("%s: ends in %q, want %q", name, text[len(text)-60:], want)
		}
		if l.Counts()["proxy_denied"] != 12_000 {
			t.Errorf("%s: %v", name, l.Counts())
		}
	}
}

func FuzzEntry(f *testing.F) {
	for _, s := range forgeries() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var l ledger.Ledger
		e := entry(s)
		e.Method, e.Reason = s, s
		l.Add(e)
		check(t, l.Lines(), 1)
	})
}
