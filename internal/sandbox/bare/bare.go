// Package bare makes sandboxes without an engine of ours, by direct calls of the
// Docker API or an OCI runtime. Benchmarks compare securebench with it, in the
// same run.
package bare

import "context"

// Floor is a bare runtime. Its methods are safe for concurrent use.
type Floor interface {
	// Name says what it is.
	Name() string
	// Cycle makes, runs and removes one sandbox whose command does nothing.
	Cycle(ctx context.Context) error
	// Task makes, runs and removes a workspace and one sandbox after another for
	// the commands. The first one mounts the workspace.
	Task(ctx context.Context, commands ...[]string) error
	// Close releases what it holds.
	Close() error
}
