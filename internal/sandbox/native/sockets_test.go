package native_test

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// unread leaves datagrams unread at many sockets, and then counts what arrived.
const unread = `
import socket, sys
sockets, sent, got = [], 0, 0
for i in range(int(sys.argv[1])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0)); s.setblocking(False)
    sockets.append(s)
    for k in range(2):
        sent += s.sendto(b"x" * 60000, s.getsockname())
for s in sockets:
    try:
        while True: got += len(s.recv(65536))
    except BlockingIOError: pass
print(got)
`

// TestSocketsAreBounded: datagrams that nobody reads take no more memory than a sandbox
// may have for sockets, which is beside its limit with version 1 of control groups. Few
// all arrive; outside of a sandbox, many do.
func TestSocketsAreBounded(t *testing.T) {
	t.Parallel()
	const many, few, each = 700, 20, 2 * 60000
	if got := unreadHere(t, many); got != many*each {
		t.Fatalf("outside %d bytes arrived of %d", got, many*each)
	}
	e := enginetest.Native(t)
	bound := e.Info().Sockets
	if bound == 0 {
		t.Skip("the limit on memory bounds sockets here, or the runtime sets none")
	}
	run := func(sockets int) int {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), User: &sandbox.Nobody,
			Command: []string{"python3", "-I", "-S", "-c", unread, strconv.Itoa(sockets)}, Limits: sandbox.Limits{Memory: 128 << 20, Disk: 16 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if out, err := b.Run(t.Context(), sandbox.Streams{Stdout: &stdout, Stderr: &stderr}); err != nil || out.ExitCode != 0 {
			t.Errorf("got %+v, %v, %s", out, err, &stderr)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		got, err := strconv.Atoi(strings.TrimSpace(stdout.String()))
		if err != nil {
			t.Error(err)
		}
		return got
	}
	if got := run(few); got != few*each {
		t.Errorf("of few datagrams %d bytes arrived of %d", got, few*each)
	}
	if got := run(many); int64(got) > bound {
		t.Errorf("%d bytes stood unread, more than %d", got, bound)
	}
}

// unreadHere does what unread does, in this process.
func unreadHere(t *testing.T, sockets int) (got int) {
	t.Helper()
	var all []net.PacketConn
	payload := make([]byte, 60000)
	for range sockets {
		c, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		for range 2 {
			if _, err := c.WriteTo(payload, c.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range all {
		for range 2 {
			n, _, err := c.ReadFrom(payload)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	}
	return got
}
