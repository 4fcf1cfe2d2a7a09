package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/gateway/ledger"
	"securebench/internal/source"
)

// vectors reads a file of cases, and the newer copy of it if there is one.
func vectors(t *testing.T, own, name string) []*source.Node {
	t.Helper()
	files := []string{filepath.Join("testdata", own)}
	if dir := os.Getenv("SECUREBENCH_VECTORS"); dir != "" {
		files = append(files, filepath.Join(dir, name))
	}
	var out []*source.Node
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			n, err := source.ParseJSON(file, 1, line)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		t.Fatal("no cases")
	}
	return out
}

// TestAuthorityVectors: what the reference accepts is read alike or refused;
// docs/deviations.md lists the refusals.
func TestAuthorityVectors(t *testing.T) {
	refused := []string{"::1", ":443", "a:b:443", "api.openai.com: 443", "api.openai.com:+443", "api.openai.com:4_43"}
	for _, n := range vectors(t, "authority.jsonl", "proxy_authority.jsonl") {
		authority, want := n.Get("authority").Text, n.Get("expect")
		host, port, ok := parseAuthority(authority, 443)
		switch {
		case want.Kind == source.Null || slices.Contains(refused, authority):
			if ok {
				t.Errorf("%q: %q, %d", authority, host, port)
			}
		case !ok || host != want.Items[0].Text:
			t.Errorf("%q: %q, %t", authority, host, ok)
		default:
			if n, p := want.Items[1].Int("port", 0, 65535); p != nil || int(n) != port {
				t.Errorf("%q: port %d, want %d, %v", authority, port, n, p)
			}
		}
	}
}

// TestDestinationVectors is the same for decisions.
func TestDestinationVectors(t *testing.T) {
	stricter := []string{"x.api.openai.com", ".api.openai.com"}
	d := newDomains([]string{"api.openai.com", "docs.python.org"})
	for _, n := range vectors(t, "destination.jsonl", "proxy_destination.jsonl") {
		text := n.Get("host").Text
		port, p := n.Get("port").Int("port", 0, 65535)
		want, q := n.Get("expect").Boolean("expect")
		if p != nil || q != nil {
			t.Fatal(p, q)
		}
		host, _, ok := parseAuthority(text, int(port))
		if got := ok && d.allow(host) && (port == 80 || port == 443); got != (want && !slices.Contains(stricter, text)) {
			t.Errorf("%q, %d: %t", text, port, got)
		}
	}
}

// TestPatterns: a pattern reaches what belongs to the owner of its base.
func TestPatterns(t *testing.T) {
	for pattern, hosts := range map[string]struct{ yes, no string }{
		"*.example.com":   {"a.example.com a.b.example.com", "example.com xexample.com a.example.com.evil.com"},
		"*.amazonaws.com": {"sts.amazonaws.com", "evil.s3.amazonaws.com s3.amazonaws.com"},
		"*.example.co.uk": {"a.example.co.uk", "example.co.uk evil.co.uk"},
		"*.corp.internal": {"a.corp.internal", "b.internal"},
		"*.co.uk":         {"", "a.co.uk"}, // even if a caller did not check it
		"*.github.io":     {"", "someone.github.io"},
	} {
		d := newDomains([]string{pattern})
		for _, h := range strings.Fields(hosts.yes) {
			if !d.allow(h) {
				t.Errorf("%s refuses %s", pattern, h)
			}
		}
		for _, h := range strings.Fields(hosts.no) {
			if d.allow(h) {
				t.Errorf("%s allows %s", pattern, h)
			}
		}
	}
}

