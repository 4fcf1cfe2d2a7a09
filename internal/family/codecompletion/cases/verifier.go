package cases

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// notFound is the exit code of a program that is not there.
const notFound = 127

// The phases of a verification.
const (
	phaseCompile verdict.Phase = "compile"
	phaseCases   verdict.Phase = "cases"
)

// New makes the verifier of rows of this kind.
func New(r family.Resources) family.Verifier {
	return programs.NewVerifier(r, programs.Options{}, func(c family.Case) (programs.Scorer, *family.Failure) {
		r, refused := read(c.Sandbox)
		return &scorer{c: c, row: r, restricted: map[string][]byte{}}, refused
	})
}

// scorer scores a program by its cases.
type scorer struct {
	c   family.Case
	row row

	phase      verdict.Phase
	passed     int
	spent      time.Duration // by the candidate's commands
	restricted map[string][]byte
}

// Read implements [programs.Scorer].
func (s *scorer) Read(c candidate.Candidate) (programs.Source, error) {
	return programs.Read(c, s.row.language)
}

// Score builds the program and runs the cases until one fails.
func (s *scorer) Score(ctx context.Context, box *programs.Box, program programs.Source) error {
	files := []programs.File{{Path: s.row.file, Mode: 0o644, Data: program.Text}}
	if s.row.compile != nil {
		s.phase = phaseCompile
		var err error
		if files, err = s.build(ctx, box, files); err != nil {
			return err
		}
	}
	s.phase = phaseCases
	for n, c := range s.row.cases {
		if err := s.runCase(ctx, box, n, c, files); err != nil {
			return err
		}
		s.passed++
	}
	return nil
}

// build runs the row's compiler once and returns what it left, with which each
// case begins.
func (s *scorer) build(ctx context.Context, box *programs.Box, files []programs.File) ([]programs.File, error) {
	const dir = "build"
	if err := box.Lay(ctx, dir, files); err != nil {
		return nil, err
	}
	ran, err := s.command(ctx, box, programs.Command{Argv: s.row.compile, Dir: dir}, 0)
	s.restricted["compile-output.txt"] = slices.Concat(ran.Stdout, ran.Stderr)
	switch {
	case err != nil:
		return nil, err
	case ran.End == initproc.NotStarted:
		return nil, family.Fail(verdict.PackFault, "the image has no program %q to compile with", s.row.compile[0])
	case ran.ExitCode != 0:
		return nil, family.Fail(verdict.TestsFailed, "the candidate does not compile")
	}
	left, err := box.Files(ctx, dir)
	box.Discard(ctx, dir)
	return left, err
}

// command runs a command of the candidate's within what is left of the row's
// time.
func (s *scorer) command(ctx context.Context, box *programs.Box, c programs.Command, limit time.Duration) (programs.Ran, error) {
	whole := programs.Limit(s.c)
	c.Timeout = whole - s.spent
	if limit > 0 {
		c.Timeout = min(c.Timeout, limit)
	}
	if c.Timeout <= 0 {
		return programs.Ran{}, family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", whole)
	}
	ran, err := box.Run(ctx, c)
	s.spent += ran.Duration
	switch {
	case err != nil:
		return ran, err
	case ran.End == sandbox.TimedOut && c.Timeout == limit:
		return ran, family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the %v of a case", limit)
	case ran.End == sandbox.TimedOut:
		return ran, family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", whole)
	}
	return ran, nil
}

// runCase runs one case in a folder of its own, with a name that no earlier case could
// know. What it expects stays here.
func (s *scorer) runCase(ctx context.Context, box *programs.Box, n int, c testCase, files []programs.File) error {
	dir := "case-" + strings.ToLower(rand.Text())
	given := slices.Clone(files)
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		given = append(given, programs.File{Path: name, Mode: 0o644, Data: []byte(c.Files[name])})
	}
	if err := box.Lay(ctx, dir, given); err != nil {
		return err
	}
	ran, err := s.command(ctx, box, programs.Command{Argv: slices.Concat(s.row.command, c.Args), Dir: dir, Stdin: []byte(c.Stdin)}, s.row.each)
	if err == nil {
		err = s.judge(ctx, box, dir, c, ran)
	}
	var f *family.Failure
	if errors.As(err, &f) {
		s.restricted["case-stdout.txt"], s.restricted["case-stderr.txt"] = ran.Stdout, ran.Stderr
		return family.Fail(f.Reason, "case %d of %d: %s", n+1, len(s.row.cases), f.Message)
	}
	box.Discard(ctx, dir)
	return err
}

// judge compares what a case did with what it should have done. Only init's
// report, the streams and files are looked at; the program is dead.
func (s *scorer) judge(ctx context.Context, box *programs.Box, dir string, c testCase, ran programs.Ran) error {
	switch {
	case ran.ExitCode == notFound && ran.End == initproc.NotStarted && !strings.Contains(s.row.command[0], "/"):
		return family.Fail(verdict.PackFault, "the image has no program %q to run the candidate with", s.row.command[0])
	case ran.End == initproc.NotStarted:
		return family.Fail(verdict.TestsFailed, "the candidate cannot be started")
	case ran.ExitCode != c.Expect.ExitCode:
		return family.Fail(verdict.TestsFailed, "the candidate ended with another exit code")
	case c.Expect.Stdout != nil && !s.row.compare.same(ran.Stdout, []byte(*c.Expect.Stdout)):
		return family.Fail(verdict.TestsFailed, "the output is not what is expected")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Expect.Files)) {
		found, err := box.Files(ctx, dir+"/"+name)
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].Path != "." || !s.row.compare.same(found[0].Data, []byte(c.Expect.Files[name])) {
			return family.Fail(verdict.TestsFailed, "a file is not what is expected")
		}
	}
	return nil
}

// Describe implements [programs.Scorer].
func (s *scorer) Describe(v *family.Verdict) {
	v.Containment, v.Restricted = verdict.Split, s.restricted
	v.Metadata = verdict.NewMetadata(map[string]any{"language": s.row.language, "image": s.c.Image.Ref,
		"cases_passed": s.passed, "cases_total": len(s.row.cases)})
	if v.Outcome != verdict.Passed {
		v.Phase = s.phase
	}
}
