// Package ahead reads streams ahead of slow readers, in bounded memory.
package ahead

import (
	"context"
	"sync"

	"securebench/internal/gateway/relay/reply"
)

// Max bounds what is kept of a stream that is not read. The pool bounds it for all
// streams together. A piece of each is kept in any case.
const Max = 1 << 20

// keepSpare is how large a buffer is used again.
const keepSpare = 64 << 10

// Queue carries bytes from one goroutine to another. It must be closed.
type Queue struct {
	pool *reply.Pool // for what is kept

	mu       sync.Mutex
	buf      []byte
	out      []byte // that Take returned last
	held     int64  // of the pool
	ended    bool
	readable chan struct{} // each has room for one signal
	writable chan struct{}
}

// New returns an empty queue, whose memory comes from a pool.
func New(pool *reply.Pool) *Queue {
	return &Queue{pool: pool, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// Put adds a piece, once there is room for it.
func (q *Queue) Put(ctx context.Context, p []byte) error {
	for {
		q.mu.Lock()
		if size := len(q.buf) + len(p); len(q.buf) == 0 || size <= Max && q.pool.Resize(&q.held, int64(size+len(q.out))) {
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

// End says that nothing more is put.
func (q *Queue) End() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	signal(q.readable)
}

// Close gives the memory back.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pool.Resize(&q.held, 0)
}

// Take returns all that is there, which holds until the next call. It is nil at
// the end, and when ctx ends.
func (q *Queue) Take(ctx context.Context) []byte {
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
