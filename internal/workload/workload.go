// Package workload loads a pack for a command: it checks every row, collects
// the images and users that rows need, and compiles a row again when its turn
// comes.
package workload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/packlint"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// All is the limit of a command that uses every row.
const All = -1

// maxProblems is how many problems of rows are reported together.
const maxProblems = 10

// Demands are a command's requirements for the rows that it uses.
type Demands struct {
	// Image reports whether the row of a task must name an image; nil requires
	// none.
	Image func(family.Family, task.Task) bool
	// AgentImage is the image that agents have instead of the rows', "" for none, and
	// AgentImageAt where it is named.
	AgentImage   string
	AgentImageAt source.Pos
	// Agent returns what the agent of a task has on the engine; nil is nothing.
	Agent func(family.Family, task.Task) capacity.Footprint
	// Task refuses a task that cannot run; nil accepts all.
	Task func(pack.Row, task.Task) error
	// Seen, unless nil, is called with the id of every row, used or not.
	Seen func(id string)
	// Rows reports whether the row at a position is used; nil uses all that the
	// limit leaves.
	Rows func(index int) bool
	// Shots, unless nil, has rows of the pack shown to the agent with their solutions.
	// [ChooseExamples] chooses them, and Examples are those.
	Shots    *Shots
	Examples *Examples
	// Lint adds warnings about checkers that are easy to deceive, and Leaks about
	// copies of hidden files that agents get.
	Lint, Leaks bool
	// Strict turns warnings about the pack into errors.
	Strict bool
	// Blind says that agents get no files.
	Blind bool
	// Unkept says that rows are checked one after the other, and not kept: a million of
	// them take 200 MB.
	Unkept bool
}

// NamesImage demands no image of a row that names none: see [Demands.Image].
func NamesImage(_ family.Family, t task.Task) bool { return t.Environment().Image != "" }

// User is a user as a row names it, in the row's image.
type User struct{ Image, Name string }

// Platform is a platform that a row asks of its image.
type Platform struct{ Image, Name string }

// Row is the part of a used row that is kept between its check and its turn.
type Row struct {
	pack.Ref
	ID    string
	Image string // reference; "" is none
	// CheckedIn are the references of other images that the row's verifier
	// needs. They are evaluation inputs, which are not for publication.
	CheckedIn []string
	Judged    bool // it asks for a judge
}

// Workload is a loaded pack, and what its used rows need.
type Workload struct {
	*compile.Loaded
	Families family.Registry
	Rows     []Row // those that are used, in file order until they are sorted
	// Images and Users are what verifiable rows name, each with its first
	// place.
	Images map[string]source.Pos
	Users  map[User]source.Pos
	// Platforms are what rows ask of their images, each with its first place.
	Platforms map[Platform]source.Pos
	// Loads are what verifiable rows need of the engine's machine, each with the
	// first task.
	Loads map[capacity.Load]string
	// Engine says that verifiable rows need sandboxes, whatever their images.
	Engine bool
	// MathVerify says that verifiable rows compare mathematical expressions.
	MathVerify bool
	// Kinds are what candidates of verifiable rows are.
	Kinds map[task.CandidateKind]bool

	judged, read asking // used rows that a judge decides, and those that it reads answers of

	limit    int
	demands  Demands
	problems source.Problems
}

// asking are the rows that ask a judge for something.
type asking struct {
	rows      int
	decisions int // about a candidate of each
	first     source.Pos
}

// add counts a row.
func (a *asking) add(at source.Pos, decisions int) {
	if a.rows == 0 {
		a.first = at
	}
	a.rows++
	a.decisions += max(1, decisions)
}

// Load reads and checks the whole pack; the first limit rows are
// used.
func Load(ctx context.Context, loc pack.Location, reg family.Registry, limit int, d Demands) (*Workload, error) {
	w := &Workload{Families: reg, limit: limit, demands: d, Images: map[string]source.Pos{}, Users: map[User]source.Pos{}, Platforms: map[Platform]source.Pos{},
		Loads: map[capacity.Load]string{}, Kinds: map[task.CandidateKind]bool{}}
	loaded, err := compile.Load(ctx, loc, reg, w.row)
	if ctx.Err() != nil {
		return nil, fault.As(fault.Interrupted, errors.New("interrupted while reading the pack"))
	}
	if err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	w.Loaded = loaded
	if d.Lint {
		found, err := packlint.Check(ctx, w.Pack, reg)
		if err != nil {
			return nil, fault.As(fault.Pack, err)
		}
		w.Warnings = append(w.Warnings, found...)
		if found, err = loaded.Inspect(ctx); err != nil {
			return nil, fault.As(fault.Pack, err)
		}
		w.Warnings = append(w.Warnings, found...)
	}
	if d.Leaks {
		found, err := packlint.Leaks(ctx, w.Pack)
		if err != nil {
			return nil, fault.As(fault.Pack, err)
		}
		w.Warnings = append(w.Warnings, found...)
	}
	if d.Strict {
		w.problems = append(w.problems, w.Warnings...)
	}
	if d.Lint { // no fault, which Strict would refuse
		w.warnOfJudge()
	}
	return w, fault.As(fault.Pack, w.problems.Err())
}

