package native_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
)

// BenchmarkCycle measures a box that has a workspace from Open to Close, and in turn the
// bare runtime with the same specification, whose mounts are there already.
func BenchmarkCycle(b *testing.B) {
	e := enginetest.Native(b)
	spec := sandbox.Spec{Image: enginetest.Image(b, e), User: &sandbox.Nobody, Command: []string{"true"}}
	w, err := e.Workspace(b.Context(), sandbox.WorkspaceSpec{})
	if err != nil {
		b.Fatal(err)
	}
	spec.Mounts = []sandbox.Mount{{Workspace: w, Target: "/workspace"}}
	bare, closeBare, err := e.Bare(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	var ours, floor []time.Duration
	for b.Loop() {
		floor = append(floor, timed(b, bare))
		ours = append(ours, timed(b, func() error { return cycle(b, e, spec) }))
	}
	if err := errors.Join(closeBare(), w.Close(b.Context())); err != nil {
		b.Fatal(err)
	}
	slices.Sort(ours)
	slices.Sort(floor)
	at := func(all []time.Duration, percent int) float64 {
		return float64(all[min(len(all)*percent/100, len(all)-1)].Microseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(ours, 50), "p50-ms")
	b.ReportMetric(at(ours, 99), "p99-ms")
	b.ReportMetric(at(floor, 50), "bare-p50-ms")
	b.ReportMetric(at(floor, 99), "bare-p99-ms")
	b.ReportMetric(at(ours, 50)/at(floor, 50), "ratio")
	b.ReportMetric(at(ours, 99)/at(floor, 99), "p99-ratio")
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	began := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// cycle opens, runs and closes a box.
func cycle(tb testing.TB, e *native.Engine, spec sandbox.Spec) error {
	box, err := e.Open(tb.Context(), spec)
	if err != nil {
		return err
	}
	if _, err := box.Run(tb.Context(), sandbox.Streams{}); err != nil {
		return err
	}
	return box.Close(tb.Context())
}
