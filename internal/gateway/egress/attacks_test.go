package egress

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// TestAttacks sends what gets through a careless proxy. Here it is refused, and
// nothing reaches any host. The honest twin runs through both, before and
// after.
func TestAttacks(t *testing.T) {
	const head = " HTTP/1.1\r\nHost: ok.example\r\n"
	tests := map[string]struct {
		send   string
		status string
		reason string
		leaks  string // what reaches a host through the careless proxy
	}{
		"N02 address":                   {"CONNECT 93.184.216.66:443" + head + "\r\n", "403", "host", "dial 93.184.216.66:443"},
		"N02 IPv6":                      {"CONNECT [2606:4700::6]:443" + head + "\r\n", "403", "host", "dial [2606:4700::6]:443"},
		"N02 plain":                     {"GET http://93.184.216.66/" + head + "\r\n", "403", "host", "GET ok.example/"},
		"N03 suffix":                    {"CONNECT evil-ok.example:443" + head + "\r\n", "403", "host", "dial 93.184.216.66:443"},
		"N03 label":                     {"CONNECT x.ok.example:443" + head + "\r\n", "403", "host", "dial 93.184.216.66:443"},
		"N03 prefix":                    {"GET http://ok.example.evil.ok.example/" + head + "\r\n", "403", "host", "dial 93.184.216.66:80"},
		"N03 empty label":               {"CONNECT .ok.example:443" + head + "\r\n", "400", "malformed", "dial 93.184.216.66:443"},
		"N04 host field":                {"GET http://evil.ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n", "403", "host", "dial 93.184.216.66:80"},
		"N05 ssh":                       {"CONNECT ok.example:22" + head + "\r\n", "403", "port", "dial 93.184.216.34:22"},
		"N05 mail":                      {"CONNECT ok.example:25" + head + "\r\n", "403", "port", "dial 93.184.216.34:25"},
		"N05 8443":                      {"CONNECT ok.example:8443" + head + "\r\n", "403", "port", "dial 93.184.216.34:8443"},
		"N05 connect 80":                {"CONNECT ok.example:80" + head + "\r\n", "403", "port", "dial 93.184.216.34:80"},
		"N05 plain 443":                 {"GET http://ok.example:443/" + head + "\r\n", "403", "port", "dial 93.184.216.34:443"},
		"N05 0":                         {"CONNECT ok.example:0" + head + "\r\n", "400", "malformed", "dial 93.184.216.34:0"},
		"N07 private":                   {"CONNECT inside.example:443" + head + "\r\n", "403", "address", "dial 10.0.0.7:443"},
		"N07 one of two":                {"CONNECT mixed.example:443" + head + "\r\n", "403", "address", "dial 192.168.0.9:443"},
		"N10 user":                      {"CONNECT ok.example@93.184.216.66:443" + head + "\r\n", "400", "malformed", "dial 93.184.216.66:443"},
		"N10 user with port":            {"GET http://ok.example:80@93.184.216.66/" + head + "\r\n", "400", "malformed", "dial 93.184.216.66:80"},
		"N14 both lengths":              {"POST http://ok.example/" + head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n", "400", "malformed", "GET evil.example/smuggled"},
		"N14 two lengths":               {"POST http://ok.example/" + head + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", "400", "malformed", "POST ok.example/"},
		"N14 folded":                    {"GET http://ok.example/" + head + "X: a\r\n b\r\n\r\n", "400", "malformed", "GET ok.example/"},
		"N14 bare LF":                   {"GET http://ok.example/" + head + "X: a\n\r\n", "400", "malformed", "GET ok.example/"},
		"N14 bare LF at the end":        {"GET http://ok.example/" + head + "\n", "400", "malformed", "GET ok.example/"},
		"N14 second request":            {"GET http://ok.example/" + head + "\r\nGET /second HTTP/1.1\r\nHost: evil.example\r\n\r\n", "400", "malformed", "GET evil.example/second"},
		"N15 header injected by LF":     {"GET http://ok.example/" + head + "X: a\nInjected: b\r\n\r\n", "400", "malformed", "GET ok.example/"},
		"N15 upgrade to the host's own": {"GET http://ok.example/ HTTP/1.1\nHost: evil.example\n\n", "400", "malformed", "GET evil.example/"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			weak := n.weak()
			twin(t, weak)
			n.notes()
			answer := weak.send(tc.send)
			contains(t, "a careless proxy lets through", n.notes()+answer, tc.leaks)

			ours := n.proxied("inside.example", "mixed.example")
			twin(t, ours)
			before := n.notes()
			answer = ours.send(tc.send)
			if name == "N14 second request" { // the first is honest
				contains(t, "second", answer, "HTTP/1.1 400 ")
				contains(t, "first", n.notes(), "dial 93.184.216.34:80; GET ok.example/ 0")
			} else {
				if !strings.HasPrefix(answer, "HTTP/1.1 "+tc.status+" ") || strings.Count(answer, "HTTP/1.1") != 1 {
					t.Errorf("answer %q, want %s", answer, tc.status)
				}
				if seen := n.notes(); seen != "" {
					t.Errorf("reached: %s (before: %s)", seen, before)
				}
			}
			if got := ours.entries(map[bool]int{false: 3, true: 4}[name == "N14 second request"]); !strings.Contains(got, " false "+tc.reason) {
				t.Errorf("ledger: %s", got)
			}
			twin(t, ours)
		})
	}
}

// twin is honest work through a proxy, plain and by TLS.
func twin(t *testing.T, a *agent) {
	t.Helper()
	for _, address := range []string{"http://ok.example/a?b=c", "https://ok.example/a"} {
		if got := a.get(address); got != "200 hello from ok.example" {
			t.Errorf("honest %s: %s", address, got)
		}
	}
}

// TestNumbersAsHosts: names that some resolvers take for addresses are refused
// even if the operator allows them, by what they resolve to (N09).
func TestNumbersAsHosts(t *testing.T) {
	n := newInternet(t)
	names := []string{"2130706433", "0x7f000001", "127.1", "010.0.0.1", "0", "0x7f.1"}
	for _, name := range names {
		n.names[name] = [][]string{{"127.0.0.1"}}
	}
	allowed, ours := n.proxied(names...), n.proxied()
	for _, name := range names {
		contains(t, name, ours.send("CONNECT "+name+":443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403 ")
		contains(t, name, allowed.send("CONNECT "+name+":443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403 ")
	}
	contains(t, "ledger", allowed.entries(6), strings.TrimSuffix(strings.Repeat(" false address; CONNECT", 1), " CONNECT"))
	if seen := n.notes(); seen != "" {
		t.Errorf("reached: %s", seen)
	}
}

// TestConfusion sends authorities that readers understand differently (N10).
// Those that mean an allowed host reach exactly that one.
func TestConfusion(t *testing.T) {
	n := newInternet(t)
	a := n.proxied()
	for target, status := range map[string]string{
		"ok.example%00.evil.example:443": "400", "ok.example#@evil.example:443": "400", "ok.example\\.evil.example:443": "400",
		"ok.example/evil.example:443": "400", "ok.example:443:443": "400", "ok.example:443x": "400", "ok.example:65536": "400",
		"ok.example:00443": "502", "ok.example:000443": "400", "ok.example.:443": "502", "OK.Example:443": "502", "ok.example..:443": "400",
		"[ok.example]:443": "400", "[::ffff:93.184.216.34]:443": "403", "ok.example,evil.example:443": "400", "ok%2eexample:443": "400",
		"*.pattern.example:443": "400", "pattern.example:443": "403", "a.pattern.example:443": "502", "localhost:443": "403",
		"http://ok.example:443": "400", "\u212a.example:443": "400", "ok.example:": "400", "": "400",
	} {
		n.names = nil // an allowed host ends in 502: it has no address
		answer := a.send("CONNECT " + target + " HTTP/1.1\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+status+" ") {
			t.Errorf("%q: %.60q, want %s", target, answer, status)
		}
	}
	for target, status := range map[string]string{
		"http://ok.example:80@evil.example/": "400", "http://ok.example#@evil.example/": "400", "http://evil.example/http://ok.example/": "403",
		"//ok.example/": "400", "/": "400", "*": "400", "https://ok.example/": "403", "ftp://ok.example/": "403", "HTTP://OK.example./": "502",
		"http://ok.example?x": "502", "http://ok.example\\@evil.example/": "400", "http:/ok.example/": "400", "http://": "400",
		"http://evil.example?http://ok.example/": "403", "x/http://ok.example/": "400", "http://ok.example/%zz": "400",
	} {
		answer := a.send("GET " + target + " HTTP/1.1\r\nHost: ok.example\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+status+" ") {
			t.Errorf("%q: %.60q, want %s", target, answer, status)
		}
	}
}

// TestRebinding: the address that was checked is the one that is connected to
// (N08).
func TestRebinding(t *testing.T) {
	n := newInternet(t)
	n.weak().get("http://rebinding.example/")
	contains(t, "a careless proxy", n.notes(), "dial 127.0.0.1:80")

	n = newInternet(t)
	a := n.proxied("rebinding.example")
	contains(t, "first", a.get("http://rebinding.example/"), "200 hello")
	contains(t, "first", n.notes(), "dial 93.184.216.34:80; GET")
	contains(t, "second", a.get("http://rebinding.example/"), "403 ")
	if seen := n.notes(); seen != "" {
		t.Errorf("reached: %s", seen)
	}
}

// TestHostField: the host of the address is what the other side is told (N04).
func TestHostField(t *testing.T) {
	const text = "GET http://ok.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	n := newInternet(t)
	n.weak().send(text)
	contains(t, "a careless proxy", n.notes(), "GET evil.example/x")
	a := n.proxied()
	contains(t, "ours", a.send(text), "hello from ok.example")
	contains(t, "ours", n.notes(), "dial 93.184.216.34:80; GET ok.example/x 0")
}

// TestKeepAlive: every request on a connection is decided by itself.
func TestKeepAlive(t *testing.T) {
	n := newInternet(t)
	a := n.proxied("other.example")
	get := func(host string) string { return "GET http://" + host + "/ HTTP/1.1\r\nHost: ok.example\r\n\r\n" }
	post := "POST http://ok.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n"
	answer := a.send(get("ok.example") + get("other.example") + post + get("evil.example") + get("ok.example"))
	if strings.Count(answer, "HTTP/1.1 200 ") != 3 || strings.Count(answer, "HTTP/1.1 403 ") != 1 {
		t.Errorf("answers: %s", answer)
	}
	want := "dial 93.184.216.34:80; GET ok.example/ 0; dial 93.184.216.35:80; GET other.example/ 0; dial 93.184.216.34:80; POST ok.example/ 3"
	if got := n.notes(); got != want {
		t.Errorf("reached: %s", got)
	}
	want = "GET ok.example:80 true; GET other.example:80 true; POST ok.example:80 true; GET evil.example:80 false host"
	if got := a.entries(4); got != want {
		t.Errorf("ledger: %s", got)
	}
	if c := a.ledger.Counts(); c["proxy_allowed"] != 3 || c["proxy_denied"] != 1 {
		t.Errorf("counts: %v", c)
	}
}

// TestNames holds the TLS handshake to the host of CONNECT (N06).
func TestNames(t *testing.T) {
	tests := map[string]struct {
		hello  []byte
		reason string
	}{
		"other host":     {hello(t, "evil.example"), "sni"},
		"subdomain":      {hello(t, "x.ok.example"), "sni"},
		"no name":        {hello(t, ""), "sni"},
		"dot at the end": {extended(hello(t, ""), extensionName, nameOf("ok.example.")), "sni"},
		"two names":      {extended(hello(t, ""), extensionName, []byte("\x00\x1a\x00\x00\x0aok.example\x00\x00\x0aok.example")), "sni"},
		"name twice":     {extended(hello(t, "ok.example"), extensionName, nameOf("evil.example")), "not_tls"},
		"encrypted":      {extended(hello(t, "ok.example"), extensionECH, []byte{0, 0, 1, 0, 1, 0, 0, 0, 0, 0}), "ech"},
		"no TLS":         {[]byte("SSH-2.0-client\r\n"), "not_tls"},
		"cut":            {hello(t, "ok.example")[:40], "cut"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, weak := range []bool{true, false} {
				n := newInternet(t)
				arrived := make(chan string, 1)
				n.raw = func(c net.Conn) {
					b, _ := io.ReadAll(io.LimitReader(c, int64(len(tc.hello))))
					arrived <- string(b)
				}
				a := n.proxied()
				if weak {
					a = n.weak()
				}
				answer := a.send("CONNECT ok.example:443 HTTP/1.1\r\nHost: ok.example\r\n\r\n" + string(tc.hello))
				contains(t, "answer", answer, "HTTP/1.1 200 ")
				if got := <-arrived; (got == string(tc.hello)) != weak || !weak && got != "" {
					t.Errorf("weak %t: %d bytes arrived", weak, len(got))
				}
				if !weak {
					contains(t, "ledger", a.entries(1), fmt.Sprintf("CONNECT ok.example:443 %t %s", tc.reason == "cut", tc.reason))
				}
			}
		})
	}
	n := newInternet(t)
	twin(t, n.proxied())
}

// TestSecondHello: a server may ask for a second ClientHello, which must name
// the same host. Honest clients and servers do this when they prefer different
// curves.
func TestSecondHello(t *testing.T) {
	n := newInternet(t)
	n.tls.CurvePreferences = []tls.CurveID{tls.CurveP521}
	n.tls.MinVersion = tls.VersionTLS13
	a := n.proxied()
	if got := a.get("https://ok.example/"); got != "200 hello from ok.example" {
		t.Errorf("honest: %s", got)
	}

	retry := []byte("\x16\x03\x03\x00\x2c\x02\x00\x00\x28\x03\x03" + helloRetry + "\x00\x13\x01\x00\x00\x00")
	retry[4], retry[8] = byte(len(retry)-5), byte(len(retry)-9)
	for name, weak := range map[string]bool{"careless": true, "ours": false} {
		arrived := make(chan string, 1)
		n.raw = func(c net.Conn) {
			first := make([]byte, len(hello(t, "ok.example")))
			io.ReadFull(c, first)
			c.Write(retry)
			b, _ := io.ReadAll(c)
			arrived <- string(b)
		}
		a := n.proxied()
		if weak {
			a = n.weak()
		}
		second := "\x14\x03\x03\x00\x01\x01" + string(hello(t, "evil.example"))
		a.send("CONNECT ok.example:443 HTTP/1.1\r\nHost: ok.example\r\n\r\n" + string(hello(t, "ok.example")) + second)
		if got := <-arrived; strings.Contains(got, "evil.example") != weak {
			t.Errorf("%s: %q arrived", name, got)
		}
		if !weak {
			contains(t, "ledger", a.entries(1), "CONNECT ok.example:443 false sni")
		}
	}
}

// TestRedirect: the proxy hands a redirect on, and the agent's next request is
// decided by itself (N13).
func TestRedirect(t *testing.T) {
	n := newInternet(t)
	honest := n.handler
	n.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "ok.example" && r.URL.Path == "/to" {
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
			return
		}
		honest.ServeHTTP(w, r)
	})
	follower := n.proxied("evil.example").client() // as a proxy that fetches with a client would
	follower.CheckRedirect = nil
	if res, err := follower.Get("http://ok.example/to"); err != nil || res.Body.Close() != nil {
		t.Fatal(err)
	}
	contains(t, "a client that follows", n.notes(), "GET evil.example/")

	a := n.proxied()
	contains(t, "ours", a.get("http://ok.example/to"), "302 ")
	if got := n.notes(); got != "dial 93.184.216.34:80" {
		t.Errorf("reached: %s", got)
	}
	contains(t, "the agent's own", a.get("http://evil.example/"), "403 ")
	contains(t, "honest", a.get("http://ok.example/"), "200 hello")
}

