package native_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// repository is an archive that some images are made of.
func repository(t testing.TB) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Mode: 0o644}), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

// TestEqualImports: images of equal content go one by one.
func TestEqualImports(t *testing.T) {
	e := enginetest.Native(t)
	a, err := e.Import(t.Context(), sandbox.Labels{}, repository(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Import(t.Context(), sandbox.Labels{}, repository(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.RemoveImage(t.Context(), a); err != nil || a.ID == b.ID {
		t.Errorf("the first of %s and %s: %v", a.ID, b.ID, err)
	}
	w, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{Disk: 1 << 20, From: &sandbox.ImageFolder{Image: b, Path: "/missing"}})
	if !errors.Is(err, sandbox.ErrNoFolder) {
		t.Errorf("the second: %v, %v", w, err)
	}
	if err := e.RemoveImage(t.Context(), b); err != nil {
		t.Error(err)
	}
}

// TestImportsOfTheDead: what a killed process imported goes with the next one's
// clean-up, and what a living one did does not.
func TestImportsOfTheDead(t *testing.T) {
	e := enginetest.ConnectNative(t)
	if os.Getenv("NATIVE_IMPORT") != "" {
		img, err := e.Import(t.Context(), sandbox.Labels{}, repository(t))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("imported " + img.ID + "\n")
		time.Sleep(time.Hour) // until it is killed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestImportsOfTheDead$")
	cmd.Env = append(os.Environ(), "NATIVE_IMPORT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("imported sha256:")+64)
	n, err := out.Read(line)
	id := strings.TrimPrefix(string(line[:n]), "imported ")
	if err != nil || !strings.HasPrefix(id, "sha256:") {
		t.Errorf("the other process wrote %q, %v", line[:n], err)
	}
	if _, err := e.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.RemoveImage(t.Context(), sandbox.Image{ID: "sha256:" + strings.Repeat("0", 64)}); err != nil {
		t.Errorf("an image that was never there: %v", err)
	}
	if _, err := e.Image(t.Context(), id); err != nil {
		t.Errorf("the image of a process that lives: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := e.Close(); err != nil { // it keeps what it has looked up
		t.Error(err)
	}
	second := enginetest.Native(t)
	// Another process that uses the store may have been faster.
	if _, err := second.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := second.Image(t.Context(), id); !errors.Is(err, sandbox.ErrImageMissing) {
		t.Errorf("the image of a dead process: %v", err)
	}
}