// warnOfJudge says what rows have of a judge, and lack without one.
func (w *Workload) warnOfJudge() {
	const fix = "give run a judge"
	if n := w.judged.rows; n > 0 {
		w.Warnings.Add(w.judged.first, fix, "asks for a judge, as %d of the pack's rows do: without one they have no verdict, and with one a rate of their own", n)
	}
	if n := w.read.rows; n > 0 {
		w.Warnings.Add(w.read.first, fix, "has a judge read answers that its rule does not find, as %d of the pack's rows do: without one such replies fail, and with one they are counted apart", n)
	}
}

// row records a row, and what it needs if it is used.
func (w *Workload) row(row pack.Row, build func() (task.Task, error)) {
	if w.demands.Seen != nil {
		w.demands.Seen(row.ID)
	}
	if w.limit >= 0 && row.Index >= w.limit || w.demands.Rows != nil && !w.demands.Rows(row.Index) {
		return
	}
	if err := w.demands.Examples.use(row); err != nil {
		w.problem(row.Pos, "ask for fewer examples, or leave its rows out with --family", err)
		return
	}
	t, err := build()
	if err != nil {
		w.problem(row.Pos, "", err)
		return
	}
	fam := w.Families[row.Family]
	judged := fam.Basis(t.Evaluator()) == verdict.Judged
	switch {
	case judged:
		w.judged.add(row.Pos, fam.Decisions)
	case fam.AsksJudge(t.Evaluator()):
		w.read.add(row.Pos, 1)
	}
	if w.demands.Unkept {
		return
	}
	t = w.shown(t)
	w.Rows = append(w.Rows, Row{Ref: row.Ref(), ID: row.ID, Image: t.Environment().Image, Judged: judged})
	if fam.NewVerifier == nil || w.demands.Image == nil {
		return // nothing runs for a row that stays pending
	}
	w.Engine = w.Engine || fam.NeedsEngine
	if w.demands.Image(fam, t) {
		w.image(t.Environment(), row.Pos)
	}
	if ref := w.demands.AgentImage; ref != "" {
		w.image(task.Environment{Image: ref}, w.demands.AgentImageAt)
		w.image(task.Environment{Image: ref, User: t.Environment().User}, row.Pos)
	}
	if fam.Images != nil {
		for _, ref := range fam.Images(t.TestSandbox()) {
			w.image(task.Environment{Image: ref}, row.Pos)
			last := &w.Rows[len(w.Rows)-1]
			last.CheckedIn = append(last.CheckedIn, ref)
		}
	}
	w.MathVerify = w.MathVerify || fam.MathVerify != nil && fam.MathVerify(t.Evaluator())
	w.Kinds[t.Agent().Extraction().Kind] = true
	if l := w.Load(t); w.Loads[l] == "" {
		w.Loads[l] = t.ID()
	}
	if w.demands.Task == nil {
		return
	}
	if err := w.demands.Task(row, t); err != nil {
		w.problem(row.Pos, "", err)
	}
}

// shown returns a task as agents may see it.
func (w *Workload) shown(t task.Task) task.Task {
	if w.demands.Blind {
		return t.Blind()
	}
	return t
}

// Load returns what a task needs of the engine's machine.
func (w *Workload) Load(t task.Task) (l capacity.Load) {
	fam := w.Families[t.Family()]
	if w.demands.Agent != nil {
		l.Agent = w.demands.Agent(fam, t)
	}
	if fam.Footprint != nil {
		l.Verify = fam.Footprint(t.TestSandbox())
	}
	if fam.RunsIn(t) {
		l.Kept, l.Once = fam.Kept, fam.Once
	}
	return l
}

