package reverify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/console"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/judge"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// Review derives the verdicts of one run again.
type Review struct {
	Run        *evidence.Run
	Result     *evidence.Result
	Records    *Records
	Salt       *digest.Salt // nil where hidden parts cannot be compared
	Work       *workload.Workload
	Config     *config.Tester // the reviewer's own
	OpenEngine scoring.EngineOpener
	PackName   string // in errors
	Sample     int    // verdicts to derive, chosen at random; 0 is all
	// RunLimits uses the run's limits even where they exceed the reviewer's.
	RunLimits bool
	// Partial says that the run does not verify, and that the rest of it is
	// derived: a record that is not of its row is then reported and passed over.
	Partial bool
	// Again is a judge that is asked anew, in the place of the recorded answers; nil is none.
	Again  judge.Judge
	Notice func(string)                   // a line for the reviewer
	Begin  func(t task.Task, attempt int) // called before each verdict; nil is not
	Done   func(Rederived)                // called for each verdict, one at a time

	// Seen is how many records are of a row of the pack, and Left how many of
	// those have nothing to derive.
	Seen, Left int
	chosen     map[evidence.Slot]bool // nil is all
	otherBuild string                 // that this is another build than the run's, "" if it is the same
	otherImage map[string]bool        // the references whose images are not the run's
	lowered    bool                   // the run had limits above those that apply
	otherName  string                 // of the run's engine, if this one is another
}

// Records holds what is compared of a run's records.
type Records struct {
	Total int
	byRow map[int][]recorded
	err   error
}

// recorded is the part of a record that is kept in memory.
type recorded struct {
	line               int
	taskID, family     string
	row, image, stored string // digests
	attempt            int
	kind               task.CandidateKind // "" where the record does not say
	origin             candidate.Origin
	cutOff             bool
	labels             []string
	verdict            commit.Judged
	basis              verdict.Basis
	exchanges          string // the file with what a judge was asked, "" for none
	summary            string // digest of the resource summary
}

// Add adds a record.
func (r *Records) Add(e record.Entry) {
	if r.byRow == nil {
		r.byRow = map[int][]recorded{}
	}
	sum, err := digest.JSON(e.Summary)
	r.err = errors.Join(r.err, err)
	r.Total++
	r.byRow[e.Index] = append(r.byRow[e.Index], recorded{
		line: e.Number, taskID: e.TaskID, family: e.TaskType, row: e.Digests.Row, image: e.Digests.Image, stored: e.Digests.Candidate,
		attempt: e.Attempt, labels: e.Labels, kind: evidence.KindOf(e.Line), origin: e.Origin(), cutOff: e.CutOff(), verdict: commit.JudgedOf(e.Line), summary: sum,
		basis: e.Basis, exchanges: e.Exchanges(),
	})
}

// Without drops the records of some lines, and returns how many it dropped.
func (r *Records) Without(lines map[int]bool) (dropped int) {
	for row, recs := range r.byRow {
		kept := slices.DeleteFunc(recs, func(rec recorded) bool { return lines[rec.line] })
		dropped += len(recs) - len(kept)
		r.byRow[row] = kept
	}
	r.Total -= dropped
	return dropped
}

// derivable reports whether a verdict can be derived: from a candidate, or
// that the task cannot be scored. A past change of the pack's files can no
// longer be observed.
func (r recorded) derivable() bool {
	switch {
	case r.verdict.Reason == verdict.Budget && r.verdict.Outcome == verdict.Pending:
		return false
	case r.stored != "":
		return r.verdict.Outcome != verdict.Infrastructure
	case r.verdict.Outcome == verdict.Pending:
		return r.verdict.Reason != verdict.PackFault
	}
	return false
}

// maxSalt bounds a salt file, in bytes.
const maxSalt = 16 << 10

// FindSalt reads the run's salt from a file, or from the run itself for "". It
// returns nil for a published copy.
func FindSalt(run *evidence.Run, res *evidence.Result, file string) (*digest.Salt, error) {
	want := res.Manifest.SaltDigest
	if file != "" {
		raw, err := source.ReadFile(file, maxSalt)
		if err != nil {
			return nil, fault.As(fault.Config, fmt.Errorf("reading the salt: %w", err))
		}
		s, ok := record.ParseSalt(raw, want)
		if !ok {
			return nil, fault.As(fault.Integrity, fmt.Errorf("%s is not the salt of this run", redact.Quote(file)))
		}
		return &s, nil
	}
	s, err := record.ReadSalt(run, want)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.As(fault.Integrity, err)
	}
	return &s, nil
}

