// Package digest computes the digests that bind a record to its inputs.
package digest

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bytes returns "sha256:" and the lower-case hex SHA-256 of b.
func Bytes(b []byte) string {
	sum := sha256.Sum256(b)
	return Format(sum[:])
}

// Format formats a SHA-256 sum.
func Format(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// Hex returns the hex part of a SHA-256 digest.
func Hex(sum string) (string, error) {
	part, ok := strings.CutPrefix(sum, "sha256:")
	if !ok || len(part) != 64 || strings.Trim(part, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not a SHA-256 digest", sum)
	}
	return part, nil
}

// JSON returns the digest of v in canonical form (RFC 8785).
func JSON(v any) (string, error) {
	b, err := Canonical(v)
	if err != nil {
		return "", err
	}
	return Bytes(b), nil
}

// Canonical returns v as canonical JSON (RFC 8785).
func Canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encoding for a digest: %w", err)
	}
	out := jsontext.Value(b)
	if err := out.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonicalizing for a digest: %w", err)
	}
	return out, nil
}

// DecodeCanonical decodes canonical JSON. It refuses unknown fields and any other
// encoding of the same value.
func DecodeCanonical(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v, json.RejectUnknownMembers(true)); err != nil {
		return JSONError(err)
	}
	again, err := Canonical(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, raw) {
		return errors.New("it is not in canonical form")
	}
	return nil
}

// JSONError describes a decoding error in terms of the JSON. The decoder's own
// message names Go types.
func JSONError(err error) error {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not valid JSON at byte %d", syntax.ByteOffset)
	case errors.As(err, &meaning) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %q", string(meaning.JSONPointer))
	case errors.As(err, &meaning) && meaning.JSONPointer != "":
		return fmt.Errorf("%q has the wrong type", string(meaning.JSONPointer))
	}
	return errors.New("it is not a JSON object of the expected type")
}

// A Salt keys the digests of values that must not be guessable: 32 random bytes.
type Salt [32]byte

// Keyed returns the HMAC-SHA-256 of field NUL taskID NUL data under the salt. A
// plain digest of a short hidden value could be guessed.
func (s Salt) Keyed(field, taskID string, data []byte) string {
	m := hmac.New(sha256.New, s[:])
	m.Write([]byte(field))
	m.Write([]byte{0})
	m.Write([]byte(taskID))
	m.Write([]byte{0})
	m.Write(data)
	return "hmac-sha256:" + hex.EncodeToString(m.Sum(nil))
}

// Derive returns a secret for one purpose.
func (s Salt) Derive(label string) [32]byte {
	m := hmac.New(sha256.New, s[:])
	m.Write([]byte(label))
	return [32]byte(m.Sum(nil))
}

// NewSalt generates a salt.
func NewSalt() (Salt, error) {
	var s Salt
	if _, err := rand.Read(s[:]); err != nil {
		return s, fmt.Errorf("generating a salt: %w", err)
	}
	return s, nil
}