func TestPublic(t *testing.T) {
	p := New(Config{}, &ledger.Ledger{})
	for _, a := range strings.Fields(`0.0.0.0 10.1.2.3 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254
		172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1
		203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
		:: ::1 ::ffff:93.184.216.34 ::93.184.216.34 ::ffff:0:93.184.216.34 64:ff9b::5db8:d822 64:ff9b:1::1 100::1 2001::1 2001:2::1
		2001:10::1 2001:20::1 2001:db8::1 2002:5db8:d822::1 3fff::1 fc00::1 fd12::1 fe80::1 fe80::1%eth0 2606:4700::6%eth0 fec0::1
		ff02::1 5f00::1 4000::1 2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:10.0.0.1`) {
		if p.public(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as public", a)
		}
	}
	for _, a := range strings.Fields(`93.184.216.34 1.1.1.1 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 198.17.0.1 198.20.0.1
		192.0.1.1 223.255.255.255 2606:4700::6 2001:4860:4860::8888 2a00:1450::1 2003::1 2400:cb00::5eff:fe00:1`) {
		if !p.public(netip.MustParseAddr(a)) {
			t.Errorf("%s does not count as public", a)
		}
	}
	if p.public(netip.Addr{}) {
		t.Error("no address counts as public")
	}
}

func TestOwn(t *testing.T) {
	mine, err := own()
	if err != nil || len(mine) == 0 {
		t.Fatalf("%v, %v", mine, err)
	}
	n := newInternet(t)
	n.names["ok.example"] = [][]string{{"93.184.216.99"}} // the proxy's own
	contains(t, "own address", n.proxied().get("http://ok.example/"), "403 ")
}

func TestRequests(t *testing.T) {
	const start = "GET http://a/ HTTP/1.1\r\n"
	for text, status := range map[string]int{
		start + "Host: a\r\n\r\n": 0, "GET http://a/ HTTP/1.0\r\n\r\n": 0, start + "Host: a\r\nX:\r\ny:\t\xe9 \r\n\r\n": 0,
		start + "Host: a\r\nContent-Length: 007\r\n\r\n": 0, start + "Host: a\r\nTRANSFER-encoding: Chunked\r\n\r\n": 0,
		"CONNECT a HTTP/1.1\r\n\r\n": 0,
		start + "\r\n":               400, start + "Host: a\r\nHost: a\r\n\r\n": 400, "\r\n" + start + "Host: a\r\n\r\n": 400,
		start + "Host: a\r\n": 400, "": 400, "GET": 400, "GET  http://a/ HTTP/1.1\r\n\r\n": 400, "GET http://a/ HTTP/1.1 \r\n\r\n": 400,
		"GET\thttp://a/\tHTTP/1.1\r\n\r\n": 400, "GET http://a/ HTTP/2.0\r\n\r\n": 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 400, "GET http://a/ http/1.1\r\n\r\n": 400,
		"GET http://a/\x7f HTTP/1.1\r\n\r\n": 400, "GET http://a/\xc3\xa9 HTTP/1.1\r\n\r\n": 400, "G\x01T http://a/ HTTP/1.1\r\n\r\n": 400,
		strings.Repeat("G", 33) + " http://a/ HTTP/1.1\r\nHost: a\r\n\r\n": 400,
		start + "Host: a\r\nTransfer-Encoding : chunked\r\n\r\n":           400, start + "Host: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n": 400,
		start + "Host: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n": 400, start + "Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
		"GET http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
		start + "Host: a\r\nContent-Length: +1\r\n\r\n":                400, start + "Host: a\r\nContent-Length: 1, 1\r\n\r\n": 400, start + "Host: a\r\nContent-Length:\r\n\r\n": 400,
		start + "Host: a\r\nContent-Length: 99999999999999999999\r\n\r\n": 400, start + "Host: a\r\nContent-Length: 0x1\r\n\r\n": 400,
		start + "Host: a\r\n: b\r\n\r\n": 400, start + "Host: a\r\nnothing\r\n\r\n": 400, start + "Host: a\r\nX: a\x00b\r\n\r\n": 400, start + "Host: a\r\nX: a\rb\r\n\r\n": 400,
		start + "Host: a\r\nX(: b\r\n\r\n": 400, start + " Host: a\r\n\r\n": 400, start + "Host: a\r\r\n\r\n": 400,
		start + "Host: a\r\nX: " + strings.Repeat("a", maxHead) + "\r\n\r\n": 431, start + strings.Repeat("X: a\r\n", maxFields+1) + "\r\n": 431,
	} {
		_, r := readRequest(bufio.NewReader(strings.NewReader(text)))
		got := 0
		if r != nil {
			got = r.status
		}
		if got != status {
			t.Errorf("%.100q: %d, want %d", text, got, status)
		}
	}
}

