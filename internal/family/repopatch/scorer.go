package repopatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// labelExitCode says that only the command's exit code decided.
const labelExitCode = "exit_code"

// scorer scores one patch.
type scorer struct {
	verifier *verifier
	c        family.Case
	row      row
	patch    []byte
	checkout pristine         // nil until the sandbox is made
	pristine *repository.Tree // of the checkout
	site     *site            // nil until it is made

	// What is known so far, for the verdict.
	phase      verdict.Phase
	head       string // the commit that the image has
	live       bool   // something of the candidate's is in the sandbox
	paths      touched
	form       []string         // what was odd about the patch
	ran        *initproc.Result // of the tests
	grade      testrunner.Grade
	restricted map[string][]byte
}

// stepLimit bounds a step that is not the row's own command.
func (s *scorer) stepLimit() time.Duration {
	return min(s.c.Limits.WithDefaults().Timeout, gitLimit)
}

// Read implements [sandboxed.Scorer].
func (s *scorer) Read(c candidate.Candidate) (err error) {
	if s.patch, err = patchOf(c); err != nil {
		s.phase = phasePatch
	}
	return err
}

// patchOf reads a patch.
func patchOf(c candidate.Candidate) ([]byte, error) {
	if c.Size > candidate.MaxBytes {
		return nil, family.Fail(verdict.CandidateTooLarge, "the patch is larger than %d MiB", candidate.MaxBytes>>20)
	}
	patch, err := c.Bytes()
	if err == nil && len(bytes.TrimSpace(patch)) == 0 {
		return nil, family.Fail(verdict.EmptyCandidate, "the candidate is blank")
	}
	return patch, err
}

// Limit implements [sandboxed.Scorer].
func (s *scorer) Limit() time.Duration { return wholeLimit(s.c.Limits.WithDefaults().Timeout) }

// Open waits for the checkout and makes the sandbox.
func (s *scorer) Open(ctx context.Context, at *sandboxed.Site) (err error) {
	if s.checkout, s.pristine, err = s.verifier.checkout(ctx, s.c.Image, s.row.dir); err != nil {
		return err
	}
	at.Defer(s.checkout.Release)
	s.head = s.checkout.Head()
	if err := s.checkout.At(s.row.commit); err != nil {
		return err
	}
	user, err := s.verifier.images.User(ctx, s.c.Image, s.row.user)
	if err != nil {
		return err
	}
	s.site, err = openSite(ctx, at, s.c, s.row.dir, user)
	return err
}

// Settle implements [sandboxed.Scorer].
func (s *scorer) Settle(ctx context.Context, err error) error {
	limits, endErr := s.site.box.End(ctx)
	err = sandboxed.Settle(err, limits, endErr, s.live)
	var f *family.Failure
	failed := s.grade.Outcome == verdict.Failed
	if errors.As(err, &f) {
		switch f.Reason {
		case verdict.WorkerExited, verdict.PatchDoesNotApply, verdict.TestsFailed:
			failed = true
		}
	}
	if limit := family.LimitReached(limits, "the verification"); failed && s.live && limit != nil {
		return limit
	}
	return err
}

// Score verifies the patch in the sandbox.
func (s *scorer) Score(ctx context.Context) error {
	p, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	if err := s.change(ctx, p, s.patch); err != nil {
		return err
	}
	return s.check(ctx, p)
}

// change applies the candidate and leaves of it what the policy allows.
func (s *scorer) change(ctx context.Context, p *prepared, patch []byte) error {
	s.phase, s.live = phasePatch, true
	b := base{p.tree, p.setup, s.checkout}
	patch, err := s.submit(ctx, p.git, b, patch)
	if err != nil {
		return err
	}
	if err := s.site.killAll(ctx); err != nil {
		return err
	}
	s.phase = phasePolicy
	if linkMode.Match(patch) { // it is a file on disk
		return family.Fail(verdict.CandidateNotRegular, "the patch makes or changes a symbolic link")
	}
	return s.enforce(ctx, b)
}

