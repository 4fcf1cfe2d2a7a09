package enginetest

import (
	"context"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/bare"
)

// Floor measures the bare engine: the sandboxes that one task needs by design,
// made without this project's code. Every command is "true".
type Floor struct{ *bare.Docker }

// NewFloor connects to the engine.
func NewFloor(t testing.TB, img sandbox.Image) *Floor {
	t.Helper()
	f, err := bare.NewDocker(img.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &Floor{f}
}

// Task makes, runs and removes the sandboxes of one task: an agent that mounts a
// volume, and a candidate sandbox.
func (f *Floor) Task(ctx context.Context) error {
	return f.Docker.Task(ctx, []string{"true"}, []string{"true"})
}