// Derive scores the chosen candidates again.
func (r *Review) Derive(ctx context.Context) (err error) {
	if r.otherBuild, err = evidence.OtherBuild(r.Result.Manifest); err != nil {
		return err
	}
	if err := errors.Join(r.Records.err, r.samePack(ctx)); err != nil {
		return err
	}
	if r.otherBuild != "" {
		r.Notice(r.otherBuild + "; verdicts may differ for that reason")
	}
	if err := errors.Join(r.samePlan(), r.labelledLimits()); err != nil {
		return err
	}
	r.choose()
	s, err := scoring.OpenForReview(ctx, "reverify", r.Work, r.OpenEngine, r.Config, false, r.Notice)
	if err != nil {
		return err
	}
	r.judgeAgain(s)
	defer func() { err = errors.Join(err, s.Close()) }()
	r.sayEngine(s.Engine)
	r.compareImages(s.Images)
	return Run(ctx, Config{
		Families: r.Work.Families, Tasks: r.Work.Tasks(ctx, nil), Verifiers: s.Verifiers, Images: s.Images,
		Verify: r.limits(), VerifyTimeout: r.verifyTimeout,
		Workers: s.Workers, Retries: r.Config.Retries, Derive: s.Derive, Recorded: r.recorded, Asked: r.Again != nil, Begin: r.Begin, Done: r.Done,
	})
}

// sayEngine says which engine derives the verdicts, and which the run used: they
// may differ, the verdicts may not.
func (r *Review) sayEngine(e sandbox.Engine) {
	if e == nil {
		return
	}
	info, was := e.Info(), ""
	if name, _ := r.Result.Manifest.EngineName(); name != "" && name != info.Name {
		r.otherName = redact.Escape(name)
		was = "; the run used " + r.otherName
	}
	if info.Choice != "" {
		info.Name += " (" + info.Choice + ")"
	}
	r.Notice("engine: " + info.Name + was)
}

// samePack returns an error if the pack is not the run's.
func (r *Review) samePack(ctx context.Context) error {
	m, w := r.Result.Manifest, r.Work
	var what string
	switch {
	case m.Pack != record.PackInfo{ID: w.Manifest.ID, Version: w.Manifest.Version}:
		what = fmt.Sprintf("it is %q, version %d, the run's is %q, version %d", w.Manifest.ID, w.Manifest.Version, m.Pack.ID, m.Pack.Version)
	case m.Digests.Manifest != w.Digests.Manifest:
		what = "its manifest differs"
	case m.Digests.Public != w.Public:
		what = "its public part differs"
	case r.Salt != nil && r.Salt.Keyed("pack", "", []byte(w.Digests.Pack)) != m.Digests.Pack:
		what = "its hidden part differs"
	default:
		return nil
	}
	rows, err := r.differing(ctx)
	if err != nil {
		return err
	}
	return fault.As(fault.Refused, fmt.Errorf("%s is not the pack of the run: %s", r.PackName, redact.Escape(what+rows)))
}

// differing names the first rows that are not those of the records, as far as these
// tell: of the hidden part only to whoever has the salt.
func (r *Review) differing(ctx context.Context) (string, error) {
	const named = 3
	var first []string
	count := 0
	for t, err := range r.Work.Tasks(ctx, nil) {
		if err != nil {
			return "", err
		}
		for _, rec := range r.Records.byRow[t.Index()][:min(1, len(r.Records.byRow[t.Index()]))] {
			what, err := r.difference(rec, t)
			if err != nil {
				return "", err
			}
			if what == "" {
				continue
			}
			if count++; count <= named {
				first = append(first, fmt.Sprintf("the record of %q is not of row %d (line %d): %s", rec.taskID, t.Index(), t.Line(), what))
			}
		}
	}
	if count == 0 {
		return "", nil
	}
	out := ": " + strings.Join(first, "; ")
	if count > named {
		out += fmt.Sprintf("; and %d more rows", count-named)
	}
	return out, nil
}

// samePlan returns an error if the run does not say how much of the pack it left
// out: the score of some rows would pass as that of all. Of a partial review,
// which fails anyway, that is a notice.
func (r *Review) samePlan() error {
	p, rows := r.Result.Manifest.Planned, r.Work.Count
	var what string
	switch {
	case p.Tasks+p.LeftOut == rows:
		return nil
	case p.Tasks > rows:
		what = fmt.Sprintf("the run says that it planned %d tasks; this pack has %s", p.Tasks, console.Plural(rows, "row"))
	default:
		what = fmt.Sprintf("the run says that it left out %s of the pack; of this pack it left out %d", console.Plural(p.LeftOut, "row"), rows-p.Tasks)
	}
	if r.Partial {
		r.Notice(what)
		return nil
	}
	return fault.As(fault.Integrity, errors.New(what))
}

