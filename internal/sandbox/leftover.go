package sandbox

import "context"

// Cleaner is an engine that can say what dead processes left on it: what
// [Service.Reap] removes, and whatever else no living process needs.
type Cleaner interface {
	// Left lists it. It lists an object only when it can prove that the process
	// that made it has ended.
	Left(ctx context.Context) ([]Leftover, error)
	// RemoveLeft removes one. An object that is gone is no error.
	RemoveLeft(ctx context.Context, l Leftover) error
}

// Leftover is something that a dead process left.
type Leftover struct {
	Kind string // such as "container"
	Name string
	Size int64 // bytes, 0 if it is not known
}
