package family_test

import (
	"testing"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

func TestVerdictOf(t *testing.T) {
	for reason, want := range map[verdict.Reason]verdict.Outcome{
		"":                          verdict.Tampering,
		"a reason of no kind":       verdict.Failed, // a failure never passes
		verdict.TestsFailed:         verdict.Failed,
		verdict.WorkerExited:        verdict.Failed,
		verdict.Policy:              verdict.Failed,
		verdict.VerificationTimeout: verdict.VerifierTimeout,
		verdict.OutOfMemory:         verdict.Limit,
		verdict.PidsLimit:           verdict.Limit,
		verdict.DiskLimit:           verdict.Limit,
		verdict.OutputLimit:         verdict.Limit,
		verdict.CandidateTooLarge:   verdict.Limit,
		verdict.NoVerifier:          verdict.Pending,
		verdict.PackFault:           verdict.Pending,
	} {
		if got := family.VerdictOf(family.Fail(reason, "x")); got.Outcome != want || got.Reason != reason || got.Message != "x" {
			t.Errorf("%q: %+v, want %q", reason, got, want)
		}
	}
	if got := family.VerdictOf(nil); got.Outcome != verdict.Passed || got.Reason != "" {
		t.Errorf("no failure: %+v", got)
	}
}

func TestLimitReached(t *testing.T) {
	for end, want := range map[sandbox.End]verdict.Reason{
		sandbox.OutOfMemory: verdict.OutOfMemory,
		sandbox.PidsLimit:   verdict.PidsLimit,
		sandbox.DiskLimit:   verdict.DiskLimit,
		sandbox.OutputLimit: verdict.OutputLimit,
		sandbox.TimedOut:    verdict.VerificationTimeout,
	} {
		// The first limit ended the command, the others were only seen.
		got := family.LimitReached([]sandbox.End{end, sandbox.DiskLimit}, "it")
		if got == nil || got.Reason != want || got.Message == "" {
			t.Errorf("%q: %+v, want %q", end, got, want)
		}
	}
	for _, none := range [][]sandbox.End{nil, {sandbox.Exited}} {
		if got := family.LimitReached(none, "it"); got != nil {
			t.Errorf("%q: %+v, want no limit", none, got)
		}
	}
}
