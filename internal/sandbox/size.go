package sandbox

import "context"

// Sizer is an engine that knows how large the machine of its sandboxes is.
type Sizer interface {
	// Size measures the machine.
	Size(ctx context.Context) (Size, error)
}

// Size is what a machine has for sandboxes, used or not. 0 is unknown.
type Size struct {
	CPUs   float64 // cores
	Memory int64   // bytes
	// Disk is how many bytes are free where roots that can be written lie; 0
	// also where they are in memory.
	Disk int64
}
