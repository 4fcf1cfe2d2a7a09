package repopatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/family/steps"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// labelExitCode says that the command's exit code alone decided.
const labelExitCode = "exit_code"

// errSlow is the cause of a verification that takes too long although each of
// its commands is bounded.
var errSlow = errors.New("the engine takes too long")

// session is the verification of one attempt.
type session struct {
	verifier *Verifier
	c        family.Case
	row      row
	refused  *family.Failure  // why the row cannot be scored
	checkout pristine         // nil until Verify takes it
	pristine *repository.Tree // of the checkout
	site     *site            // nil until Verify makes it

	// What is known so far, for the verdict.
	phase      verdict.Phase
	head       string // the commit that the image has
	live       bool   // something of the candidate's is in the sandbox
	paths      touched
	form       []string         // what was odd about the patch
	ran        *initproc.Result // of the tests
	grade      testrunner.Grade
	waited     time.Duration
	restricted map[string][]byte
}

func newSession(v *Verifier, c family.Case) *session {
	s := &session{verifier: v, c: c, phase: phaseBase, restricted: map[string][]byte{}}
	s.row, s.refused = readRow(c)
	return s
}

// limit bounds a step that is not the row's own command.
func (s *session) limit() time.Duration {
	return min(s.c.Limits.WithDefaults().Timeout, gitLimit)
}

// Verify scores a patch.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.refused != nil {
		return s.verdict(s.refused), nil
	}
	patch, err := patchOf(c)
	var f *family.Failure
	if errors.As(err, &f) {
		s.phase = phasePatch
		return s.verdict(f), nil
	}
	if err == nil {
		err = family.Blame(s.verify(ctx, patch), checkout.ErrUnusable, sandbox.ErrNoFolder, sandbox.ErrTooSmall, sandbox.ErrUnusable)
	}
	if err != nil && !errors.As(err, &f) {
		return family.Verdict{}, err
	}
	return s.verdict(f), nil
}

// patchOf reads a patch. A failure needs no sandbox.
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

// verify makes the sandbox, takes the steps in it, and finds out how it ended. A
// [family.Failure] is the candidate's or the pack's, any other error the engine's or
// this process's.
func (s *session) verify(ctx context.Context, patch []byte) error {
	ctx, cancel := attended.WithTimeoutCause(ctx, wholeLimit(s.c.Limits.WithDefaults().Timeout)+startLimit, errSlow)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.steps(ctx, patch)
	ectx, stop := attended.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer stop()
	limits, endErr := s.site.box.End(ectx)
	return s.settle(err, limits, endErr)
}

// ready waits for the checkout and makes the sandbox.
func (s *session) ready(ctx context.Context) (err error) {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	if s.checkout, s.pristine, err = s.verifier.checkout(ctx, s.c.Image, s.row.dir); err != nil {
		return err
	}
	s.head = s.checkout.Head()
	if err := s.checkout.At(s.row.commit); err != nil {
		return err
	}
	user, err := s.verifier.user(ctx, s.c.Image, s.row.user)
	if err != nil {
		return fmt.Errorf("looking up the row's user: %w", err)
	}
	s.site, err = openSite(ctx, s.verifier.resources.Engine, s.verifier.resources.RunID, s.c, s.row.dir, user)
	return err
}

// settle judges an end of the steps by how the sandbox ended.
func (s *session) settle(err error, limits []sandbox.End, endErr error) error {
	err = steps.Settle(err, limits, endErr, s.live)
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

// steps verifies a patch in the sandbox.
func (s *session) steps(ctx context.Context, patch []byte) error {
	p, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	if err := s.change(ctx, p, patch); err != nil {
		return err
	}
	return s.check(ctx, p)
}

// change applies the candidate and leaves of it what the policy allows.
func (s *session) change(ctx context.Context, p *prepared, patch []byte) error {
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
func (s *session) enforce(ctx context.Context, b base) error {
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
func (s *session) sort(allowed, preserved []repository.Change, rejected bool) (drop []repository.Change) {
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
func (s *session) drop(ctx context.Context, b base, drop, allowed []repository.Change) error {
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
func (s *session) layOver(ctx context.Context, files overlay) error {
	err := s.site.lay(ctx, files)
	if err != nil && s.site.full(ctx) {
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

// check lays the tests over whatever stands there, runs them, and grades them.
func (s *session) check(ctx context.Context, p *prepared) error {
	s.phase = phaseChecks
	plan, err := testrunner.New(s.withTests(p), p.probed, s.c.Seed)
	if err != nil {
		return family.Fail(verdict.PackFault, "the row's tests cannot be run: %v", err)
	}
	if err := s.layOver(ctx, laid(p, plan)); err != nil {
		return err
	}
	got, err := s.site.run(ctx, command{argv: plan.Argv, dir: plan.Dir, env: plan.Env, stdin: bytes.NewReader(plan.Stdin),
		timeout: s.site.limits.Timeout, output: s.site.limits.Output})
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
func (s *session) judge(plan *testrunner.Plan, got said) error {
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
		return family.Fail(verdict.VerificationTimeout, "the tests ran longer than the row's %v", s.site.limits.Timeout)
	case s.grade.Outcome != verdict.Passed && got.limited():
		return family.Fail(verdict.OutputLimit, "the tests wrote more than the limit of output")
	}
	return nil
}

// Close removes the sandbox.
func (s *session) Close(ctx context.Context) error {
	if s.checkout != nil {
		s.checkout.Release()
		s.checkout = nil
	}
	if s.site == nil {
		return nil
	}
	old := s.site
	s.site = nil
	return old.close(ctx)
}
