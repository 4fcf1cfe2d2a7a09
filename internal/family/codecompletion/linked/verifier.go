package linked

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// The phases of a verification.
const (
	phaseCompile verdict.Phase = "compile"
	phaseTests   verdict.Phase = "tests"
)

// New makes the verifier of rows of this kind.
func New(r family.Resources) family.Verifier {
	return programs.NewVerifier(r, programs.Options{}, func(c family.Case) (programs.Scorer, *family.Failure) {
		r, refused := read(c.Sandbox)
		return &scorer{c: c, row: r, restricted: map[string][]byte{}}, refused
	})
}

// scorer scores code by tests that are linked with it.
type scorer struct {
	c   family.Case
	row row

	phase      verdict.Phase
	restricted map[string][]byte
}

// Read implements [programs.Scorer].
func (s *scorer) Read(c candidate.Candidate) (programs.Source, error) {
	source, err := programs.Read(c, s.row.language)
	if err == nil && s.row.language == "go" {
		if f := redeclared(source.Text, s.row.code); f != nil {
			err = f
		}
	}
	return source, err
}

// Score links the tests with the candidate and runs them.
func (s *scorer) Score(ctx context.Context, box *programs.Box, program programs.Source) error {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	token := hex.EncodeToString(random)
	text, stdin := s.row.withToken(token)
	files := []programs.File{{Path: s.row.file, Mode: 0o644, Data: program.Text}}
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

func (s *scorer) late() error {
	return family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", programs.Limit(s.c))
}

// build compiles the tests with the candidate. What it returns is without the texts of
// either. The program still holds the token, and the compiler can have put the tests'
// text into it on the candidate's behalf.
func (s *scorer) build(ctx context.Context, box *programs.Box, files []programs.File) ([]programs.File, time.Duration, error) {
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

// Describe implements [programs.Scorer].
func (s *scorer) Describe(v *family.Verdict) {
	v.Containment, v.Restricted = verdict.Shared, s.restricted
	v.Metadata = verdict.NewMetadata(map[string]any{"language": s.row.language, "image": s.c.Image.Ref})
	if v.Outcome != verdict.Passed {
		v.Phase = s.phase
	}
}
