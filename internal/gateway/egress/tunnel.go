package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"securebench/internal/gateway/ledger"
)

// tunnel serves CONNECT. The proxy does not see what goes through a tunnel, so
// it holds the agent to the host that the TLS handshake names.
func (s *session) tunnel(ctx context.Context, req *request, e *ledger.Entry) bool {
	if len(req.header["Content-Length"])+len(req.header["Transfer-Encoding"]) > 0 {
		return s.refuse(e, malformed("CONNECT has no body"))
	}
	host, port, ok := parseAuthority(req.target, 443)
	if !ok {
		return s.refuse(e, malformed("the target's host or port is invalid"))
	}
	e.Target = net.JoinHostPort(host, strconv.Itoa(port))
	up, r := s.open(ctx, host, port, 443, e)
	if r != nil {
		return s.refuse(e, r)
	}
	defer up.end(e)
	e.Allowed, e.Status = true, http.StatusOK
	if _, err := io.WriteString(s.conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		return false
	}
	server := bufio.NewReaderSize(up, bufferSize)
	if err := s.handshake(up, server, host); err != nil {
		s.endHandshake(e, err)
		return false
	}
	s.carry(up, server)
	return false
}

// open decides on a host and port, and connects.
func (s *session) open(ctx context.Context, host string, port, wanted int, e *ledger.Entry) (*upstream, *refusal) {
	mirror := s.proxy.mirror(host, port, wanted)
	if port != wanted && !mirror {
		return nil, denied("port", "this port is not allowed")
	}
	if !s.proxy.domains.allow(host) {
		return nil, denied("host", "this host is not in allowed_domains")
	}
	up := &upstream{}
	var r *refusal
	if up.via, r = s.proxy.via(host, port, wanted == 443); r != nil {
		return nil, r
	}
	if up.via == nil {
		var address netip.AddrPort
		up.Conn, address, r = s.proxy.connect(ctx, host, port, mirror)
		e.Address = address.String()
	} else if r = s.proxy.checkVia(ctx, host, mirror); r == nil {
		up.Conn, r = s.proxy.through(ctx, up.via, host, port, wanted == 443)
		e.Address = up.via.Host
	}
	if r != nil {
		e.Address = ""
		return nil, r
	}
	conn := up.Conn
	up.stop = context.AfterFunc(ctx, func() { conn.Close() })
	return up, nil
}

// errRefusedName is a handshake with another host than that of CONNECT.
var errRefusedName = errors.New("the ClientHello names another host")

// handshake passes on the first messages of both sides, as long as the host
// could still change: after a server's request for a second ClientHello, the
// second one is checked as the first.
func (s *session) handshake(up *upstream, server *bufio.Reader, host string) error {
	for first := true; ; first = false {
		raw, name, err := readHello(s.r)
		if err == nil && name != host {
			err = errRefusedName
		}
		if err != nil {
			return err
		}
		if _, err := up.Write(raw); err != nil {
			return err
		}
		record, err := firstRecord(server)
		if err != nil || !first || !isRetry(record) {
			return nil // the copies that follow meet the same error
		}
		if _, err := s.conn.Write(record); err != nil {
			return err
		}
		if err := s.untilHello(up); err != nil {
			return err
		}
	}
}

// firstRecord waits for a server's first record. If it may be a request for
// another ClientHello, it is taken and returned, and otherwise left.
func firstRecord(server *bufio.Reader) ([]byte, error) {
	header, err := server.Peek(recordHeader)
	if err != nil {
		return nil, err
	}
	size := recordHeader + int(binary.BigEndian.Uint16(header[3:]))
	if header[0] != recordHandshake || size > maxRetry {
		return nil, nil
	}
	record, err := server.Peek(size)
	if err != nil || !isRetry(record) {
		return nil, err
	}
	record = append([]byte(nil), record...)
	_, err = server.Discard(size)
	return record, err
}

// maxRetry bounds a server's request for a second ClientHello, which has a few
// short extensions, and fits into the reader's buffer.
const maxRetry = 4 << 10

// untilHello passes on what an agent may send before its second ClientHello:
// early data, and the message that middle boxes expect.
func (s *session) untilHello(up *upstream) error {
	for {
		header, err := s.r.Peek(recordHeader)
		if err != nil {
			return err
		}
		if header[0] != recordCipher && header[0] != recordData {
			return nil
		}
		size := recordHeader + int64(binary.BigEndian.Uint16(header[3:]))
		if _, err := io.CopyN(up, s.r, size); err != nil {
			return err
		}
	}
}

// endHandshake says why a tunnel ends before it carries anything. The agent
// gets an alert that TLS libraries name.
func (s *session) endHandshake(e *ledger.Entry, err error) {
	switch {
	case errors.Is(err, errRefusedName), errors.Is(err, errName):
		e.Allowed, e.Reason = false, "sni"
	case errors.Is(err, errECH):
		e.Allowed, e.Reason = false, "ech"
	case errors.Is(err, errNotTLS):
		e.Allowed, e.Reason = false, "not_tls"
	default:
		e.Reason = "cut"
		return
	}
	const unrecognizedName = "\x15\x03\x01\x00\x02\x02\x70"
	if _, err := io.WriteString(s.conn, unrecognizedName); err == nil {
		s.linger(nil)
	}
}

// carry copies both ways until both sides have ended. Neither direction's
// silence ends the other.
func (s *session) carry(up *upstream, server *bufio.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() { s.pass(up, up, s.r) })
	s.pass(up, s.conn, server)
	wg.Wait()
}

// pass copies from one side to the other. The end of the one ends its direction
// of the other; a failure breaks both.
func (s *session) pass(up *upstream, to net.Conn, from io.Reader) {
	if _, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}); err != nil {
		up.Close()
		s.conn.Close()
		return
	}
	closeWrite(to)
}

// upstream is a connection to a host, with counts of its bytes.
type upstream struct {
	net.Conn
	via            *url.URL // the operator's proxy, nil for none
	sent, received atomic.Int64
	stop           func() bool
}

// Read counts.
func (u *upstream) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	u.received.Add(int64(n))
	return n, err
}

// Write counts.
func (u *upstream) Write(p []byte) (int, error) {
	n, err := u.Conn.Write(p)
	u.sent.Add(int64(n))
	return n, err
}

// CloseWrite ends the direction to the host.
func (u *upstream) CloseWrite() error {
	closeWrite(u.Conn)
	return nil
}

// end closes the connection and tells the ledger what went through it.
func (u *upstream) end(e *ledger.Entry) {
	u.stop()
	u.Close()
	e.Sent, e.Received = u.sent.Load(), u.received.Load()
}
