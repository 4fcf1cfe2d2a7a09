package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion"
	"securebench/internal/family/deferred"
	"securebench/internal/family/freeresponse"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/repopatch"
	"securebench/internal/family/shortanswer"
	"securebench/internal/family/terminaltask"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
)

// families is the registry: adding a family means one line here.
func families() family.Registry {
	return family.NewRegistry(append(deferred.Families(),
		multiplechoice.Family(),
		shortanswer.Family(),
		freeresponse.Family(),
		codecompletion.Family(),
		repopatch.Family(),
		terminaltask.Family(),
	)...)
}

// locate turns a PACK argument into a pack's files: a folder, a manifest, or
// a tester YAML, whose configuration then comes along.
func locate(arg string, checks ...config.Check) (pack.Location, *config.Tester, error) {
	if isTester(arg) {
		t, err := config.LoadTester(arg, checks...)
		if err != nil {
			return pack.Location{}, nil, coded(exitConfig, err)
		}
		return pack.Location{Manifest: t.Manifest, Tasks: t.Tasks}, t, nil
	}
	loc, err := pack.Locate(arg)
	return loc, nil, coded(exitPack, err)
}

// isTester tells a tester YAML from a manifest by the key that only the
// former has.
func isTester(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
		return false
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	n, err := source.ParseYAML(path, data)
	return err == nil && n.Get("schema_version") != nil
}

// inputs is a loaded pack and what a run needs to know of its rows.
type inputs struct {
	*compile.Loaded
	families family.Registry
	limit    int // rows that count; below 0 is all
	// images are the references that the counted rows name, with the first
	// place of each.
	images map[string]source.Pos
	// imageless are the places of counted rows that name no image although
	// something needs one.
	imageless []source.Pos
}

// demands say what a command needs of the rows that it is to run.
type demands struct {
	// image says which families' rows must name an image; nil is none.
	image func(family.Family) bool
}

// loadPack reads and checks the whole pack.
func loadPack(ctx context.Context, loc pack.Location, limit int, d demands) (*inputs, error) {
	in := &inputs{families: families(), limit: limit, images: map[string]source.Pos{}}
	loaded, err := compile.Load(ctx, loc, in.families, func(row pack.Row) {
		if d.image != nil && (limit < 0 || row.Index < limit) {
			in.note(row, d.image)
		}
	})
	if ctx.Err() != nil {
		return nil, coded(exitInterrupted, errors.New("interrupted while reading the pack"))
	}
	in.Loaded = loaded
	return in, coded(exitPack, err)
}

func (in *inputs) note(row pack.Row, needsImage func(family.Family) bool) {
	fam := in.families[row.Family]
	if fam.NewVerifier == nil || !needsImage(fam) {
		return // a row without a verifier stays pending: nothing runs for it
	}
	var ref string
	if n := row.Environment.Get("image"); n != nil {
		ref = strings.TrimSpace(n.Text)
	}
	if ref == "" {
		in.imageless = append(in.imageless, row.Pos)
	} else if _, ok := in.images[ref]; !ok {
		in.images[ref] = row.Pos
	}
}

// checkImages refuses rows that name no image.
func (in *inputs) checkImages(why string) error {
	if len(in.imageless) == 0 {
		return nil
	}
	var ps source.Problems
	for _, pos := range in.imageless[:min(10, len(in.imageless))] {
		ps.Add(pos, "set environment.image in the row or in the manifest's defaults", "environment.image is required: %s", why)
	}
	return coded(exitPack, ps.Err())
}

// checkTasks applies a rule to every counted task that will run, before the
// first one does. It stops after ten problems.
func (in *inputs) checkTasks(ctx context.Context, rule func(task.AgentView) error) error {
	var ps source.Problems
	for t, err := range in.tasks(ctx) {
		if err != nil {
			return err
		}
		if in.families[t.Family()].NewVerifier == nil {
			continue
		}
		if err := rule(t.Agent()); err != nil {
			ps.Add(source.Pos{File: in.Tasks, Line: t.Line()}, "", "%v", err)
		}
		if len(ps) >= 10 {
			break
		}
	}
	return coded(exitConfig, ps.Err())
}

// count is the number of rows that count.
func (in *inputs) count() int {
	if in.limit >= 0 {
		return min(in.limit, in.Count)
	}
	return in.Count
}

// tasks compiles the counted rows while it streams them.
func (in *inputs) tasks(ctx context.Context) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		n := in.count()
		if n == 0 {
			return
		}
		for row, err := range in.Rows(ctx) {
			if err != nil {
				yield(task.Task{}, coded(exitPack, err))
				return
			}
			t, err := in.Compiler.Task(row)
			if err != nil {
				yield(task.Task{}, coded(exitPack, fmt.Errorf("%s: %w", row.Pos, err)))
				return
			}
			if !yield(t, nil) || row.Index+1 >= n {
				return
			}
		}
	}
}
