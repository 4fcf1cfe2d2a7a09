package compare

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/earlier"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/rowset"
)

// Kind is what of two runs' inputs differs.
type Kind string

// The kinds of differences.
const (
	Pack     Kind = "pack"
	Tasks    Kind = "tasks"
	Verifier Kind = "verifier"
	Images   Kind = "images"
	Limits   Kind = "limits"
	Judge    Kind = "judge"
)

// Allowable are the kinds that a caller may allow. Runs of different packs are
// never compared.
func Allowable() []Kind { return []Kind{Tasks, Verifier, Images, Limits, Judge} }

// ParseKinds reads the words of --allow, which must be among these kinds.
func ParseKinds(words []string, allowable []Kind) (out []Kind, err error) {
	var names []string
	for _, kind := range allowable {
		names = append(names, string(kind))
	}
	last := len(names) - 1
	for _, word := range words {
		if !slices.Contains(allowable, Kind(word)) {
			return nil, fmt.Errorf("--allow is %q, want %s or %s", word, strings.Join(names[:last], ", "), names[last])
		}
		out = append(out, Kind(word))
	}
	return out, nil
}

// Difference is a difference between the inputs of a run and of the first.
type Difference struct {
	Kind Kind   `json:"kind"`
	What string `json:"what"`
}

// DifferentError reports that runs cannot be compared.
type DifferentError struct{ Differences []Difference }

// Error lists the differences.
func (e *DifferentError) Error() string {
	var out []string
	for _, d := range e.Differences {
		out = append(out, d.String())
	}
	return "the runs cannot be compared: " + strings.Join(out, "; ")
}

// Explain lists the differences, one a line, and what can be done.
func (e *DifferentError) Explain() error {
	errs, kinds := []error{errors.New("the runs cannot be compared, because what they were given differs")}, []string(nil)
	for _, d := range e.Differences {
		errs = append(errs, errors.New("  "+d.String()))
		if slices.Contains(Allowable(), d.Kind) && !slices.Contains(kinds, string(d.Kind)) {
			kinds = append(kinds, string(d.Kind))
		}
	}
	if !slices.ContainsFunc(e.Differences, func(d Difference) bool { return d.Kind == Pack }) && len(kinds) > 0 {
		errs = append(errs, fmt.Errorf("give --allow %s to compare them anyway", strings.Join(kinds, ",")))
	}
	return errors.Join(errs...)
}

// sift returns the differences that are allowed, or an error with those
// that are not.
func sift(runs []*earlier.Run, allowed []Kind) ([]Difference, error) {
	passed, refused := []Difference{}, []Difference(nil)
	for _, run := range runs[1:] {
		for _, d := range Differences(runs[0], run) {
			if d.Kind != Pack && slices.Contains(allowed, d.Kind) {
				passed = append(passed, d)
			} else {
				refused = append(refused, d)
			}
		}
	}
	if len(refused) > 0 {
		return nil, &DifferentError{refused}
	}
	return passed, nil
}

// Differences names what makes two runs hard to compare, besides their agents.
func Differences(a, b *earlier.Run) (out []Difference) {
	add := func(kind Kind, format string, args ...any) {
		out = append(out, Difference{kind, fmt.Sprintf(format, args...)})
	}
	if what := packs(a, b); what != "" {
		return []Difference{{Pack, what}}
	}
	names := redact.Quote(a.Name) + " and " + redact.Quote(b.Name)
	if both := len(common([]*earlier.Run{a, b})); both != len(a.Tasks) || both != len(b.Tasks) {
		add(Tasks, "%s are about %d and %d tasks; %d are the same", names, len(a.Tasks), len(b.Tasks), both)
	}
	was, is := a.Manifest, b.Manifest
	if was.Digests.Verifier != is.Digests.Verifier {
		add(Verifier, "%s were scored by different builds of securebench, %s and %s", names, build(a), build(b))
	}
	for _, ref := range slices.Sorted(maps.Keys(was.Images)) {
		if id, ok := is.Images[ref]; ok && id != was.Images[ref] {
			add(Images, "in %s, %s is %s and %s", names, redact.Quote(ref), short(was.Images[ref]), short(id))
		}
	}
	for _, what := range limits(a, b) {
		add(Limits, "%s: %s", names, what)
	}
	if before, now := judgeOf(was.Judge), judgeOf(is.Judge); before != now {
		add(Judge, "%s were judged by %s and %s", names, before, now)
	} else if j, k := was.Judge, is.Judge; j != nil && k != nil && j.Server != k.Server {
		add(Judge, "the judge of %s was asked at different base URLs", names)
	} else if j != nil && k != nil && j.Answered != "" && k.Answered != "" && j.Answered != k.Answered {
		add(Judge, "the judge of %s answered as %s and %s", names, redact.Quote(j.Answered), redact.Quote(k.Answered))
	}
	return out
}

