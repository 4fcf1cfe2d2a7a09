package capture_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/capture"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// fakeSpace serves one archive, whatever is asked for.
type fakeSpace struct {
	headers []tar.Header
	data    string
	err     error
}

func (f fakeSpace) Put(context.Context, io.Reader) error         { return nil }
func (f fakeSpace) Usage(context.Context) (sandbox.Usage, error) { return sandbox.Usage{}, nil }
func (f fakeSpace) Close(context.Context) error                  { return nil }
func (f fakeSpace) Remove(context.Context, ...string) error      { return nil }
func (f fakeSpace) Get(_ context.Context, _ string, limit int64, w io.Writer, _ ...string) error {
	if f.err != nil {
		return f.err
	}
	tw := tar.NewWriter(w)
	for _, h := range f.headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(f.data))
		}
		if err := tw.WriteHeader(&h); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(tw, f.data); err != nil {
				return err
			}
		}
	}
	return tw.Close()
}

func file(data string) fakeSpace {
	return fakeSpace{headers: []tar.Header{{Name: "candidate.py", Typeflag: tar.TypeReg, Mode: 0o644}}, data: data}
}

func special(flag byte) fakeSpace {
	return fakeSpace{headers: []tar.Header{{Name: "candidate.py", Typeflag: flag, Linkname: "/etc/passwd"}}}
}

func linked() fakeSpace {
	f := file("x = 1\n")
	f.headers[0].PAXRecords = map[string]string{holder.RecordLinks: "2"}
	return f
}

var code = task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: "candidate.py", OrStdout: true}

func TestCapture(t *testing.T) {
	strict := code
	strict.OrStdout = false
	starter := map[string]string{"candidate.py": digest.Bytes([]byte("starter\n"))}
	tests := []struct {
		name       string
		extraction task.Extraction
		space      fakeSpace
		public     map[string]string
		stdout     string
		want       string
		from       candidate.Origin
		reason     verdict.Reason
	}{
		{name: "text is stdout as it is", extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}, stdout: " B\n", want: " B\n", from: "stdout"},
		{name: "a new file", extraction: code, space: file("x = 1\n"), stdout: "noise", want: "x = 1\n", from: "file"},
		{name: "a changed file", extraction: code, space: file("x = 2\n"), public: starter, want: "x = 2\n", from: "file"},
		{name: "an unchanged file", extraction: code, space: file("starter\n"), public: starter, stdout: "x = 3\n", want: "x = 3\n", from: "stdout"},
		{name: "no file", extraction: code, stdout: "x = 4\n", want: "x = 4\n", from: "stdout"},
		{name: "fences of a file stay", extraction: code, space: file("```\nx\n```\n"), want: "```\nx\n```\n", from: "file"},
		{name: "fences of stdout stay", extraction: code, stdout: "```python\nx = 5\n```\n", want: "```python\nx = 5\n```\n", from: "stdout"},
		{name: "no file and no stdout allowed", extraction: strict, stdout: "x", reason: verdict.CandidateMissing},
		{name: "a link is not followed", extraction: code, space: special(tar.TypeSymlink), stdout: "x = 6\n", reason: verdict.CandidateNotRegular},
		{name: "a pipe", extraction: code, space: special(tar.TypeFifo), reason: verdict.CandidateNotRegular},
		{name: "a device", extraction: code, space: special(tar.TypeChar), reason: verdict.CandidateNotRegular},
		{name: "a directory", extraction: code, space: special(tar.TypeDir), reason: verdict.CandidateNotRegular},
		{name: "a hard link", extraction: code, space: linked(), stdout: "x = 7\n", reason: verdict.CandidateNotRegular},
		{name: "an oversized file", extraction: code, space: file(strings.Repeat("x", 2000)), reason: verdict.CandidateTooLarge},
		{name: "a tree that does not fit", extraction: code, space: fakeSpace{err: sandbox.ErrTooLarge}, reason: verdict.CandidateTooLarge},
		{name: "oversized stdout", extraction: code, stdout: strings.Repeat("x", 2000), reason: verdict.CandidateTooLarge},
		{name: "bytes that are not text", extraction: code, space: file("x = '\xff'"), reason: verdict.InvalidUTF8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := capture.Stage{Sink: newStore(t)}.Capture(t.Context(), capture.Request{Extraction: tt.extraction, Outcome: exited,
				Stdout: []byte(tt.stdout), Public: tt.public, Limit: 1000}, tt.space)
			if err != nil {
				t.Fatal(err)
			}
			if r := got.Rejection; (r != nil) != (tt.reason != "") || r != nil && r.Reason != tt.reason || (r == nil) != (got.Candidate != nil) {
				t.Fatalf("rejection %v, candidate %v, want reason %q", r, got.Candidate, tt.reason)
			}
			if tt.reason != "" {
				return
			}
			data, err := got.Candidate.Bytes()
			if err != nil || string(data) != tt.want || got.Candidate.Origin != tt.from || got.Candidate.Digest != digest.Bytes([]byte(tt.want)) {
				t.Errorf("got %q from %s, %v; want %q from %s", data, got.Candidate.Origin, err, tt.want, tt.from)
			}
		})
	}
}

