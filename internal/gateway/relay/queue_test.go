package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/gateway/relay/wire"
)

// together is what is kept of all streams together.
const together = 16 << 20

// TestFrozenAgentHoldsUpNoStream: while the agent stands still, its other
// streams are read ahead.
func TestFrozenAgentHoldsUpNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(wire.NewPool(together))
		for range 100 {
			if err := q.put(t.Context(), make([]byte, 8<<10)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 100 { // but not without end
			if q.put(ctx, make([]byte, 8<<10)) != nil {
				break
			}
		}
		if n := len(q.take(t.Context())); n < 100*8<<10 || n > maxQueued {
			t.Errorf("%d bytes were read ahead", n)
		}
	})
}

// TestUnreadStreams: what is kept of many streams that nobody reads is bounded for
// all together, and each continues when it is read.
func TestUnreadStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := wire.NewPool(together)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const piece = 32 << 10
		var queues []*queue
		for range 256 {
			q := newQueue(pool)
			queues = append(queues, q)
			go func() {
				for q.put(ctx, make([]byte, piece)) == nil {
				}
			}()
		}
		synctest.Wait()
		all := 0
		for _, q := range queues {
			all += len(q.buf)
		}
		if all > together+len(queues)*piece || all < together {
			t.Errorf("%d bytes are kept", all)
		}
		for _, q := range queues {
			for range 100 {
				if len(q.take(ctx)) < piece {
					t.Fatal("a stream does not continue")
				}
			}
		}
		cancel()
		synctest.Wait()
		var whole int64
		for _, q := range queues {
			q.close()
		}
		if !pool.Resize(&whole, together) {
			t.Error("memory is not given back")
		}
	})
}
