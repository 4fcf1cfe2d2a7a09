package hub

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"securebench/internal/remote"
)

// processor is how long this process has had a processor.
func processor(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// messages counts what has passed between the queue and the workers, and in all.
func (f *fleet) messages() (workers, all int64) {
	f.Helper()
	c, err := f.hub.broker.server.Connz(&server.ConnzOptions{State: server.ConnAll, Limit: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	for _, conn := range c.Conns {
		n := conn.InMsgs + conn.OutMsgs
		if all += n; conn.Name != "run" {
			workers += n
		}
	}
	return workers, all
}

// BenchmarkAttempt measures what an attempt costs beside its two calls, with candidates of
// a few bytes and 64 attempts at a time on one worker: the process has both ends of TLS.
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
	used := processor(b)
	workers, all := f.messages()
	for i := range b.N {
		queue <- i
	}
	close(queue)
	wg.Wait()
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "attempts/s")
	b.ReportMetric(float64((processor(b)-used).Microseconds())/1e3/n, "cpu-ms/attempt")
	w, a := f.messages()
	b.ReportMetric(float64(w-workers)/n, "messages/attempt")
	b.ReportMetric(float64(a-all)/n, "all-messages/attempt")
}
