package artifacttask

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"securebench/internal/artifact"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/readbox"
	"securebench/internal/family/sandboxed"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// Keys of a verdict's metadata.
const (
	keyOfficial  = "official_rule"
	keyLeftCount = "ignored_candidate_path_count"
	keyTypes     = "artifact_types"
)

// What is kept for the operator.
const (
	differencesFile = "differences.txt"
	unreadableFile  = "unreadable.txt"
	converterFile   = "converter.txt"
	rowFile         = "row.txt" // what is wrong with the row, which may be a hidden value
)

// scorer scores the files of one candidate.
type scorer struct {
	verifier  *verifier
	c         family.Case
	row       row
	candidate candidate.Candidate
	box       *readbox.Box
	wanted    [][]*artifact.File // by output
	got       []*artifact.File   // by output

	left       int
	measure    *verdict.Measure
	judged     *family.Verdict // what a judge decided
	restricted map[string][]byte
	converter  *converter // nil without
	converted  bool       // a file of the candidate's was
	pictures   int        // that are kept
}

// find returns which output an entry of a tree is, or -1.
func (s *scorer) find(name string) int {
	at := workspace.TargetOf(s.c.Sandbox.Environment())
	for i, o := range s.row.outputs {
		if "/"+strings.TrimSuffix(name, "/") == path.Join(at, o.Path) {
			return i
		}
	}
	return -1
}

// entries calls each for the files of a tree that the row asks for.
func (s *scorer) entries(each func(i int, h *tar.Header, content io.Reader) error) error {
	r, err := s.candidate.Open()
	if err != nil {
		return fmt.Errorf("opening the candidate: %w", err)
	}
	defer r.Close()
	s.left = 0
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the candidate: %w", err)
		}
		i := s.find(h.Name)
		if i < 0 {
			s.left++
			continue
		}
		if err := each(i, h, tr); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, r) // a candidate is known at its last byte
	return err
}

// Read implements [sandboxed.Scorer]: it looks for the files.
func (s *scorer) Read(c candidate.Candidate) error {
	if !c.IsTree() {
		return family.Fail(verdict.CandidateNotRegular, "the candidate is not a tree")
	}
	s.candidate = c
	there := make([]bool, len(s.row.outputs))
	err := s.entries(func(i int, h *tar.Header, _ io.Reader) error {
		o := s.row.outputs[i]
		switch {
		case h.PAXRecords[sandbox.DeletedRecord] != "":
			return nil
		case h.Typeflag != tar.TypeReg:
			return family.Fail(verdict.CandidateNotRegular, "%s is %s, not a regular file", o.Path, candidate.TypeName(h.Typeflag))
		case h.Size > o.Max:
			return family.Fail(verdict.CandidateTooLarge, "%s has %d bytes, the limit is %d", o.Path, h.Size, o.Max)
		}
		there[i] = true
		return nil
	})
	if err != nil {
		return err
	}
	for i, ok := range there {
		if !ok {
			return family.Fail(verdict.CandidateMissing, "there is no %s", s.row.outputs[i].Path)
		}
	}
	return nil
}

// Limit implements [sandboxed.Scorer].
func (s *scorer) Limit() time.Duration {
	each := readbox.MaxTime
	if converterOf(s.c.Sandbox) != "" {
		each += 2 * convertLimit // of its pages as well
	}
	return time.Duration(len(s.row.outputs)+1)*each + s.c.Limits.WithDefaults().Timeout
}

// labels are those of the sandboxes.
func (s *scorer) labels() sandbox.Labels {
	return sandbox.Labels{Run: s.verifier.resources.RunID, Task: s.c.Sandbox.ID(), Attempt: s.c.Attempt}
}

// Open implements [sandboxed.Scorer]: it makes the sandbox for the candidate's files, and
// reads the row's own in another.
func (s *scorer) Open(ctx context.Context, site *sandboxed.Site) error {
	if err := s.openConverter(ctx, site); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	box, err := readbox.Open(ctx, s.verifier.resources.Engine, s.labels())
	if err != nil {
		return err
	}
	s.box = box
	site.Keep(box)
	return nil
}

// Score implements [sandboxed.Scorer].
func (s *scorer) Score(ctx context.Context) error {
	s.got = make([]*artifact.File, len(s.row.outputs))
	err := s.entries(func(i int, h *tar.Header, content io.Reader) (err error) {
		o := s.row.outputs[i]
		s.got[i], err = s.readFile(ctx, s.box, o.Path, true, o.Type, h.Size, content)
		if u, ok := errors.AsType[*readbox.Unreadable](err); ok {
			s.restricted[unreadableFile] = []byte(o.Path + ": " + u.Why + "\n")
		}
		if err == nil {
			s.deliver(o, s.got[i])
		}
		return readbox.Failure(err, o.Path)
	})
	if err != nil {
		return err
	}
	if s.row.judged {
		return s.judge(ctx)
	}
	for i := range s.row.rubrics {
		if err := s.compare(i); err != nil {
			return err
		}
	}
	return nil
}

// compare compares a file with the row's own, one of which is enough.
func (s *scorer) compare(i int) error {
	var reason verdict.Reason
	var lines []string
	var measure *verdict.Measure
	for n, want := range s.wanted[i] {
		res, err := s.row.rubrics[i].Compare(s.got[i], want)
		if err != nil {
			return s.unfit(keyRubric, err)
		}
		if measure == nil || res.Pass {
			measure = res.Measure
		}
		if res.Pass {
			reason, lines = "", nil
			break
		}
		if n == 0 {
			reason = cmp.Or(res.Reason, verdict.WrongAnswer)
		}
		for _, line := range res.Differences {
			lines = append(lines, s.row.outputs[i].Path+": "+line)
		}
	}
	if s.measure == nil {
		s.measure = measure
	}
	if reason == "" {
		return nil
	}
	s.restricted[differencesFile] = []byte(strings.Join(lines, "\n") + "\n")
	return family.Fail(reason, "%s is not what the rubric asks for", s.row.outputs[i].Path)
}

// unfit is the failure of a row for which no candidate can be scored.
func (s *scorer) unfit(key string, err error) error {
	s.restricted[rowFile] = fmt.Appendf(nil, "eval.%s: %v\n", key, err)
	return family.Fail(verdict.PackFault, "the row cannot be scored")
}

// Settle implements [sandboxed.Scorer]: nothing runs in the sandbox but what was asked.
func (s *scorer) Settle(_ context.Context, err error) error { return err }

// Describe implements [sandboxed.Scorer].
func (s *scorer) Describe(v *family.Verdict) {
	if s.judged != nil {
		waited := v.Waited
		*v = *s.judged
		v.Waited = waited
	}
	if s.row.judged {
		v.Basis = verdict.Judged
	}
	v.Containment, v.Restricted = verdict.Passive, s.restricted
	if v.Metadata == nil {
		v.Metadata = verdict.Metadata{}
	}
	v.Metadata.Set(keyTypes, typesOf(s.row.outputs))
	if s.converted {
		v.Containment = verdict.Split
		v.Metadata.Set(keyConverter, s.converter.name)
	}
	if s.left > 0 {
		v.Metadata.Set(keyLeftCount, s.left)
	}
	var official []string
	for _, r := range s.row.rubrics {
		official = append(official, r.Official()...)
	}
	if len(official) > 0 {
		v.Metadata.Set(keyOfficial, official)
	}
	if s.measure != nil {
		v.Measure = s.measure
		v.Labels = append(v.Labels, verdict.Measured)
	}
}
