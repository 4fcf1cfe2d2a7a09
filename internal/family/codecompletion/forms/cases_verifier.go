package forms

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/checker"
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
	phaseTests   verdict.Phase = "tests"
)

// newCases makes the verifier of rows of this kind.
func newCases(r family.Resources) family.Verifier {
	checkers := checker.New(r)
	return casesVerifier{newProgramVerifier(r, false, func(c family.Case) (programScorer, *family.Failure) {
		r, refused := readCases(c.Sandbox)
		return &casesScorer{c: c, row: r, checkers: checkers, restricted: map[string][]byte{}}, refused
	}), checkers}
}

// casesVerifier adds twins to the verifier of programs, and checkers of packs.
type casesVerifier struct {
	family.Verifier
	checkers *checker.Checkers
}

// Close closes the checkers.
func (v casesVerifier) Close(ctx context.Context) error {
	return errors.Join(v.Verifier.Close(ctx), v.checkers.Close(ctx))
}

// casesScorer scores a program by its cases.
type casesScorer struct {
	c   family.Case
	row casesRow

	checkers   *checker.Checkers
	phase      verdict.Phase
	passed     int
	scores     float64       // of the row's checker, added up
	spent      time.Duration // by the candidate's commands
	restricted map[string][]byte
}

// Read implements [programScorer].
func (s *casesScorer) Read(c candidate.Candidate) (source, error) {
	return read(c, s.row.language)
}

