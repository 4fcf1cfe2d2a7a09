package repopatch

import (
	"errors"
	"fmt"

	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/sandbox"
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
)

// maxPaths bounds the paths of each kind in a record; all are counted.
const maxPaths = 100

// failure says why a candidate has not passed, in securebench's own words.
type failure struct {
	reason  verdict.Reason
	message string
}

// Error returns the message.
func (f *failure) Error() string { return f.message }

// packFault is the failure of a row that cannot be used.
func packFault(format string, args ...any) *failure {
	return &failure{verdict.PackFault, fmt.Sprintf(format, args...)}
}

// fault turns the errors that are the image's or the candidate's fault into
// failures; any other error stays what it is.
func fault(err error) error {
	var rejection *candidate.Rejection
	switch {
	case errors.As(err, &rejection):
		return &failure{rejection.Reason, rejection.Message}
	case errors.Is(err, checkout.ErrUnusable), errors.Is(err, sandbox.ErrNoFolder), errors.Is(err, sandbox.ErrTooSmall):
		return packFault("%v", err)
	}
	return err
}

// outcomeOf is the class of a reason.
func outcomeOf(r verdict.Reason) verdict.Outcome {
	switch r {
	case verdict.VerificationTimeout:
		return verdict.VerifierTimeout
	case verdict.OutOfMemory, verdict.PidsLimit, verdict.DiskLimit, verdict.OutputLimit, verdict.CandidateTooLarge:
		return verdict.Limit
	case verdict.NoVerifier, verdict.PackFault:
		return verdict.Pending
	}
	return verdict.Failed
}

// limitOf returns the limit that explains a failure, or nil if there was none.
func limitOf(limits []sandbox.End, who string) *failure {
	if len(limits) == 0 {
		return nil
	}
	switch limits[0] {
	case sandbox.OutOfMemory:
		return &failure{verdict.OutOfMemory, who + " ran out of memory"}
	case sandbox.PidsLimit:
		return &failure{verdict.PidsLimit, who + " reached the limit of processes"}
	case sandbox.DiskLimit:
		return &failure{verdict.DiskLimit, who + " reached the limit of disk space"}
	case sandbox.OutputLimit:
		return &failure{verdict.OutputLimit, who + " wrote more than the limit of output"}
	case sandbox.TimedOut:
		return &failure{verdict.VerificationTimeout, who + " ran out of time"}
	}
	return nil
}

// pathList is what a record shows of paths: the first ones.
func pathList(paths []string) []string { return paths[:min(len(paths), maxPaths)] }

// verdict describes the verification in the words of records.
func (s *session) verdict(f *failure) family.Verdict {
	v := family.Verdict{Outcome: s.grade.Outcome, Reason: s.grade.Reason, Message: s.grade.Message, Phase: s.phase,
		Containment: verdict.Shared, Labels: s.grade.Labels, Waited: s.waited, Restricted: s.restricted,
		Metadata: verdict.NewMetadata(s.grade.Metadata)}
	if f != nil {
		v.Outcome, v.Reason, v.Message, v.Labels = outcomeOf(f.reason), f.reason, f.message, nil
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
