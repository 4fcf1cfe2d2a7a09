package attest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/attest"
)

func TestUnsafeKeyring(t *testing.T) {
	chmod := func(name string, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace := func(name string, by func(path, old string) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			old := filepath.Join(t.TempDir(), "old")
			if err := errors.Join(os.Rename(path, old), by(path, old)); err != nil {
				t.Fatal(err)
			}
		}
	}
	symlink := func(path, old string) error { return os.Symlink(old, path) }
	fifo := func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }
	own := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			if err := os.Chown(filepath.Join(dir, name), 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		harm func(*testing.T, string)
		want string // DIR is the keyring
	}{
		"group reads":       {chmod("signing.pem", 0o640), "chmod 600 DIR/signing.pem"},
		"others write":      {chmod("signing.pem", 0o602), "chmod 600 DIR/signing.pem"},
		"symbolic link":     {replace("signing.pem", symlink), "not a regular file"},
		"named pipe":        {replace("signing.pem", fifo), "not a regular file"},
		"owner":             {own("signing.pem"), "chown 0 DIR/signing.pem"},
		"owner of all":      {own("."), "chown 0 DIR"},
		"group writes all":  {chmod(".", 0o770), "chmod 700 DIR"},
		"sticky":            {chmod(".", 0o777|os.ModeSticky), "chmod 700 DIR"},
		"writable trusted":  {chmod("trusted", 0o707), "chmod 700 DIR/trusted"},
		"writable retired":  {chmod("retired", 0o770), "chmod 700 DIR/retired"},
		"symbolic trusted":  {replace("trusted", symlink), "not a directory"},
		"owner of trusted":  {own("trusted"), "chown 0 DIR/trusted"},
		"trusted is a pipe": {replace("trusted", fifo), "not a directory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ring, dir := openRing(t)
			sign(t, ring)
			if _, err := ring.New(); err != nil {
				t.Fatal(err)
			}
			other, _ := newKey(t)
			if err := ring.Trust("lab", other.Public()); err != nil {
				t.Fatal(err)
			}
			tt.harm(t, dir)
			calls := map[string]func() error{
				"List":   func() error { _, err := ring.List(); return err },
				"Lookup": func() error { _, _, err := ring.Lookup(other.Public().ID); return err },
				"Trust":  func() error { return ring.Trust("", other.Public()) },
			}
			if !strings.Contains(tt.want, "directory") && !strings.Contains(tt.want, "DIR/trusted") && !strings.Contains(tt.want, "DIR/retired") {
				calls["Signing"] = func() error { _, _, err := ring.Signing(); return err }
				calls["Current"] = func() error { _, _, err := ring.Current(); return err }
				calls["New"] = func() error { _, err := ring.New(); return err }
			}
			for name, call := range calls {
				err := call()
				if !errors.Is(err, attest.ErrUnsafeKey) || !strings.Contains(err.Error(), strings.ReplaceAll(tt.want, "DIR", dir)) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v; want one line with %q", name, err, tt.want)
				}
			}
		})
	}
}

func TestReadableKeyringIsSafe(t *testing.T) {
	ring, dir := openRing(t)
	key := sign(t, ring)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(ring.SigningFile(), 0o400)); err != nil {
		t.Fatal(err)
	}
	if sign(t, ring).Public() != key.Public() {
		t.Error("another key")
	}
}

func TestDamagedKeyring(t *testing.T) {
	key, text := newKey(t)
	good := string(key.Public().PEM())
	name := hexID(key.Public()) + ".pem"
	tests := map[string]struct{ file, data, want string }{
		"empty signing key":   {"signing.pem", "", "signing.pem is damaged"},
		"public signing key":  {"signing.pem", good, "signing.pem is damaged"},
		"two signing keys":    {"signing.pem", string(text) + string(text), "signing.pem is damaged"},
		"huge signing key":    {"signing.pem", strings.Repeat(" ", 1<<20), "larger than any key"},
		"another's name":      {"trusted/" + strings.Repeat("0", 64) + ".pem", good, "holds the key " + key.Public().ID},
		"abbreviated name":    {"retired/" + name[:8] + ".pem", good, "holds the key"},
		"stray file":          {"trusted/README", "hello", "README"},
		"private as trusted":  {"trusted/" + name, string(text), "this is a private key"},
		"second trusted key":  {"trusted/" + name, good + good, "is damaged"},
		"huge trusted key":    {"trusted/" + name, good + strings.Repeat("\n", 1<<20), "larger than any key"},
		"control characters":  {"trusted/\x1b[1m", good, `\x1b[1m`},
		"header of a retired": {"retired/" + name, strings.Replace(good, "\n", "\nX: y\n\n", 1), "is damaged"},
	}
	for label, tt := range tests {
		t.Run(label, func(t *testing.T) {
			ring, dir := openRing(t)
			path := filepath.Join(dir, tt.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(tt.data), 0o600)); err != nil {
				t.Fatal(err)
			}
			entries, err := ring.List()
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\x1b") || entries != nil {
				t.Errorf("%v, %v; want one line with %q", entries, err, tt.want)
			}
			if tt.file == "signing.pem" {
				if _, err := ring.New(); err == nil {
					t.Error("a damaged key is replaced")
				}
				if got, err := os.ReadFile(path); string(got) != tt.data || err != nil {
					t.Errorf("a damaged key is changed: %v", err)
				}
			}
			if err != nil && secretWindows(t, text).in([]byte(err.Error())) {
				t.Errorf("the error holds the key: %v", err)
			}
		})
	}
}
