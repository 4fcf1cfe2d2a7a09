package attest

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"securebench/internal/source"
)

// KeyringVar is the environment variable that names the keyring's directory.
const KeyringVar = "SECUREBENCH_KEYS"

// The roles of keys.
const (
	RoleSigning Role = "signing" // the one private key
	RoleRetired Role = "retired" // the public half of a former signing key
	RoleTrusted Role = "trusted" // somebody else's public key
)

// Role says what a key is to the keyring's owner.
type Role string

// The names in a keyring. The roles retired and trusted are directories.
const (
	signingName = "signing.pem"
	lockName    = ".lock"
	tempPrefix  = ".new-"
	keySuffix   = ".pem"
	idPrefix    = "sha256:"
)

const (
	idDigits  = 64       // in hex
	minDigits = 8        // of an abbreviated id
	maxFile   = 16 << 10 // of one key
)

// The modes that others must not have.
const (
	othersWrite fs.FileMode = 0o022
	othersAny   fs.FileMode = 0o077
)

// ErrUnsafeKey says that somebody else could read the signing key or change
// the keyring.
var ErrUnsafeKey = errors.New("unsafe key")

// ErrKeyID says that an id is malformed, ambiguous or not that of a key which
// the operation is for. The id is not repeated: it may be a secret that was
// pasted by mistake.
var ErrKeyID = errors.New("key id")

// ErrOwnKey says that a key to be trusted is the keyring's own.
var ErrOwnKey = errors.New("your own key needs no trust")

// DefaultKeyringDir returns the directory that SECUREBENCH_KEYS names, or
// securebench/keys in the user's own configuration directory.
func DefaultKeyringDir(getenv func(string) string) (string, error) {
	if dir := getenv(KeyringVar); dir != "" {
		return dir, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the keyring: %w: set %s to a directory", err, KeyringVar)
	}
	return filepath.Join(dir, "securebench", "keys"), nil
}

// Keyring is a directory of keys:
//
//	signing.pem           the signing key: PKCS#8, mode 0600
//	retired/HEX-ID.pem    public halves of former signing keys
//	trusted/HEX-ID.pem    public keys of others; a PEM header may name them
//	.lock                 held by whoever changes the keyring
//
// A keyring that others may change, or whose signing key they may read, is
// refused with [ErrUnsafeKey]. All methods are safe for concurrent use, also
// by several processes.
type Keyring struct{ dir string }

// Entry is one key of a keyring.
type Entry struct {
	Key  PublicKey
	Role Role
	Name string // "" without one
}

// OpenKeyring returns the keyring in dir. It makes and checks nothing on disk.
func OpenKeyring(dir string) *Keyring { return &Keyring{dir} }

// SigningFile returns where the signing key lies or would lie.
func (r *Keyring) SigningFile() string { return r.path(signingName) }

// Signing returns the signing key. The first use makes it; created says that
// this call did.
func (r *Keyring) Signing() (key PrivateKey, created bool, err error) {
	key, ok, err := r.read()
	if ok || err != nil {
		return key, false, err
	}
	err = r.change(func(root *os.Root) error {
		// Somebody else may have been first.
		if key, ok, err = r.signing(root); ok || err != nil {
			return err
		}
		if key, err = GenerateKey(); err != nil {
			return err
		}
		created = true
		return r.place(root, key)
	})
	if err != nil {
		return PrivateKey{}, false, err
	}
	return key, created, nil
}

// Current returns the public half of the signing key, if there is one.
func (r *Keyring) Current() (PublicKey, bool, error) {
	key, ok, err := r.read()
	return key.Public(), ok, err
}

// New makes a new signing key. The public half of the former one is retired
// and its private half is deleted.
func (r *Keyring) New() (PrivateKey, error) {
	key, err := GenerateKey()
	if err == nil {
		err = r.Import(key)
	}
	if err != nil {
		return PrivateKey{}, err
	}
	return key, nil
}

// Import is New with a given key.
func (r *Keyring) Import(key PrivateKey) error {
	return r.change(func(root *os.Root) error { return r.place(root, key) })
}

// Trust adds somebody else's key. The name may be "". A key that is trusted
// already gets the new name.
func (r *Keyring) Trust(name string, k PublicKey) error {
	if name != "" {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return r.change(func(root *os.Root) error {
		entries, err := r.entries(root)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Key.ID == k.ID && e.Role != RoleTrusted {
				return fmt.Errorf("%w: it is the %s key %s", ErrOwnKey, e.Role, k.ID)
			}
		}
		return r.file(root, RoleTrusted, k, name)
	})
}

