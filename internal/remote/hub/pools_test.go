package hub

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/sandbox"
)

// produceIn lets a worker run the agent of a task in an image whose ID begins with a byte.
func (f *fleet) produceIn(h *Hub, id string, image byte) error {
	_, err := h.Produce(f.Context(), agent.Request{View: newTask(f.TB, id).Agent(), Attempt: 1, Dir: id,
		Image: sandbox.Image{Ref: fmt.Sprint("img", image), ID: fmt.Sprintf("sha256:%02x", image)}})
	return err
}

// seen notes which worker had which image.
type seenImages struct {
	mu sync.Mutex
	by map[string]map[string]bool // workers, by image
}

// site is a site that notes its images under a name.
func (s *seenImages) site(name string) site {
	return site{slots: 2, produce: func(_ context.Context, here *site, req agent.Request) (attempt.Produced, error) {
		s.mu.Lock()
		if s.by[req.Image.ID] == nil {
			s.by[req.Image.ID] = map[string]bool{}
		}
		s.by[req.Image.ID][name] = true
		s.mu.Unlock()
		return here.answer(req)
	}}
}

// pooled makes 32 images' jobs, three of each, by three workers, and returns how many
// images were on one worker.
func pooled(t *testing.T, pools int) (once int) {
	f := newFleet(t)
	f.o.Pools, f.o.Share = pools, time.Hour
	h := f.open()
	var jobs sync.WaitGroup
	for image := range 32 {
		for n := range 3 {
			jobs.Go(func() {
				if err := f.produceIn(h, fmt.Sprint("task ", image, " ", n), byte(image)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	awaittest.Until(t, "the jobs", func() bool { return h.Status().Queues[0].Queued == 96 })
	sum := 0
	h.mu.Lock()
	for _, n := range h.queued[remote.Produce] {
		sum += n
	}
	h.mu.Unlock()
	if sum != 96 {
		t.Errorf("%d jobs are counted", sum)
	}
	seen := &seenImages{by: map[string]map[string]bool{}}
	for _, name := range []string{"a", "b", "c"} {
		f.start(f.invite(name, remote.Produce), seen.site(name))
	}
	jobs.Wait()
	for _, by := range seen.by {
		if len(by) == 1 {
			once++
		}
	}
	if text := string(h.metrics()); strings.Count(text, `securebench_jobs_queued{role="produce",pool="`) != pools || strings.Count(text, "\"} 0\nsecurebench_jobs_queued{") != 2*pools-1 {
		t.Errorf("metrics:\n%s", text)
	}
	return once
}

// TestPoolsStay: with pools, images stay on the worker that has them. Without, they are on
// several.
func TestPoolsStay(t *testing.T) {
	t.Parallel()
	if once := pooled(t, remote.MostPools); once != 32 {
		t.Errorf("of 32 images, %d were on one worker only", once)
	}
	if once := pooled(t, 1); once == 32 {
		t.Error("without pools, every image was on one worker only: the test shows nothing")
	}
}

// TestPoolsShare: nobody idles: a worker without jobs helps in a pool in which another one
// works, after a while.
func TestPoolsShare(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	f.o.Pools, f.o.Share = remote.MostPools, time.Millisecond
	h := f.open()
	f.start(f.invite("first", remote.Produce), g.site(1), func(o *worker.Options) { o.Grace = awaittest.Hung })
	done := make(chan error, 8)
	produce := func(id string) { go func() { done <- f.produceIn(h, id, 0x35) }() }
	produce("first")
	<-g.began // the first worker is in this pool, and can take no more
	for n := range 5 {
		produce(fmt.Sprint("more", n))
	}
	f.start(f.invite("second", remote.Produce), site{})
	for range 5 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := g.ran.Load(); n > 1 {
		t.Errorf("the first worker ran %d agents", n)
	}
	close(g.finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPoolOf: a job's pool is that of its image, and a run with few images has one.
func TestPoolOf(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{"sha256:00ff": 0, "sha256:1f00": 15, "sha256:20": 0, "sha256:3a": 10, "": 0, "sha256:": 0, "sha256:x": 0, "none": 0} {
		if got := remote.PoolOf(id, remote.MostPools); got != want {
			t.Errorf("%q is in pool %d, want %d", id, got, want)
		}
		if remote.PoolOf(id, 1) != 0 {
			t.Errorf("%q is not in the only pool", id)
		}
	}
	if remote.Pools(63) != 1 || remote.Pools(64) != remote.MostPools {
		t.Errorf("%d and %d pools", remote.Pools(63), remote.Pools(64))
	}
}
