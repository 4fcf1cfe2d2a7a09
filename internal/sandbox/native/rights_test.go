package native

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"securebench/internal/sandbox"
)

// TestTreeIsTheRoot has a thread with the rights of root, who can own a tree, leave
// it by paths of all kinds, as a flaw of the holder could make it do. That works
// with the rights alone; with the tree as root it does not.
func TestTreeIsTheRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root")
	}
	outside, tree := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	for name, text := range map[string]string{secret: "secret", filepath.Join(tree, "own"): "own"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(tree, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	reached := func(confined bool) (names []string) {
		done := make(chan error)
		leave := func() error {
			for _, name := range []string{secret, "/../.." + secret, "/proc/self/root" + secret, "/link"} {
				if os.Chmod(name, 0o640) == nil {
					names = append(names, name)
				}
			}
			text, err := root.ReadFile("own")
			if string(text) != "own" {
				err = errors.Join(err, errors.New("the tree's own file cannot be read"))
			}
			return err
		}
		go func() {
			if confined {
				done <- asUser(sandbox.User{}, false, root, make(chan error, 1), leave)
				return
			}
			runtime.LockOSThread() // for good
			done <- errors.Join(become(sandbox.User{}, false), leave())
		}()
		if err := <-done; err != nil {
			t.Errorf("confined %v: %v", confined, err)
		}
		return names
	}
	if got := reached(false); len(got) < 3 {
		t.Errorf("with the rights alone, only %q are reached", got)
	}
	if got := reached(true); len(got) > 0 {
		t.Errorf("with the tree as the root, %q are reached", got)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Errorf("other threads: %v", err)
	}
}
