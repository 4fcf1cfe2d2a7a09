package compile

import (
	"context"

	"securebench/internal/family"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Loaded is a pack whose rows all compile.
type Loaded struct {
	*pack.Pack
	Compiler *Compiler
	Public   string // the plain digest of the public lane
}

// Load loads the pack at loc and checks each row. each, unless nil, is called
// for every row without errors, in file order, with a function that compiles
// the row without checking it again.
func Load(ctx context.Context, loc pack.Location, reg family.Registry, each func(row pack.Row, build func() (task.Task, error))) (*Loaded, error) {
	m, sum, _, err := pack.ReadManifest(loc)
	if err != nil {
		return nil, err
	}
	c, public := New(m, reg), newPublicDigest()
	p, err := pack.Load(ctx, loc, Texts(reg), func(row pack.Row) (errs, warnings source.Problems) {
		if errs, warnings = c.Check(row); len(errs) > 0 {
			return errs, warnings
		}
		public.Add(row)
		if each != nil {
			each(row, func() (task.Task, error) { return c.build(row) })
		}
		return nil, warnings
	})
	if err != nil {
		return nil, err
	}
	if p.Digests.Manifest != sum {
		return nil, &pack.ChangedError{Pos: source.Pos{File: loc.Manifest}, What: "the manifest changed"}
	}
	if fix := c.unknownFamily(m.Family); fix != "" {
		p.Warnings.Add(m.FamilyPos, fix, "manifest.defaults.family %q is not known", m.Family)
	}
	return &Loaded{Pack: p, Compiler: c, Public: public.Sum(p.Digests.PublicAssets)}, nil
}
