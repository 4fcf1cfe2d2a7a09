package forms

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// newLinked makes the verifier of rows of this kind.
func newLinked(r family.Resources) family.Verifier {
	return newProgramVerifier(r, false, func(c family.Case) (programScorer, *family.Failure) {
		r, refused := readLinked(c.Sandbox)
		return &linkedScorer{c: c, row: r, restricted: map[string][]byte{}}, refused
	})
}

// linkedScorer scores code in any language by tests that are linked with it: the tests
// are a program that calls the candidate's functions.
//
// An exit status says little about such a program, which the candidate can end at any
// point. A pass needs a token that is fresh for every attempt, and that the tests
// report after their last test as the last line of the standard output, which goes to
// securebench's init. Where the tests' text is compiled, the token is in it; the text is
// removed before the program runs, but the program holds the token. Tests that are
// interpreted get it, or are given whole, on the standard input, which they read before
// they load the candidate. That stops candidates that end early or print a verdict. It
// does not stop one that is made for it: it shares the process, so it can read the
// token in the program's file and memory, take the place of functions that the tests
// call where the linker lets it, and read the tests' text while it is compiled.
// Verdicts have the containment shared.
type linkedScorer struct {
	c   family.Case
	row linkedRow

	phase      verdict.Phase
	restricted map[string][]byte
}

// Read implements [programScorer].
func (s *linkedScorer) Read(c candidate.Candidate) (source, error) {
	source, err := read(c, s.row.language)
	if err == nil && s.row.language == "go" {
		if f := redeclared(source.Text, s.row.code); f != nil {
			err = f
		}
	}
	return source, err
}

// Score links the tests with the candidate and runs them.
func (s *linkedScorer) Score(ctx context.Context, box *programBox, program source) error {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	token := hex.EncodeToString(random)
	text, stdin := s.row.withToken(token)
	files := []boxFile{{Path: s.row.file, Mode: 0o644, Data: program.Text}}
	limit := Limit(s.c)
	if s.row.compile != nil {
		s.phase = phaseCompile
		var spent time.Duration
		var err error
		files, spent, err = s.build(ctx, box, append(files, boxFile{Path: s.row.testFile, Mode: 0o644, Data: text}))
		if err != nil {
			return err
		}
		limit = max(limit-spent, time.Millisecond)
	}
	s.phase = phaseTests
	const dir = "run"
	if err := box.lay(ctx, dir, files); err != nil {
		return err
	}
	ran, err := box.Run(ctx, command{Argv: s.row.command, Dir: dir, Stdin: stdin, Timeout: limit})
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

func (s *linkedScorer) late() error {
	return family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", Limit(s.c))
}

// build compiles the tests with the candidate. What it returns is without the texts of
// either. The program still holds the token, and the compiler can have put the tests'
// text into it on the candidate's behalf.
func (s *linkedScorer) build(ctx context.Context, box *programBox, files []boxFile) ([]boxFile, time.Duration, error) {
	const dir = "build"
	if err := box.lay(ctx, dir, files); err != nil {
		return nil, 0, err
	}
	ran, err := box.Run(ctx, command{Argv: s.row.compile, Dir: dir, Timeout: Limit(s.c)})
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
	left, err := box.files(ctx, dir)
	if err != nil {
		return nil, 0, err
	}
	if err := box.clear(ctx, dir); err != nil {
		return nil, 0, err
	}
	return slices.DeleteFunc(left, func(f boxFile) bool { return f.Path == s.row.file || f.Path == s.row.testFile }), ran.Duration, nil
}

// Describe implements [programScorer].
func (s *linkedScorer) Describe(v *family.Verdict) {
	v.Containment, v.Restricted = verdict.Shared, s.restricted
	v.Metadata = verdict.NewMetadata(map[string]any{"language": s.row.language, "image": s.c.Image.Ref})
	if v.Outcome != verdict.Passed {
		v.Phase = s.phase
	}
}
