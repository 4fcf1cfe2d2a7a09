package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

type reverifyFlags struct {
	trust   trustFlags
	pack    string
	salt    string
	sample  int
	workers int
	json    bool
	limits  bool
}

const reverifyHelp = `Derive the verdicts of a run anew, from its candidates and the pack.

RUN is the output directory of a run, a published copy of one, or a bundle. It
is checked as by "securebench verify". PACK must be the one that the run is
bound to, and every record of one of its rows. Every stored candidate is then
scored again, in fresh sandboxes and from the pack's last row to its first, and
each verdict that differs is listed. The limits are the run's where they are not
above yours: those of a tester YAML given as PACK, or the defaults. With
--run-limits they are the run's.

Records without a candidate (an agent that ran out of time, for example) have
nothing to derive from; they score nothing and are counted.

The public part of a pack is compared by its digest. Hidden parts are bound by
keyed digests: they are compared where the run's salt is at hand, in the run's
restricted folder or with --salt.

The exit code is 13 when a verdict differs, 15 when the pack is another.`

func (a *app) reverifyCommand() *cobra.Command {
	var f reverifyFlags
	c := &cobra.Command{
		Use: "reverify RUN --pack PACK", Short: "Derive a run's verdicts anew from its candidates",
		Long: reverifyHelp + "\n" + trustHelp, Args: need("RUN"),
		Example: "  securebench reverify runs/demo --pack packs/demo\n  securebench reverify demo.zip --pack packs/demo --any-signer --sample 20",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.pack == "":
				return coded(exitUsage, errors.New("give --pack PACK"))
			case c.Flags().Changed("sample") && f.sample < 1, c.Flags().Changed("workers") && f.workers < 1:
				return coded(exitUsage, errors.New("--sample and --workers must be 1 or more"))
			}
			return a.reverify(c.Context(), args[0], f)
		},
	}
	f.trust.add(c)
	fl := c.Flags()
	fl.StringVar(&f.pack, "pack", "", "the pack that the run is of")
	fl.StringVar(&f.salt, "salt", "", "file of the run's salt (restricted/salt), for a published copy")
	fl.BoolVar(&f.limits, "run-limits", false, "use the run's limits also where they are above yours")
	fl.IntVar(&f.sample, "sample", 0, "derive only N verdicts, chosen at random")
	fl.IntVarP(&f.workers, "workers", "w", 0, "verdicts that are derived at the same time (default min(cores, 4))")
	a.addLogFlag(c)
	fl.BoolVar(&f.json, "json", false, "print one JSON object per verdict instead of a table")
	return c
}

// rederivation is one reverify on its way.
type rederivation struct {
	app     *app
	flags   reverifyFlags
	run     *evidence.Run
	result  *evidence.Result
	salt    *digest.Salt // nil where hidden parts cannot be compared
	records map[int][]noted
	total   int           // records
	seen    int           // those whose row the pack has
	chosen  map[slot]bool // nil is all
	left    int           // records that have nothing to derive
	in      *inputs
	diffs   []pipeline.Rederived
	equal   int
	err     error // of printing
}

type slot struct{ index, attempt int }

// noted is what is remembered of a record.
type noted struct {
	taskID, family     string
	row, image, stored string // digests
	attempt            int
	said               bool // the candidate is what an agent said
	labels             []string
	verdict            pipeline.Judged
	summary            string // digest of the resource summary
}

// derivable reports whether there is something to derive: a candidate, or
// that the task cannot be scored. That the pack's files had changed when the
// attempt began cannot be seen any more.
func (n noted) derivable() bool {
	switch {
	case n.stored != "":
		return n.verdict.Outcome != verdict.Infrastructure
	case n.verdict.Outcome == verdict.Pending:
		return n.verdict.Reason != verdict.PackFault
	}
	return false
}

func (a *app) reverify(ctx context.Context, arg string, f reverifyFlags) (err error) {
	r := &rederivation{app: a, flags: f, records: map[int][]noted{}}
	if r.run, r.result, err = a.openTrusted(ctx, arg, f.trust, evidence.Options{Each: r.note}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.run.Close()) }()
	if err := r.findSalt(); err != nil {
		return err
	}
	loc, tester, err := locateForScoring(f.pack, f.workers)
	if err != nil {
		return err
	}
	if r.in, err = loadPack(ctx, loc, -1, demands{image: needsImage}); err != nil {
		return err
	}
	if err := r.samePack(); err != nil {
		return err
	}
	r.choose()
	return r.derive(ctx, tester)
}

// note remembers a record.
func (r *rederivation) note(e record.Entry) {
	sum, err := digest.JSON(e.Summary)
	r.err = errors.Join(r.err, err)
	r.total++
	r.records[e.Index] = append(r.records[e.Index], noted{
		taskID: e.TaskID, family: e.TaskType, row: e.Digests.Row, image: e.Digests.Image, stored: e.Digests.Candidate,
		attempt: e.Attempt, labels: e.Labels, said: capture.Said(e.Origin()), verdict: pipeline.JudgedOf(e.Line), summary: sum,
	})
}

