package attest_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/attest"
)

// openRing returns a keyring that does not exist yet.
func openRing(t *testing.T) (*attest.Keyring, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config", "keys")
	return attest.OpenKeyring(dir), dir
}

// sign returns the signing key and creates it if there is none.
func sign(t *testing.T, ring *attest.Keyring) attest.PrivateKey {
	t.Helper()
	key, _, err := ring.Signing()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// roles lists a keyring as lines of role, id and name.
func roles(t *testing.T, ring *attest.Keyring) []string {
	t.Helper()
	entries, err := ring.List()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, line(e.Role, e.Key, e.Name))
	}
	return out
}

func line(role attest.Role, k attest.PublicKey, name string) string {
	return strings.TrimSpace(fmt.Sprint(role, " ", k.ID, " ", name))
}

// files lists what is in a directory, without the lock.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err == nil && !d.IsDir() && rel != ".lock" {
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func hexID(k attest.PublicKey) string { return strings.TrimPrefix(k.ID, "sha256:") }

func TestDefaultKeyringDir(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "/xdg")
	t.Setenv("HOME", "/home/x")
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	want, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := attest.DefaultKeyringDir(getenv); dir != filepath.Join(want, "securebench", "keys") || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	env["SECUREBENCH_KEYS"] = "/k"
	if dir, err := attest.DefaultKeyringDir(getenv); dir != "/k" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	delete(env, "SECUREBENCH_KEYS")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	if dir, err := attest.DefaultKeyringDir(getenv); err == nil || !strings.Contains(err.Error(), "set SECUREBENCH_KEYS") {
		t.Errorf("%q, %v", dir, err)
	}
}

