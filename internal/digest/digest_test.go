package digest_test

import (
	"math"
	"strings"
	"testing"

	"securebench/internal/digest"
)

func TestBytes(t *testing.T) {
	// The well-known digest of no bytes.
	if got, want := digest.Bytes(nil), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestJSON: equal values have the same digest, however they are written.
func TestJSON(t *testing.T) {
	a, err := digest.JSON(map[string]any{"b": 1.0, "a": []any{"é", nil, true}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := digest.JSON(struct {
		A []any `json:"a"`
		B int   `json:"b"`
	}{[]any{"é", nil, true}, 1})
	if err != nil || a != b || a != digest.Bytes([]byte(`{"a":["é",null,true],"b":1}`)) {
		t.Errorf("got %s and %s, %v", a, b, err)
	}
	if _, err := digest.JSON(math.NaN()); err == nil {
		t.Error("a value that JSON cannot hold has a digest")
	}
}

// TestKeyed: without the salt a short value cannot be guessed, and no part of the
// input can pass for another.
func TestKeyed(t *testing.T) {
	salt, err := digest.NewSalt()
	if err != nil {
		t.Fatal(err)
	}
	other, err := digest.NewSalt()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for name, sum := range map[string]string{
		"this":          salt.Keyed("row", "t/1", []byte("4")),
		"another value": salt.Keyed("row", "t/1", []byte("5")),
		"another task":  salt.Keyed("row", "t/2", []byte("4")),
		"another field": salt.Keyed("pack", "t/1", []byte("4")),
		"another salt":  other.Keyed("row", "t/1", []byte("4")),
		"moved bytes":   salt.Keyed("row", "t/", []byte("14")),
		"plain":         digest.Bytes([]byte("4")),
	} {
		if first, dup := seen[sum]; dup {
			t.Errorf("%s and %s have one digest", first, name)
		}
		seen[sum] = name
	}
	if sum := salt.Keyed("row", "t/1", []byte("4")); sum != salt.Keyed("row", "t/1", []byte("4")) || !strings.HasPrefix(sum, "hmac-sha256:") {
		t.Errorf("digest %s", sum)
	}
	if salt.Derive("a") == salt.Derive("b") || salt.Derive("a") == other.Derive("a") {
		t.Error("two uses share a secret")
	}
}
