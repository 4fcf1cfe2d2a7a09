package native_test

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/nativetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diffOwned checks that no control group of an engine is left.
func diffOwned(t *testing.T, e *native.Engine) {
	t.Helper()
	left, err := e.Owned(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("left on the machine: %v, %v", left, err)
	}
}

func TestCycle(t *testing.T) {
	e := nativetest.Native(t)
	img := nativetest.Image(t, e)
	for _, c := range [][]string{{"true"}, {"python3", "-c", "print('hello')"}, {"sh", "-c", "mount; id; ls -la /; cat /proc/self/status"}} {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: c, User: &sandbox.Nobody})
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		o, err := b.Run(t.Context(), sandbox.Streams{Stdout: &out, Stderr: &errs})
		t.Logf("%+v %v\n%s\n%s", o, err, strings.TrimSpace(out.String()), errs.String())
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	diffOwned(t, e)
}
