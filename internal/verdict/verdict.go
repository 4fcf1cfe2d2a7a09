// Package verdict holds the vocabulary of results: the statuses, outcomes,
// reasons, phases and containment profiles that records, reports and progress
// share. Every package that names one uses these types; the words are part of
// the record format (docs/records.md).
package verdict

// Status says whether an attempt has been scored.
type Status string

// The statuses of a record.
const (
	StatusPassed  Status = "passed"
	StatusFailed  Status = "failed"
	StatusPending Status = "pending" // there is no verdict
)

// Outcome is the class of a finished attempt.
type Outcome string

// The outcomes of a record.
const (
	Passed          Outcome = "passed"
	Failed          Outcome = "failed"
	NoCandidate     Outcome = "no_candidate"
	AgentTimeout    Outcome = "agent_timeout"
	Limit           Outcome = "limit"
	VerifierTimeout Outcome = "verifier_timeout"
	Tampering       Outcome = "tampering"
	Pending         Outcome = "pending"
	Infrastructure  Outcome = "infrastructure"
)

// Reason is the machine-readable cause of an outcome other than a pass.
type Reason string

// The reasons.
const (
	WrongAnswer         Reason = "wrong_answer"
	AmbiguousAnswer     Reason = "ambiguous_answer"
	TestsFailed         Reason = "tests_failed"
	EmptyCandidate      Reason = "empty_candidate"
	CandidateMissing    Reason = "candidate_missing"
	CandidateTooLarge   Reason = "candidate_too_large"
	CandidateNotRegular Reason = "candidate_not_regular"
	InvalidUTF8         Reason = "invalid_utf8"
	ArtifactUnreadable  Reason = "artifact_unreadable" // a delivered file is not of its type
	WorkerExited        Reason = "worker_exited"
	ProtocolViolation   Reason = "protocol_violation"
	// UnsupportedOperation: the tests applied an operation to one of the
	// candidate's objects that cannot be performed on its behalf.
	UnsupportedOperation Reason = "unsupported_operation"
	ProducerTimeout      Reason = "producer_timeout"
	VerificationTimeout  Reason = "verifier_timeout"
	OutputLimit          Reason = "output_limit"
	DiskLimit            Reason = "disk_limit"
	OutOfMemory          Reason = "oom"
	PidsLimit            Reason = "pids_limit"
	Policy               Reason = "policy" // a rule on candidates refuses it
	PatchDoesNotApply    Reason = "patch_does_not_apply"
	ServiceNotReady      Reason = "service_not_ready" // what the row starts did not become ready
	// CommandDenied: the row's checker needs a command that the operator does
	// not allow.
	CommandDenied Reason = "verifier_dangerous_command_denied"
	// Budget: the agent asked its provider for more than its budget allows.
	Budget Reason = "budget"
	// AgentFailed: the agent ended with an error and left no candidate, or it took
	// the part of its sandbox away that reports its end.
	AgentFailed Reason = "agent_failed"
	// TurnLimit: the agent took all turns that it may, and left no candidate.
	TurnLimit Reason = "turn_limit"
	// ProviderRefused: the provider rejects what the agent asked for, though it
	// accepts the key and the model.
	ProviderRefused Reason = "provider_refused"
	NoVerifier      Reason = "no_verifier"
	NoJudge         Reason = "no_judge"
	// JudgeRefused: the judge gives no answer about this candidate, though it does about
	// others.
	JudgeRefused Reason = "judge_refused"
	// Media: the row has a video or a sound, which no agent is given.
	Media Reason = "media"
	// JudgeInconsistent: the judge's votes contradict each other.
	JudgeInconsistent Reason = "judge_inconsistent"
	// StoredValueDiffers: a workbook has a value beside a formula that does not yield it.
	StoredValueDiffers  Reason = "stored_value_differs"
	PackFault           Reason = "pack" // the row's own fault: its files, or what it wants of its image, cannot be used
	InfrastructureError Reason = "infrastructure_error"
)

// Phase is the stage of an attempt that failed.
type Phase string

// The phases of an attempt, as failure_phase and timings_ms name them. A
// verifier may name finer ones, such as "import" and "tests".
const (
	PhasePrepare Phase = "prepare"
	PhaseProduce Phase = "producer"
	PhaseCapture Phase = "candidate_extraction"
	PhaseVerify  Phase = "verifier"
)

// Containment says where candidate code could run during verification.
type Containment string

// The containment profiles; no total mixes them silently.
const (
	Passive Containment = "passive" // no candidate code was executed
	Split   Containment = "split"   // candidate code ran away from the tests
	Shared  Containment = "shared"  // candidate code and tests shared a sandbox
)
