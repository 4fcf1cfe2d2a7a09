package repopatch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/repository"
	"securebench/internal/testrunner"
)

// rehearse finds the form of canaries that the project runs. A base can skip what it
// does not know; no candidate is there yet that could make it do so. A project
// without settings of pytest runs what it is given.
func (s *scorer) rehearse(ctx context.Context, p *prepared) error {
	names := slices.Concat(slices.Collect(maps.Keys(p.tree.Entries)), slices.Collect(maps.Keys(p.tests)))
	if !slices.ContainsFunc(names, testrunner.Decides) {
		return nil
	}
	usual, err := s.verifier.images.Facts.Once(s.decidedBy(p), func() ([]byte, error) {
		_, ok, err := s.choose(ctx, p, []testrunner.Form{{}})
		return []byte(strconv.FormatBool(ok)), err
	})
	if err != nil || string(usual) == "true" {
		return err
	}
	texts, err := s.testTexts(p)
	if err != nil {
		return err
	}
	form, ok, err := s.choose(ctx, p, testrunner.Forms(texts))
	if p.form = form; !ok {
		p.form = testrunner.Form{None: true}
	}
	return err
}

// choose rehearses forms, and returns the first that the project runs.
func (s *scorer) choose(ctx context.Context, p *prepared, forms []testrunner.Form) (testrunner.Form, bool, error) {
	if len(forms) == 0 {
		return testrunner.Form{}, false, nil
	}
	r, err := testrunner.Rehearse(s.withTests(p), p.probed, s.c.Seed, forms)
	if err != nil || r == nil {
		return testrunner.Form{}, true, nil // the run itself says what is wrong
	}
	ran, err := s.tryOut(ctx, p, r)
	if err != nil {
		return testrunner.Form{}, false, err
	}
	form, ok := r.Choose(ran)
	return form, ok, nil
}

// decidedBy is all by which a project decides whether it runs canaries of the usual
// form. Rows of one image that differ only in their test files share the answer.
func (s *scorer) decidedBy(p *prepared) map[string]any {
	var command, folders []string
	for _, arg := range s.row.run.Command {
		for word := range strings.FieldsSeq(arg) {
			name, _, _ := strings.Cut(word, "::")
			name = path.Clean(name)
			if _, ours := p.tests[name]; ours || p.tree.Entries[name].Exists() {
				folders = append(folders, path.Dir(name))
			} else {
				command = append(command, word)
			}
		}
	}
	settings := map[string]string{}
	for name, f := range p.tests {
		folders = append(folders, path.Dir(name))
		if testrunner.Decides(name) {
			settings[name] = string(f.data)
		}
	}
	slices.Sort(folders)
	return map[string]any{"rehearsal": command, "folders": slices.Compact(folders), "settings": settings, "setup": string(s.row.setup),
		"dir": s.row.dir, "runner": s.row.run.Runner, "env": [][]string{s.site.env, s.row.run.Env}, "image": s.c.Image.ID, "user": s.site.user}
}

// tryOut runs a rehearsal over the base with the row's tests, and puts the base back.
func (s *scorer) tryOut(ctx context.Context, p *prepared, r *testrunner.Rehearsal) (testrunner.Ran, error) {
	s.phase = phaseChecks
	if err := s.site.lay(ctx, laid(p, r.Plan)); err != nil {
		return testrunner.Ran{}, err
	}
	got, err := s.site.run(ctx, command{argv: r.Argv, dir: r.Dir, env: r.Env, stdin: bytes.NewReader(r.Stdin),
		timeout: s.stepLimit(), output: s.site.Limits.Output})
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
func (s *scorer) testTexts(p *prepared) (map[string][]byte, error) {
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
