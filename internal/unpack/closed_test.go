package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/tartest"
)

// TestClosedInTheWay: a folder that its owner has closed gives way as any other does,
// empty or not, also to who may do no more than that owner.
func TestClosedInTheWay(t *testing.T) {
	t.Parallel()
	for name, inside := range map[string]string{"empty": "", "with a folder": "/x"} {
		in := filepath.Join(t.TempDir(), "in")
		if err := errors.Join(os.MkdirAll(in+"/a/b"+inside, 0o755), os.Chmod(filepath.Dir(in), 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"/a/b" + inside, "/a/b", "/a", ""} {
			if err := chownAsRoot(in + dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(in+"/a/b"+inside, 0), os.Chmod(in+"/a/b", 0)); err != nil {
			t.Fatal(err)
		}
		folder, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		archive := tartest.Pack(t, header(tar.TypeReg, "a/b", "x"))
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // for good: the thread ends with its goroutine, and with what it gave up
			if os.Geteuid() == 0 {
				if _, err := unix.SetfsuidRetUid(nobody); err != nil {
					done <- err
					return
				}
			}
			done <- Tar(context.Background(), folder, bytes.NewReader(archive), Options{Plan: permissive, Entries: 9, Bytes: 99,
				Archive: 1 << 20, Depth: 8, Replace: true, ReplaceParents: true, Unprivileged: true})
		}()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(in + "/a/b"); err == nil && string(b) != "x" {
			t.Errorf("%s: the file is %q", name, b)
		}
		_ = os.Chmod(in+"/a/b", 0o755) // so that it can be removed
	}
}