// judgeOf says which judge a run had, and how it was asked.
func judgeOf(j *record.Judging) string {
	if j == nil {
		return "none"
	}
	more := ""
	if j.Effort != "" {
		more = ", effort " + redact.Quote(j.Effort)
	}
	return fmt.Sprintf("%s (%s, %d votes, %s, prompt %d%s)", redact.Quote(j.Model), redact.Quote(j.API), j.Votes, redact.Quote(j.Decide), j.Prompt, more)
}

// packs says how the packs of two runs differ, as far as their digests show it.
func packs(a, b *earlier.Run) string {
	was, is := a.Manifest, b.Manifest
	names := redact.Quote(a.Name) + " and " + redact.Quote(b.Name)
	switch {
	case was.Pack != is.Pack:
		return fmt.Sprintf("%s are of %s, version %d, and %s, version %d", names,
			redact.Quote(was.Pack.ID), was.Pack.Version, redact.Quote(is.Pack.ID), is.Pack.Version)
	case was.Digests.Manifest != is.Digests.Manifest:
		return "the manifests of the packs of " + names + " differ"
	case was.Digests.Public != is.Digests.Public:
		return "the public parts of the packs of " + names + " differ"
	case a.Hidden != nil && b.Hidden != nil && a.Hidden.Pack != b.Hidden.Pack:
		return "the hidden parts of the packs of " + names + " differ"
	}
	return ""
}

// build names the build that scored a run.
func build(r *earlier.Run) string {
	return redact.EscapeShort(r.Manifest.Version, 40) + " (" + short(r.Manifest.Digests.Verifier) + ")"
}

// short is the beginning of a digest.
func short(digest string) string { return redact.EscapeShort(digest, 22) }

// limits names the limits that differ.
func limits(a, b *earlier.Run) (out []string) {
	was, is := a.Manifest.Limits, b.Manifest.Limits
	add := func(name string, was, is any) {
		if was != is {
			out = append(out, fmt.Sprintf("%s %v and %v", name, was, is))
		}
	}
	add("memory", was.Memory, is.Memory)
	add("cpus", was.CPUs, is.CPUs)
	add("pids", was.Pids, is.Pids)
	add("disk", was.Disk, is.Disk)
	add("files", was.Files, is.Files)
	add("output", was.Output, is.Output)
	add("candidate", was.Candidate, is.Candidate)
	add("produce_seconds", was.ProduceSeconds, is.ProduceSeconds)
	for _, name := range slices.Sorted(maps.Keys(was.VerifySeconds)) {
		if other, ok := is.VerifySeconds[name]; ok {
			add("verify_seconds of "+redact.Quote(name), was.VerifySeconds[name], other)
		}
	}
	return out
}

// notes are what differs and does not prevent a comparison.
func notes(runs []*earlier.Run) []string {
	out := []string{}
	for _, run := range runs {
		if run.Hidden == nil {
			out = append(out, redact.Quote(run.Name)+" is a published copy: that the hidden parts of the packs are equal cannot be checked")
		}
	}
	first, was := runs[0], runs[0].Manifest
	engine, _ := was.EngineName()
	for _, run := range runs[1:] {
		names := redact.Quote(first.Name) + " and " + redact.Quote(run.Name)
		if name, _ := run.Manifest.EngineName(); name != "" && engine != "" && name != engine {
			out = append(out, fmt.Sprintf("%s used different engines: %s and %s", names, redact.Quote(engine), redact.Quote(name)))
		}
		if n, m := was.Planned.Attempts, run.Manifest.Planned.Attempts; n != m {
			out = append(out, fmt.Sprintf("%s have %d and %d attempts at each task", names, n, m))
		}
		if a, b := shown(was.Selection), shown(run.Manifest.Selection); a != b {
			out = append(out, fmt.Sprintf("%s showed their models different solved examples: %s and %s", names, a, b))
		}
		if !slices.Equal(was.Labels, run.Manifest.Labels) {
			out = append(out, fmt.Sprintf("%s have different labels: %s and %s", names, labels(was.Labels), labels(run.Manifest.Labels)))
		}
	}
	return out
}

// shown names the solved examples of a run.
func shown(s *rowset.Selection) string {
	if s == nil || s.FewShot == nil {
		return "none"
	}
	return redact.EscapeShort(s.FewShot.String(), 120)
}

func labels(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return redact.EscapeShort(strings.Join(all, ", "), 120)
}
