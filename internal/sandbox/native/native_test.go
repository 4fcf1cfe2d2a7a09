package native_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/native/rootless"
)

// TestMain has a user who is not root run the tests in a user namespace, if asked to as
// securebench itself.
func TestMain(m *testing.M) {
	program := rootless.Program{Args: os.Args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	code, ran, err := program.Elsewhere()
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "running the tests without root: %v\n", err)
		os.Exit(1)
	case ran:
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// diffOwned checks that no control group of an engine is left.
func diffOwned(t *testing.T, e *native.Engine) {
	t.Helper()
	left, err := e.Owned(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("left on the machine: %v, %v", left, err)
	}
}

func TestCycle(t *testing.T) {
	e := enginetest.Native(t)
	img := enginetest.Image(t, e)
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