// RowImages returns the references of the images that used rows name, in alphabetical order.
// Those of an agent are not the pack's.
func (w *Workload) RowImages() []string {
	all := map[string]bool{}
	for _, row := range w.Rows {
		all[row.Image] = true
		for _, ref := range row.CheckedIn {
			all[ref] = true
		}
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

// Verifies reports whether any row is verified in a sandbox.
func (w *Workload) Verifies() bool {
	for l := range w.Loads {
		if l.Verify != (capacity.Footprint{}) || l.Kept != (capacity.Footprint{}) {
			return true
		}
	}
	return false
}

// ImageNames returns the name of each image in what is published, by reference:
// the reference itself if the public part of a row has it, else what hide makes
// of it.
func (w *Workload) ImageNames(hide func(ref string) string) map[string]string {
	out := make(map[string]string, len(w.Images))
	for _, row := range w.Rows {
		out[row.Image] = row.Image
	}
	for _, row := range w.Rows {
		for _, ref := range row.CheckedIn {
			if _, public := out[ref]; !public {
				out[ref] = hide(ref)
			}
		}
	}
	return out
}

func (w *Workload) problem(at source.Pos, fix string, err error) {
	if len(w.problems) < maxProblems {
		w.problems.Add(at, fix, "%v", err)
	}
}

func (w *Workload) image(env task.Environment, at source.Pos) {
	if env.Image == "" {
		w.problem(at, "set environment.image in the row or in the manifest's defaults",
			errors.New("environment.image is required: the agent or the verifier runs in it"))
		return
	}
	if _, ok := w.Images[env.Image]; !ok {
		w.Images[env.Image] = at
	}
	if key := (Platform{env.Image, env.Platform}); env.Platform != "" {
		if _, ok := w.Platforms[key]; !ok {
			w.Platforms[key] = at
		}
	}
	if key := (User{env.Image, env.User}); env.User != "" {
		if _, ok := w.Users[key]; !ok {
			w.Users[key] = at
		}
	}
}

// OpenFiles opens the pack's own files for sandboxes. The caller closes them.
func (w *Workload) OpenFiles() (family.Files, error) {
	f, err := family.OpenFiles(w.PublicRoot(), w.EvalRoot(), w.PublicFiles, w.EvalFiles)
	return f, fault.As(fault.Pack, err)
}

// Examples are the rows that are shown to the agent with their solutions; nil is none.
func (w *Workload) Examples() *Examples { return w.demands.Examples }

// Judged is the number of used rows that a judge decides.
func (w *Workload) Judged() int { return w.judged.rows }

// Decisions is how often a judge decides about one candidate of each of those.
func (w *Workload) Decisions() int { return w.judged.decisions }

// JudgeReads is the number of used rows of whose candidates a judge reads the answers that
// the rule does not find.
func (w *Workload) JudgeReads() int { return w.read.rows }

// AsksJudge reports whether a judge may be asked about any used row.
func (w *Workload) AsksJudge() bool { return w.judged.rows+w.read.rows > 0 }

// LeftOut is the number of rows that are not used.
func (w *Workload) LeftOut() int { return w.Count - len(w.Rows) }

// Tasks compiles the used rows for which want is true, each when its turn
// comes; a nil want is all.
func (w *Workload) Tasks(ctx context.Context, want func(Row) bool) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		if len(w.Rows) == 0 {
			return
		}
		rows, err := w.Open()
		if err != nil {
			yield(task.Task{}, unreadable(err))
			return
		}
		defer rows.Close()
		for _, row := range w.Rows {
			if ctx.Err() != nil {
				yield(task.Task{}, context.Cause(ctx))
				return
			}
			if want != nil && !want(row) {
				continue
			}
			t, err := w.compile(rows, row)
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func (w *Workload) compile(rows *pack.Reader, row Row) (task.Task, error) {
	r, err := rows.Row(row.Ref)
	if err != nil {
		return task.Task{}, unreadable(err)
	}
	t, err := w.Compiler.Task(r)
	if err != nil {
		return task.Task{}, fault.As(fault.Pack, fmt.Errorf("%s: %w", r.Pos, err))
	}
	return w.shown(t), nil
}

// unreadable says whether the pack changed or could not be read.
func unreadable(err error) error {
	var changed *pack.ChangedError
	if errors.As(err, &changed) {
		return fault.As(fault.Refused, err)
	}
	return fault.As(fault.Pack, err)
}
