package native

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/platform"
)

// The folders in the engine's mount namespace. Names are short: a sandbox can see
// them, and the kernel bounds the length of a list of layers.
const (
	treesDir   = "l" // folders of the host, as sandboxes see their owners
	runtimeDir = "p" // the runtime's
	boxesDir   = "b"
	worksDir   = "w"
	imagesDir  = "i" // images that are looked into
	emptyDir   = "e" // an empty folder: an overlay without an upper layer needs two
	helperDir  = "h"
)

// The files that say what the hosts are called.
const (
	hostName = "sandbox"
	hosts    = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n" +
		"ff00::0\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n"
	// A server that cannot be reached, as all the others: programs expect one.
	resolver = "nameserver 192.0.2.53\n"
)

// base is the host's ID of a sandbox's user 0.
func (e *Engine) base() int {
	if e.ids == nil {
		return 0
	}
	return mountns.IDBase
}

// makeDir makes a folder with a mode and an owner by its ID in a sandbox.
func (e *Engine) makeDir(path string, mode fs.FileMode, u sandbox.User) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return errors.Join(os.Chown(path, e.base()+u.UID, e.base()+u.GID), os.Chmod(path, mode))
}

// makeFile makes a file that belongs to a sandbox's root.
func (e *Engine) makeFile(path string, mode fs.FileMode, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chown(path, e.base(), e.base()), os.Chmod(path, mode))
}

// furnish makes what all boxes share. It runs in the namespace.
func (e *Engine) furnish() error {
	for _, dir := range []string{treesDir, boxesDir, worksDir, imagesDir} {
		// Passed through by the roots of sandboxes, listed by none.
		if err := os.Mkdir(e.path(dir), 0o711); err != nil {
			return err
		}
		if err := os.Chmod(e.path(dir), 0o711); err != nil {
			return err
		}
	}
	if err := e.makeDir(e.path(emptyDir), 0o755, sandbox.User{}); err != nil {
		return err
	}
	return e.openHelper()
}

// makeNames makes the files in which programs look for the names of hosts.
func (e *Engine) makeNames(dir string) error {
	return errors.Join(e.makeFile(dir+"/hosts", 0o644, hosts), e.makeFile(dir+"/hostname", 0o644, hostName+"\n"),
		e.makeFile(dir+"/resolv.conf", 0o644, resolver))
}

// openHelper opens the helper binary: what sandboxes get is this one, whatever becomes
// of the file.
func (e *Engine) openHelper() (err error) {
	if e.cfg.Helper == "" {
		return nil
	}
	if err := platform.CheckHelper(e.cfg.Helper, runtime.GOARCH); err != nil {
		return err
	}
	e.helper, err = os.Open(e.cfg.Helper)
	return err
}

// placeHelper copies the helper binary for the first sandbox that has it: a mount of
// the host's own folder would show a sandbox where that is. It runs in the namespace,
// where calls are made one after the other.
func (e *Engine) placeHelper() (err error) {
	if e.placed {
		return nil
	}
	defer func() {
		if e.placed = err == nil; !e.placed {
			err = errors.Join(fmt.Errorf("copying the helper: %w", err), os.RemoveAll(e.path(helperDir)))
		}
	}()
	if err := e.makeDir(e.path(helperDir), 0o755, sandbox.User{}); err != nil {
		return err
	}
	name := e.path(helperDir, "helper")
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = e.helper.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(to, e.helper)
	}
	return errors.Join(err, to.Close(), os.Chown(name, e.base(), e.base()), os.Chmod(name, 0o755))
}
