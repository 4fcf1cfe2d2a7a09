package hub

import (
	"fmt"
	"strconv"
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

// BenchmarkAttempt measures what an attempt costs beside its two calls, which take no time,
// with candidates of a few bytes and so many attempts at a time on one worker: the process
// has both ends of TLS.
func BenchmarkAttempt(b *testing.B) {
	for _, atOnce := range []int{2, 64} {
		b.Run(strconv.Itoa(atOnce), func(b *testing.B) { benchmarkAttempt(b, atOnce) })
	}
}

func benchmarkAttempt(b *testing.B, atOnce int) {
	b.Helper()
	f := &fleet{TB: b}
	f.prepare()
	h := f.open()
	f.start(f.invite("a", remote.Produce, remote.Verify), site{slots: atOnce})
	var wg sync.WaitGroup
	queue := make(chan int)
	for range atOnce {
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
	b.ReportMetric(b.Elapsed().Seconds()*1e3*float64(atOnce)/n, "ms/attempt")
	b.ReportMetric(float64((processor(b)-used).Microseconds())/1e3/n, "cpu-ms/attempt")
	w, a := f.messages()
	b.ReportMetric(float64(w-workers)/n, "messages/attempt")
	b.ReportMetric(float64(a-all)/n, "all-messages/attempt")
}
