package terminaltask

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/verdict"
)

// The phases of a verification, in its order.
const (
	phaseFiles   verdict.Phase = "candidate_files"
	phaseService verdict.Phase = "service"
	phaseChecker verdict.Phase = "checker" // as in the reference
)

// What a verdict rests on.
const (
	evidenceExitCode = "exit_code"
	evidencePytest   = "pytest"
	evidenceReward   = "reward_file"
)

// pythonPathOpen labels verdicts of a checker that could have started a Python
// which loads modules from the workspace.
const pythonPathOpen = "python_path_open"

// sharedWorkspace labels verdicts of a checker beside which a service could change
// the workspace.
const sharedWorkspace = "shared_workspace"

// candidateModules labels verdicts of a checker whose programs find modules and
// settings of the candidate's, as its row asks.
const candidateModules = "candidate_modules"

// writableFiles labels verdicts of a checker that could change its evaluation files, as
// could what it started.
const writableFiles = "writable_files"

// Keys of a verdict's metadata that the family's rows give a meaning.
const (
	keyEvidence  = "evidence"
	keyReward    = "reward"
	keyLeftCount = "ignored_candidate_path_count"
)

// maxPaths bounds the paths that are listed; all are counted.
const maxPaths = 100

// failing reports whether a limit of the sandbox can explain a failure.
func failing(r verdict.Reason) bool {
	switch r {
	case verdict.WorkerExited, verdict.TestsFailed, verdict.ProtocolViolation, verdict.ServiceNotReady, verdict.CandidateNotRegular:
		return true
	}
	return false
}

// verdict describes the verification in the words of records.
func (s *session) verdict(f *family.Failure) family.Verdict {
	v := family.VerdictOf(f)
	v.Phase, v.Containment, v.Waited = s.phase, verdict.Shared, s.waited
	v.Restricted, v.Labels, v.Metadata = s.restricted, s.labels, verdict.NewMetadata(s.metadata)
	if s.site != nil && s.site.Checker != nil && s.verifier.resources.Engine.Info().DiskSampled {
		v.Labels = append(slices.Clone(v.Labels), family.DiskSampled)
	}
	v.Metadata.Set("image", s.c.Image.Ref)
	if s.row.image != "" && s.image.ID != "" {
		v.Metadata.Set("checker_image", s.image.ID) // the row's reference is an evaluation input
	}
	v.Metadata.Set("workdir", s.row.workdir)
	v.Metadata.Set("phase", s.phase)
	if s.left.count > 0 {
		v.Metadata.Set(keyLeftCount, s.left.count)
		// Which of many paths these are tells where the row has its own files.
		if list, err := json.Marshal(s.left.paths, json.Deterministic(true)); err == nil {
			s.restricted["ignored_candidate_paths.json"] = list
		}
	}
	return v
}

// denied is the verdict on a row that needs commands which the operator does
// not allow, as in the reference. No sandbox is made for it.
func (s *session) denied(names []string, why string) family.Verdict {
	s.phase = phaseChecker
	v := s.verdict(&family.Failure{Reason: verdict.CommandDenied,
		Message: fmt.Sprintf("the checker needs the dangerous command %s: %s", strings.Join(names, ", "), why)})
	v.Metadata.Set("denied_command", names[0])
	v.Metadata.Set("denied_commands", names)
	v.Metadata.Set("denial_reason", why)
	v.Metadata.Set("needed_commands", s.row.needed)
	v.Metadata.Set("tester_disallow_dangerous_commands", !s.verifier.resources.Commands.Allow)
	v.Metadata.Set("tester_denied_commands", append([]string{}, s.verifier.resources.Commands.Deny...))
	v.Metadata.Set("exit_code", nil)
	return v
}

// leftOut are the changes of a candidate that were not made, the first of them
// by path.
type leftOut struct {
	paths []map[string]string
	count int
}

// add notes a change.
func (l *leftOut) add(path, why string) {
	if l.count++; len(l.paths) < maxPaths {
		l.paths = append(l.paths, map[string]string{"path": path, "reason": why})
	}
}
