package remote

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKeys: a hub is made once; each name is invited once, and known until it is revoked;
// certificates hold for machines whose clock is behind.
func TestKeys(t *testing.T) {
	k := Keys{filepath.Join(t.TempDir(), "hub")}
	if _, err := k.Invite("a", []Role{Produce}); !errors.Is(err, ErrNoHub) {
		t.Errorf("invited without a hub: %v", err)
	}
	if _, err := k.Server(); !errors.Is(err, ErrNoHub) {
		t.Errorf("served without a hub: %v", err)
	}
	if err := k.Init(); err != nil {
		t.Fatal(err)
	}
	if err := k.Init(); !errors.Is(err, ErrHub) {
		t.Errorf("a second hub: %v", err)
	}
	for _, name := range []string{"", "A", "a.b", "a b", "-a", "*", ">", strings.Repeat("a", 64), "../a", OperatorName} {
		if _, err := k.Invite(name, []Role{Produce}); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	c, err := k.Invite("a", []Role{Produce})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Invite("a", []Role{Verify}); err == nil {
		t.Error("a name was invited twice")
	}
	public, err := c.Public()
	if err != nil {
		t.Fatal(err)
	}
	if ws, err := k.Workers(); err != nil || len(ws) != 1 || ws[0].Key != public || ws[0].Name != "a" {
		t.Errorf("%+v, %v", ws, err)
	}
	for name, want := range map[string]int{"server.key": 0o600, filepath.Join("workers", "a.json"): 0o600} {
		if info, err := os.Stat(filepath.Join(k.Dir, name)); err != nil || int(info.Mode().Perm()) != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := k.Revoke("a"); err != nil {
		t.Error(err)
	}
	if err := k.Revoke("a"); err == nil {
		t.Error("revoked twice")
	}
	block, _ := pem.Decode([]byte(c.CA))
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Since(ca.NotBefore) < backdated {
		t.Errorf("the certificate begins at %v, %v", ca.NotBefore, err)
	}
}

// TestCredentialFile: a credential is read as it was written, and nothing else is.
func TestCredentialFile(t *testing.T) {
	k := Keys{filepath.Join(t.TempDir(), "hub")}
	if err := k.Init(); err != nil {
		t.Fatal(err)
	}
	c, err := k.Invite("a", []Role{Produce, Verify})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c.json")
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"whole": {string(b), true}, "empty": {"", false}, "cut": {string(b[:len(b)/2]), false}, "other": {"{}", false},
		"more": {strings.Replace(string(b), "{", `{"x": 1,`, 1), false}, "no name": {strings.Replace(string(b), `"a"`, `"A"`, 1), false},
		"no seed": {strings.Replace(string(b), c.Seed, "SU", 1), false},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadCredential(file)
		if (err == nil) != tt.ok || tt.ok && (got.Seed != c.Seed || got.CA != c.CA) || err != nil && strings.Contains(err.Error(), c.Seed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseRoles(t *testing.T) {
	for text, want := range map[string]int{"produce": 1, "verify": 1, "produce,verify": 2, "verify,produce": 2, "": 0, "produce,produce": 0, "x": 0, "produce,verify,produce": 0} {
		got, err := ParseRoles(text)
		if len(got) != want && err == nil || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