func TestBodies(t *testing.T) {
	for text, want := range map[string]string{
		"0\r\n\r\n": "", "3\r\nabc\r\n0\r\n\r\n": "abc", "3\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n": "abc0123456789", "03\r\nabc\r\n00\r\n\r\n": "abc",
		"3;x=y\r\nabc\r\n0\r\n\r\n": "!", "3;\r\nabc\r\n0\r\n\r\n": "!", "3 \r\nabc\r\n0\r\n\r\n": "!", "0x3\r\nabc\r\n0\r\n\r\n": "!", "+3\r\nabc\r\n0\r\n\r\n": "!", "\r\nabc": "!",
		"3\nabc\r\n0\r\n\r\n": "!", "3\r\nabc\n0\r\n\r\n": "!", "3\r\nabcd\r\n0\r\n\r\n": "!", "3\r\nab": "!", "3\r\nabc": "!", "0\r\n": "!", "0\r\nT: x": "!", "0\r\n bad\r\n\r\n": "!",
		"8000000000000000\r\n": "!", "fffffffffffffff\r\nabc": "!", "0\r\nT: " + strings.Repeat("x", maxTrailer) + "\r\n\r\n": "!",
	} {
		r := bufio.NewReader(strings.NewReader(text + "REST"))
		got, err := io.ReadAll(&chunks{r: r})
		if (err != nil) != (want == "!") || err == nil && string(got) != want {
			t.Errorf("%.60q: %q, %v", text, got, err)
		}
		if rest, _ := io.ReadAll(r); err == nil && string(rest) != "REST" {
			t.Errorf("%.60q leaves %q", text, rest)
		}
	}
}

// hello is the ClientHello of an honest client.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Client(near, &tls.Config{ServerName: name, InsecureSkipVerify: true,
		CurvePreferences: []tls.CurveID{tls.X25519}}).Handshake()
	r := bufio.NewReader(far)
	header, err := r.Peek(5)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 5+int(binary.BigEndian.Uint16(header[3:])))
	if _, err := io.ReadFull(r, raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

func nameOf(host string) []byte {
	out := []byte{0, byte(len(host) + 3), 0, 0, byte(len(host))}
	return append(out, host...)
}

// extended adds an extension to a ClientHello.
func extended(raw []byte, kind int, content []byte) []byte {
	body := slices.Clone(raw[9:])
	c := cursor{rest: body}
	c.take(helloFixedLength)
	c.vector(1)
	c.vector(2)
	c.vector(1)
	at := len(body) - len(c.rest)
	extension := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(kind)), uint16(len(content)))
	body = append(append(body, extension...), content...)
	binary.BigEndian.PutUint16(body[at:], uint16(len(body)-at-2))
	return records(body, 1<<14)
}

