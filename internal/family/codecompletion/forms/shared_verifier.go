package forms

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// lookLimit bounds what is found out before the candidate is there.
const lookLimit = time.Minute

// newShared makes the verifier of rows of this kind.
func newShared(r family.Resources) family.Verifier {
	return newProgramVerifier(r, true, func(c family.Case) (programScorer, *family.Failure) {
		r, refused := readShared(c.Sandbox)
		return &sharedScorer{c: c, row: r, restricted: map[string][]byte{}}, refused
	})
}

// sharedScorer scores Python code whose tests need to be in one process with it:
// tests that subclass the candidate's classes, patch its names, or pass objects of
// their own.
//
// The tests are run by the driver of pytest in package testrunner, hardened as it is
// for repositories: a report on a descriptor of its own under a fresh key, canaries
// that must fail, and each test of the row by its name. That makes it hard, not
// impossible, for the candidate to be taken for right. Verdicts have the containment
// shared.
type sharedScorer struct {
	c   family.Case
	row sharedRow

	grade      testrunner.Grade
	total      int           // tests that must pass
	planning   time.Duration // before the candidate was in the box
	restricted map[string][]byte
}

// Read implements [programScorer].
func (s *sharedScorer) Read(c candidate.Candidate) (source, error) {
	return read(c, Python)
}

// Score runs the row's tests over the candidate.
func (s *sharedScorer) Score(ctx context.Context, box *programBox, program source) error {
	start := time.Now()
	plan, err := s.plan(ctx, box)
	s.planning = time.Since(start)
	if err != nil {
		return err
	}
	return s.run(ctx, box, plan, program)
}

// plan lays the tests out. Nothing of the candidate's is in the box yet.
func (s *sharedScorer) plan(ctx context.Context, box *programBox) (*testrunner.Plan, error) {
	l, err := s.list(ctx, box)
	if err != nil {
		return nil, err
	}
	tests := s.row.runnerTests(l)
	s.total = len(tests.FailToPass)
	probe, _ := testrunner.Probe(tests)
	found, err := s.ask(ctx, box, command{Argv: probe.Argv, Env: probe.Env, Stdin: probe.Stdin}, "look for pytest")
	if err != nil {
		return nil, err
	}
	plan, err := testrunner.New(tests, found, s.c.Seed)
	if err != nil {
		return nil, family.Fail(verdict.PackFault, "the row's tests cannot be run: %v", err)
	}
	return plan, box.layTests(ctx, s.row.files(l, plan.Files))
}

// list lists the files of tests, and the tests that must pass.
func (s *sharedScorer) list(ctx context.Context, box *programBox) (layout, error) {
	files := s.row.tests.tests(s.c.Seed)
	texts := map[string]string{}
	for name, f := range files {
		texts[name] = f.text
	}
	in, err := json.Marshal(texts, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	out, err := s.ask(ctx, box, command{Argv: []string{"python3", "-I", "-S", "-c", listingSource}, Stdin: in}, "read the row's tests")
	if err != nil {
		return nil, err
	}
	var found struct {
		Tests map[string][]string `json:"tests"`
		File  string              `json:"file"`
		Line  *int                `json:"line"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, family.Fail(verdict.PackFault, "the image's Python does not list the row's tests")
	}
	if found.Line != nil {
		where := ""
		if found.File != "" {
			where = redact.Quote(found.File) + " "
		}
		return nil, family.Fail(verdict.PackFault, "the row's tests do not parse: %sline %d", where, *found.Line)
	}
	var l layout
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		f.ids = found.Tests[name]
		total += len(f.ids)
		l = append(l, f)
	}
	if total == 0 && s.row.tests.Files != nil {
		return nil, family.Fail(verdict.PackFault, "the row's folder of tests has no test that must pass")
	}
	return l, nil
}

// ask runs a command of securebench's own in the box.
func (s *sharedScorer) ask(ctx context.Context, box *programBox, c command, what string) ([]byte, error) {
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
func (s *sharedScorer) run(ctx context.Context, box *programBox, plan *testrunner.Plan, program source) error {
	if err := box.lay(ctx, ".", []boxFile{{Path: "candidate.py", Mode: 0o644, Data: program.Text}}); err != nil {
		return err
	}
	ran, err := box.Run(ctx, command{Argv: plan.Argv, Env: plan.Env, Stdin: plan.Stdin, Timeout: Limit(s.c)})
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
	case s.grade.Outcome != verdict.Passed:
		return &family.Failure{Reason: s.grade.Reason, Message: s.grade.Message}
	case ran.ExitCode != 0:
		return family.Fail(verdict.TestsFailed, "not every test passed")
	}
	return nil
}

// Describe implements [programScorer].
func (s *sharedScorer) Describe(v *family.Verdict) {
	v.Containment, v.Labels, v.Restricted = verdict.Shared, s.grade.Labels, s.restricted
	v.Waited += s.planning
	v.Metadata = verdict.NewMetadata(map[string]any{"language": Python, "image": s.c.Image.Ref, "tests_total": s.total})
	for _, key := range []string{"canaries_failed", "canaries_total"} {
		if n, ok := s.grade.Metadata[key]; ok {
			v.Metadata.Set(key, n)
		}
	}
	if v.Outcome != verdict.Passed {
		v.Phase = phaseTests
	}
}
