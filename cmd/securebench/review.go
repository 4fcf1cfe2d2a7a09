package main

import (
	"fmt"

	"securebench/internal/progress"
)

// showProgress shows the progress of a command that is no run, until the function that it
// returns is called.
func (a *app) showProgress(mode string) (progress.Reporter, func(), error) {
	m, err := progress.ParseMode(mode)
	if err != nil {
		return nil, nil, usageError(fmt.Errorf("--progress: %w", err))
	}
	r := newRenderer(m, a.stderr, progress.Options{})
	a.display.Store(r)
	return r, func() { _ = r.Close() }, nil // the stream remembers write errors
}
