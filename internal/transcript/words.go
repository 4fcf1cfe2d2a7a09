package transcript

import (
	"fmt"

	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// words says in a sentence how an attempt ended.
func words(l *record.Line) string {
	ended, ok := outcomes()[l.Outcome]
	if !ok {
		return redact.Escape(fmt.Sprintf("The record names an outcome that this build does not know: %q.", l.Outcome))
	}
	if l.FailureReason == "" {
		return ended + "."
	}
	why, ok := reasons()[l.FailureReason]
	if !ok {
		why = fmt.Sprintf("for a reason that this build does not know: %q", l.FailureReason)
	}
	return redact.Escape(ended + ": " + why + ".")
}

// outcomes are sentences without their end.
func outcomes() map[verdict.Outcome]string {
	return map[verdict.Outcome]string{
		verdict.Passed:          "The candidate passed",
		verdict.Failed:          "The candidate was scored and failed",
		verdict.NoCandidate:     "The agent left no candidate that could be scored",
		verdict.AgentTimeout:    "The agent ran out of time",
		verdict.Limit:           "A limit of the run was reached",
		verdict.VerifierTimeout: "The verification of the candidate ran out of time",
		verdict.Tampering:       "The candidate interfered with its verification",
		verdict.Pending:         "The attempt has no verdict",
		verdict.Infrastructure:  "The attempt has no verdict, because of the machine and not of the agent",
	}
}

// reasons say why an attempt did not pass.
func reasons() map[verdict.Reason]string {
	return map[verdict.Reason]string{
		verdict.WrongAnswer:          "its answer is not one that the row accepts",
		verdict.ArtifactUnreadable:   "a file that it delivers is not of its type, or cannot be read within bounds",
		verdict.StoredValueDiffers:   "a cell stores another value than its formula yields",
		verdict.AmbiguousAnswer:      "it gives several answers, or none that can be told apart",
		verdict.JudgeRefused:         "the judge gives no answer about it, though it does about others",
		verdict.JudgeInconsistent:    "the judge's votes contradict each other",
		verdict.TestsFailed:          "at least one test of the row failed",
		verdict.EmptyCandidate:       "what it left is empty",
		verdict.CandidateMissing:     "the file, folder or repository that should hold it is not there",
		verdict.CandidateTooLarge:    "the candidate is larger than limits.candidate",
		verdict.CandidateNotRegular:  "it holds something other than plain files",
		verdict.InvalidUTF8:          "its text is not UTF-8",
		verdict.WorkerExited:         "the process that ran the candidate's code ended in the middle of the tests",
		verdict.ProtocolViolation:    "the candidate's process sent what no honest one sends",
		verdict.UnsupportedOperation: "the tests did something with an object of the candidate's that cannot be done from outside its sandbox",
		verdict.ProducerTimeout:      "it was ended at its time limit",
		verdict.VerificationTimeout:  "the candidate's code or the tests did not end in time",
		verdict.OutputLimit:          "more was printed than limits.output allows",
		verdict.DiskLimit:            "more was written than limits.disk or limits.files allows",
		verdict.OutOfMemory:          "more memory was needed than limits.memory allows",
		verdict.PidsLimit:            "more processes were started than limits.pids allows",
		verdict.Policy:               "a rule on candidates refuses it",
		verdict.PatchDoesNotApply:    "the patch does not apply to the row's commit",
		verdict.ServiceNotReady:      "the service that the row starts did not become ready",
		verdict.CommandDenied:        "the row's checker needs a command that sandbox.commands does not allow",
		verdict.Budget:               "the agent asked its provider for more than its budget allows",
		verdict.AgentFailed:          "the agent failed",
		verdict.TurnLimit:            "the agent took all the turns that it may",
		verdict.ProviderRefused:      "the provider rejects what the agent asked for",
		verdict.NoVerifier:           "its family has no verifier",
		verdict.NoJudge:              "its rubric needs a judge, and there is none",
		verdict.Media:                "it has a video or a sound, which no agent is given",
		verdict.PackFault:            "the row's own fault: its files changed, or its image lacks what it needs",
		verdict.InfrastructureError:  "every try ended in an error of the engine or of this machine",
	}
}
