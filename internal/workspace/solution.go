package workspace

import (
	"errors"
	"fmt"
	"path"
)

// ForSolution returns the files of a row's own solution: the evaluation file at
// p under its name, or what the folder at p contains. They are read-only.
func ForSolution(p string, opts Options) (*Layout, error) {
	src, err := cleanSource(p)
	if err != nil {
		return nil, fmt.Errorf("solution %q: %w", p, err)
	}
	if opts.Evals == nil {
		return nil, fmt.Errorf("solution %q: %w", p, errors.New("the pack has no evaluation files"))
	}
	whole := Entry{Asset: src, root: opts.Evals, expect: opts.ExpectEvals}
	if err := opts.bring([]Entry{whole}); err != nil {
		return nil, fmt.Errorf("solution %q: %w", p, err)
	}
	info, err := opts.Evals.Lstat(src)
	if err != nil {
		return nil, fmt.Errorf("solution %q: %w", p, blame(opts.ExpectEvals != nil, err))
	}
	dst := path.Base(src)
	if info.IsDir() {
		dst = "."
	}
	b := newBuilder(opts)
	b.entries = []Entry{{Path: dst, Mode: 0o444, Asset: src, root: opts.Evals, expect: opts.ExpectEvals,
		check: func(p string) (string, error) { return path.Clean(p), nil }}}
	return b.layout()
}
