package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// The ways to resume.
const (
	resumeStrict  = "strict"        // refuse if inputs changed
	resumeChanged = "rerun-changed" // run again what the change affects
)

// lockOutput makes sure that the output directory is ours alone, and that
// there is a key to sign with.
func (x *execution) lockOutput() (err error) {
	x.dir, err = record.Open(x.tester.OutputDir)
	if errors.Is(err, record.ErrLocked) {
		return coded(exitRefused, fmt.Errorf("%w: %s (wait for it, or choose another --output-dir)", err, redact.Quote(x.tester.OutputDir)))
	}
	if err == nil {
		err = x.dir.Foreign()
	}
	if err != nil {
		return coded(exitRefused, x.outputError(err))
	}
	ring, err := openKeyring()
	if err != nil {
		return keyError(err)
	}
	key, created, err := ring.Signing()
	if err != nil {
		return keyError(err)
	}
	x.key = key
	if created {
		x.app.say("made a key to sign runs with: %s (see securebench key)", x.key.Public().ID)
	}
	return nil
}

// outputError gives a failure of the output directory its exit code.
func (x *execution) outputError(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return coded(exitRefused, fmt.Errorf("%w (choose an --output-dir that can be written)", err))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return coded(exitInfra, fmt.Errorf("%s; make room, then: %s", cause(err), x.app.resumeCommand()))
	case errors.Is(err, record.ErrForeign), errors.Is(err, source.ErrNotRegular):
		return coded(exitRefused, fmt.Errorf("%s: %w (move it away, or choose another --output-dir)", redact.Quote(x.tester.OutputDir), err))
	case errors.Is(err, record.ErrIntegrity):
		return coded(exitIntegrity, err)
	}
	return err
}

// cause is the first thing that went wrong. What joins it is of the clean-up
// after it, and would stand between the operator and what to do.
func cause(err error) string { return errorLines(err)[0] }

// openOutput begins the run, or goes on with the one that is there.
func (x *execution) openOutput(ctx context.Context) error {
	if x.flags.resume == "" {
		return x.begin(ctx, x.flags.force)
	}
	former, err := x.dir.Former()
	if err != nil {
		return fmt.Errorf("%w (give --force to move it to history/ and start anew)", err)
	}
	if former == nil {
		x.warn("nothing to resume in %s: the run starts", redact.Quote(x.tester.OutputDir))
		return x.begin(ctx, true)
	}
	if x.store, err = candidate.OpenStore(x.dir.StorePath()); err != nil {
		return err
	}
	return x.resume(ctx, former)
}

// begin starts a new run.
func (x *execution) begin(ctx context.Context, force bool) error {
	err := x.dir.Begin(force)
	if errors.Is(err, record.ErrExists) {
		return coded(exitRefused, fmt.Errorf("%s holds a run already: give --resume to go on with it, --force to move it to history/, or another --output-dir", redact.Quote(x.tester.OutputDir)))
	}
	if err != nil {
		return err
	}
	if x.store, err = candidate.OpenStore(x.dir.StorePath()); err != nil {
		return err
	}
	if x.manifest, err = x.newManifest(ctx); err != nil {
		return err
	}
	if err := x.writeInputs(); err != nil {
		return err
	}
	return x.dir.WriteManifest(&x.manifest)
}

// resume checks what an earlier part of the run left, and goes on with what
// can be believed of it.
func (x *execution) resume(ctx context.Context, former *record.Former) (err error) {
	if x.manifest, err = x.newManifest(ctx); err != nil {
		return err
	}
	if err := x.sameInputs(former); err != nil {
		return err
	}
	rows, err := x.plannedRows(ctx)
	if err != nil {
		return err
	}
	plan, err := former.Review(func(e record.Entry) string { return x.judge(rows, former, e) })
	if err != nil {
		return fmt.Errorf("%w: %w", record.ErrIntegrity, err)
	}
	// A kill may have left folders that hold nothing beside a run that is whole.
	if err := x.dir.Tidy(); err != nil {
		return err
	}
	if err := x.checkSeal(ctx, former, plan); err != nil {
		return err
	}
	x.tellDropped(plan)
	if err := plan.EachKept(func(e record.Entry) { x.kept = append(x.kept, pipeline.FinalOf(e.Line)) }); err != nil {
		return err
	}
	m := &x.manifest
	m.Started, m.ResumedFrom = former.Manifest.Started, former.Manifest.ResumedFrom
	m.FormerRuns = max(m.FormerRuns, former.Manifest.FormerRuns)
	if former.Sealed && len(x.kept) == x.planned() && len(plan.Rerun) == 0 {
		x.warn("nothing to resume: all %s of the run are recorded and signed", plural(x.planned(), "attempt"))
		x.finished = true
		return nil
	}
	m.ResumedFrom = append(m.ResumedFrom, plan.Resumption(now()))
	if err := x.dir.Continue(plan, m); err != nil {
		return err
	}
	return x.writeInputs()
}

