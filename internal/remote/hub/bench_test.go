package hub

import (
	"fmt"
	"sync"
	"testing"

	"securebench/internal/remote"
)

// BenchmarkAttempt measures what an attempt costs beside its two calls, with candidates of
// a few bytes and 64 attempts at a time on one worker.
func BenchmarkAttempt(b *testing.B) {
	f := &fleet{TB: b}
	f.prepare()
	h := f.open()
	f.start(f.invite("a", remote.Produce, remote.Verify), site{slots: 64})
	var wg sync.WaitGroup
	queue := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range queue {
				if _, err := f.attempt(b.Context(), h, fmt.Sprint("task ", i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	queue <- -1
	b.ResetTimer()
	for i := range b.N {
		queue <- i
	}
	close(queue)
	wg.Wait()
}