// TestOpen shows what an allowlist cannot stop: data that goes to an allowed
// host (N24), and another host's name inside TLS (N06). The documents say so.
func TestOpen(t *testing.T) {
	n := newInternet(t)
	a := n.proxied()
	res, err := a.client().Post("https://ok.example/upload", "text/plain", strings.NewReader(strings.Repeat("x", 1000)))
	if err != nil || res.Body.Close() != nil {
		t.Fatal(err)
	}
	contains(t, "data", n.notes(), "POST ok.example/upload 1000")
	req, err := http.NewRequest(http.MethodGet, "https://ok.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	if res, err = a.client().Do(req); err != nil || res.Body.Close() != nil {
		t.Fatal(err)
	}
	contains(t, "inner host", n.notes(), "GET evil.example/")
}

// TestForgedLog: no request writes a line of the ledger's (N22).
func TestForgedLog(t *testing.T) {
	n := newInternet(t)
	a := n.proxied()
	forged := "\n{\"gate\":\"proxy\",\"allowed\":true}"
	requests := []string{
		"GET http://ok.example/" + forged + " HTTP/1.1\r\n\r\n",
		"GET http://ok.example/\"," + "\"allowed\":true,\"x\":\" HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT evil\r" + forged + " HTTP/1.1\r\n\r\n",
		"GET" + forged + " http://ok.example/ HTTP/1.1\r\n\r\n",
		"GET http://evil.example/\xff\xfe\x1b[2J HTTP/1.1\r\n\r\n",
		"GET /?key=secret HTTP/1.1\r\n\r\n",
	}
	for _, r := range requests {
		a.send(r)
	}
	a.entries(len(requests))
	lines := strings.Split(strings.TrimSuffix(string(a.ledger.Lines()), "\n"), "\n")
	if len(lines) != len(requests) {
		t.Fatalf("%d lines: %s", len(lines), lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"gate":"proxy","method":`) || strings.Contains(line, "secret") || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("line %q", line)
		}
	}
}

// TestMirrors: a host that the operator names may have private addresses, at the usual
// ports or at the one that is named with it, and no other host may. Loopback, the link and
// this machine stay closed to it.
func TestMirrors(t *testing.T) {
	const usual, named = "mirror.example", "named.example"
	for name, tt := range map[string]struct {
		target, address string
		dialled         bool
	}{
		"a mirror":               {"http://" + usual + "/", "10.1.2.3", true},
		"at IPv6":                {"http://" + usual + "/", "fd00::7", true},
		"in public":              {"http://" + usual + "/", "93.184.216.34", true},
		"at its port":            {"http://" + named + ":8081/", "192.168.1.2", true},
		"another name":           {"http://other.example/", "10.1.2.3", false},
		"below the mirror":       {"http://x." + usual + "/", "10.1.2.3", false},
		"another port":           {"http://" + usual + ":8081/", "10.1.2.3", false},
		"the usual port":         {"http://" + named + "/", "10.1.2.3", false},
		"loopback":               {"http://" + usual + "/", "127.0.0.1", false},
		"credentials of a cloud": {"http://" + usual + "/", "169.254.169.254", false},
		"credentials at IPv6":    {"http://" + usual + "/", "fd00:ec2::254", false},
		"those of another cloud": {"http://" + usual + "/", "fd20:ce::254", false},
		"the link of IPv6":       {"http://" + usual + "/", "fe80::1", false},
		"in disguise":            {"http://" + usual + "/", "::ffff:10.1.2.3", false},
		"shared by carriers":     {"http://" + usual + "/", "100.64.0.1", false},
		"this machine":           {"http://" + usual + "/", "10.99.0.1", false},
	} {
		for _, private := range [][]string{{usual, named + ":8081"}, nil} {
			n := newInternet(t)
			n.private = private
			for _, host := range []string{usual, named, "other.example", "x." + usual} {
				n.names[host] = [][]string{{tt.address}}
			}
			n.own = "10.99.0.1"
			n.proxied(usual, named, "other.example", "*."+usual).get(tt.target)
			want := tt.dialled && (private != nil || name == "in public")
			if got := strings.Contains(n.notes(), "dial "); got != want {
				t.Errorf("%s, allow_private %v: dialled %v", name, private, got)
			}
		}
	}
}