var exited = sandbox.Outcome{End: sandbox.Exited}

func newStore(t testing.TB) *candidate.Store {
	t.Helper()
	s, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestEngineFaultIsNoRejection(t *testing.T) {
	broken := errors.New("the connection broke")
	for _, x := range []task.Extraction{code, tree} {
		got, err := capture.Stage{Sink: newStore(t)}.Capture(t.Context(), capture.Request{Extraction: x, Outcome: exited, Tree: roomy, Workdir: "/app"}, fakeSpace{err: broken})
		if !errors.Is(err, broken) || got.Rejection != nil {
			t.Errorf("%s: got %v, want the engine's fault", x.Mode, err)
		}
	}
}

func TestSecretsAreTakenOutBeforeTheDigest(t *testing.T) {
	got, err := capture.Stage{Sink: newStore(t), Secrets: secrets(t)}.Capture(t.Context(), capture.Request{Outcome: exited,
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}, Stdout: []byte("the key is sk-secret-value")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := got.Candidate.Bytes()
	if want := "the key is [redacted:KEY]"; err != nil || string(data) != want || !got.Candidate.Redacted || string(got.Stdout) != want {
		t.Errorf("got %q with %+v, %v", data, got.Candidate, err)
	}
}

// TestPatchesAreNotEdited: a secret is not removed from a finished patch, which
// would be another patch then, but the patch is refused, and its text is not
// kept with the secret. Without secrets to look for, the weak set-up, the patch
// is stored with the secret.
func TestPatchesAreNotEdited(t *testing.T) {
	const leaks, honest = "+key = sk-secret-value\n", "+key = other\n"
	take := func(s *redact.Registry, patch string) capture.Result {
		got, err := capture.Stage{Sink: newStore(t), Secrets: s}.Capture(t.Context(), capture.Request{Outcome: exited,
			Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Patch}, Stdout: []byte(patch)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := take(secrets(t), leaks); got.Rejection == nil || got.Rejection.Reason != verdict.Policy ||
		strings.Contains(got.Rejection.Message+string(got.Stdout), "sk-secret") {
		t.Errorf("got %+v", got)
	}
	if got := take(nil, leaks); got.Candidate == nil {
		t.Errorf("weak: got %+v", got)
	}
	if got := take(secrets(t), honest); got.Candidate == nil || got.Candidate.Redacted {
		t.Errorf("honest: got %+v", got)
	}
}

func secrets(t *testing.T) *redact.Registry {
	t.Helper()
	r := new(redact.Registry)
	if err := r.Add("KEY", []byte("sk-secret-value")); err != nil {
		t.Fatal(err)
	}
	return r
}