// findSalt reads the salt where there is one.
func (r *rederivation) findSalt() error {
	want := r.result.Manifest.SaltDigest
	if r.flags.salt != "" {
		raw, err := source.ReadFile(r.flags.salt, maxKeyInput)
		if err != nil {
			return coded(exitConfig, fmt.Errorf("reading the salt: %w", err))
		}
		s, ok := record.ParseSalt(raw, want)
		if !ok {
			return coded(exitIntegrity, fmt.Errorf("%s is not the salt of this run", redact.Quote(r.flags.salt)))
		}
		r.salt = &s
		return nil
	}
	s, err := record.ReadSalt(r.run, want)
	if errors.Is(err, fs.ErrNotExist) {
		r.app.say("hidden parts of the pack are not bound: without --salt only its public part is compared")
		return nil
	}
	if err != nil {
		return coded(exitIntegrity, err)
	}
	r.salt = &s
	return nil
}

// samePack refuses a pack that is not the run's.
func (r *rederivation) samePack() error {
	m, d := r.result.Manifest, r.in.Digests
	var what string
	switch {
	case m.Pack != record.PackInfo{ID: r.in.Manifest.ID, Version: r.in.Manifest.Version}:
		what = fmt.Sprintf("it is %q, version %d, the run's is %q, version %d", r.in.Manifest.ID, r.in.Manifest.Version, m.Pack.ID, m.Pack.Version)
	case m.Digests.Manifest != d.Manifest:
		what = "its manifest differs"
	case m.Digests.Public != r.in.Public:
		what = "its public part differs"
	case r.salt != nil && r.salt.Keyed("pack", "", []byte(d.Pack)) != m.Digests.Pack:
		what = "its hidden part differs"
	default:
		return nil
	}
	return coded(exitRefused, fmt.Errorf("%s is not the pack of the run: %s", r.flags.pack, redact.Escape(what)))
}

