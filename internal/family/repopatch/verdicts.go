package repopatch

import (
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

// Describe implements [sandboxed.Scorer]. What passed is graded.
func (s *scorer) Describe(v *family.Verdict) {
	if v.Outcome == verdict.Passed {
		v.Outcome, v.Reason, v.Message, v.Labels = s.grade.Outcome, s.grade.Reason, s.grade.Message, s.grade.Labels
	}
	v.Phase, v.Containment, v.Restricted, v.Metadata = s.phase, verdict.Shared, s.restricted, verdict.NewMetadata(s.grade.Metadata)
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
