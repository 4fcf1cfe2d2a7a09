package terminaltask

import (
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
	evidenceReward   = verdict.RewardFile
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

// Describe implements [sandboxed.Scorer].
func (s *scorer) Describe(v *family.Verdict) {
	v.Phase, v.Containment = s.phase, verdict.Shared
	v.Restricted, v.Labels, v.Metadata = s.restricted, s.labels, verdict.NewMetadata(s.metadata)
	if value, ok := s.metadata[keyReward].(float64); ok {
		v.Measure = &verdict.Measure{Name: keyReward, Value: value}
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
	s.describeDenied(v.Metadata)
}

// denial says which commands that a checker needs the operator does not allow, and why.
type denial struct {
	commands []string
	why      string
}

// permit asks what the checker's dangerous commands may do. A row with one that is
// denied is refused as in the reference: no sandbox is made for it.
func (s *scorer) permit() error {
	grants, denied, why := s.verifier.resources.Commands.Permit(s.row.needed)
	if len(denied) == 0 {
		s.grants = grants
		return nil
	}
	s.phase, s.denied = phaseChecker, &denial{denied, why}
	return family.Fail(verdict.CommandDenied, "the checker needs the dangerous command %s: %s", strings.Join(denied, ", "), why)
}

// describeDenied adds what was denied to a verdict's metadata.
func (s *scorer) describeDenied(m verdict.Metadata) {
	if s.denied == nil {
		return
	}
	by := s.verifier.resources.Commands
	m.Set("denied_command", s.denied.commands[0])
	m.Set("denied_commands", s.denied.commands)
	m.Set("denial_reason", s.denied.why)
	m.Set("needed_commands", s.row.needed)
	m.Set("tester_disallow_dangerous_commands", !by.Allow)
	m.Set("tester_denied_commands", append([]string{}, by.Deny...))
	m.Set("exit_code", nil)
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
