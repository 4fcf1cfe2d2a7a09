package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

type reverifyFlags struct {
	trust   trustFlags
	pack    string
	salt    string
	sample  int
	workers int
	json    bool
}

const reverifyHelp = `Derive the verdicts of a run anew, from its candidates and the pack.

RUN is the output directory of a run, a published copy of one, or a bundle. It
is checked as by "securebench verify". PACK must be the one that the run is
bound to. Every stored candidate is then scored again, in fresh sandboxes and
with the limits of the run, and each verdict that differs is listed.

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
	fl.IntVar(&f.sample, "sample", 0, "derive only N verdicts, chosen at random")
	fl.IntVarP(&f.workers, "workers", "w", 0, "verdicts that are derived at the same time (default min(cores, 4))")
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
	records map[int][]kept
	chosen  map[slot]bool // nil is all
	skipped map[string]int
	in      *inputs
	diffs   []pipeline.Rederived
	equal   int
	err     error // of printing
}

type slot struct{ index, attempt int }

// kept is what is remembered of a record.
type kept struct {
	taskID, row, image, candidate string
	attempt                       int
	verdict                       pipeline.Judged
	summary                       string // digest of the resource summary
}

func (a *app) reverify(ctx context.Context, arg string, f reverifyFlags) (err error) {
	r := &rederivation{app: a, flags: f, records: map[int][]kept{}, skipped: map[string]int{}}
	var signer signature
	if r.run, r.result, signer, err = openVerified(arg, f.trust, evidence.Options{Each: r.note}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.run.Close()) }()
	if err := signer.judge(r.result); err != nil {
		for _, p := range r.result.Problems[:min(len(r.result.Problems), maxProblems)] {
			a.say("%s", p)
		}
		return err
	}
	if err := r.findSalt(); err != nil {
		return err
	}
	loc, tester, err := locate(f.pack)
	if err != nil {
		return err
	}
	if tester == nil {
		tester = config.Default()
	}
	if r.in, err = loadPack(ctx, loc, -1, demands{image: func(fam family.Family) bool { return fam.NeedsImage }}); err != nil {
		return err
	}
	if err := r.samePack(); err != nil {
		return err
	}
	r.choose()
	return r.derive(ctx, tester)
}

// note remembers a record that has a candidate.
func (r *rederivation) note(e record.Entry, _ []byte) {
	if e.Digests.Candidate == "" || e.Outcome == string(family.Infrastructure) {
		r.skipped[e.Outcome]++
		return
	}
	sum, err := digest.JSON(e.Summary)
	r.err = errors.Join(r.err, err)
	r.records[e.Index] = append(r.records[e.Index], kept{e.TaskID, e.Digests.Row, e.Digests.Image, e.Digests.Candidate, e.Attempt, pipeline.JudgedOf(e.Line), sum})
}

// findSalt reads the salt where there is one.
func (r *rederivation) findSalt() error {
	want := r.result.Manifest.SaltDigest
	if r.flags.salt != "" {
		raw, err := os.ReadFile(r.flags.salt)
		if err != nil {
			return coded(exitConfig, fmt.Errorf("reading the salt: %w", err))
		}
		if digest.Bytes(raw) != want || len(raw) != len(digest.Salt{}) {
			return coded(exitIntegrity, fmt.Errorf("%s is not the salt of this run", r.flags.salt))
		}
		s := digest.Salt(raw)
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
	case m.Pack.ID != r.in.Manifest.ID:
		what = fmt.Sprintf("its id is %q, the run's is %q", r.in.Manifest.ID, m.Pack.ID)
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
		for _, k := range recs {
			all = append(all, slot{i, k.attempt})
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
	var engine sandbox.Engine
	var images map[string]sandbox.Image
	if len(r.in.images) > 0 {
		e, err := openEngine(ctx, tester.Sandbox, r.app.say)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		engine = e
		if images, err = resolveImages(ctx, e, r.in.images); err != nil {
			return err
		}
		r.compareImages(images)
	}
	workers := tester.MaxWorkers
	if r.flags.workers > 0 {
		workers = r.flags.workers
	}
	salt, err := digest.NewSalt()
	if err != nil {
		return err
	}
	verifiers := newVerifiers(r.in.families, family.Resources{Engine: engine, RunID: "reverify", Seed: salt.Derive, Workers: workers})
	defer func() {
		end, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		err = errors.Join(err, closeVerifiers(end, verifiers))
	}()
	limits := r.result.Manifest.Limits
	err = pipeline.Reverify(ctx, pipeline.ReverifyConfig{
		Families: r.in.families, Tasks: r.in.tasks(ctx), Verifiers: verifiers, Images: images,
		Verify: sandbox.Limits{Memory: limits.Memory, CPUs: limits.CPUs, Pids: limits.Pids, Disk: limits.Disk, Output: limits.Output},
		VerifyTimeout: func(fam string) time.Duration {
			return time.Duration(limits.VerifySeconds[fam] * float64(time.Second))
		},
		Workers: workers, Retries: tester.Retries, Recorded: r.recorded, Done: r.done,
	})
	if errors.Is(err, pipeline.ErrInterrupted) {
		return coded(exitInterrupted, err)
	}
	if err != nil {
		return coded(exitInfra, err)
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

// recorded returns the chosen verdicts of a task, after comparing what their
// records say of the row.
func (r *rederivation) recorded(t task.Task) ([]pipeline.Recorded, error) {
	var out []pipeline.Recorded
	for _, k := range r.records[t.Index()] {
		if r.chosen != nil && !r.chosen[slot{t.Index(), k.attempt}] {
			continue
		}
		sum, err := digest.JSON(t.Result().Summary())
		if err != nil {
			return nil, err
		}
		if k.taskID != t.ID() || k.summary != sum || r.salt != nil && r.salt.Keyed("row", t.ID(), t.Row()) != k.row {
			return nil, coded(exitIntegrity, fmt.Errorf("the record of %q is not of row %d of the pack", k.taskID, t.Index()))
		}
		out = append(out, pipeline.Recorded{Attempt: k.attempt, Verdict: k.verdict,
			Candidate: func() ([]byte, error) { return evidence.Candidate(r.run, k.candidate) }})
	}
	return out, nil
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
	b, err := json.Marshal(struct {
		pipeline.Rederived
		Equal bool `json:"equal"`
	}{v, v.Equal()})
	if err == nil {
		_, err = fmt.Fprintf(r.app.stdout, "%s\n", b)
	}
	r.err = errors.Join(r.err, err)
}

func (r *rederivation) finish() error {
	if !r.flags.json {
		r.err = errors.Join(r.err, r.table())
	}
	if r.err != nil {
		return fmt.Errorf("printing the verdicts: %w", r.err)
	}
	if n := len(r.diffs); n > 0 {
		return coded(exitIntegrity, fmt.Errorf("%s differ from the recorded ones", plural(n, "verdict")))
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
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", redact.Escape(d.TaskID), d.Attempt, verdictCell(d.Was), verdictCell(d.Is))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.app.stdout, "reverified %s: %d equal, %d different", plural(r.equal+len(r.diffs), "verdict"), r.equal, len(r.diffs))
	left := 0
	for _, n := range r.skipped {
		left += n
	}
	_, err := fmt.Fprintf(r.app.stdout, "; %s without a candidate\n", plural(left, "record"))
	return err
}

func verdictCell(v pipeline.Judged) string {
	cell := v.Outcome
	if v.Reason != "" {
		cell += " (" + v.Reason + ")"
	}
	return redact.Escape(cell + " " + v.Containment)
}