// choose draws the sample, which whoever made the run could not predict.
func (r *Review) choose() {
	if r.Sample < 1 {
		return
	}
	var all []evidence.Slot
	for i, recs := range r.Records.byRow {
		for _, rec := range recs {
			if rec.derivable() {
				all = append(all, evidence.Slot{Index: i, Attempt: rec.attempt})
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	r.chosen = map[evidence.Slot]bool{}
	for _, s := range all[:min(len(all), r.Sample)] {
		r.chosen[s] = true
	}
}

// compareImages reports images that are not those of the run: a reviewer may
// have built them again.
func (r *Review) compareImages(images map[string]sandbox.Image) {
	names := r.Work.ImageNames(func(ref string) string {
		if r.Salt == nil {
			return "" // in a published copy it cannot be found
		}
		return record.HiddenImage(*r.Salt, ref)
	})
	r.otherImage = map[string]bool{}
	for ref, img := range images {
		if was, ok := r.Result.Manifest.Images[names[ref]]; ok && was != img.ID {
			r.otherImage[ref] = true
			r.Notice(fmt.Sprintf("image %s is %s here and was %s in the run", ref, img.ID, redact.Escape(was)))
		}
	}
}

// limits are the run's, but at most the reviewer's own: a signature says
// nothing about this machine.
func (r *Review) limits() sandbox.Limits {
	run := r.Result.Manifest.Limits
	for _, remark := range evidence.LimitRemarks(run, r.Work.Families) {
		r.Notice("the run's " + remark)
	}
	own := r.Config.Limits
	theirs := sandbox.Limits{Memory: run.Memory, CPUs: run.CPUs, Pids: run.Pids, Disk: run.Disk, Files: cmp.Or(run.Files, own.Files), Output: run.Output}
	if r.RunLimits {
		return theirs
	}
	mine := scoring.Limits(own).WithDefaults()
	lower := sandbox.Limits{Memory: min(theirs.Memory, mine.Memory), CPUs: min(theirs.CPUs, mine.CPUs), Pids: min(theirs.Pids, mine.Pids),
		Disk: min(theirs.Disk, mine.Disk), Files: min(theirs.Files, mine.Files), Output: min(theirs.Output, mine.Output)}
	r.lowered = r.lowered || lower != theirs
	return lower
}

// verifyTimeout is the time limit of a family's verifications.
func (r *Review) verifyTimeout(fam string) time.Duration {
	mine := r.Config.Limits.Verify
	if mine <= 0 {
		mine = time.Duration(r.Work.Families[fam].VerifySeconds) * time.Second
	}
	run := r.Result.Manifest.Limits.VerifySeconds[fam]
	if run <= 0 || run > mine.Seconds() && !r.RunLimits {
		return mine
	}
	return time.Duration(min(run, 1e6) * float64(time.Second))
}

// recorded returns the chosen verdicts of a task, after comparing their
// records with the row.
func (r *Review) recorded(t task.Task) ([]Recorded, error) {
	var out []Recorded
	for _, rec := range r.Records.byRow[t.Index()] {
		r.Seen++
		what, err := r.difference(rec, t)
		if err != nil {
			return nil, err
		}
		if what != "" && r.Partial {
			r.Notice(fmt.Sprintf("line %d is skipped: it is not of row %d of the pack: %s", rec.line, t.Index(), redact.Escape(what)))
			r.Left++
			continue
		}
		if what != "" {
			return nil, fault.As(fault.Integrity, fmt.Errorf("the record of %q is not of row %d of the pack: %s", rec.taskID, t.Index(), what))
		}
		if !rec.derivable() || !r.judgeable(rec) {
			r.Left++
			continue
		}
		if r.chosen != nil && !r.chosen[evidence.Slot{Index: t.Index(), Attempt: rec.attempt}] {
			continue
		}
		again := Recorded{Attempt: rec.attempt, Verdict: rec.verdict}
		if rec.stored != "" {
			c, err := evidence.Candidate(r.Run, candidate.Candidate{Kind: cmp.Or(rec.kind, t.Extraction().Kind), Digest: rec.stored, Origin: rec.origin, CutOff: rec.cutOff})
			if err != nil {
				return nil, err
			}
			again.Candidate = &c
		}
		out = append(out, again)
	}
	return out, nil
}

// difference returns what in a record does not match the row, or "".
func (r *Review) difference(rec recorded, t task.Task) (string, error) {
	sum, err := digest.JSON(t.Result().Summary())
	if err != nil {
		return "", err
	}
	ref, fam := t.Environment().Image, r.Work.Families[t.Family()]
	image, ran := r.Result.Manifest.Images[ref]
	unpinned := commit.ImageLabel(sandbox.Image{Ref: ref, ID: rec.image}) != ""
	switch {
	case rec.taskID != t.ID() || rec.family != t.Family():
		return fmt.Sprintf("that is %q of family %s", t.ID(), t.Family()), nil
	case rec.summary != sum:
		return "its public values differ", nil
	case r.Salt != nil && r.Salt.Keyed("row", t.ID(), t.Row()) != rec.row:
		return "its digest differs", nil
	case rec.image != image, !ran && fam.RunsIn(t) && fam.NewVerifier != nil:
		return "it does not name the image of the run", nil
	case unpinned != slices.Contains(rec.labels, commit.UnpinnedImage):
		return wrong(commit.UnpinnedImage), nil
	}
	return r.wrongLabel(rec, t), nil
}
