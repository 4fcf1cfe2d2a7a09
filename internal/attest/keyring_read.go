package attest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"securebench/internal/source"
)

func parseID(id string) (digits string, err error) {
	digits = strings.ToLower(strings.TrimPrefix(id, idPrefix))
	if len(digits) < minDigits || len(digits) > idDigits || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: want %d to %d hex digits, with or without %s in front", ErrKeyID, minDigits, idDigits, idPrefix)
	}
	return digits, nil
}

func match(entries []Entry, digits string) (found Entry, ok bool, err error) {
	for _, e := range entries {
		if !strings.HasPrefix(e.Key.ID, idPrefix+digits) {
			continue
		}
		if ok {
			return Entry{}, false, fmt.Errorf("%w: several keys begin with it: give more digits", ErrKeyID)
		}
		found, ok = e, true
	}
	return found, ok, nil
}

// open opens the directory after checking that others cannot change it: later
// checks inside it then stay true. It returns nil if there is no keyring.
func (r *Keyring) open() (*os.Root, error) {
	// Opening a pipe would block until it has a writer.
	if info, err := os.Stat(r.dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("opening the keyring: %q is %s, not a directory: set %s to one", r.dir, source.FileType(info.Mode()), keyringVar)
	}
	root, err := os.OpenRoot(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the keyring: %w", err)
	}
	info, err := root.Stat(".")
	if err == nil {
		err = checkOthers(r.dir, info, othersWrite)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// read returns the signing key, if there is one.
func (r *Keyring) read() (PrivateKey, bool, error) {
	root, err := r.open()
	if root == nil || err != nil {
		return PrivateKey{}, false, err
	}
	defer root.Close()
	return r.signing(root)
}

func (r *Keyring) signing(root *os.Root) (PrivateKey, bool, error) {
	data, err := r.readFile(root, signingName, othersAny)
	if errors.Is(err, fs.ErrNotExist) {
		return PrivateKey{}, false, nil
	}
	if err != nil {
		return PrivateKey{}, false, err
	}
	key, err := ParsePrivateKey(data)
	if err != nil {
		return PrivateKey{}, false, fmt.Errorf("%s is damaged: put a copy of it in its place, or remove it for a new key: %w", r.SigningFile(), err)
	}
	return key, true, nil
}

// entries returns every key once, under its first role: a key that signs again
// is no longer retired.
func (r *Keyring) entries(root *os.Root) ([]Entry, error) {
	var all []Entry
	key, ok, err := r.signing(root)
	if err != nil {
		return nil, err
	}
	if ok {
		all = append(all, Entry{Key: key.Public(), Role: RoleSigning})
	}
	for _, role := range []Role{RoleRetired, RoleTrusted} {
		entries, err := r.readRole(root, role)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !slices.ContainsFunc(all, func(a Entry) bool { return a.Key.ID == e.Key.ID }) {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// readRole returns the keys of a directory, sorted by id.
func (r *Keyring) readRole(root *os.Root, role Role) ([]Entry, error) {
	info, err := root.Lstat(string(role))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%w: %s is not a directory: remove it", ErrUnsafeKey, r.path(string(role)))
	}
	if err == nil {
		err = checkOthers(r.path(string(role)), info, othersWrite)
	}
	if err != nil {
		return nil, err
	}
	files, err := fs.ReadDir(root.FS(), string(role))
	if err != nil {
		return nil, fmt.Errorf("reading the keyring: %w", err)
	}
	var entries []Entry
	for _, f := range files {
		e, err := r.readEntry(root, role, f.Name())
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key.ID, b.Key.ID) })
	return entries, nil
}

func (r *Keyring) readEntry(root *os.Root, role Role, name string) (Entry, error) {
	name = path.Join(string(role), name)
	data, err := r.readFile(root, name, othersWrite)
	if err != nil {
		return Entry{}, err
	}
	key, label, err := parseNamed(data)
	if err != nil {
		return Entry{}, fmt.Errorf("%q is damaged: remove it: %w", r.path(name), err)
	}
	if name != keyFile(role, key) {
		return Entry{}, fmt.Errorf("%q holds the key %s, not the one that its name says: remove it", r.path(name), key.ID)
	}
	return Entry{key, role, label}, nil
}

// readFile reads a key's file after checking it. Others cannot change the
// directory, so the file that is read is the one that was checked.
func (r *Keyring) readFile(root *os.Root, name string, forbidden fs.FileMode) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("reading the keyring: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %q is not a regular file: put the key itself there", ErrUnsafeKey, r.path(name))
	}
	if err := checkOthers(r.path(name), info, forbidden); err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%q is larger than any key: remove it", r.path(name))
	}
	data, err := source.ReadFileIn(root, name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading the keyring: %w", err)
	}
	return data, nil
}

// checkOthers refuses a file on which others have a forbidden permission, or
// that they own, since an owner can change the permissions. Root does not count
// as another user.
func checkOthers(file string, info fs.FileInfo, forbidden fs.FileMode) error {
	may, fix := "changed", "chmod 700"
	if !info.IsDir() {
		may, fix = "read or changed", "chmod 600"
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %q belongs to the user with the id %d: chown %d %s", ErrUnsafeKey, file, st.Uid, os.Geteuid(), file)
	}
	if info.Mode().Perm()&forbidden != 0 {
		return fmt.Errorf("%w: %q may be %s by others: %s %s", ErrUnsafeKey, file, may, fix, file)
	}
	return nil
}
