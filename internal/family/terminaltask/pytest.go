package terminaltask

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// planTests plans the run of the pack's tests. It does so before their files are
// laid out, because canaries are among them.
func (s *scorer) planTests(ctx context.Context) error {
	if s.row.form != formPytest {
		return nil
	}
	files := s.verifier.resources.Files
	root := s.row.testRoot(files.EvalDigests)
	tests := testrunner.Outside(path.Join(evaluatorDir, root), s.row.target(), s.row.dir)
	tests.Env, tests.Safe = s.row.checkerEnv(s.image), !s.row.modules
	for _, name := range s.row.testFiles(files.EvalDigests) {
		tests.TestFiles = append(tests.TestFiles, strings.TrimPrefix(name, root+"/"))
		if files.Eval != nil {
			text, _ := files.Eval.ReadFile(name) // whoever lays the file out reports that it cannot be read
			tests.Functions = append(tests.Functions, testrunner.Functions(text)...)
		}
	}
	found, err := s.probe(ctx, tests)
	if err != nil {
		return err
	}
	if s.tests, err = testrunner.New(tests, found, s.c.Seed); err != nil {
		return family.Fail(verdict.PackFault, "the row's tests cannot be run: %v", err)
	}
	if i := slices.IndexFunc(s.tests.Software, s.row.reaches); i >= 0 {
		return family.Fail(verdict.PackFault, "the tests would run with %s, which the candidate can change: leave its folder out with eval.capture.exclude, or set eval.checker.image",
			s.tests.Software[i])
	}
	return nil
}

// testRoot is the folder of the tests, below the pack's evaluation root.
func (r row) testRoot(digests map[string]string) string {
	if digests[r.path] == "" && (digests != nil || path.Ext(r.path) != ".py") {
		return r.path
	}
	return path.Dir(r.path)
}

// testFiles are the pack's test files, sorted.
func (r row) testFiles(digests map[string]string) (out []string) {
	if digests[r.path] != "" {
		return []string{r.path}
	}
	for name := range digests {
		base := path.Base(name)
		named := strings.HasPrefix(base, "test_") && path.Ext(base) == ".py" || strings.HasSuffix(base, "_test.py")
		if named && pathname.Within(name, r.path) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// canaries are the tests that must fail, as entries among the pack's: of the same
// owner and mode, and laid out with them, so that no date tells them apart.
func (s *scorer) canaries() (out []workspace.Entry) {
	if s.tests == nil {
		return nil
	}
	root := path.Join(workspace.EvaluationRoot, s.row.testRoot(s.verifier.resources.Files.EvalDigests))
	for name, text := range s.tests.Files {
		out = append(out, workspace.Entry{Path: path.Join(root, name), Mode: 0o644, Data: text})
	}
	return out
}

// grade decides by the report of pytest's driver.
func (s *scorer) grade(r ran) error {
	end := r.End
	if end == initproc.NotStarted {
		end = sandbox.Exited // with the code that a shell reports for it
	}
	g := s.tests.Grade(testrunner.Ran{End: end, ExitCode: r.ExitCode, Stdout: r.stdout, Stderr: r.stderr, Truncated: r.Stdout.Dropped > 0})
	for name, data := range g.Restricted {
		s.restricted[name] = data
	}
	for _, key := range []string{"canaries_failed", "canaries_total"} {
		if n, ok := g.Metadata[key]; ok {
			s.metadata[key] = n
		}
	}
	if g.Outcome == verdict.Passed {
		return nil
	}
	return &family.Failure{Reason: g.Reason, Message: g.Message}
}

// probe finds out what the checker's image runs tests with. It does so in a
// sandbox that has nothing but the image, once for all rows that ask the same.
func (s *scorer) probe(ctx context.Context, t testrunner.Tests) ([]byte, error) {
	c, ok := probeOf(t)
	if !ok {
		return nil, nil
	}
	key := fmt.Sprintf("%s %v %q %q", s.image.ID, s.user, c.Argv, c.Env)
	return s.inImage(ctx, s.image, key, func(client *initproc.Client) ([]byte, error) { return s.ask(ctx, client, c) })
}

// probeOf returns the command that looks for pytest. Which tests the row has
// makes no difference to it: one probe serves all rows of an image.
func probeOf(t testrunner.Tests) (testrunner.Command, bool) {
	t.Env = slices.DeleteFunc(slices.Clone(t.Env), func(v string) bool { return strings.HasPrefix(v, targetVar+"=") })
	return testrunner.Probe(t)
}

// ask runs a probe.
func (s *scorer) ask(ctx context.Context, client *initproc.Client, c testrunner.Command) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	res, err := client.Run(ctx, initproc.Command{Argv: c.Argv, Env: c.Env, Inherit: true, Dir: "/", User: s.user,
		Stdin: bytes.NewReader(c.Stdin), Stdout: &stdout, Stderr: &stderr, Output: saidLimit, Timeout: stepLimit})
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for pytest: %w", err)
	case res.End == sandbox.TimedOut:
		return nil, fmt.Errorf("looking for pytest takes longer than %v", stepLimit)
	case res.ExitCode != 0:
		s.restricted["probe-stderr.txt"] = stderr.Bytes()
		return nil, family.Fail(verdict.PackFault, "the checker's image cannot run the row's tests: the search for pytest ended with code %d", res.ExitCode)
	}
	return stdout.Bytes(), nil
}
