// Package wire carries the requests of this program to its helper in a sandbox, and the
// answers. It is the only protocol between the two.
//
// A stream of bytes, such as the attached standard input and output of the sandbox, carries
// HTTP/2, with the helper as the server, so every request has a window of its own and a
// limit on what either side buffers. Messages are JSON and decoded strictly. A request that
// the parent should not have made is answered with status 400 and a text. What the helper
// sends is bounded and checked: it can have been taken over.
package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"securebench/internal/bounded"
)

// Limits of the protocol, in bytes.
const (
	MaxReply  = 16 << 10 // of a message that answers, and of a head
	MaxText   = 4096     // of a text in an answer
	FrameSize = 64 << 10

	clientWindow = 128 << 10 // of each answer, and of the connection
	serverWindow = 64 << 10  // of each request
)

// ErrInvalid is wrapped by the errors about what the other side may not send.
var ErrInvalid = errors.New("invalid message")

// Refusal is the error of a request that was answered with a text.
type Refusal struct{ Text string }

// Error quotes the text.
func (r *Refusal) Error() string { return fmt.Sprintf("the sandbox refuses: %q", r.Text) }

// Conn is the parent's end. It is safe for concurrent use.
type Conn struct {
	stream *stream
	http   *http.ClientConn
}

// Dial makes the parent's end of a stream, which the caller closes if that fails. The other
// end has to be read from.
func Dial(rw io.ReadWriteCloser) (*Conn, error) {
	s := newStream(rw, rw, rw.Close)
	t := &http.Transport{Protocols: http2Only(), DisableCompression: true, MaxResponseHeaderBytes: MaxReply,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return s, nil },
		HTTP2: &http.HTTP2Config{MaxReadFrameSize: FrameSize, MaxReceiveBufferPerStream: clientWindow,
			StrictMaxConcurrentRequests: true}}
	cc, err := t.NewClientConn(context.Background(), "http", "helper:80")
	if err != nil {
		return nil, fmt.Errorf("connecting to the sandbox: %w", err)
	}
	return &Conn{s, cc}, nil
}

// Close closes the stream. Requests in progress end with an error.
func (c *Conn) Close() error { return c.http.Close() }

// Send makes a request and returns the answer, whose body the caller closes. The error is
// a [*Refusal], wraps [ErrInvalid], or is one of ctx or the stream.
func (c *Conn) Send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://helper"+path, body)
	if err != nil {
		return nil, err
	}
	res, err := c.http.RoundTrip(req)
	if err != nil {
		if end := c.stream.end.Load(); end != nil && ctx.Err() == nil && !errors.Is(*end, io.EOF) {
			err = *end // which says more
		}
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		return nil, fmt.Errorf("status %d: %w", res.StatusCode, ErrInvalid)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, MaxText))
	if err != nil {
		return nil, err
	}
	return nil, &Refusal{string(bytes.TrimSpace(text))}
}

// Ask makes a request and returns the body of the answer, of at most limit bytes.
func (c *Conn) Ask(ctx context.Context, method, path string, body io.Reader, limit int) ([]byte, error) {
	res, err := c.Send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := bounded.ReadAll(res.Body, int64(limit))
	if errors.Is(err, bounded.ErrTooLong) {
		err = fmt.Errorf("an answer of more than %d bytes: %w", limit, ErrInvalid)
	}
	return b, err
}

// Serve answers the requests that arrive on in until that ends. At most streams are open
// at a time, and the bodies of some of them fit into the window of the connection, so one
// that is not read holds up no other.
func Serve(in io.Reader, out io.Writer, h http.Handler, streams, bodies int) error {
	s := http.Server{Handler: h, Protocols: http2Only(), MaxHeaderBytes: MaxReply, ErrorLog: log.New(io.Discard, "", 0),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams, MaxReadFrameSize: FrameSize,
			MaxReceiveBufferPerConnection: bodies*serverWindow + 512<<10, MaxReceiveBufferPerStream: serverWindow}}
	if err := s.Serve(newStream(in, out, func() error { return nil })); !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving requests: %w", err)
	}
	return nil
}

// Answer says that a request was carried out, or why not.
func Answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, bounded.Text(err.Error(), MaxText/8), http.StatusBadRequest)
	}
}

// Reply answers a request with a message.
func Reply[M Message](w http.ResponseWriter, m M) {
	b, err := Encode(m)
	if err != nil {
		Answer(w, err)
		return
	}
	_, _ = w.Write(b) // the connection has ended if this fails
}

// Message is what crosses the connection as JSON. Check refuses what the other side may
// not send.
type Message interface{ Check() error }

// Decode reads a message strictly: one value, no unknown and no repeated names.
func Decode[M Message](b []byte) (M, error) {
	var m M
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true), jsonv1.FormatDurationAsNano(true)); err != nil {
		return m, fmt.Errorf("decoding a message: %w", err)
	}
	return m, m.Check()
}

// Encode writes a message.
func Encode[M Message](m M) ([]byte, error) {
	b, err := json.Marshal(m, jsonv1.FormatDurationAsNano(true))
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	return b, nil
}

func http2Only() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// stream is a connection over a reader and a writer, and the listener that accepts it and
// then its end.
type stream struct {
	r        io.Reader
	w        io.Writer
	close    func() error
	end      atomic.Pointer[error] // of the reader
	accepted atomic.Bool
	once     sync.Once
	closed   chan struct{}
}

func newStream(r io.Reader, w io.Writer, end func() error) *stream {
	return &stream{r: r, w: w, close: end, closed: make(chan struct{})}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil {
		s.end.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (s *stream) Write(p []byte) (int, error) { return s.w.Write(p) }

func (s *stream) Accept() (net.Conn, error) {
	if s.accepted.Swap(true) {
		<-s.closed
		return nil, io.EOF
	}
	return s, nil
}

func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.close()
}

func (s *stream) Addr() net.Addr                   { return &net.UnixAddr{Name: "helper"} }
func (s *stream) LocalAddr() net.Addr              { return s.Addr() }
func (s *stream) RemoteAddr() net.Addr             { return s.Addr() }
func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }
