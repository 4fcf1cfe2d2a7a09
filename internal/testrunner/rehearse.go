package testrunner

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner/results"
)

// noCanaries labels a verdict of a project that runs no canary.
const noCanaries = "no_canaries"

// Form is how canaries are made, so that a project runs them. The zero value is the
// usual one.
type Form struct {
	None    bool     // the project runs none, in whatever form
	Markers []string // marks of pytest that each has
	Stem    string   // with which the names of the files begin
}

// maxMarkers is how many marks are tried one by one.
const maxMarkers = 4

// Forms returns the forms to rehearse where the usual one does not run, derived from
// the files of the row's tests, by path.
func Forms(files map[string][]byte) (others []Form) {
	var marks, stems []string
	for file, text := range files {
		if name := path.Base(file); strings.HasSuffix(name, ".py") && name != "conftest.py" && name != "__init__.py" {
			stems = append(stems, strings.TrimSuffix(name, ".py"))
			marks = append(marks, markers(text)...)
		}
	}
	for _, names := range []*[]string{&marks, &stems} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	if len(marks) > 0 {
		others = append(others, Form{Markers: marks})
	}
	if len(marks) > 1 {
		for _, m := range marks[:min(len(marks), maxMarkers)] {
			others = append(others, Form{Markers: []string{m}})
		}
	}
	if len(stems) > 0 {
		others = append(others, Form{Stem: stems[0]})
	}
	if len(marks) > 0 && len(stems) > 0 {
		others = append(others, Form{Markers: marks, Stem: stems[0]})
	}
	return others
}

var markerName = lazyregexp.New(`\bpytest\.mark\.([A-Za-z_][A-Za-z0-9_]{0,60})`)

// markers returns the marks that a file of tests uses, without those of pytest itself.
func markers(text []byte) (out []string) {
	for _, m := range markerName.FindAllSubmatch(text, -1) {
		if name := string(m[1]); !slices.Contains([]string{"parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings", "asyncio"}, name) {
			out = append(out, name)
		}
	}
	return out
}

// Decides reports whether a file of a checkout is one by which a project can decide
// what pytest runs.
func Decides(file string) bool {
	return slices.Contains([]string{"conftest.py", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"}, path.Base(file))
}

// Rehearsal is a run of only canaries, before any candidate is there.
type Rehearsal struct {
	*Plan
	forms []Form
	parts [][]canary // of each form
}

// Rehearse plans a rehearsal of canaries in each of the forms. It returns nil for
// runners that run whatever they are given.
func Rehearse(t Tests, found []byte, seed [32]byte, forms []Form) (*Rehearsal, error) {
	driver, prog, err := t.driverOf()
	if err != nil || driver != "pytest" {
		return nil, err
	}
	image, err := parseProbe(found, driver)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewChaCha8(sha256.Sum256(append([]byte("rehearsal\x00"), seed[:]...))))
	r := &Rehearsal{Plan: &Plan{tests: t, driver: driver, key: fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64()), rehearsal: true}, forms: forms}
	d := t.draw(random)
	files := map[string][]byte{}
	for _, form := range forms {
		d.form = form
		part, texts := d.canaries(driver, t.folders(prog, driver))
		for name, text := range texts {
			files[name] = text
			d.taken = append(d.taken, path.Base(name))
		}
		r.parts = append(r.parts, part)
		r.canaries = append(r.canaries, part...)
	}
	return r, r.drive(prog, image, files)
}

// Choose returns the first form whose canaries all failed, as they must. False means
// that the project runs none of them. A rehearsal that did not come to its regular
// end says nothing: the usual form is used then.
func (r *Rehearsal) Choose(ran Ran) (Form, bool) {
	report, err := r.read(ran)
	if ran.End != sandbox.Exited || err != nil || !slices.Contains([]int{0, 1, 5}, report.Exit) || report.Exit != ran.ExitCode {
		return Form{}, true
	}
	seen := newIndex(report.Tests)
	for i, part := range r.parts {
		if !slices.ContainsFunc(part, func(c canary) bool { return !c.failed(seen) }) {
			return r.forms[i], true
		}
	}
	return Form{}, false
}

// failed reports whether each test of a canary failed.
func (c canary) failed(seen *index) bool {
	return !slices.ContainsFunc(c.ids, func(id string) bool {
		found := seen.statuses(id)
		return len(found) != 1 || found[0] != results.Failed && found[0] != results.Error
	})
}

// relative returns canaries' files by the path to which they are laid.
func (t Tests) relative(p program, files map[string][]byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	for file, text := range files {
		rel, ok := strings.CutPrefix(path.Join(t.root(p), file), strings.TrimSuffix(cmp.Or(t.Root, t.Dir), "/")+"/")
		if !ok {
			return nil, errors.New("the test command runs outside of the checkout")
		}
		out[rel] = text
	}
	return out, nil
}
