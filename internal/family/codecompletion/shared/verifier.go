package shared

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// Verifier scores code by tests that share its process.
type Verifier struct{ resources family.Resources }

// New makes a verifier. It starts nothing.
func New(r family.Resources) family.Verifier { return &Verifier{r} }

// Close implements [family.Verifier]. Nothing is kept on the engine.
func (v *Verifier) Close(context.Context) error { return nil }

// Open begins to make the sandbox.
func (v *Verifier) Open(ctx context.Context, c family.Case) family.Session {
	s := &session{verifier: v, c: c, restricted: map[string][]byte{}}
	s.row, s.refused = read(c.Sandbox)
	if s.refused == nil && !c.Lazy {
		s.prepare(ctx)
	}
	return s
}

const (
	// lookLimit bounds what is found out before the candidate is there.
	lookLimit = time.Minute
	// phaseTests is the phase of a verification.
	phaseTests verdict.Phase = "tests"
)

// session is the verification of one attempt.
type session struct {
	verifier *Verifier
	c        family.Case
	row      row
	refused  *family.Failure
	box      *programs.Pending

	source     programs.Source
	grade      testrunner.Grade
	total      int // tests that must pass
	waited     time.Duration
	restricted map[string][]byte
}

func (s *session) prepare(ctx context.Context) {
	s.box = programs.Prepare(ctx, s.verifier.resources.Engine, s.verifier.resources.RunID, s.c, programs.Options{Tests: true})
}

// Verify runs the row's tests over the candidate.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.refused != nil {
		return s.verdict(s.refused), nil
	}
	var f *family.Failure
	var err error
	if s.source, err = programs.Read(c, programs.Python); errors.As(err, &f) {
		return s.verdict(f), nil
	}
	if err != nil {
		return family.Verdict{}, err
	}
	if s.box == nil {
		s.prepare(ctx)
	}
	start := time.Now()
	box, err := s.box.Wait(ctx)
	if err != nil {
		return family.Verdict{}, err
	}
	plan, err := s.plan(ctx, box)
	s.waited = time.Since(start)
	if err == nil {
		err = s.run(ctx, box, plan)
	}
	if err = box.Settle(ctx, err); err != nil && !errors.As(err, &f) {
		return family.Verdict{}, err
	}
	return s.verdict(f), nil
}

// plan lays the tests out. Nothing of the candidate's is in the box yet.
func (s *session) plan(ctx context.Context, box *programs.Box) (*testrunner.Plan, error) {
	ids, err := s.list(ctx, box)
	if err != nil {
		return nil, err
	}
	l := layout{file: testrunner.FileName(s.c.Seed), ids: ids}
	tests := s.row.runnerTests(l)
	s.total = len(tests.FailToPass)
	probe, _ := testrunner.Probe(tests)
	found, err := s.ask(ctx, box, programs.Command{Argv: probe.Argv, Env: probe.Env, Stdin: probe.Stdin}, "look for pytest")
	if err != nil {
		return nil, err
	}
	plan, err := testrunner.New(tests, found, s.c.Seed)
	if err != nil {
		return nil, family.Fail(verdict.PackFault, "the row's tests cannot be run: %v", err)
	}
	return plan, box.LayTests(ctx, s.row.files(l, plan.Files))
}

// list lists the tests that must pass.
func (s *session) list(ctx context.Context, box *programs.Box) ([]string, error) {
	out, err := s.ask(ctx, box, programs.Command{Argv: []string{"python3", "-I", "-S", "-c", listingSource}, Stdin: []byte(s.row.tests)}, "read the row's tests")
	if err != nil {
		return nil, err
	}
	var found struct {
		Tests []string `json:"tests"`
		Line  *int     `json:"line"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, family.Fail(verdict.PackFault, "the image's Python does not list the row's tests")
	}
	if found.Line != nil {
		return nil, family.Fail(verdict.PackFault, "the row's tests do not parse: line %d", *found.Line)
	}
	return found.Tests, nil
}

// ask runs a command of securebench's own in the box.
func (s *session) ask(ctx context.Context, box *programs.Box, c programs.Command, what string) ([]byte, error) {
	c.Timeout = lookLimit
	ran, err := box.Run(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case ran.End != sandbox.Exited || ran.ExitCode != 0:
		s.restricted["preparation-stderr.txt"] = ran.Stderr
		return nil, family.Fail(verdict.PackFault, "the image's Python cannot %s: it ended with code %d", what, ran.ExitCode)
	}
	return ran.Stdout, nil
}

// run runs the tests and grades their report.
func (s *session) run(ctx context.Context, box *programs.Box, plan *testrunner.Plan) error {
	if err := box.Lay(ctx, ".", []programs.File{{Path: "candidate.py", Mode: 0o644, Data: s.source.Text}}); err != nil {
		return err
	}
	ran, err := box.Run(ctx, programs.Command{Argv: plan.Argv, Env: plan.Env, Stdin: plan.Stdin, Timeout: programs.Limit(s.c)})
	s.restricted["tests-output.txt"] = ran.Stderr // the driver has sent the standard output there
	if err != nil {
		return err
	}
	end := ran.End
	if end != sandbox.TimedOut {
		end = sandbox.Exited
	}
	s.grade = plan.Grade(testrunner.Ran{End: end, ExitCode: ran.ExitCode, Stdout: ran.Stdout, Stderr: ran.Stderr})
	for name, data := range s.grade.Restricted {
		s.restricted[name] = data
	}
	switch {
	case s.grade.Outcome == verdict.Tampering:
		return &family.Failure{Message: s.grade.Message} // tampering has no reason
	case s.grade.Outcome != verdict.Passed:
		return &family.Failure{Reason: s.grade.Reason, Message: s.grade.Message}
	case ran.ExitCode != 0:
		return family.Fail(verdict.TestsFailed, "not every test passed")
	}
	return nil
}

// verdict describes the verification; a nil failure is a pass.
func (s *session) verdict(f *family.Failure) family.Verdict {
	v := family.Verdict{
		Outcome:     verdict.Passed,
		Containment: verdict.Shared,
		Metadata:    verdict.NewMetadata(map[string]any{"language": programs.Python, "image": s.c.Image.Ref, "tests_total": s.total}),
		Labels:      s.grade.Labels,
		Restricted:  s.restricted,
		Waited:      s.waited,
		Extraction:  s.source.How,
		Extracted:   s.source.Taken,
	}
	for _, key := range []string{"canaries_failed", "canaries_total"} {
		if n, ok := s.grade.Metadata[key]; ok {
			v.Metadata.Set(key, n)
		}
	}
	if f != nil {
		v.Outcome, v.Reason, v.Message, v.Phase = f.Outcome(), f.Reason, f.Message, phaseTests
		if f.Reason == "" {
			v.Outcome = verdict.Tampering
		}
	}
	return v
}

// Close removes the sandbox.
func (s *session) Close(ctx context.Context) error {
	if s.box == nil {
		return nil
	}
	box := s.box
	s.box = nil
	return box.Close(ctx)
}