// enforce applies the policy to what is on disk.
func (s *scorer) enforce(ctx context.Context, b base) error {
	now, err := s.site.walk(ctx)
	if err != nil {
		return err
	}
	if err := repository.Refuse(b.tree, now); err != nil {
		return err
	}
	d := s.row.policy.Decide(repository.Compare(b.tree, now))
	rejects := s.row.policy.Rejects(d)
	drop := s.sort(d.Allowed, d.Preserved, rejects)
	for _, c := range d.Denied {
		if rejects {
			s.paths.denied = append(s.paths.denied, c.Path)
			continue
		}
		s.paths.dropped = append(s.paths.dropped, c.Path)
		drop = append(drop, c.Change)
	}
	if rejects {
		return family.Fail(verdict.Policy, "the patch changes %s", count(len(s.paths.denied), "path that is", "paths that are")+" denied")
	}
	if len(drop) == 0 {
		return nil
	}
	return s.drop(ctx, b, drop, d.Allowed)
}

// sort notes the paths that the policy lets be, and returns what it preserves.
func (s *scorer) sort(allowed, preserved []repository.Change, rejected bool) (drop []repository.Change) {
	if rejected {
		return nil
	}
	for _, c := range allowed {
		s.paths.applied = append(s.paths.applied, c.Path)
	}
	for _, c := range preserved {
		s.paths.preserved = append(s.paths.preserved, c.Path)
	}
	return append(drop, preserved...)
}

// drop puts the base's version of changed paths back and makes sure that only
// what is allowed is left.
func (s *scorer) drop(ctx context.Context, b base, drop, allowed []repository.Change) error {
	files, ok, err := b.sides(drop)
	if err == nil && !ok {
		err = family.Fail(verdict.Policy, "the patch removes a symbolic link that the policy keeps")
	}
	if err == nil {
		err = s.layOver(ctx, files)
	}
	if err != nil {
		return err
	}
	now, err := s.site.walk(ctx)
	if err != nil {
		return err
	}
	may := make(map[string]bool, len(allowed))
	for _, c := range allowed {
		may[c.Path] = true
	}
	for _, c := range repository.Compare(b.tree, now) {
		if !may[c.Path] {
			return family.Fail(verdict.Policy, "the patch changes paths that the policy keeps, in a way that cannot be undone")
		}
	}
	return nil
}

// layOver puts files over what the candidate left. A candidate that leaves no
// room for them has reached the limit; a second try would change nothing.
func (s *scorer) layOver(ctx context.Context, files overlay) error {
	err := s.site.lay(ctx, files)
	if err != nil && sandboxed.Full(ctx, s.site.tree) {
		return family.Fail(verdict.DiskLimit, "the patch leaves no room for the tests in the limit of disk space")
	}
	return err
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// check lays the tests over whatever is there, runs them, and grades them.
func (s *scorer) check(ctx context.Context, p *prepared) error {
	s.phase = phaseChecks
	plan, err := testrunner.New(s.withTests(p), p.probed, s.c.Seed)
	if err != nil {
		return family.Fail(verdict.PackFault, "the row's tests cannot be run: %v", err)
	}
	if err := s.layOver(ctx, laid(p, plan)); err != nil {
		return err
	}
	got, err := s.site.run(ctx, command{argv: plan.Argv, dir: plan.Dir, env: plan.Env, stdin: bytes.NewReader(plan.Stdin),
		timeout: s.site.Limits.Timeout, output: s.site.Limits.Output})
	if err != nil {
		return err
	}
	// Nothing is read from the disk after this, only what the command wrote to
	// its streams counts.
	if err := s.site.killAll(ctx); err != nil {
		return err
	}
	return s.judge(plan, got)
}

// judge grades a run of the tests.
func (s *scorer) judge(plan *testrunner.Plan, got said) error {
	s.ran = &got.Result
	s.restricted["tests-stdout.txt"], s.restricted["tests-stderr.txt"] = got.stdout, got.stderr
	end := got.End
	if end == initproc.NotStarted {
		end = sandbox.Exited // with the code that a shell reports for it
	}
	s.grade = plan.Grade(testrunner.Ran{End: end, ExitCode: got.ExitCode, Stdout: got.stdout, Stderr: got.stderr,
		Truncated: got.Stdout.Dropped > 0})
	if !s.row.run.Named() {
		s.grade.Labels = append(s.grade.Labels, labelExitCode)
	}
	maps.Copy(s.restricted, s.grade.Restricted)
	switch {
	case s.grade.Outcome == verdict.Tampering:
	case got.End == sandbox.TimedOut:
		return family.Fail(verdict.VerificationTimeout, "the tests ran longer than the row's %v", s.site.Limits.Timeout)
	case s.grade.Outcome != verdict.Passed && got.limited():
		return family.Fail(verdict.OutputLimit, "the tests wrote more than the limit of output")
	}
	return nil
}
