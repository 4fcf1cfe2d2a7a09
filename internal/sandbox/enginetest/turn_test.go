package enginetest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// named is a test of another name, which the end of run ends.
type named struct {
	testing.TB
	name string
	ends []func()
}

func (n *named) Name() string     { return n.name }
func (n *named) Cleanup(f func()) { n.ends = append(n.ends, f) }

func (n *named) end() {
	for _, f := range n.ends {
		f()
	}
}

// TestTurns: tests that use engines wait for one another, also in other processes, and
// parts of one test do not.
func TestTurns(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		here, there := newTurns(dir, 1), newTurns(dir, 1)
		there.waiting = make(chan struct{}, 1)
		first, part, second := &named{TB: t, name: "TestFirst"}, &named{TB: t, name: "TestFirst/part"}, &named{TB: t, name: "TestSecond"}
		here.take(first)
		here.take(part) // it does not wait
		var has atomic.Bool
		go func() { there.take(second); has.Store(true) }()
		time.Sleep(10 * time.Second)
		there.take(&named{TB: t, name: "TestThird"}) // as many as may wait for a turn do
		part.end()
		time.Sleep(10 * time.Second)
		if has.Load() {
			t.Error("the second test did not wait for the first")
		}
		first.end()
		time.Sleep(10 * time.Second)
		if !has.Load() {
			t.Error("the second test has no turn after the first")
		}
		second.end()
	})
}
