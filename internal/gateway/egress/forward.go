package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"securebench/internal/gateway/ledger"
)

// maxResponseHead bounds the head of a host's response.
const maxResponseHead = 256 << 10

// forward serves a plain request in absolute form.
func (s *session) forward(ctx context.Context, req *request, e *ledger.Entry) bool {
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, req.method) {
		return s.refuse(e, &refusal{status: http.StatusMethodNotAllowed, reason: "method", text: "this method is not forwarded"})
	}
	host, port, path, r := splitTarget(req.target)
	if r != nil {
		return s.refuse(e, r)
	}
	e.Target = net.JoinHostPort(host, strconv.Itoa(port))
	where, err := url.ParseRequestURI(path)
	if err != nil {
		return s.refuse(e, malformed("the target's path is invalid"))
	}
	if where.Scheme, where.Host = "http", host; port != 80 {
		where.Host = e.Target
	}
	up, r := s.open(ctx, host, port, 80, e)
	if r != nil {
		return s.refuse(e, r)
	}
	defer up.end(e)

	body := s.body(req)
	res, again, r := s.exchange(ctx, req, where, body, up)
	if r != nil {
		up.Close() // so that the library writes, and so reads, no more of the body
		if s.answer(e, r) == nil {
			s.linger(body)
		}
		return false
	}
	defer res.Body.Close()
	e.Allowed, e.Status = true, res.StatusCode
	// A body that is not at its end now may still be read by the library, so the
	// agent's connection is not used again.
	again = again && body.finished()
	err = s.respond(req, res, again)
	if e.Reason = body.reason(); e.Reason == "malformed" {
		e.Allowed = false
	}
	if err == nil && !again {
		up.Close()
		s.linger(body)
	}
	return err == nil && again
}

// exchange sends a request over a connection and returns the response. Whether
// the agent's connection may be used again is the request's to say.
func (s *session) exchange(ctx context.Context, req *request, where *url.URL, body *body, up *upstream) (*http.Response, bool, *refusal) {
	header := req.header.Clone()
	again := !req.old && !listed(header["Connection"], "close")
	expects := header["Expect"]
	hopByHop(header)
	for _, name := range []string{"Host", "Content-Length", "Expect"} {
		header.Del(name) // the library writes the first two from the fields below
	}
	if len(header["User-Agent"]) == 0 {
		header["User-Agent"] = nil // otherwise the library adds its own
	}
	if len(expects) > 0 {
		if len(expects) > 1 || !strings.EqualFold(expects[0], "100-continue") {
			return nil, false, &refusal{status: http.StatusExpectationFailed, reason: "malformed", text: "the request expects what is unknown"}
		}
		if _, err := io.WriteString(s.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, false, failed("cut", "the connection ended")
		}
	}
	out := (&http.Request{Method: req.method, URL: where, Host: where.Host, Header: header, Body: body, ContentLength: req.length}).WithContext(ctx)
	if req.length == 0 {
		out.Body = nil
	}
	// One exchange per connection: nothing that one request leaves behind can be
	// taken for a part of another's response. RoundTrip follows no redirects.
	once := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return newPatient(up), nil },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHead,
		WriteBufferSize:        bufferSize,
		ReadBufferSize:         bufferSize,
	}
	if up.via != nil { // which is connected to already
		once.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy", User: up.via.User})
	}
	res, err := once.RoundTrip(out)
	var bad *refusal
	switch {
	case err != nil && errors.As(body.state(), &bad):
		return nil, false, bad // the body was malformed
	case err != nil:
		return nil, false, failed("upstream", "the host did not answer as a web server does")
	case res.StatusCode < 200:
		res.Body.Close()
		return nil, false, failed("upstream", "the host changed the protocol")
	}
	return res, again, nil
}

// listed reports whether a comma-separated field has a word.
func listed(lines []string, word string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(lines, ","), ","), func(s string) bool {
		return strings.EqualFold(strings.TrimSpace(s), word)
	})
}

// respond passes a response on as it comes. The agent is told if no other
// request may follow.
func (s *session) respond(req *request, res *http.Response, again bool) error {
	hopByHop(res.Header)
	res.Header.Del("Content-Length")
	empty := req.method == "HEAD" || res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified
	chunked := false
	switch {
	case res.ContentLength >= 0 && res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified:
		res.Header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	case !empty && !req.old:
		chunked = true
		res.Header.Set("Transfer-Encoding", "chunked")
	}
	if !again {
		res.Header.Set("Connection", "close")
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %03d %s\r\n", res.StatusCode, http.StatusText(res.StatusCode))
	if err := res.Header.Write(&head); err != nil {
		return err
	}
	head.WriteString("\r\n")
	if _, err := s.conn.Write(head.Bytes()); err != nil || empty {
		return err
	}
	return s.copyBody(res.Body, chunked)
}

// copyBody passes on what has come as soon as it comes.
func (s *session) copyBody(from io.Reader, chunked bool) error {
	buffer := make([]byte, bufferSize)
	var chunk []byte
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			chunk = chunk[:0]
			if chunked {
				chunk = fmt.Appendf(chunk, "%x\r\n", n)
			}
			chunk = append(chunk, buffer[:n]...)
			if chunked {
				chunk = append(chunk, "\r\n"...)
			}
			if _, err := s.conn.Write(chunk); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if chunked {
		_, err := io.WriteString(s.conn, "0\r\n\r\n")
		return err
	}
	return nil
}

// patient is a connection that reads nothing before the first write. The
// library logs what a host says before it is asked, and its log is the
// operator's.
type patient struct {
	*upstream
	wrote func() // once
	ready chan struct{}
}

func newPatient(up *upstream) *patient {
	ready := make(chan struct{})
	return &patient{upstream: up, ready: ready, wrote: sync.OnceFunc(func() { close(ready) })}
}

// Read waits for the first write.
func (p *patient) Read(b []byte) (int, error) {
	<-p.ready
	return p.upstream.Read(b)
}

// Write lets reads begin.
func (p *patient) Write(b []byte) (int, error) {
	p.wrote()
	return p.upstream.Write(b)
}

// Close ends reads that wait.
func (p *patient) Close() error {
	p.wrote()
	return p.upstream.Close()
}

// hopByHop removes the fields that concern one connection only, also those that
// the field Connection names.
func hopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings"} {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, "Proxy-") {
			h.Del(name)
		}
	}
}
