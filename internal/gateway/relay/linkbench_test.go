package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/gateway/access"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
)

// The addresses in the sandbox at which [BenchmarkLink] serves.
const (
	linkProxy = "127.0.0.1:61080"
	linkRelay = "127.0.0.1:61081"
)

// linkBody is a request as Codex sends it in the middle of its work: 55 kB of
// instructions, tools, and calls with their outputs.
func linkBody() string {
	var b strings.Builder
	b.WriteString(`{"model":"model-1","stream":true,"store":false,"include":["reasoning.encrypted_content"],"tools":[`)
	for i := range 8 {
		fmt.Fprintf(&b, `{"type":"function","name":"tool_%d","description":%q,"strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string","description":"what to run"},"workdir":{"type":"string"},"timeout_ms":{"type":"number"}},"required":["cmd"],"additionalProperties":false}},`, i, strings.Repeat("how to use it ", 30))
	}
	b.WriteString(`{"type":"custom","name":"apply_patch","format":{"type":"grammar","syntax":"lark","definition":"start: x"}}],"input":[`)
	fmt.Fprintf(&b, `{"type":"message","role":"developer","content":[{"type":"input_text","text":%q}]}`, strings.Repeat("Some instructions.\n", 1000))
	for i := range 30 {
		fmt.Fprintf(&b, `,{"type":"function_call","call_id":"c%d","name":"exec_command","arguments":%q},{"type":"function_call_output","call_id":"c%d","output":%q}`,
			i, `{"cmd":"sed -n 1,40p file.py"}`, i, strings.Repeat("def f(x):\n\treturn \"x\"\n", 30))
	}
	b.WriteString(`]}`)
	return b.String()
}

// linkProvider answers with a stream of 200 pieces of output, each sent as soon as
// it is there.
func linkProvider() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		for event := range strings.SplitAfterSeq(benchStream(apis[Responses]), "\n\n") {
			_, _ = io.WriteString(w, event)
			_ = control.Flush()
		}
	}))
}

// BenchmarkLink compares the relay with the standard library's reverse proxy
// behind the link of one sandbox: a program there asks both in turn, so that
// whatever else the machine does slows both. It reports the relay's times divided
// by the proxy's, and its requests per second divided by the proxy's.
func BenchmarkLink(b *testing.B) {
	e := enginetest.Docker(b)
	box, err := e.Open(b.Context(), sandbox.Spec{Image: enginetest.Image(b, e), Init: true, User: &sandbox.Nobody,
		Limits: sandbox.Limits{Output: 1 << 40}})
	if err != nil {
		b.Fatal(err)
	}
	client, err := initproc.Open(b.Context(), box)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer func() {
		cancel()
		if err := client.Close(context.WithoutCancel(ctx)); err != nil {
			b.Error(err)
		}
	}()
	upstream := linkProvider()
	defer upstream.Close()
	r, err := New(config(Responses, upstream.URL))
	if err != nil {
		b.Fatal(err)
	}
	listen := func(address string) net.Listener {
		ln, err := client.Listen(ctx, address)
		if err != nil {
			b.Fatal(err)
		}
		return ln
	}
	proxy := &http.Server{Handler: linkReverseProxy(upstream.URL)}
	proxied, relayed := listen(linkProxy), listen(linkRelay)
	go func() { _ = proxy.Serve(proxied) }()
	defer proxy.Close()
	go func() { _ = r.Open(Options{Token: token}).Serve(ctx, relayed) }()
	for _, parallel := range []int{1, 8} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			sides := [2]side{}
			for b.Loop() {
				ask(b, client, parallel, &sides)
			}
			report(b, sides)
		})
	}
}

// linkReverseProxy is a reverse proxy that keeps as many connections as the relay.
// By itself, it cuts a stream now and then whose provider answers at once: the
// server closes the request's body before the transport has seen its end.
func linkReverseProxy(base string) http.Handler {
	to, _ := url.Parse(base)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Transport: access.Transport(), Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Header.Set("Authorization", "Bearer "+key)
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // leaves the body open
		proxy.ServeHTTP(w, r)
	})
}

// side is what was measured at one address.
type side struct {
	took  []float64 // of each request
	total float64
}

// ask runs the program in the sandbox: 1600 requests to each address, 20 of them
// one after another before the other one's turn.
func ask(b *testing.B, client *initproc.Client, parallel int, sides *[2]side) {
	b.Helper()
	each := 20 * parallel
	var out, problems bytes.Buffer
	res, err := client.Run(b.Context(), initproc.Command{Argv: []string{sandbox.HelperPath, "load", strconv.Itoa(each), strconv.Itoa(parallel), strconv.Itoa(1600 / each), token,
		linkProxy + pathResponses, linkRelay + pathResponses},
		User: sandbox.Nobody, Stdin: strings.NewReader(linkBody()), Stdout: &out, Stderr: &problems, Output: 1 << 30})
	if err != nil || res.ExitCode != 0 {
		b.Fatalf("%+v, %v: %s", res, err, &problems)
	}
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var all []float64
		for field := range strings.FieldsFuncSeq(lines.Text(), func(c rune) bool { return strings.ContainsRune(" []", c) }) {
			n, problem := strconv.ParseFloat(field, 64)
			err = errors.Join(err, problem)
			all = append(all, n)
		}
		if err != nil || len(all) != 2+each {
			b.Fatalf("%q: %v", lines.Text(), err)
		}
		s := &sides[int(all[0])]
		s.total += all[1]
		s.took = append(s.took, all[2:]...)
	}
}

// report reports the second side beside the first one.
func report(b *testing.B, sides [2]side) {
	b.Helper()
	var p50, p99, rate [2]float64
	for i, s := range sides {
		slices.Sort(s.took)
		p50[i], p99[i] = s.took[len(s.took)/2]/1e6, s.took[len(s.took)*99/100]/1e6
		rate[i] = float64(len(s.took)) / (s.total / 1e9)
	}
	b.ReportMetric(p50[1], "p50-ms")
	b.ReportMetric(p99[1], "p99-ms")
	b.ReportMetric(rate[1], "req/s")
	b.ReportMetric(p50[1]/p50[0], "p50-ratio")
	b.ReportMetric(p99[1]/p99[0], "p99-ratio")
	b.ReportMetric(rate[1]/rate[0], "rate-ratio")
}
