package attest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"securebench/internal/durable"
	"securebench/internal/source"
)

// change runs do with the keyring locked. It creates the keyring if there is
// none.
func (r *Keyring) change(do func(*os.Root) error) (err error) {
	if err := makeDir(r.dir); err != nil {
		return fmt.Errorf("creating the keyring: %w", err)
	}
	root, err := r.open()
	if err != nil {
		return err
	}
	if root == nil {
		return fmt.Errorf("opening the keyring: %s was removed: try again", r.dir)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	lock, err := source.OpenIn(root, lockName, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
		err = durable.Lock(lock)
	}
	if err != nil {
		return fmt.Errorf("locking the keyring: %w: set %s to a directory on a local disk", err, keyringVar)
	}
	if err := sweep(root); err != nil {
		return fmt.Errorf("removing the keyring's temporary files: %w", err)
	}
	return do(root)
}

// sweep removes temporary files that a crash left. One may be a copy of a
// signing key that is about to be retired.
func sweep(root *os.Root) error {
	files, err := fs.ReadDir(root.FS(), ".")
	for _, f := range files {
		if strings.HasPrefix(f.Name(), durable.TempPrefix) {
			err = errors.Join(err, root.Remove(f.Name()))
		}
	}
	return err
}

// place makes key the signing key and retires the present one.
func (r *Keyring) place(root *os.Root, key PrivateKey) error {
	// A link never replaces a file, so the present key is retired first even
	// on a network file system that ignores locks.
	err := write(root, key.pem(), signingName, (*durable.File).Link)
	if errors.Is(err, fs.ErrExist) {
		if err = r.retire(root, key.Public()); err == nil {
			err = write(root, key.pem(), signingName, (*durable.File).Commit)
		}
	}
	if err != nil {
		return fmt.Errorf("writing the signing key: %w", err)
	}
	return nil
}

// retire files the public half of the signing key before next replaces it.
func (r *Keyring) retire(root *os.Root, next PublicKey) error {
	former, ok, err := r.signing(root)
	if err != nil || !ok || former.Public() == next {
		return err
	}
	return r.file(root, RoleRetired, former.Public(), "")
}

// file writes a public key to its role's directory.
func (r *Keyring) file(root *os.Root, role Role, k PublicKey, name string) error {
	err := root.Mkdir(string(role), 0o700)
	switch {
	case err == nil:
		err = durable.SyncDir(root, ".")
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	if err == nil {
		err = write(root, k.namedPEM(name), keyFile(role, k), (*durable.File).Commit)
	}
	if err != nil {
		return fmt.Errorf("writing a %s key: %w", role, err)
	}
	return nil
}

// write writes a file that only its owner can read.
func write(root *os.Root, data []byte, name string, finish func(*durable.File, string) error) error {
	f, err := durable.Create(root, durable.UniqueName("."), 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Discard())
	}
	return finish(f, name)
}

// makeDir creates dir and its missing parents, each durable in its own parent.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
