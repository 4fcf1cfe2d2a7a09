package repopatch

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/family"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
)

// prepared is what a verification needs of a row and its image, whatever the
// candidate. It is immutable.
type prepared struct {
	git    string // absolute path
	home   string // of the user
	tree   *repository.Tree
	setup  overlay // what the setup patch changed
	tests  overlay // what the test patch changes on top of it
	probed []byte
	form   testrunner.Form // of the canaries
}

// prepare brings the checkout to the state that candidates change, and finds
// out what the tests are. All of it happens before the candidate is there.
func (s *scorer) prepare(ctx context.Context) (*prepared, error) {
	k, err := preparedKey(s.c.Image.ID, s.row)
	if err != nil {
		return nil, err
	}
	p, known := s.verifier.prepared.Get(k)
	if !known {
		p = &prepared{tree: s.pristine}
		if err := s.lookUp(ctx, p); err != nil {
			return nil, err
		}
	}
	s.site.setHome(s.c.Image, p.home)
	if err := s.applyTrusted(ctx, p, phaseSetup, s.row.setup); err != nil {
		return nil, err
	}
	if known {
		return p, nil
	}
	if p.tree, p.setup, err = s.moved(ctx, s.pristine, s.row.setup); err != nil {
		return nil, err
	}
	if err := s.readTests(ctx, p); err != nil {
		return nil, err
	}
	if err := s.probe(ctx, p); err != nil {
		return nil, err
	}
	if err := s.rehearse(ctx, p); err != nil {
		return nil, err
	}
	s.verifier.prepared.Put(k, p)
	return p, nil
}

// lookUp finds git, and the home folder of the user, which a command started by
// the engine would have been given.
func (s *scorer) lookUp(ctx context.Context, p *prepared) error {
	const script = `test -w "$1" || exit 1
command -v git || exit 2
while IFS=: read -r name password uid gid comment home rest; do
	if [ "$uid" = "$0" ]; then printf '%s\n' "$home"; exit; fi
done < /etc/passwd
exit 0`
	s.phase = phaseBase
	got, err := s.site.run(ctx, command{argv: []string{"sh", "-c", script, strconv.Itoa(s.site.user.UID), s.row.dir}, dir: "/", timeout: s.stepLimit(), output: saidLimit})
	if err != nil {
		return fmt.Errorf("looking for git: %w", err)
	}
	lines := strings.Split(string(got.stdout), "\n")
	switch p.git = lines[0]; {
	case got.ExitCode == 1:
		return family.Fail(verdict.PackFault, "the user of the row's commands cannot write to the checkout (set environment.user)")
	case got.ExitCode != 0 || !path.IsAbs(p.git):
		return family.Fail(verdict.PackFault, "the image has no shell, or no git in its PATH")
	}
	if p.home = "/"; len(lines) > 1 && path.IsAbs(lines[1]) {
		p.home = lines[1]
	}
	return nil
}

// setHome gives commands the user's home, unless the image or the row sets it.
func (s *site) setHome(image sandbox.Image, home string) {
	if !slices.Contains(image.Env, "HOME") {
		s.env = append([]string{"HOME=" + home}, s.env...)
	}
}

// applyTrusted applies a patch of the pack to a tree without anything of the
// candidate's.
func (s *scorer) applyTrusted(ctx context.Context, p *prepared, phase verdict.Phase, patch []byte) error {
	if patch == nil {
		return nil
	}
	s.phase = phase
	got, err := s.apply(ctx, p.git, patch)
	switch {
	case err != nil:
		return err
	case got.End == sandbox.TimedOut:
		return fmt.Errorf("applying the %s: git takes longer than %v", phase, s.stepLimit())
	case got.ExitCode != 0:
		return family.Fail(verdict.PackFault, "the %s does not apply to the image's checkout", strings.ReplaceAll(string(phase), "_", " "))
	}
	return nil
}

// moved returns the tree after a patch, and what that changed.
func (s *scorer) moved(ctx context.Context, before *repository.Tree, patch []byte) (*repository.Tree, overlay, error) {
	if patch == nil {
		return before, nil, nil
	}
	after, err := s.site.walk(ctx)
	if err != nil {
		return nil, nil, err
	}
	files, err := s.site.changed(ctx, repository.Compare(before, after))
	return after, files, err
}

// readTests reads what the test patch makes of the base, and puts the base back.
func (s *scorer) readTests(ctx context.Context, p *prepared) (err error) {
	if err := s.applyTrusted(ctx, p, phaseTests, s.row.testPatch); err != nil || s.row.testPatch == nil {
		return err
	}
	if _, p.tests, err = s.moved(ctx, p.tree, s.row.testPatch); err != nil {
		return err
	}
	for _, f := range p.tests {
		if f.mode == repository.Symlink {
			return family.Fail(verdict.PackFault, "the test patch makes a symbolic link: tests are laid as files")
		}
	}
	return s.restore(ctx, p)
}

// restore puts the base back.
func (s *scorer) restore(ctx context.Context, p *prepared) error {
	now, err := s.site.walk(ctx)
	if err != nil {
		return err
	}
	files, ok, err := base{p.tree, p.setup, s.checkout}.sides(repository.Compare(p.tree, now))
	for name := range now.Odd {
		if _, known := p.tree.Odd[name]; !known {
			files[name] = file{}
		}
	}
	if err == nil && !ok {
		err = family.Fail(verdict.PackFault, "the tests change a symbolic link of the checkout, which cannot be put back")
	}
	if err != nil {
		return err
	}
	return s.site.lay(ctx, files)
}

// probe finds out what the image runs tests with. It runs the image's own
// programs, in the base, once for all rows that ask the same of it.
func (s *scorer) probe(ctx context.Context, p *prepared) (err error) {
	c, ok := testrunner.Probe(s.withTests(p))
	if !ok {
		return nil
	}
	s.phase = phaseChecks
	p.probed, err = s.verifier.images.Facts.Once(map[string]any{"probe": c.Argv, "dir": c.Dir, "stdin": string(c.Stdin), "env": [][]string{s.site.env, c.Env},
		"image": s.c.Image.ID, "user": s.site.user, "setup": string(s.row.setup)}, func() ([]byte, error) { return s.ask(ctx, p, c) })
	return err
}

// ask runs a probe, and leaves the base as it was.
func (s *scorer) ask(ctx context.Context, p *prepared, c testrunner.Command) ([]byte, error) {
	got, err := s.site.run(ctx, command{argv: c.Argv, dir: c.Dir, env: c.Env, stdin: bytes.NewReader(c.Stdin), timeout: s.stepLimit(), output: s.site.Limits.Output})
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for the test runner: %w", err)
	case got.End == sandbox.TimedOut:
		return nil, fmt.Errorf("looking for the test runner takes longer than %v", s.stepLimit())
	case got.ExitCode != 0:
		s.restricted["probe-stderr.txt"] = got.stderr
		return nil, family.Fail(verdict.PackFault, "the image cannot run the row's tests: the search for their runner ended with code %d", got.ExitCode)
	}
	if err := s.site.killAll(ctx); err != nil {
		return nil, err
	}
	return bytes.Clone(got.stdout), s.restore(ctx, p)
}

// withTests is what the row says about its tests, with the files of the test
// patch.
func (s *scorer) withTests(p *prepared) testrunner.Tests {
	t := s.row.run
	t.Form = p.form
	for name, f := range p.tests {
		if f.mode != 0 {
			t.TestFiles = append(t.TestFiles, name)
		}
	}
	slices.Sort(t.TestFiles)
	return t
}
