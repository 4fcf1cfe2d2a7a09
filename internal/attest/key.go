package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"securebench/internal/digest"
)

// The types of PEM block that contain keys, and the only header allowed.
const (
	publicBlock  = "PUBLIC KEY"
	privateBlock = "PRIVATE KEY"
	nameHeader   = "Name"
)

// maxName is the length of the longest name of a key.
const maxName = 64

// ErrKeyName means that a name is not valid for a key.
var ErrKeyName = errors.New("a key's name must be 1 to 64 ASCII letters, digits, spaces or . _ - @, without a space at either end and without -----")

// The errors of key files. None of them quotes the file: it may be a private
// key where a public one was expected.
var (
	errPublicKey      = errors.New(`want one Ed25519 public key in PEM and nothing else, as "securebench key export" or "openssl pkey -pubout" writes it`)
	errPrivateKey     = errors.New(`want one Ed25519 private key in PKCS#8 PEM, not encrypted, and nothing else, as "openssl genpkey -algorithm ed25519" writes it`)
	errIsPrivate      = errors.New(`this is a private key, which must stay secret: give its public half, as "openssl pkey -pubout" writes it`)
	errIsPublic       = errors.New(`this is a public key, which cannot sign: give the private key, or trust this one with "securebench key trust"`)
	errSmallOrder     = errors.New("this public key is insecure, because anyone can sign for it: ask its owner for another")
	errMarshalPrivate = errors.New("attest: a private key must not be marshalled")
)

// PublicKey is an Ed25519 key that verifies statements. The zero value accepts
// no signature.
type PublicKey struct {
	ID  string // "sha256:" and the hex digest of the key's PKIX DER
	key [ed25519.PublicKeySize]byte
}

// ParsePublicKey reads one Ed25519 key in PKIX PEM, with only white space around
// it. A valid Name header is allowed and ignored.
func ParsePublicKey(data []byte) (PublicKey, error) {
	k, _, err := parseNamed(data)
	return k, err
}

// parseNamed is [ParsePublicKey] that also returns the name.
func parseNamed(data []byte) (k PublicKey, name string, err error) {
	if bytes.Contains(data, []byte(privateBlock+"-----")) {
		return k, "", errIsPrivate
	}
	block := decodePEM(data)
	if block == nil || block.Type != publicBlock {
		return k, "", errPublicKey
	}
	if name, err = blockName(block); err != nil {
		return k, "", err
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return k, "", errPublicKey
	}
	k = newPublicKey(key)
	switch {
	case !bytes.Equal(k.der(), block.Bytes): // the id depends on the encoding
		return PublicKey{}, "", errPublicKey
	case smallOrder(k.key):
		return PublicKey{}, "", errSmallOrder
	}
	return k, name, nil
}

// decodePEM returns the one block in data, apart from white space
// around it and the kind of line ends, or nil. [pem.Decode] would skip text
// before the block and damaged blocks, in which anything could hide.
func decodePEM(data []byte) *pem.Block {
	data = bytes.TrimSpace(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
	block, _ := pem.Decode(data)
	if block == nil || !bytes.Equal(bytes.TrimSpace(pem.EncodeToMemory(block)), data) {
		return nil
	}
	return block
}

// blockName returns the Name header, "" if there is none. No other header is
// allowed.
func blockName(block *pem.Block) (string, error) {
	if len(block.Headers) == 0 {
		return "", nil
	}
	name := block.Headers[nameHeader]
	if len(block.Headers) > 1 || checkName(name) != nil {
		return "", errPublicKey
	}
	return name, nil
}

// checkName allows what a PEM header can contain and a terminal shows unchanged.
func checkName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-@"
	switch {
	case name == "", len(name) > maxName, strings.TrimSpace(name) != name, strings.Trim(name, allowed) != "",
		strings.Contains(name, "-----"): // which begins and ends a block
		return ErrKeyName
	}
	return nil
}

