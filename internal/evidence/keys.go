package evidence

import (
	"errors"
	"fmt"
	"io"

	"securebench/internal/attest"
	"securebench/internal/bounded"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// maxKeyInput bounds a key file that is read, in bytes.
const maxKeyInput = 16 << 10

// OpenKeyring returns the operator's keyring.
func OpenKeyring(getenv func(string) string) (*attest.Keyring, error) {
	dir, err := attest.DefaultKeyringDir(getenv)
	if err != nil {
		return nil, KeyringError(err)
	}
	return attest.OpenKeyring(dir), nil
}

// KeyringError gives an error of the keyring its kind. The keyring is part of
// the operator's configuration.
func KeyringError(err error) error {
	switch {
	case errors.Is(err, attest.ErrUnsafeKey):
		return fault.As(fault.Integrity, err)
	case errors.Is(err, attest.ErrKeyID), errors.Is(err, attest.ErrKeyName):
		return fault.As(fault.Usage, err)
	case errors.Is(err, attest.ErrOwnKey):
		return fault.As(fault.Refused, err)
	}
	return fault.As(fault.Config, err)
}

// ErrHasKey says that there is a signing key, which is replaced only if the
// operator says so.
var ErrHasKey = errors.New("there is a signing key already")

// NewSigningKey generates the signing key. With replace an existing key is
// retired.
func NewSigningKey(ring *attest.Keyring, replace bool) (attest.PublicKey, error) {
	if replace {
		key, err := ring.New()
		return key.Public(), KeyringError(err)
	}
	key, created, err := ring.Signing()
	if err == nil && !created {
		return key.Public(), hasKey(key.Public())
	}
	return key.Public(), KeyringError(err)
}

// ImportSigningKey makes the key that in holds the signing key. With replace an
// existing key is retired.
func ImportSigningKey(ring *attest.Keyring, in io.Reader, name string, replace bool) (attest.PublicKey, error) {
	key, err := readKey(in, name, attest.ParsePrivateKey)
	if err != nil {
		return attest.PublicKey{}, err
	}
	if former, ok, err := ring.Current(); err != nil {
		return former, KeyringError(err)
	} else if ok && !replace {
		return former, hasKey(former)
	}
	return key.Public(), KeyringError(ring.Import(key))
}

func hasKey(k attest.PublicKey) error {
	return fault.As(fault.Refused, fmt.Errorf("%w, %s", ErrHasKey, k.ID))
}

// TrustKey adds the public key that in holds to the trusted keys.
func TrustKey(ring *attest.Keyring, in io.Reader, name, label string) (attest.PublicKey, error) {
	k, err := readKey(in, name, attest.ParsePublicKey)
	if err != nil {
		return k, err
	}
	return k, KeyringError(ring.Trust(label, k))
}

// FindKey returns the key with an id, or the public half of the signing key
// for "".
func FindKey(ring *attest.Keyring, id string) (attest.PublicKey, error) {
	if id == "" {
		k, ok, err := ring.Current()
		if err == nil && !ok {
			return k, fault.As(fault.Refused, errors.New("no signing key exists: generate one with securebench key new"))
		}
		return k, KeyringError(err)
	}
	e, ok, err := ring.Lookup(id)
	if err == nil && !ok {
		return e.Key, fault.As(fault.Usage, errors.New("no key has this id: see securebench key list"))
	}
	return e.Key, KeyringError(err)
}

// ReadPublicKey reads a public key from a PEM file.
func ReadPublicKey(file string) (k attest.PublicKey, err error) {
	raw, err := source.ReadFile(file, maxKeyInput)
	if err != nil {
		return k, fault.As(fault.Config, fmt.Errorf("reading the key: %w", err))
	}
	if k, err = attest.ParsePublicKey(raw); err != nil {
		return k, fault.As(fault.Config, fmt.Errorf("%s: %w", redact.Quote(file), err))
	}
	return k, nil
}

// readKey reads one key; name is what it is called in errors.
func readKey[K any](in io.Reader, name string, parse func([]byte) (K, error)) (key K, err error) {
	data, err := bounded.ReadAll(in, maxKeyInput)
	if err == nil {
		key, err = parse(data)
	}
	if err != nil {
		return key, KeyringError(fmt.Errorf("reading the key in %s: %w", name, err))
	}
	return key, nil
}
