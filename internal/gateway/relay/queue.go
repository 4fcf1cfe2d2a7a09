package relay

import (
	"context"
	"sync"

	"securebench/internal/gateway/relay/wire"
)

// maxQueued bounds what is kept of a stream that is not read. The pool bounds it for all
// streams together. A piece of each is kept in any case.
const maxQueued = 1 << 20

// keepSpare is how large a buffer is used again.
const keepSpare = 64 << 10

// queue reads a stream ahead of a slow reader, in bounded memory: it carries bytes from
// one goroutine to another. It must be closed.
type queue struct {
	pool *wire.Pool // for what is kept

	mu       sync.Mutex
	buf      []byte
	out      []byte // that take returned last
	held     int64  // of the pool
	ended    bool
	readable chan struct{} // each has room for one signal
	writable chan struct{}
}

// newQueue returns an empty queue, whose memory comes from a pool.
func newQueue(pool *wire.Pool) *queue {
	return &queue{pool: pool, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// put adds a piece, once there is room for it.
func (q *queue) put(ctx context.Context, p []byte) error {
	for {
		q.mu.Lock()
		if size := len(q.buf) + len(p); len(q.buf) == 0 || size <= maxQueued && q.pool.Resize(&q.held, int64(size+len(q.out))) {
			q.buf = append(q.buf, p...)
			q.mu.Unlock()
			signal(q.readable)
			return nil
		}
		q.mu.Unlock()
		select {
		case <-q.writable:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end says that nothing more is put.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	signal(q.readable)
}

// close gives the memory back.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pool.Resize(&q.held, 0)
}

// take returns all that is there, which holds until the next call. It is nil at
// the end, and when ctx ends.
func (q *queue) take(ctx context.Context) []byte {
	for {
		q.mu.Lock()
		if out := q.buf; len(out) > 0 {
			if q.buf = q.out[:0]; cap(q.buf) > keepSpare {
				q.buf = nil
			}
			q.out = out
			q.pool.Resize(&q.held, min(q.held, int64(len(out))))
			q.mu.Unlock()
			signal(q.writable)
			return out
		}
		ended := q.ended
		q.mu.Unlock()
		if ended {
			return nil
		}
		select {
		case <-q.readable:
		case <-ctx.Done():
			return nil
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