// records puts a ClientHello into records of so many bytes.
func records(body []byte, size int) []byte {
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	var out []byte
	for part := range slices.Chunk(message, size) {
		out = append(out, 22, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

func TestHello(t *testing.T) {
	whole := hello(t, "OK.example")
	body := whole[9:]
	split := records(body, len(body)/40)
	tests := map[string]struct {
		raw  []byte
		name string
	}{
		"whole": {whole, "ok.example"}, "split": {split, "ok.example"}, "in two": {records(body, 3), ""}, // too many
		"more in the record":    {append(append([]byte{22, 3, 1, byte((len(whole) - 4) >> 8), byte(len(whole) - 4)}, whole[5:]...), 0), ""},
		"too long":              {records(append(slices.Clone(body), make([]byte, maxHello)...), 1<<14), ""},
		"empty record":          {append([]byte{22, 3, 1, 0, 0}, whole...), ""},
		"long record":           {append([]byte{22, 3, 1, 0x40, 1}, make([]byte, 1<<15)...), ""},
		"alert":                 {append([]byte{21}, whole[1:]...), ""},
		"SSL 2":                 {append([]byte{22, 2}, whole[2:]...), ""},
		"server's":              {append(slices.Clone(whole[:5]), append([]byte{2}, whole[6:]...)...), ""},
		"no extensions at all":  {records(append(make([]byte, 34), 0, 0, 2, 19, 1, 1, 0), 1<<14), ""},
		"empty extensions":      {records(append(make([]byte, 34), 0, 0, 2, 19, 1, 1, 0, 0, 0), 1<<14), ""},
		"cut":                   {whole[:len(whole)-1], ""},
		"bytes after":           {records(append(slices.Clone(body), 1), 1<<14), ""},
		"name of another kind":  {extended(hello(t, ""), extensionName, []byte("\x00\x0d\x01\x00\x0aok.example")), ""},
		"name of wrong length":  {extended(hello(t, ""), extensionName, []byte("\x00\x0d\x00\x00\x09ok.example")), ""},
		"empty name":            {extended(hello(t, ""), extensionName, []byte("\x00\x03\x00\x00\x00")), ""},
		"the draft's encrypted": {extended(hello(t, "ok.example"), extensionECHOld, nil), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(bytes.NewReader(append(slices.Clone(tc.raw), "REST"...)))
			if name == "cut" {
				r = bufio.NewReader(bytes.NewReader(tc.raw))
			}
			raw, got, err := readHello(r)
			if got != tc.name || (err == nil) != (tc.name != "") {
				t.Fatalf("%q, %v", got, err)
			}
			if rest, _ := io.ReadAll(r); err == nil && (!bytes.Equal(raw, tc.raw) || string(rest) != "REST") {
				t.Errorf("%d of %d bytes, rest %q", len(raw), len(tc.raw), rest)
			}
		})
	}
}

func FuzzAuthority(f *testing.F) {
	for _, s := range []string{"a.example:443", "A.example.", "[::1]:443", "a@b:1", "::1", "a:b:443", "a%00b", "[::1%eth0]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, port, ok := parseAuthority(s, 443)
		if !ok {
			return
		}
		if port < 1 || port > 65535 || host == "" || strings.ContainsAny(host, "@/?#%\\ \r\n\x00[]") {
			t.Fatalf("%q: %q, %d", s, host, port)
		}
		again := host
		if strings.Contains(host, ":") {
			again = "[" + host + "]"
		}
		if h, p, ok := parseAuthority(again, port); !ok || h != host || p != port {
			t.Fatalf("%q is not in normal form: %q, %d, %t", host, h, p, ok)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("POST http://a/?b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\nGET"))
	f.Add([]byte("GET http://a/ HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("CONNECT a:443 HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bufio.NewReader(bytes.NewReader(text))
		req, refused := readRequest(r)
		if refused != nil {
			if refused.status < 400 || refused.text == "" {
				t.Fatalf("%+v", refused)
			}
			return
		}
		if req.length == -1 {
			io.Copy(io.Discard, &chunks{r: r})
		}
		head, _, found := bytes.Cut(text, []byte("\r\n\r\n"))
		if !found || bytes.Count(head, []byte("\n")) != bytes.Count(head, []byte("\r\n")) || bytes.Count(head, []byte("\r")) != bytes.Count(head, []byte("\r\n")) {
			t.Fatalf("accepted %q", text)
		}
		if !visible(req.target) || !token(req.method) || len(req.header["Content-Length"])+len(req.header["Transfer-Encoding"]) > 1 {
			t.Fatalf("%+v", req)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello(f, "ok.example"))
	f.Add(records(hello(f, "ok.example")[9:], 50))
	f.Add(extended(hello(f, ""), extensionName, nameOf("a")))
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, name, err := readHello(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		lower := bytes.Clone(raw) // ASCII alone, as names are compared
		for i, b := range lower {
			if b >= 'A' && b <= 'Z' {
				lower[i] = b | 0x20
			}
		}
		one := len(raw) == 5+int(binary.BigEndian.Uint16(raw[3:])) // a name may be split over records
		if !bytes.HasPrefix(text, raw) || name == "" || len(name) > maxHostName || one && !bytes.Contains(lower, []byte(name)) {
			t.Fatalf("%q from %q", name, text)
		}
	})
}
