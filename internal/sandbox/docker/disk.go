package docker

import (
	"context"
	"slices"
	"time"

	"github.com/moby/moby/client"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
)

// Most engines have no quota for a writable root, so its size is sampled and a
// box that exceeds its limit is ended. The engine walks all that was written for
// a sample; pauses keep that to a small part of the time.
const (
	rootSampleShare   = 4 // a pause is so many times as long as the sample
	rootSampleTimeout = time.Minute
)

// watchRoot samples the root until ctx ends, and reports on r.full when it is
// too large. Samples that fail are ignored: the container may just have ended.
func (r *run) watchRoot(ctx context.Context) {
	pause := firstSample
	for {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		began := time.Now()
		if r.rootFull(ctx, rootSampleTimeout) {
			close(r.full)
			return
		}
		pause = max(min(sampleEvery, 2*time.Since(r.began)), rootSampleShare*time.Since(began))
	}
}

// measures is how often in a row the engine must fail to measure a root before
// that counts as too large: files that come and go can keep it from one measure.
const measures = 3

// rootFull reports whether the root holds more than the limit, or something that
// the engine cannot measure, such as a path that is too long for it.
func (r *run) rootFull(ctx context.Context, timeout time.Duration) bool {
	cctx, cancel := attended.WithTimeoutCause(ctx, timeout, errNoAnswer)
	defer cancel()
	for range measures {
		res, err := r.box.engine.conn.API.ContainerInspect(cctx, r.box.name, client.ContainerInspectOptions{Size: true})
		if err != nil || res.Container.SizeRw == nil {
			return false
		}
		if size := *res.Container.SizeRw; size >= 0 {
			return size > r.box.limits.Disk
		}
	}
	return true
}

// seeRoot adds the limit on disk to what an ended command ran into, if its root
// is too large.
func (r *run) seeRoot(ctx context.Context, seen []sandbox.End) []sandbox.End {
	if !r.box.writable || slices.Contains(seen, sandbox.DiskLimit) || !r.rootFull(ctx, rootSampleTimeout) {
		return seen
	}
	return append(seen, sandbox.DiskLimit)
}
