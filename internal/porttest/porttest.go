// Package porttest chooses ports for servers of tests that end and come back: nothing
// else takes theirs in between.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"securebench/internal/awaittest"
)

// Pair returns an address of this machine whose port is free, as is the one after it.
// The kernel gives neither to a connection, or to a server that asks for any port: it
// has others for these.
func Pair(t testing.TB) string {
	t.Helper()
	const from, below = 10_000, 32_000
	var addr string
	awaittest.Until(t, "two free ports", func() bool {
		port := from + rand.IntN(below-from)
		addr = fmt.Sprintf("127.0.0.1:%d", port)
		return free(addr) && free(fmt.Sprintf("127.0.0.1:%d", port+1))
	})
	return addr
}

func free(addr string) bool {
	ln, err := net.Listen("tcp", addr)
	return err == nil && ln.Close() == nil
}
