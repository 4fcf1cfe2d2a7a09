package artifacttask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
	"securebench/internal/artifact/spoilt"
	"securebench/internal/family"
	"securebench/internal/family/readbox"
)

// maxTried is how many values of a reference are changed.
const maxTried = 20

// Weaknesses implements [family.Critic]: it tries wrong files on the rubrics of a row, as
// models. References, and the file that the agent starts from, are read as always.
func (v *verifier) Weaknesses(ctx context.Context, c family.Case) ([]string, error) {
	s := &scorer{verifier: v, c: c}
	var refused *family.Failure
	if s.row, refused = readRow(c.Evaluator); refused != nil || s.row.rubrics == nil {
		return nil, nil
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	var out []string
	for i, o := range s.row.outputs {
		at := critique{rubric: s.row.rubrics[i], wanted: s.wanted[i]}
		before, err := s.before(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, line := range at.lines(before) {
			if len(s.row.outputs) > 1 {
				line = o.Path + ": " + line
			}
			if !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out, nil
}

// before returns the file that the agent finds at the path of an output, nil without one
// that can be read.
func (s *scorer) before(ctx context.Context, o output) (*artifact.File, error) {
	files := s.verifier.resources.Files
	for _, a := range s.c.Sandbox.Assets() {
		rest, below := strings.CutPrefix(o.Path+"/", a.Mount+"/")
		if !below || files.Public == nil {
			continue
		}
		f, err := files.Public.Open(path.Join(a.Path, rest))
		if err != nil {
			continue // it is another file's folder
		}
		content, err := io.ReadAll(io.LimitReader(f, readbox.MaxBytes+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", a.Path, err)
		}
		if len(content) > readbox.MaxBytes {
			return nil, nil
		}
		file, _, err := s.readAlone(ctx, o.Type, content)
		return file, err
	}
	return nil, nil
}

// readAlone reads a file in a sandbox of its own, which is of no use once a file has ended
// it. What cannot be read is nil, and why says the reason.
func (s *scorer) readAlone(ctx context.Context, t artifact.Type, content []byte) (f *artifact.File, why string, err error) {
	box, err := readbox.Open(ctx, s.verifier.resources.Engine, s.labels())
	if err != nil {
		return nil, "", err
	}
	f, err = box.Read(ctx, t, int64(len(content)), bytes.NewReader(content))
	_ = box.Close(context.WithoutCancel(ctx)) // what is left is reaped
	if u, ok := errors.AsType[*readbox.Unreadable](err); ok {
		return nil, u.Why, nil
	}
	if failed, ok := errors.AsType[*family.Failure](err); ok {
		return nil, failed.Message, nil
	}
	return f, "", err
}

// critique tries files on one rubric.
type critique struct {
	rubric *rubric.Rubric
	wanted []*artifact.File
}

// passes reports whether a file passes with any of the references, and whether that is a
// matter of degree.
func (c critique) passes(f *artifact.File) (pass, graded bool) {
	for _, want := range c.wanted {
		res, err := c.rubric.Compare(f, want)
		pass, graded = pass || err == nil && res.Pass, graded || res.Measure != nil
	}
	return pass, graded
}

// lines says what the rubric accepts, and what it names and no reference has.
func (c critique) lines(before *artifact.File) (out []string) {
	first := c.wanted[0]
	for _, fault := range c.rubric.Check(first) {
		out = append(out, "the rubric does not fit its reference: "+fault)
	}
	if before != nil {
		if pass, _ := c.passes(before); pass {
			out = append(out, "the rubric passes where the file is as the agent finds it: compare what the brief has changed")
		}
	}
	for _, empty := range spoilt.Empty(first) {
		if pass, _ := c.passes(empty); pass {
			out = append(out, "the rubric passes where the file is empty: compare what it says")
			break
		}
	}
	if guesses := spoilt.Guesses(first); guesses != nil {
		if pass, _ := c.passes(guesses); pass {
			out = append(out, "the rubric passes where a table has every guess as a column of its own: compare columns by name, without match")
		}
	}
	return append(out, c.values(first)...)
}

// values changes values of a reference, of which the rubric may leave out some.
func (c critique) values(first *artifact.File) []string {
	all := spoilt.Values(first)
	if _, graded := c.passes(first); all == 0 || graded && len(c.rubric.Official()) == 0 {
		return nil // a prediction may be wrong
	}
	n := min(maxTried, all)
	looked, missed := 0, 0
	for i := range n {
		at := i * all / n
		beyond := spoilt.Changed(first, at, spoilt.Beyond)
		if beyond == nil {
			continue
		}
		if pass, _ := c.passes(beyond); pass {
			continue // the rubric leaves it out
		}
		looked++
		if slightly := spoilt.Changed(first, at, spoilt.Slightly); slightly != nil {
			if pass, _ := c.passes(slightly); pass {
				missed++
			}
		}
	}
	if missed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the rubric passes where a value is wrong by a tenth, or a text by a word (%d of %d that were tried): narrow the tolerance", missed, looked)}
}

var _ family.Critic = (*verifier)(nil)
