package capture

import (
	"errors"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// growing is a short secret whose replacement is long: what an agent repeats
// becomes 14 times as large.
func growing(t *testing.T) (*redact.Registry, string) {
	t.Helper()
	const secret = "k3y=4711"
	r := new(redact.Registry)
	if err := r.Add(strings.Repeat("N", 100), []byte(secret)); err != nil {
		t.Fatal(err)
	}
	return r, secret
}

// TestRedactionDoesNotGrow: the bounds of a candidate hold for what is stored
// and scored, after its secrets were replaced.
func TestRedactionDoesNotGrow(t *testing.T) {
	secrets, secret := growing(t)
	store, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for times, want := range map[int]verdict.Reason{100: verdict.CandidateTooLarge, 1: ""} {
		req := Request{Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}, Outcome: sandbox.Outcome{End: sandbox.Exited},
			Limit: 1000, Stdout: []byte(strings.Repeat(secret, times))}
		got, err := Stage{Secrets: secrets, Sink: store}.Capture(t.Context(), req, nil)
		if err != nil || (got.Rejection != nil) != (want != "") || got.Rejection != nil && got.Rejection.Reason != want {
			t.Errorf("%d times: rejected with %v, %v; want %q", times, got.Rejection, err, want)
		}
		if got.Candidate != nil && (got.Candidate.Size > 1000 || !got.Candidate.Redacted) {
			t.Errorf("%d times: %+v", times, got.Candidate)
		}
		if strings.Contains(string(got.Stdout), secret) {
			t.Errorf("%d times: the secret is in the output", times)
		}
	}
}

// TestSpoolIsBounded: a file is held on the operator's disk while its secrets
// are replaced, and an agent must not fill it.
func TestSpoolIsBounded(t *testing.T) {
	secrets, secret := growing(t)
	const limit = 4 << 20
	for times, fits := range map[int]bool{limit / len(secret): false, 30_000: true} {
		s := &spool{limit: limit}
		w := secrets.Writer(s)
		_, err := w.Write([]byte(strings.Repeat(secret, times)))
		err = errors.Join(err, w.Close())
		var r *candidate.Rejection
		if errors.As(err, &r) == fits || r != nil && r.Reason != verdict.CandidateTooLarge {
			t.Errorf("%d times: %v", times, err)
		}
		info, err := s.f.Stat()
		if err != nil || info.Size() > limit {
			t.Errorf("%d times: %d bytes on the disk, %v", times, info.Size(), err)
		}
		s.close()
	}
}
