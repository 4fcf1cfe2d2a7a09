package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"

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
	if err != nil {
		err = fmt.Errorf("%w (PACK is a folder with manifest.yaml and tasks.jsonl, a manifest, or a tester YAML)", err)
	}
	return loc, nil, coded(exitPack, err)
}

// isTester tells a tester YAML from a manifest by the key that only the
// former has.
func isTester(path string) bool {
	data, err := source.ReadFile(path, 1<<20)
	if err != nil {
		return false
	}
	n, err := source.ParseYAML(path, data)
	if err != nil { // its own reader will say what is wrong with it
		return schemaVersion.Match(data)
	}
	return n.Get("schema_version") != nil
}

// schemaVersion finds the key that tells a tester YAML from a manifest.
var schemaVersion = regexp.MustCompile(`(?m)^["']?schema_version\b`)

// inputs is a loaded pack and what a run needs to know of its rows.
type inputs struct {
	*compile.Loaded
	families family.Registry
	limit    int // rows that count; below 0 is all
	// images and users are what the counted rows name, with the first place
	// of each.
	images map[string]source.Pos
	users  map[imageUser]source.Pos
	// problems are the first of what keeps counted rows from running.
	problems source.Problems
}

// imageUser is a user as a row names it, in the row's image.
type imageUser struct{ image, user string }

// maxProblems is how many problems of rows are reported at once.
const maxProblems = 10

// demands say what a command asks of the rows that it is to run.
type demands struct {
	// image says which families' rows must name an image; nil is none.
	image func(family.Family) bool
	// task refuses a row that cannot run; nil is none.
	task func(pack.Row, task.AgentView) error
	// seen is told of every row's id, counted or not; nil is nobody.
	seen func(id string)
	// strict makes an error of every warning about the pack.
	strict bool
}

// loadPack reads and checks the whole pack.
func loadPack(ctx context.Context, loc pack.Location, limit int, d demands) (*inputs, error) {
	in := &inputs{families: families(), limit: limit,
		images: map[string]source.Pos{}, users: map[imageUser]source.Pos{}}
	loaded, err := compile.Load(ctx, loc, in.families, func(c *compile.Compiler, row pack.Row) {
		if d.seen != nil {
			d.seen(row.ID)
		}
		if d.image != nil && (limit < 0 || row.Index < limit) {
			in.note(c, row, d)
		}
	})
	if ctx.Err() != nil {
		return nil, coded(exitInterrupted, errors.New("interrupted while reading the pack"))
	}
	if err != nil {
		return nil, coded(exitPack, err)
	}
	in.Loaded = loaded
	if d.strict {
		in.problems = append(in.problems, in.Warnings...)
	}
	return in, coded(exitPack, in.problems.Err())
}

// note collects what a counted row needs.
func (in *inputs) note(c *compile.Compiler, row pack.Row, d demands) {
	fam := in.families[row.Family]
	if fam.NewVerifier == nil || len(in.problems) >= maxProblems {
		return // a row without a verifier stays pending: nothing runs for it
	}
	t, err := c.Task(row)
	if err != nil {
		in.problems.Add(row.Pos, "", "%v", err)
		return
	}
	if d.image(fam) {
		in.noteImage(t.Environment(), row.Pos)
	}
	if d.task == nil {
		return
	}
	if err := d.task(row, t.Agent()); err != nil {
		in.problems.Add(row.Pos, "", "%v", err)
	}
}

func (in *inputs) noteImage(env task.Environment, at source.Pos) {
	if env.Image == "" {
		in.problems.Add(at, "set environment.image in the row or in the manifest's defaults",
			"environment.image is required: the agent or the verifier runs in it")
		return
	}
	if _, ok := in.images[env.Image]; !ok {
		in.images[env.Image] = at
	}
	if key := (imageUser{env.Image, env.User}); env.User != "" {
		if _, ok := in.users[key]; !ok {
			in.users[key] = at
		}
	}
}

// count is the number of rows that count.
func (in *inputs) count() int {
	if in.limit >= 0 {
		return min(in.limit, in.Count)
	}
	return in.Count
}

// leftOut is the number of rows that a flag left out.
func (in *inputs) leftOut() int { return in.Count - in.count() }

// tasks compiles the counted rows while it streams them.
func (in *inputs) tasks(ctx context.Context) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		n := in.count()
		if n == 0 {
			return
		}
		for row, err := range in.Rows(ctx) {
			if err != nil {
				yield(task.Task{}, changed(err))
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

// files opens the pack's own files for the sandboxes of a run.
func (in *inputs) files() (family.Files, error) {
	f, err := family.OpenFiles(in.PublicRoot(), in.EvalRoot(), in.PublicFiles, in.EvalFiles)
	return f, coded(exitPack, err)
}

// changed gives a pack that changed under a run its exit code.
func changed(err error) error {
	var c *pack.ChangedError
	if errors.As(err, &c) {
		return coded(exitRefused, err)
	}
	return coded(exitPack, err)
}
