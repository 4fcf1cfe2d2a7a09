package linked

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// Verifier scores code by tests that are linked with it.
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

// The phases of a verification.
const (
	phaseCompile verdict.Phase = "compile"
	phaseTests   verdict.Phase = "tests"
)

// session is the verification of one attempt.
type session struct {
	verifier *Verifier
	c        family.Case
	row      row
	refused  *family.Failure
	box      *programs.Pending

	source     programs.Source
	phase      verdict.Phase
	waited     time.Duration
	restricted map[string][]byte
}

func (s *session) prepare(ctx context.Context) {
	s.box = programs.Prepare(ctx, s.verifier.resources.Engine, s.verifier.resources.RunID, s.c, programs.Options{})
}

// Verify links the tests with the candidate and runs them.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.refused != nil {
		return s.verdict(s.refused), nil
	}
	var f *family.Failure
	var err error
	if s.source, err = programs.Read(c, s.row.language); errors.As(err, &f) {
		return s.verdict(f), nil
	}
	if err != nil {
		return family.Verdict{}, err
	}
	if s.row.language == "go" {
		if f = redeclared(s.source.Text, s.row.code); f != nil {
			return s.verdict(f), nil
		}
	}
	if s.box == nil {
		s.prepare(ctx)
	}
	start := time.Now()
	box, err := s.box.Wait(ctx)
	s.waited = time.Since(start)
	if err != nil {
		return family.Verdict{}, err
	}
	if err = box.Settle(ctx, s.run(ctx, box)); err != nil && !errors.As(err, &f) {
		return family.Verdict{}, err
	}
	return s.verdict(f), nil
}

// run builds the program and runs it. A nil error is a pass.
func (s *session) run(ctx context.Context, box *programs.Box) error {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	token := hex.EncodeToString(random)
	text, stdin := s.row.withToken(token)
	files := []programs.File{{Path: s.row.file, Mode: 0o644, Data: s.source.Text}}
	limit := programs.Limit(s.c)
	if s.row.compile != nil {
		s.phase = phaseCompile
		var spent time.Duration
		var err error
		files, spent, err = s.build(ctx, box, append(files, programs.File{Path: s.row.testFile, Mode: 0o644, Data: text}))
		if err != nil {
			return err
		}
		limit = max(limit-spent, time.Millisecond)
	}
	s.phase = phaseTests
	const dir = "run"
	if err := box.Lay(ctx, dir, files); err != nil {
		return err
	}
	ran, err := box.Run(ctx, programs.Command{Argv: s.row.command, Dir: dir, Stdin: stdin, Timeout: limit})
	s.restricted["tests-stdout.txt"], s.restricted["tests-stderr.txt"] = ran.Stdout, ran.Stderr
	switch {
	case err != nil:
		return err
	case ran.End == sandbox.TimedOut:
		return s.late()
	case ran.End == initproc.NotStarted && s.row.compile == nil:
		return family.Fail(verdict.PackFault, "the image has no program %q to run the tests with", s.row.command[0])
	}
	if f := reported(string(ran.Stdout), token, ran.ExitCode); f != nil {
		return f
	}
	return nil
}

func (s *session) late() error {
	return family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", programs.Limit(s.c))
}

// build compiles the tests with the candidate. What it returns is without the texts of
// either. The program still holds the token, and the compiler can have put the tests'
// text into it on the candidate's behalf.
func (s *session) build(ctx context.Context, box *programs.Box, files []programs.File) ([]programs.File, time.Duration, error) {
	const dir = "build"
	if err := box.Lay(ctx, dir, files); err != nil {
		return nil, 0, err
	}
	ran, err := box.Run(ctx, programs.Command{Argv: s.row.compile, Dir: dir, Timeout: programs.Limit(s.c)})
	s.restricted["compile-output.txt"] = slices.Concat(ran.Stdout, ran.Stderr)
	switch {
	case err != nil:
		return nil, 0, err
	case ran.End == sandbox.TimedOut:
		return nil, 0, s.late()
	case ran.End == initproc.NotStarted:
		return nil, 0, family.Fail(verdict.PackFault, "the image has no program %q to compile with", s.row.compile[0])
	case ran.ExitCode != 0:
		return nil, 0, family.Fail(verdict.TestsFailed, "the candidate does not compile, or not with the tests")
	}
	left, err := box.Files(ctx, dir)
	if err != nil {
		return nil, 0, err
	}
	if err := box.Clear(ctx, dir); err != nil {
		return nil, 0, err
	}
	return slices.DeleteFunc(left, func(f programs.File) bool { return f.Path == s.row.file || f.Path == s.row.testFile }), ran.Duration, nil
}

// verdict describes the verification; a nil failure is a pass.
func (s *session) verdict(f *family.Failure) family.Verdict {
	v := family.Verdict{
		Outcome:     verdict.Passed,
		Containment: verdict.Shared,
		Metadata:    verdict.NewMetadata(map[string]any{"language": s.row.language, "image": s.c.Image.Ref}),
		Restricted:  s.restricted,
		Waited:      s.waited,
		Extraction:  s.source.How,
		Extracted:   s.source.Taken,
	}
	if f != nil {
		v.Outcome, v.Reason, v.Message, v.Phase = f.Outcome(), f.Reason, f.Message, s.phase
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
