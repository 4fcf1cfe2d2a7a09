package repopatch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"securebench/internal/repository"
	"securebench/internal/testrunner"
)

// rehearse finds the form of canaries that the project runs. A base can skip what it
// does not know; no candidate is there yet that could make it do so. A project
// without settings of pytest runs what it is given.
func (s *session) rehearse(ctx context.Context, p *prepared) error {
	names := slices.Concat(slices.Collect(maps.Keys(p.tree.Entries)), slices.Collect(maps.Keys(p.tests)))
	if !slices.ContainsFunc(names, testrunner.Decides) {
		return nil
	}
	texts, err := s.testTexts(p)
	if err != nil {
		return err
	}
	for _, forms := range testrunner.Forms(texts) {
		r, err := testrunner.Rehearse(s.withTests(p), p.probed, s.c.Seed, forms)
		if err != nil || r == nil {
			return nil // the run itself says what is wrong
		}
		ran, err := s.tryOut(ctx, p, r)
		if err != nil {
			return err
		}
		if form, ok := r.Choose(ran); ok {
			p.form = form
			return nil
		}
	}
	p.form = testrunner.Form{None: true}
	return nil
}

// tryOut runs a rehearsal over the base with the row's tests, and puts the base back.
func (s *session) tryOut(ctx context.Context, p *prepared, r *testrunner.Rehearsal) (testrunner.Ran, error) {
	s.phase = phaseChecks
	if err := s.site.lay(ctx, laid(p, r.Plan)); err != nil {
		return testrunner.Ran{}, err
	}
	got, err := s.site.run(ctx, command{argv: r.Argv, dir: r.Dir, env: r.Env, stdin: bytes.NewReader(r.Stdin),
		timeout: s.limit(), output: s.site.limits.Output})
	if err != nil {
		return testrunner.Ran{}, fmt.Errorf("rehearsing the tests: %w", err)
	}
	if err := s.site.killAll(ctx); err != nil {
		return testrunner.Ran{}, err
	}
	return testrunner.Ran{End: got.End, ExitCode: got.ExitCode, Stdout: got.stdout, Stderr: got.stderr, Truncated: got.limited()}, s.restore(ctx, p)
}

// laid are the files that a run needs over the base.
func laid(p *prepared, plan *testrunner.Plan) overlay {
	files := overlay{}
	maps.Copy(files, p.tests)
	for name, data := range plan.Files { // the canaries
		files[name] = file{repository.Regular, data}
	}
	return files
}

// testTexts returns the files of the row's tests: those of the test patch, else those
// that the ids name.
func (s *session) testTexts(p *prepared) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for name, f := range p.tests {
		if f.mode != 0 {
			texts[name] = f.data
		}
	}
	b := base{p.tree, p.setup, s.checkout}
	for _, id := range slices.Concat(s.row.run.FailToPass, s.row.run.PassToPass) {
		name, _, _ := strings.Cut(id, "::")
		name = path.Clean(name)
		if _, known := texts[name]; known || len(texts) >= maxTexts || !p.tree.Entries[name].Exists() {
			continue
		}
		f, err := b.file(name)
		if err != nil {
			return nil, err
		}
		texts[name] = f.Data
	}
	return texts, nil
}

// maxTexts bounds the files whose marks are looked at.
const maxTexts = 16