// Score builds the program and runs the cases until one fails.
func (s *casesScorer) Score(ctx context.Context, box *programBox, program source) error {
	files := []boxFile{{Path: s.row.file, Mode: 0o644, Data: program.Text}}
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
func (s *casesScorer) build(ctx context.Context, box *programBox, files []boxFile) ([]boxFile, error) {
	const dir = "build"
	if err := box.lay(ctx, dir, files); err != nil {
		return nil, err
	}
	ran, err := s.command(ctx, box, command{Argv: s.row.compile, Dir: dir}, 0)
	s.restricted["compile-output.txt"] = slices.Concat(ran.Stdout, ran.Stderr)
	switch {
	case err != nil:
		return nil, err
	case ran.End == initproc.NotStarted:
		return nil, family.Fail(verdict.PackFault, "the image has no program %q to compile with", s.row.compile[0])
	case ran.ExitCode != 0:
		return nil, family.Fail(verdict.TestsFailed, "the candidate does not compile")
	}
	left, err := box.files(ctx, dir)
	box.discard(ctx, dir)
	return left, err
}

// command runs a command of the candidate's within what is left of the row's
// time.
func (s *casesScorer) command(ctx context.Context, box *programBox, c command, limit time.Duration) (ran, error) {
	whole := Limit(s.c)
	c.Timeout = whole - s.spent
	if limit > 0 {
		c.Timeout = min(c.Timeout, limit)
	}
	if c.Timeout <= 0 {
		return ran{}, family.Fail(verdict.VerificationTimeout, "the candidate ran longer than the row's %v", whole)
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
func (s *casesScorer) runCase(ctx context.Context, box *programBox, n int, c testCase, files []boxFile) error {
	dir := "case-" + strings.ToLower(rand.Text())
	given := slices.Clone(files)
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		given = append(given, boxFile{Path: name, Mode: 0o644, Data: []byte(c.Files[name])})
	}
	if err := box.lay(ctx, dir, given); err != nil {
		return err
	}
	ran, err := s.command(ctx, box, command{Argv: slices.Concat(s.row.command, c.Args), Dir: dir, Stdin: []byte(c.Stdin)}, s.row.each)
	if err == nil {
		err = s.judge(ctx, box, dir, c, ran)
	}
	var f *family.Failure
	if errors.As(err, &f) {
		s.restricted["case-stdout.txt"], s.restricted["case-stderr.txt"] = ran.Stdout, ran.Stderr
		s.restricted["case-expected.txt"] = []byte(s.row.expected(c, ran))
		return family.Fail(f.Reason, "case %d of %d: %s", n+1, len(s.row.cases), f.Message)
	}
	box.discard(ctx, dir)
	return err
}

// maxExpected bounds what is shown of an expected output, in bytes.
const maxExpected = 4096

// expected says, for the author and the operator, how a case should have ended.
func (r casesRow) expected(c testCase, ran ran) string {
	var b strings.Builder
	if named := strings.Join(slices.Concat(r.compile, r.command, c.Args), " "); ran.ExitCode != c.Expect.ExitCode && !strings.Contains(named, strings.TrimSuffix(r.file, path.Ext(r.file))) {
		fmt.Fprintf(&b, "no command names %s, the candidate's file (set eval.tests.file, or name it)\n", r.file)
	}
	if ran.End == sandbox.Exited && ran.ExitCode != c.Expect.ExitCode {
		fmt.Fprintf(&b, "exit code %d, not %d\n", c.Expect.ExitCode, ran.ExitCode)
	}
	if want := c.Expect.Stdout; want != nil {
		fmt.Fprintf(&b, "standard output %q\n", (*want)[:min(len(*want), maxExpected)])
		if words := (comparison{how: whitespace}); r.compare.how == exact && !r.compare.same(ran.Stdout, []byte(*want)) && words.same(ran.Stdout, []byte(*want)) {
			b.WriteString("its words are the same, and only white space differs (set eval.tests.compare to whitespace if that does not matter)\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Expect.Files)) {
		want := c.Expect.Files[name]
		fmt.Fprintf(&b, "file %s with %q\n", name, want[:min(len(want), maxExpected)])
	}
	return b.String()
}

// judge compares what a case did with what it should have done. Only init's
// report, the streams and files are looked at; the program is dead.
func (s *casesScorer) judge(ctx context.Context, box *programBox, dir string, c testCase, ran ran) error {
	switch {
	case ran.ExitCode == notFound && ran.End == initproc.NotStarted && !strings.Contains(s.row.command[0], "/"):
		return family.Fail(verdict.PackFault, "the image has no program %q to run the candidate with", s.row.command[0])
	case ran.End == initproc.NotStarted:
		return family.Fail(verdict.TestsFailed, "the candidate cannot be started")
	case ran.ExitCode != c.Expect.ExitCode:
		return family.Fail(verdict.TestsFailed, "the candidate ended with another exit code")
	case s.row.checker != nil:
		return s.ask(ctx, box, dir, c, ran)
	case c.Expect.Stdout != nil && !s.row.compare.same(ran.Stdout, []byte(*c.Expect.Stdout)):
		return family.Fail(verdict.TestsFailed, "the output is not what is expected")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Expect.Files)) {
		found, err := box.files(ctx, dir+"/"+name)
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].Path != "." || !s.row.compare.same(found[0].Data, []byte(c.Expect.Files[name])) {
			return family.Fail(verdict.TestsFailed, "a file is not what is expected")
		}
	}
	return nil
}

// ask has the row's checker judge what a case did: its standard output, and the files
// that the case names.
func (s *casesScorer) ask(ctx context.Context, box *programBox, dir string, c testCase, ran ran) error {
	files := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Expect.Files)) {
		found, err := box.files(ctx, dir+"/"+name)
		if err != nil {
			return err
		}
		if len(found) == 1 && found[0].Path == "." {
			files[name] = plainText(found[0].Data)
		}
	}
	row, err := checker.Row(s.c.Sandbox.ID(), s.c.Sandbox.Payload(), map[string]any{"case": c, "files": files})
	if err != nil {
		return err
	}
	q := checker.Question{Text: plainText(ran.Stdout), Row: row}
	if answer := strings.TrimSpace(q.Text); answer != "" {
		q.Answer = &answer
	}
	got, err := s.checkers.Ask(ctx, s.c, *s.row.checker, q)
	s.scores += got.Score
	maps.Copy(s.restricted, got.Restricted())
	if err == nil && !s.row.checker.Passes(got.Score) {
		return family.Fail(verdict.TestsFailed, "the row's checker does not accept the output")
	}
	return err
}

// plainText is what a program wrote, as text.
func plainText(data []byte) string { return strings.ToValidUTF8(string(data), "\ufffd") }

// Describe implements [programScorer].
func (s *casesScorer) Describe(v *family.Verdict) {
	v.Containment, v.Restricted = verdict.Split, s.restricted
	if s.row.checker != nil {
		v.Labels = append(v.Labels, verdict.PackChecker)
		if v.Outcome != verdict.Pending { // a case that was not run scores nothing
			v.Measure = &verdict.Measure{Name: checker.Name, Value: s.scores / float64(len(s.row.cases))}
		}
	}
	v.Metadata = verdict.NewMetadata(map[string]any{"language": s.row.language, "image": s.c.Image.Ref,
		"cases_passed": s.passed, "cases_total": len(s.row.cases)})
	if v.Outcome != verdict.Passed {
		v.Phase = s.phase
	}
}
