package attest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"securebench/internal/durable"
)

// keyringVar is the environment variable that names the keyring's directory.
const keyringVar = "SECUREBENCH_KEYS"

// The roles of keys.
const (
	RoleSigning Role = "signing" // the one private key
	RoleRetired Role = "retired" // the public half of a former signing key
	RoleTrusted Role = "trusted" // another person's public key
)

// Role says what a key is to the keyring's owner.
type Role string

// The names in a keyring. The roles retired and trusted are directories.
const (
	signingName = "signing.pem"
	lockName    = ".lock"
	keySuffix   = ".pem"
	idPrefix    = "sha256:"
)

const (
	idDigits  = 64       // in hex
	minDigits = 8        // of an abbreviated id
	maxFile   = 16 << 10 // of one key
)

// The permissions that others must not have.
const (
	othersWrite fs.FileMode = 0o022
	othersAny   fs.FileMode = 0o077
)

// ErrUnsafeKey means that other users could read the signing key or change the
// keyring.
var ErrUnsafeKey = errors.New("unsafe key")

// ErrKeyID means that an id is malformed, ambiguous, or not that of a key to
// which the operation applies. Messages don't repeat the id: it may be a secret
// that was pasted by mistake.
var ErrKeyID = errors.New("key id")

// ErrOwnKey means that a key to be trusted is the keyring's own.
var ErrOwnKey = errors.New("your own key needs no trust")

// DefaultKeyringDir returns the directory that SECUREBENCH_KEYS names, or
// securebench/keys in the user's own configuration directory.
func DefaultKeyringDir(getenv func(string) string) (string, error) {
	if dir := getenv(keyringVar); dir != "" {
		return dir, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the keyring: %w: set %s to a directory", err, keyringVar)
	}
	return filepath.Join(dir, "securebench", "keys"), nil
}

// Keyring is a directory of keys:
//
//	signing.pem           the signing key: PKCS#8, mode 0600
//	retired/HEX-ID.pem    public halves of former signing keys
//	trusted/HEX-ID.pem    public keys of others; a PEM header may name them
//	.lock                 held while the keyring is changed
//
// A keyring that others may change, or whose signing key they may read, is
// refused with [ErrUnsafeKey]. All methods are safe for concurrent use, even by
// several processes.
type Keyring struct{ dir string }

// Entry is one key of a keyring.
type Entry struct {
	Key  PublicKey
	Role Role
	Name string // "" without one
}

// OpenKeyring returns the keyring in dir. It does not access the disk.
func OpenKeyring(dir string) *Keyring { return &Keyring{dir} }

// SigningFile returns the path of the signing key, whether or not it exists.
func (r *Keyring) SigningFile() string { return r.path(signingName) }

// Signing returns the signing key and creates it if there is none; created
// reports whether this call did.
func (r *Keyring) Signing() (key PrivateKey, created bool, err error) {
	key, ok, err := r.read()
	if ok || err != nil {
		return key, false, err
	}
	err = r.change(func(root *os.Root) error {
		// Another process may have been first.
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

// New generates a new signing key. The public half of the former one is
// retired and its private half deleted.
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

// Trust adds another person's key. The name may be "". A key that is already
// trusted gets the new name.
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

// Distrust removes a trusted key, or a retired one that leaked. The id may be
// abbreviated as for [Keyring.Lookup].
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
			err = fmt.Errorf("%w: no trusted or retired key has it; see securebench key list", ErrKeyID)
		}
		if err != nil {
			return err
		}
		if err := errors.Join(root.Remove(keyFile(e.Role, e.Key)), durable.SyncDir(root, string(e.Role))); err != nil {
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

func (r *Keyring) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// keyFile returns the name of a public key's file.
func keyFile(role Role, k PublicKey) string {
	return path.Join(string(role), strings.TrimPrefix(k.ID, idPrefix)+keySuffix)
}