func TestFirstUse(t *testing.T) {
	ring, dir := openRing(t)
	if got := roles(t, ring); got != nil {
		t.Errorf("an absent keyring holds %q", got)
	}
	if _, ok, err := ring.Current(); ok || err != nil {
		t.Errorf("an absent keyring signs: %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("reading created the keyring")
	}
	key, created, err := ring.Signing()
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	again, created, err := attest.OpenKeyring(dir).Signing()
	if err != nil || created || again.Public() != key.Public() {
		t.Errorf("then %v, created %v, %v", again, created, err)
	}
	if k, ok, err := ring.Current(); k != key.Public() || !ok || err != nil {
		t.Errorf("current %v, %v, %v", k, ok, err)
	}
	if d := cmp.Diff([]string{"signing.pem"}, files(t, dir)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for path, want := range map[string]os.FileMode{ring.SigningFile(): 0o600, dir: 0o700 | os.ModeDir, filepath.Dir(dir): 0o700 | os.ModeDir} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestNewRetiresTheFormerKey(t *testing.T) {
	ring, dir := openRing(t)
	first := sign(t, ring)
	secret, err := os.ReadFile(ring.SigningFile())
	if err != nil {
		t.Fatal(err)
	}
	second, err := ring.New()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{line(attest.RoleSigning, second.Public(), ""), line(attest.RoleRetired, first.Public(), "")}
	if d := cmp.Diff(want, roles(t, ring)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if sign(t, ring).Public() != second.Public() {
		t.Error("the new key does not sign")
	}
	if d := cmp.Diff([]string{"retired/" + hexID(first.Public()) + ".pem", "signing.pem"}, files(t, dir)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	w := secretWindows(t, secret)
	for _, name := range files(t, dir) {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || w.in(b) {
			t.Errorf("%s: %v, or it holds the former private key", name, err)
		}
	}
	// A key that signs again is not retired, and importing it twice is as once.
	for range 2 {
		if err := ring.Import(first); err != nil {
			t.Fatal(err)
		}
	}
	want = []string{line(attest.RoleSigning, first.Public(), ""), line(attest.RoleRetired, second.Public(), "")}
	if d := cmp.Diff(want, roles(t, ring)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A process that dies before cleaning up leaves a copy of the signing key.
func TestLeftoversAreSwept(t *testing.T) {
	ring, dir := openRing(t)
	sign(t, ring)
	if err := os.Link(ring.SigningFile(), filepath.Join(dir, ".new-x")); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.New(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".new-x")); err == nil {
		t.Error("a copy of the former key is left")
	}
}

func TestTrust(t *testing.T) {
	ring, dir := openRing(t)
	own := sign(t, ring)
	a, _ := newKey(t)
	b, _ := newKey(t)
	if hexID(a.Public()) > hexID(b.Public()) {
		a, b = b, a
	}
	for _, err := range []error{ring.Trust("", b.Public()), ring.Trust("lab 7", a.Public())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{line(attest.RoleSigning, own.Public(), ""), line(attest.RoleTrusted, a.Public(), "lab 7"), line(attest.RoleTrusted, b.Public(), "")}
	if d := cmp.Diff(want, roles(t, ring)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, name := range []string{strings.Repeat("x", 64), "----BEGIN", "a.b_c-d@e F 9"} {
		if err := ring.Trust(name, a.Public()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if e, ok, err := ring.Lookup(a.Public().ID); e.Name != name || !ok || err != nil {
			t.Errorf("%q: named %q, %v, %v", name, e.Name, ok, err)
		}
	}
	for _, name := range []string{" a", "a ", "a:b", "a\nb", "ä", "\x1b[1m", "-----BEGIN PUBLIC KEY-----", "a-----", strings.Repeat("x", 65)} {
		if err := ring.Trust(name, a.Public()); !errors.Is(err, attest.ErrKeyName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := ring.Trust("me", own.Public()); !errors.Is(err, attest.ErrOwnKey) {
		t.Errorf("own key: %v", err)
	}
	if err := ring.Distrust(own.Public().ID); !errors.Is(err, attest.ErrKeyID) {
		t.Errorf("distrusting the own key: %v", err)
	}
	if err := ring.Distrust(hexID(a.Public())[:10]); err != nil {
		t.Error(err)
	}
	if err := ring.Distrust(a.Public().ID); !errors.Is(err, attest.ErrKeyID) {
		t.Errorf("distrusting twice: %v", err)
	}
	if d := cmp.Diff([]string{"signing.pem", "trusted/" + hexID(b.Public()) + ".pem"}, files(t, dir)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	// A trusted key that becomes the own one is listed once.
	if err := ring.Import(b); err != nil {
		t.Fatal(err)
	}
	want = []string{line(attest.RoleSigning, b.Public(), ""), line(attest.RoleRetired, own.Public(), "")}
	if d := cmp.Diff(want, roles(t, ring)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Every name that is accepted is read back.
func TestNamesProperty(t *testing.T) {
	ring, _ := openRing(t)
	key, _ := newKey(t)
	name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9 ._@-]{1,64}`), rapid.StringMatching(`[BEGIND -]{1,20}`))
	rapid.Check(t, func(t *rapid.T) {
		want := name.Draw(t, "name")
		if ring.Trust(want, key.Public()) != nil {
			return
		}
		if e, ok, err := ring.Lookup(key.Public().ID); e.Name != want || !ok || err != nil {
			t.Fatalf("%q is read as %q, %v, %v", want, e.Name, ok, err)
		}
	})
}

func TestLookup(t *testing.T) {
	ring, _ := openRing(t)
	own := sign(t, ring).Public()
	other, _ := newKey(t)
	if err := ring.Trust("lab", other.Public()); err != nil {
		t.Fatal(err)
	}
	digits := hexID(own)
	tests := map[string]struct {
		id     string
		ok, is bool // found, malformed
	}{
		"full":               {own.ID, true, false},
		"without algorithm":  {digits, true, false},
		"prefix":             {"sha256:" + digits[:8], true, false},
		"bare prefix":        {digits[:9], true, false},
		"capitals":           {strings.ToUpper(digits), true, false},
		"unknown":            {"00000000", false, false},
		"too short":          {digits[:7], false, true},
		"too long":           {digits + "0", false, true},
		"no hex":             {"lab lab lab", false, true},
		"empty":              {"", false, true},
		"only an algorithm":  {"sha256:", false, true},
		"another algorithm":  {"sha512:" + digits, false, true},
		"path":               {"../signing", false, true},
		"repeated algorithm": {"sha256:sha256:" + digits, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, ok, err := ring.Lookup(tt.id)
			if ok != tt.ok || errors.Is(err, attest.ErrKeyID) != tt.is || ok && e.Key != own {
				t.Errorf("%v, %v, %v", e, ok, err)
			}
			if err != nil && tt.id != "" && strings.Contains(err.Error(), tt.id) && tt.id != "sha256:" {
				t.Errorf("the error repeats the id: %v", err)
			}
		})
	}
}

// Two keys found by search: both ids begin with a9a9e30e.
func TestAmbiguousID(t *testing.T) {
	ring, _ := openRing(t)
	for _, n := range []uint64{113930, 117018} {
		raw := binary.LittleEndian.AppendUint64(nil, n)
		k, err := attest.ParsePublicKey(publicPEM(t, ed25519.PublicKey(append(raw, make([]byte, 24)...))))
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Trust("", k); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := ring.Lookup(k.ID); !ok || err != nil {
			t.Errorf("%s: %v, %v", k.ID, ok, err)
		}
	}
	const prefix = "a9a9e30e"
	if e, ok, err := ring.Lookup(prefix); ok || !errors.Is(err, attest.ErrKeyID) || e != (attest.Entry{}) {
		t.Errorf("%v, %v, %v", e, ok, err)
	}
	if err := ring.Distrust(prefix); !errors.Is(err, attest.ErrKeyID) {
		t.Error(err)
	}
	if got := len(roles(t, ring)); got != 2 {
		t.Errorf("%d keys are left", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	ring, dir := openRing(t)
	const n = 16
	ids := make([]string, n)
	made := make([]bool, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			key, created, err := attest.OpenKeyring(dir).Signing()
			if err != nil {
				t.Error(err)
				return
			}
			ids[i], made[i] = key.Public().ID, created
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) != 1 || ids[0] == "" {
		t.Errorf("%d keys: %q", len(ids), ids)
	}
	if got := len(slices.DeleteFunc(made, func(b bool) bool { return !b })); got != 1 {
		t.Errorf("%d callers made the key", got)
	}
	// No key that ever signed is lost.
	var mu sync.Mutex
	for range n {
		wg.Go(func() {
			key, err := ring.New()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, key.Public().ID)
		})
	}
	wg.Wait()
	for _, id := range ids {
		if _, ok, err := ring.Lookup(id); !ok || err != nil {
			t.Errorf("%s: %v, %v", id, ok, err)
		}
	}
	if got := len(roles(t, ring)); got != n+1 {
		t.Errorf("%d keys, want %d", got, n+1)
	}
}

// TestProcessesAtOnce starts this test binary several times; each prints the
// id of its signing key.
func TestProcessesAtOnce(t *testing.T) {
	if dir := os.Getenv("ATTEST_TEST_KEYRING"); dir != "" {
		fmt.Println("id", sign(t, attest.OpenKeyring(dir)).Public().ID)
		return
	}
	dir := filepath.Join(t.TempDir(), "keys")
	outputs := make([][]byte, 4)
	var wg sync.WaitGroup
	for i := range outputs {
		wg.Go(func() {
			c := exec.Command(os.Args[0], "-test.run=^TestProcessesAtOnce$", "-test.v")
			c.Env = append(os.Environ(), "ATTEST_TEST_KEYRING="+dir)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			outputs[i] = out
		})
	}
	wg.Wait()
	want := "id " + sign(t, attest.OpenKeyring(dir)).Public().ID
	for _, out := range outputs {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("want %s, got\n%s", want, out)
		}
	}
	if d := cmp.Diff([]string{"signing.pem"}, files(t, dir)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