func newPublicKey(key ed25519.PublicKey) PublicKey {
	k := PublicKey{key: [ed25519.PublicKeySize]byte(key)}
	k.ID = digest.Bytes(k.der())
	return k
}

func (k PublicKey) der() []byte {
	der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(k.key[:]))
	if err != nil {
		panic("attest: encoding an Ed25519 public key: " + err.Error()) // cannot fail: the length is fixed
	}
	return der
}

// PEM returns the key as [ParsePublicKey] reads it.
func (k PublicKey) PEM() []byte { return k.namedPEM("") }

// namedPEM is PEM with a Name header, unless name is "".
func (k PublicKey) namedPEM(name string) []byte {
	block := &pem.Block{Type: publicBlock, Bytes: k.der()}
	if name != "" {
		block.Headers = map[string]string{nameHeader: name}
	}
	return pem.EncodeToMemory(block)
}

// Verify reports whether sig is the key's signature of message.
func (k PublicKey) Verify(message, sig []byte) bool {
	return !smallOrder(k.key) && ed25519.Verify(k.key[:], message, sig)
}

// String returns the id.
func (k PublicKey) String() string { return k.ID }

// smallOrder reports whether the key is a point of small order. For such a key,
// such as the all-zero key, anyone can make signatures that are valid
// for many messages. The list has every encoding that [ed25519.Verify] accepts;
// the sign bit makes no difference.
func smallOrder(key [ed25519.PublicKeySize]byte) bool {
	key[len(key)-1] &= 0x7f
	switch hex.EncodeToString(key[:]) {
	case "0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f":
		return true
	}
	return false
}

// PrivateKey signs. Formatting and logging it print its id, and marshalling it
// fails. The zero value is not a key: using it panics.
type PrivateKey struct {
	public PublicKey
	// secret is a function because fmt prints only the address of one. In an
	// unexported field of another struct, fmt calls no methods, and some verbs
	// follow pointers.
	secret func() ed25519.PrivateKey
}

// GenerateKey generates a new key.
func GenerateKey() (PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generating a signing key: %w", err)
	}
	return newPrivateKey(key), nil
}

// ParsePrivateKey reads one Ed25519 key in PKCS#8 PEM, with only white space
// around it. Its errors never quote the data.
func ParsePrivateKey(data []byte) (PrivateKey, error) {
	block := decodePEM(data)
	switch {
	case block != nil && block.Type == publicBlock:
		return PrivateKey{}, errIsPublic
	case block == nil || block.Type != privateBlock || len(block.Headers) > 0:
		return PrivateKey{}, errPrivateKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return PrivateKey{}, errPrivateKey
	}
	k := newPrivateKey(key)
	if !bytes.Equal(k.der(), block.Bytes) { // the parser ignores bytes after the key
		return PrivateKey{}, errPrivateKey
	}
	return k, nil
}

func newPrivateKey(key ed25519.PrivateKey) PrivateKey {
	return PrivateKey{newPublicKey(ed25519.PublicKey(key[ed25519.SeedSize:])), func() ed25519.PrivateKey { return key }}
}

// Public returns the public half of the key.
func (k PrivateKey) Public() PublicKey { return k.public }

// Sign returns the signature of message.
func (k PrivateKey) Sign(message []byte) []byte { return ed25519.Sign(k.secret(), message) }

func (k PrivateKey) der() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(k.secret())
	if err != nil {
		panic("attest: encoding an Ed25519 private key failed") // cannot fail: the length is fixed
	}
	return der
}

// pem returns the key as [ParsePrivateKey] reads it. Only a keyring writes it.
func (k PrivateKey) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: k.der()})
}

// String returns the id of the public half.
func (k PrivateKey) String() string { return "private key of " + k.public.ID }

// Format prints what String returns, whatever the verb.
func (k PrivateKey) Format(w fmt.State, _ rune) { _, _ = fmt.Fprint(w, k.String()) }

// LogValue logs what String returns.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText refuses, and with it JSON and every encoding that asks for text.
func (k PrivateKey) MarshalText() ([]byte, error) { return nil, errMarshalPrivate }
