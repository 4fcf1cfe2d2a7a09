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
	"securebench/internal/verdict"
)

// withHome adds the user's home to a row's variables, unless the image or the
// row sets it.
func withHome(env []string, image sandbox.Image, home string) []string {
	own := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "HOME=") })
	if own || slices.Contains(image.Env, "HOME") {
		return env
	}
	return append([]string{"HOME=" + home}, env...)
}

// check runs the checker and decides by what it did.
func (s *scorer) check(ctx context.Context) error {
	plan, err := s.plan()
	if err != nil {
		return err
	}
	if s.oldPython {
		s.labels = append(s.labels, pythonPathOpen)
	}
	if s.row.start != nil && s.row.start.shared {
		s.labels = append(s.labels, sharedWorkspace)
	}
	if s.row.modules {
		s.labels = append(s.labels, candidateModules)
	}
	if s.row.writable {
		s.labels = append(s.labels, writableFiles)
	}
	var stdout, stderr bytes.Buffer
	limits := s.site.Limits
	cmd := initproc.Command{Argv: plan.argv, Env: withHome(plan.env, s.image, s.home), Inherit: true, Dir: plan.dir, User: s.user,
		Capabilities: s.checkerGrants(), Stdout: &stdout, Stderr: &stderr, Output: limits.Output, Timeout: limits.Timeout}
	if plan.stdin != nil {
		cmd.Stdin = bytes.NewReader(plan.stdin)
	}
	res, err := s.site.checker.Client.Run(ctx, cmd)
	if err != nil {
		return err
	}
	s.restricted["checker-stdout.txt"], s.restricted["checker-stderr.txt"] = stdout.Bytes(), stderr.Bytes()
	s.metadata["exit_code"] = res.ExitCode
	// From here on nothing of the candidate's runs beside the checker's files.
	if err := s.site.checker.Client.KillAll(ctx); err != nil {
		return err
	}
	if s.tests == nil && sandbox.MissingCommand(res.ExitCode) {
		if err := s.inItsImage(ctx, plan); err != nil {
			return err
		}
	}
	return s.judge(ctx, ran{res, stdout.Bytes(), stderr.Bytes()})
}

// inItsImage returns a fault of the pack's if the checker's image as it is does not have
// the checker's command. What the verification itself shows can be the candidate's doing.
func (s *scorer) inItsImage(ctx context.Context, p plan) error {
	q := initproc.Lookup{Image: s.image, User: &s.user, Argv: p.argv, Env: p.env, Labels: s.site.Labels,
		Elsewhere: func(file string) bool { return s.row.reaches(file) || pathname.Within(file, s.ownFolders()...) }}
	q.Labels.Role = "probe"
	on := map[string]any{"image": q.Image.ID, "user": s.user, "asked": q.Asked(), "env": q.Env}
	missing, err := s.verifier.images.Facts.Once(on, func() ([]byte, error) {
		name, err := initproc.Missing(ctx, s.site.Engine, q)
		return []byte(name), err
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return family.Fail(verdict.PackFault, "the command of eval.checker is not in the checker's image (build the image with it, or name another)")
}

// plan is what runs as the checker.
type plan struct {
	argv  []string
	env   []string
	dir   string
	stdin []byte
}

// ran is what the checker did.
type ran struct {
	initproc.Result
	stdout, stderr []byte
}

// anyShell runs the script that is its argument with bash, or with sh where
// there is none.
const anyShell = `for shell in bash sh; do
	if command -v "$shell" >/dev/null 2>&1; then exec "$shell" "$0"; fi
done
exit 127`

// plan says how the checker is run.
func (s *scorer) plan() (plan, error) {
	p := plan{argv: s.row.argv, env: s.row.checkerEnv(s.image), dir: s.row.dir}
	if !s.row.modules && !s.oldPython { // whose pytest may not know these options
		p.env = replaced(p.env, s.row.settings(s.home, s.config))
	}
	switch s.row.form {
	case formScript:
		if digests := s.verifier.resources.Files.EvalDigests; digests != nil && digests[s.row.path] == "" {
			return p, family.Fail(verdict.PackFault, "eval.checker.path is not a file of the pack: name the script itself")
		}
		p.argv = []string{"/bin/sh", "-c", anyShell, s.row.target()}
	case formPytest:
		return plan{argv: s.tests.Argv, env: s.tests.Env, dir: s.tests.Dir, stdin: s.tests.Stdin}, nil
	}
	return p, nil
}

// judge decides by how the checker ended and by its report.
func (s *scorer) judge(ctx context.Context, r ran) error {
	err := s.decide(ctx, r)
	f, failed := err.(*family.Failure) //nolint:errorlint // it is made by decide itself
	switch {
	case err != nil && !failed, failed && f.Outcome() == verdict.Tampering: // an error of the engine's, or tampering
		return err
	case r.End == sandbox.TimedOut:
		return &family.Failure{Reason: verdict.VerificationTimeout, Message: fmt.Sprintf("the checker ran longer than %v", s.site.Limits.Timeout)}
	case failed && r.Stdout.Dropped+r.Stderr.Dropped > 0:
		return &family.Failure{Reason: verdict.OutputLimit, Message: "the checker wrote more than the limit of output"}
	}
	return err
}

// decide returns nil for a pass. The result is init's report on the process that
// it started; nothing that a process wrote counts, except for pytest's driver and
// a reward.
func (s *scorer) decide(ctx context.Context, r ran) error {
	switch {
	case s.tests != nil:
		s.evidence(evidencePytest)
		return s.grade(r)
	case s.row.reward != "":
		s.evidence(evidenceReward)
		return s.rewarded(ctx, r)
	}
	s.evidence(evidenceExitCode)
	if r.End != sandbox.Exited || r.ExitCode != 0 {
		return &family.Failure{Reason: verdict.TestsFailed, Message: "the checker ended with an exit status other than 0"}
	}
	return nil
}

// evidence notes what the verdict rests on.
func (s *scorer) evidence(kind string) {
	s.metadata[keyEvidence] = kind
	s.labels = append(s.labels, kind)
}

// rewarded decides by the reward that the checker wrote, with all its processes
// dead. Nothing but a regular file in the folder that was made for it counts.
func (s *scorer) rewarded(ctx context.Context, r ran) error {
	data, err := readReward(ctx, s.site.reward, path.Base(s.row.reward))
	if err != nil {
		return err
	}
	value, ok := parseReward(s.row.reward, data)
	switch {
	case r.End != sandbox.Exited || r.ExitCode != 0:
		return &family.Failure{Reason: verdict.TestsFailed, Message: "the checker ended with an exit status other than 0"}
	case data == nil:
		return &family.Failure{Reason: verdict.TestsFailed, Message: "the checker wrote no reward"}
	case !ok:
		return &family.Failure{Reason: verdict.ProtocolViolation, Message: "the reward is not one decimal number from 0 to 1 (in a .json file: an object of numbers, with one named reward unless there is only one)"}
	}
	s.metadata[keyReward] = value
	if value < 1 {
		return &family.Failure{Reason: verdict.TestsFailed, Message: "the reward is less than 1"}
	}
	return nil
}