// Distrust removes a trusted or a retired key: a former key of one's own may
// have leaked. The id may be abbreviated as for [Keyring.Lookup].
func (r *Keyring) Distrust(id string) error {
	digits, err := parseID(id)
	if err != nil {
		return err
	}
	return r.change(func(root *os.Root) error {
		trusted, err := r.readRole(root, RoleTrusted)
		if err != nil {
			return err
		}
		retired, err := r.readRole(root, RoleRetired)
		if err != nil {
			return err
		}
		e, ok, err := match(append(trusted, retired...), digits)
		if err == nil && !ok {
			err = fmt.Errorf("%w: no trusted or retired key has it: see securebench key list", ErrKeyID)
		}
		if err != nil {
			return err
		}
		if err := errors.Join(root.Remove(keyFile(e.Role, e.Key)), flushDir(root, string(e.Role))); err != nil {
			return fmt.Errorf("removing a key: %w", err)
		}
		return nil
	})
}

// List returns every key once, the signing key first, then the retired and
// the trusted ones, each sorted by id.
func (r *Keyring) List() ([]Entry, error) {
	root, err := r.open()
	if root == nil || err != nil {
		return nil, err
	}
	defer root.Close()
	return r.entries(root)
}

// Lookup returns the key with that id. An id may be given without "sha256:"
// and abbreviated to the first 8 or more digits that no other key has.
func (r *Keyring) Lookup(id string) (Entry, bool, error) {
	digits, err := parseID(id)
	if err != nil {
		return Entry{}, false, err
	}
	entries, err := r.List()
	if err != nil {
		return Entry{}, false, err
	}
	return match(entries, digits)
}

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

func (r *Keyring) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// keyFile returns the name of a public key's file.
func keyFile(role Role, k PublicKey) string {
	return path.Join(string(role), strings.TrimPrefix(k.ID, idPrefix)+keySuffix)
}

// open opens the directory after checking that others cannot change it, so
// that what is checked in it later stays so. It returns nil where there is no
// keyring.
func (r *Keyring) open() (*os.Root, error) {
	// Opening a pipe would wait for its writer.
	if info, err := os.Stat(r.dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("opening the keyring: %q is %s, not a directory: set %s to one", r.dir, source.FileType(info.Mode()), KeyringVar)
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

// entries returns each key under its first role: a key that is signing again
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

// readFile reads a key's file after checking it. Nobody else can change the
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

// checkOthers refuses what others have a forbidden mode of, or own: an owner
// can give himself any mode. Root, who can do everything, is no other.
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

// change runs do while nobody else changes the keyring, which it makes where
// there is none.
func (r *Keyring) change(do func(*os.Root) error) (err error) {
	if err := makeDir(r.dir); err != nil {
		return fmt.Errorf("making the keyring: %w", err)
	}
	root, err := r.open()
	if err != nil {
		return err
	}
	if root == nil {
		return fmt.Errorf("opening the keyring: %s is gone: try again", r.dir)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	lock, err := lockRoot(root)
	if err != nil {
		return fmt.Errorf("locking the keyring: %w: set %s to a directory on a local disk", err, KeyringVar)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := sweep(root); err != nil {
		return fmt.Errorf("tidying the keyring: %w", err)
	}
	return do(root)
}

func lockRoot(root *os.Root) (*os.File, error) {
	f, err := source.OpenIn(root, lockName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes what a crash left. It may be the copy of a signing key that
// is about to be retired.
func sweep(root *os.Root) error {
	files, err := fs.ReadDir(root.FS(), ".")
	for _, f := range files {
		if strings.HasPrefix(f.Name(), tempPrefix) {
			err = errors.Join(err, root.Remove(f.Name()))
		}
	}
	return err
}

// place makes key the signing key and retires the one that is there.
func (r *Keyring) place(root *os.Root, key PrivateKey) error {
	temp, err := writeTemp(root, key.pem())
	if err != nil {
		return fmt.Errorf("writing the signing key: %w", err)
	}
	// A link never replaces a file: what is there is retired first, also
	// where a network file system does not keep its locks.
	err = root.Link(temp, signingName)
	if errors.Is(err, fs.ErrExist) {
		if err = r.retire(root, key.Public()); err == nil {
			err = root.Rename(temp, signingName)
		}
	}
	if e := root.Remove(temp); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	if err = errors.Join(err, flushDir(root, ".")); err != nil {
		return fmt.Errorf("placing the signing key: %w", err)
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
	if err := root.Mkdir(string(role), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the keyring: %w", err)
	}
	temp, err := writeTemp(root, k.namedPEM(name))
	if err == nil {
		err = root.Rename(temp, keyFile(role, k))
	}
	if err = errors.Join(err, flushDir(root, string(role)), flushDir(root, ".")); err != nil {
		return fmt.Errorf("writing a %s key: %w", role, err)
	}
	return nil
}

// writeTemp writes and flushes a file that only its owner can read.
func writeTemp(root *os.Root, data []byte) (name string, err error) {
	name = tempPrefix + rand.Text()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, root.Remove(name))
	}
	return name, nil
}

// makeDir makes dir and what leads to it, each durable in its parent.
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

// flushDir makes the names in a directory durable.
func flushDir(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
