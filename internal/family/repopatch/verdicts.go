package repopatch

import (
	"slices"

	"securebench/internal/family"
	"securebench/internal/verdict"
)

// The phases of a verification, in its order, as in the reference.
const (
	phaseBase   verdict.Phase = "base_commit"
	phaseSetup  verdict.Phase = "setup_patch"
	phaseTests  verdict.Phase = "test_patch"
	phasePatch  verdict.Phase = "candidate_patch"
	phasePolicy verdict.Phase = "candidate_policy"
	phaseChecks verdict.Phase = "checks"
)

// Keys of a verdict's metadata.
const (
	keyPaths      = "candidate_patch_paths"
	keyDenied     = "denied_candidate_patch_paths"
	keyDropped    = "dropped_candidate_patch_paths"
	keyPreserved  = "preserved_candidate_patch_paths"
	keyPathCounts = "candidate_patch_path_counts"
	keyForm       = "candidate_patch_form"
)

// maxPaths bounds the paths of each kind in a record; all are counted.
const maxPaths = 100

// pathList is what a record shows of paths: the first ones.
func pathList(paths []string) []string { return paths[:min(len(paths), maxPaths)] }

// verdict describes the verification in the words of records.
func (s *session) verdict(f *family.Failure) family.Verdict {
	v := family.Verdict{Outcome: s.grade.Outcome, Reason: s.grade.Reason, Message: s.grade.Message, Phase: s.phase,
		Containment: verdict.Shared, Labels: s.grade.Labels, Waited: s.waited, Restricted: s.restricted,
		Metadata: verdict.NewMetadata(s.grade.Metadata)}
	if f != nil {
		v.Outcome, v.Reason, v.Message, v.Labels = f.Outcome(), f.Reason, f.Message, nil
	}
	if s.site != nil && s.verifier.resources.Engine.Info().DiskSampled {
		v.Labels = append(slices.Clone(v.Labels), family.DiskSampled)
	}
	v.Metadata.Set("image", s.c.Image.Ref)
	v.Metadata.Set("workdir", s.row.dir)
	v.Metadata.Set("base_commit", s.row.commit)
	v.Metadata.Set("phase", s.phase)
	if s.head != "" {
		v.Metadata.Set("image_commit", s.head)
	}
	if s.row.run.Runner != "" {
		v.Metadata.Set("runner", s.row.run.Runner)
	}
	if s.ran != nil {
		v.Metadata.Set("exit_code", s.ran.ExitCode)
	}
	if len(s.form) > 0 {
		v.Metadata.Set(keyForm, s.form)
	}
	s.paths.describe(v.Metadata)
	return v
}

// touched are the paths that a candidate changed, by what became of them.
type touched struct{ applied, denied, dropped, preserved []string }

// describe adds the paths to a verdict's metadata.
func (t touched) describe(m verdict.Metadata) {
	counts := map[string]int{}
	for _, kind := range []struct {
		key, name string
		paths     []string
	}{{keyPaths, "applied", t.applied}, {keyDenied, "denied", t.denied}, {keyDropped, "dropped", t.dropped}, {keyPreserved, "preserved", t.preserved}} {
		if len(kind.paths) > 0 {
			m.Set(kind.key, pathList(kind.paths))
			counts[kind.name] = len(kind.paths)
		}
	}
	if len(counts) > 0 {
		m.Set(keyPathCounts, counts)
	}
}