// choose draws the sample. Nobody who made the run could foresee it.
func (r *rederivation) choose() {
	if r.flags.sample < 1 {
		return
	}
	var all []slot
	for i, recs := range r.records {
		for _, n := range recs {
			if n.derivable() {
				all = append(all, slot{i, n.attempt})
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	r.chosen = map[slot]bool{}
	for _, s := range all[:min(len(all), r.flags.sample)] {
		r.chosen[s] = true
	}
}

// derive scores the candidates again.
func (r *rederivation) derive(ctx context.Context, tester *config.Tester) (err error) {
	s, err := r.app.openScorer(ctx, "reverify", r.in, tester)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r.compareImages(s.images)
	err = pipeline.Reverify(ctx, pipeline.ReverifyConfig{
		Families: r.in.families, Tasks: r.in.tasks(ctx), Verifiers: s.verifiers, Images: s.images,
		Verify: r.limits(tester.Limits), VerifyTimeout: r.verifyTimeout(tester.Limits.Verify),
		Workers: tester.MaxWorkers, Retries: tester.Retries, Recorded: r.recorded, Done: r.done,
	})
	if err != nil {
		return scoringError(err)
	}
	return r.finish()
}

// compareImages tells images that are not those of the run: a reviewer may
// have built them anew.
func (r *rederivation) compareImages(images map[string]sandbox.Image) {
	for ref, img := range images {
		if was, ok := r.result.Manifest.Images[ref]; ok && was != img.ID {
			r.app.say("image %s is %s here and was %s in the run", ref, img.ID, redact.Escape(was))
		}
	}
}

// limits are the run's, but not above the reviewer's own: who signed the run
// says nothing about this machine.
func (r *rederivation) limits(own config.Limits) sandbox.Limits {
	run := r.result.Manifest.Limits
	for _, note := range limitNotes(run) {
		r.app.say("the run's %s", note)
	}
	theirs := sandbox.Limits{Memory: run.Memory, CPUs: run.CPUs, Pids: run.Pids, Disk: run.Disk, Files: cmp.Or(run.Files, own.Files), Output: run.Output}
	if r.flags.limits {
		return theirs
	}
	mine := sandboxLimits(own).WithDefaults()
	return sandbox.Limits{Memory: min(theirs.Memory, mine.Memory), CPUs: min(theirs.CPUs, mine.CPUs), Pids: min(theirs.Pids, mine.Pids),
		Disk: min(theirs.Disk, mine.Disk), Files: min(theirs.Files, mine.Files), Output: min(theirs.Output, mine.Output)}
}

// verifyTimeout is the time of a verification by family.
func (r *rederivation) verifyTimeout(own time.Duration) func(string) time.Duration {
	return func(fam string) time.Duration {
		mine := own
		if mine <= 0 {
			mine = time.Duration(r.in.families[fam].VerifySeconds) * time.Second
		}
		run := r.result.Manifest.Limits.VerifySeconds[fam]
		if run <= 0 || run > mine.Seconds() && !r.flags.limits {
			return mine
		}
		return time.Duration(min(run, 1e6) * float64(time.Second))
	}
}

// recorded returns the chosen verdicts of a task, after comparing what their
// records say of the row.
func (r *rederivation) recorded(t task.Task) ([]pipeline.Recorded, error) {
	var out []pipeline.Recorded
	for _, n := range r.records[t.Index()] {
		r.seen++
		if what, err := r.sameRow(n, t); err != nil || what != "" {
			return nil, errors.Join(err, coded(exitIntegrity, fmt.Errorf("the record of %q is not of row %d of the pack: %s", n.taskID, t.Index(), what)))
		}
		if !n.derivable() {
			r.left++
			continue
		}
		if r.chosen != nil && !r.chosen[slot{t.Index(), n.attempt}] {
			continue
		}
		rec := pipeline.Recorded{Attempt: n.attempt, Said: n.said, Verdict: n.verdict}
		if n.stored != "" {
			rec.Candidate = func() ([]byte, error) { return evidence.Candidate(r.run, n.stored) }
		}
		out = append(out, rec)
	}
	return out, nil
}

// sameRow says what of a record does not fit the row, or "".
func (r *rederivation) sameRow(n noted, t task.Task) (string, error) {
	sum, err := digest.JSON(t.Result().Summary())
	if err != nil {
		return "", err
	}
	ref, fam := t.Environment().Image, r.in.families[t.Family()]
	image, ran := r.result.Manifest.Images[ref]
	unpinned := pipeline.ImageLabel(sandbox.Image{Ref: ref, ID: n.image}) != ""
	switch {
	case n.taskID != t.ID() || n.family != t.Family():
		return fmt.Sprintf("that is %q of family %s", t.ID(), t.Family()), nil
	case n.summary != sum:
		return "its public values differ", nil
	case r.salt != nil && r.salt.Keyed("row", t.ID(), t.Row()) != n.row:
		return "its digest differs", nil
	case n.image != image, !ran && fam.NeedsImage && fam.NewVerifier != nil:
		return "it does not name the image of the run", nil
	case unpinned != slices.Contains(n.labels, pipeline.UnpinnedImage):
		return "its label " + pipeline.UnpinnedImage + " is wrong", nil
	}
	return "", nil
}

// done counts a verdict, and prints it with --json.
func (r *rederivation) done(v pipeline.Rederived) {
	if v.Equal() {
		r.equal++
	} else {
		r.diffs = append(r.diffs, v)
	}
	if !r.flags.json {
		return
	}
	r.err = errors.Join(r.err, r.app.printJSON(struct {
		pipeline.Rederived
		Equal bool `json:"equal"`
	}{v, v.Equal()}))
}

func (r *rederivation) finish() error {
	if !r.flags.json {
		r.err = errors.Join(r.err, r.table())
	}
	if r.err != nil {
		return fmt.Errorf("printing the verdicts: %w", r.err)
	}
	if n := r.total - r.seen; n > 0 {
		return coded(exitIntegrity, fmt.Errorf("%s not of a row of the pack", plural(n, "record")))
	}
	if n := len(r.diffs); n > 0 {
		return coded(exitIntegrity, fmt.Errorf("%s different from what was recorded", plural(n, "verdict")))
	}
	return nil
}

// table lists the differences and counts the rest.
func (r *rederivation) table() error {
	if len(r.diffs) > 0 {
		slices.SortFunc(r.diffs, func(a, b pipeline.Rederived) int {
			if a.Index != b.Index {
				return a.Index - b.Index
			}
			return a.Attempt - b.Attempt
		})
		w := tabwriter.NewWriter(r.app.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TASK\tATTEMPT\tRECORDED\tDERIVED")
		for _, d := range r.diffs {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", redact.Quote(d.TaskID), d.Attempt, verdictCell(d.Was), verdictCell(d.Is))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.app.stdout, "reverified %s of %d of the pack's %d rows: %d equal, %d different; %s without a candidate\n",
		plural(r.equal+len(r.diffs), "verdict"), r.result.Manifest.Planned.Tasks, r.in.Count, r.equal, len(r.diffs), plural(r.left, "record"))
	return err
}

func verdictCell(v pipeline.Judged) string {
	cell := string(v.Outcome)
	if v.Reason != "" {
		cell += " (" + string(v.Reason) + ")"
	}
	cell = strings.TrimSpace(cell + " " + string(v.Containment) + " " + v.Labels)
	if v.Extraction != "" || v.Extracted != "" {
		cell = strings.TrimSpace(fmt.Sprintf("%s %s %.19s", cell, v.Extraction, v.Extracted))
	}
	return redact.Escape(cell)
}