// sameInputs refuses to resume a run of other inputs, each named.
func (x *execution) sameInputs(former *record.Former) error {
	diffs := x.differences(former.Manifest)
	was, is := former.Manifest, x.manifest
	if was.RunID != is.RunID || was.Pack.ID != is.Pack.ID || was.Agent != is.Agent {
		return coded(exitRefused, fmt.Errorf("%s holds run %q of pack %q with agent %q, this is %q of %q with %q: choose another --output-dir, or --force",
			redact.Quote(x.tester.OutputDir), was.RunID, was.Pack.ID, was.Agent, is.RunID, is.Pack.ID, is.Agent))
	}
	if len(diffs) == 0 {
		return nil
	}
	if x.flags.resume == resumeChanged {
		for _, d := range diffs {
			x.warn("%s: what it affects is run again", d)
		}
		return nil
	}
	errs := []error{errors.New("the run cannot be resumed: these inputs changed")}
	for _, d := range diffs {
		errs = append(errs, errors.New("  "+d))
	}
	errs = append(errs, fmt.Errorf("give --resume=%s to run again what that affects, or --force to start anew", resumeChanged))
	return coded(exitRefused, errors.Join(errs...))
}

// differences names each input that is not what it was.
func (x *execution) differences(was record.Manifest) (out []string) {
	is := x.manifest
	add := func(changed bool, format string, args ...any) {
		if changed {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(was.Planned.Tasks != is.Planned.Tasks, "%s planned, now %d", were(was.Planned.Tasks, "task", ""), is.Planned.Tasks)
	add(was.Planned.Attempts != is.Planned.Attempts, "%s planned, now %d", were(was.Planned.Attempts, "attempt", " at each task"), is.Planned.Attempts)
	if was.Digests.Pack != is.Digests.Pack {
		out = append(out, x.packDifferences(was.Digests)...)
	}
	if was.Digests.Config != is.Digests.Config {
		out = append(out, x.configDifferences()...)
	}
	add(was.Digests.Verifier != is.Digests.Verifier, "this is another build of securebench (then %s, now %s)", was.Version, is.Version)
	refs := make([]string, 0, len(is.Images))
	for ref := range is.Images {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	for _, ref := range refs {
		if id, ok := was.Images[ref]; ok {
			add(id != is.Images[ref], "image %s was %s and is %s", ref, id, is.Images[ref])
		}
	}
	return out
}

// were begins a sentence about a number of things.
func were(n int, thing, which string) string {
	if n == 1 {
		return "1 " + thing + which + " was"
	}
	return plural(n, thing) + which + " were"
}

// packDifferences names the parts of the pack that changed.
func (x *execution) packDifferences(was record.RunDigests) (out []string) {
	then, err := record.ReadPack(x.dir.FS())
	if err != nil || x.dir.Salt().Keyed("pack", "", []byte(then.Pack)) != was.Pack {
		return []string{"the pack changed"}
	}
	is := x.packDigests()
	for _, part := range []struct{ name, was, is string }{
		{"manifest", was.Manifest, x.manifest.Digests.Manifest},
		{"rows", then.Tasks, is.Tasks},
		{"public files", then.PublicAssets, is.PublicAssets},
		{"evaluation files", then.EvalAssets, is.EvalAssets},
	} {
		if part.was != part.is {
			out = append(out, "the pack's "+part.name+" changed")
		}
	}
	return out
}

// configDifferences names the settings that changed.
func (x *execution) configDifferences() []string {
	raw, err := record.ReadFile(x.dir.FS(), record.ConfigName, record.MaxConfig)
	var then, is map[string]any
	if err != nil || json.Unmarshal(raw, &then) != nil || json.Unmarshal(x.config, &is) != nil {
		return []string{"the configuration changed"}
	}
	var out []string
	compare("", then, is, func(path string, was, is any) {
		out = append(out, fmt.Sprintf("setting %s was %s and is %s", path, shown(was), shown(is)))
	})
	slices.Sort(out)
	return out
}

// compare calls f for every value that differs between two JSON trees.
func compare(path string, a, b any, f func(path string, a, b any)) {
	ma, okA := a.(map[string]any)
	mb, okB := b.(map[string]any)
	if !okA || !okB {
		if !reflect.DeepEqual(a, b) {
			f(path, a, b)
		}
		return
	}
	keys := map[string]bool{}
	for k := range ma {
		keys[k] = true
	}
	for k := range mb {
		keys[k] = true
	}
	for k := range keys {
		compare(strings.TrimPrefix(path+"."+k, "."), ma[k], mb[k], f)
	}
}

// shown is a setting's value on one line.
func shown(v any) string {
	if v == nil {
		return "not set"
	}
	b, err := digest.Canonical(v)
	if err != nil {
		return "?"
	}
	return string(b)
}

// plannedRow is what a kept record must be of.
type plannedRow struct {
	index      int
	row, image string
}

// plannedRows reads the rows that count.
func (x *execution) plannedRows(ctx context.Context) (map[string]plannedRow, error) {
	out := make(map[string]plannedRow, x.in.count())
	for t, err := range x.in.tasks(ctx) {
		if err != nil {
			return nil, err
		}
		d := x.binding.Digests(t, x.images[t.Environment().Image])
		out[t.ID()] = plannedRow{t.Index(), d.Row, d.Image}
	}
	return out, nil
}

// judge says why a record of the earlier part cannot be kept, or "".
func (x *execution) judge(rows map[string]plannedRow, former *record.Former, e record.Entry) string {
	row, ok := rows[e.TaskID]
	switch b := x.binding; {
	case !ok || e.Attempt < 1 || e.Attempt > x.tester.Attempts || e.RunID != x.tester.RunID:
		return record.NotPlanned
	case e.Index != row.index, e.Digests.Row != row.row, e.Digests.Image != row.image,
		e.Digests.Config != b.Config, e.Digests.Verifier != b.Verifier, e.Digests.Assets != b.Assets,
		!former.Manifest.Bound(e.Digests.Pack, x.manifest.Digests.Manifest):
		return record.InputsChanged
	}
	for _, sum := range e.Candidates() {
		if x.store.Check(sum) != nil {
			return record.LostCandidate
		}
	}
	return ""
}

// checkSeal notes a statement that the records do not fit.
func (x *execution) checkSeal(ctx context.Context, former *record.Former, plan *record.Plan) error {
	if !former.Sealed {
		return nil
	}
	res, err := evidence.Verify(ctx, x.dir.FS(), evidence.Options{})
	if err != nil {
		return err
	}
	if res.OK() {
		return nil
	}
	foreign := slices.ContainsFunc(res.Problems, func(p evidence.Problem) bool { return p.File != record.StatementName })
	if plan.Kept == x.planned() && len(plan.Rerun) == 0 && foreign {
		return coded(exitIntegrity, fmt.Errorf("nothing is left to run, but the run does not verify: %s (see securebench verify; no resume mends that: put back what it was, or give --force to start anew)", res.Problems[0]))
	}
	plan.SealBroken()
	x.warn("the run was signed and has changed since: %s", res.Problems[0])
	return nil
}

// maxTold is how many dropped records are told one by one.
const maxTold = 10

// tellDropped says what is run again and why.
func (x *execution) tellDropped(p *record.Plan) {
	for _, d := range p.Dropped[:min(len(p.Dropped), maxTold)] {
		what := "a record that does not tell its task"
		if d.TaskID != "" {
			what = "the record of " + redact.Quote(d.TaskID)
		}
		x.warn("line %d is not kept: %s: %s", d.Line, what, whyDropped(d.Reason))
	}
	if n := len(p.Dropped) - maxTold; n > 0 {
		x.warn("and %s more are not kept", plural(n, "line"))
	}
	if n := p.Rerun[record.Missing]; n > 0 {
		x.warn("%s missing: the numbering has gaps", plural(n, "line"))
	}
}

// whyDropped is a reason in words.
func whyDropped(reason string) string {
	switch reason {
	case record.Torn:
		return "its write was cut short"
	case record.Damaged:
		return "it is damaged, or this run did not write it"
	case record.OutOfChain:
		return "it does not follow the line before"
	case record.Duplicate:
		return "its attempt has two records"
	case record.Unfinished:
		return "it ended in an infrastructure error"
	case record.LostCandidate:
		return "its candidate is missing or damaged"
	case record.LostOutput:
		return "its raw output is missing or damaged"
	case record.InputsChanged:
		return "its inputs changed"
	}
	return "it is no part of the run now"
}

// seal signs the run's end.
func (x *execution) seal() error {
	if err := x.closeTrace(); err != nil {
		return fmt.Errorf("%w: %w", pipeline.ErrOutput, err)
	}
	// A run that has come to its end is signed, also while Ctrl-C is pressed.
	err := evidence.Seal(context.Background(), x.dir, x.manifest, x.key)
	switch {
	case errors.Is(err, record.ErrIntegrity):
		return coded(exitIntegrity, err)
	case err != nil:
		return fmt.Errorf("%w: signing the run: %w", pipeline.ErrOutput, err)
	}
	return nil
}
