package merge

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/pipeline/record"
)

// BenchmarkMerge merges 40,000 records of 8 shards, and verifies the run. It reports the
// most memory that the heap had, for both.
func BenchmarkMerge(b *testing.B) {
	const records, shards = 40_000, 8
	for b.Loop() {
		b.StopTimer()
		k := newKit(b, records/2, 2, shards)
		for i := range shards {
			r := k.start(i)
			var lines []*record.Line
			division := r.manifest.Division()
			for row := range records / 2 {
				for n := 1; n <= 2; n++ {
					if at, _ := division.Of(row, n); at == i {
						l := r.line(row, n, strings.Repeat("x", 1<<10))
						lines = append(lines, l)
					}
				}
			}
			k.check(r.Append(lines...))
			r.end()
		}
		stop := most()
		b.StartTimer()
		start, cpu := time.Now(), worked(b)
		k.merged()
		b.StopTimer()
		b.ReportMetric(time.Since(start).Seconds(), "s/merge")
		b.ReportMetric(worked(b)-cpu, "cpu-s/merge")
		b.ReportMetric(stop(), "MB/merge")
		stop = most()
		start, cpu = time.Now(), worked(b)
		k.said(true)
		b.ReportMetric(time.Since(start).Seconds(), "s/verify")
		b.ReportMetric(worked(b)-cpu, "cpu-s/verify")
		b.ReportMetric(stop(), "MB/verify")
		b.StartTimer()
	}
}

// most looks at the heap until it is asked how much it had at most.
func most() func() float64 {
	var top atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	runtime.GC()
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top.Store(max(top.Load(), m.HeapInuse))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() float64 { close(done); <-ended; return float64(top.Load()) / 1e6 }
}

// worked is the processor time of this process, in seconds.
func worked(b *testing.B) float64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}
