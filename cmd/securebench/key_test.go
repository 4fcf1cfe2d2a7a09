package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeyCommandsKeepTheSecret runs every key command, including failing
// calls, and then searches the output and every file but signing.pem for each
// signing key that existed.
func TestKeyCommandsKeepTheSecret(t *testing.T) {
	work, given := t.TempDir(), t.TempDir()
	ring, signing := filepath.Join(work, "keys"), filepath.Join(work, "keys", "signing.pem")
	t.Setenv("SECUREBENCH_KEYS", ring)
	t.Chdir(work)

	seeds := map[string]bool{}
	own, trailing, public := filepath.Join(given, "own.pem"), filepath.Join(given, "trailing.pem"), filepath.Join(given, "public.pem")
	keyPEM, publicPEM := newKeyPair(t)
	seeds[seedOf(t, keyPEM)] = true
	writeFiles(t, map[string][]byte{own: keyPEM, trailing: append(bytes.Clone(keyPEM), 'x'), public: publicPEM})
	seedHex := hex.EncodeToString([]byte(seedOf(t, keyPEM)))

	var shown bytes.Buffer
	for _, run := range []struct {
		args []string
		code int
	}{
		{[]string{"key", "show"}, exitRefused},
		{[]string{"key", "list"}, exitDone},
		{[]string{"key", "new"}, exitDone},
		{[]string{"key", "new"}, exitRefused},
		{[]string{"key", "new", "--force"}, exitDone},
		{[]string{"key", "show"}, exitDone},
		{[]string{"key", "list"}, exitDone},
		{[]string{"key", "list", "--json"}, exitDone},
		{[]string{"key", "export"}, exitDone},
		{[]string{"key", "export", "-o", "out.pem"}, exitDone},
		{[]string{"key", "export", "-o", "out.pem"}, exitRefused},
		{[]string{"key", "export", "-o", signing}, exitRefused},
		{[]string{"key", "import", own}, exitRefused},
		{[]string{"key", "import", trailing}, exitConfig},
		{[]string{"key", "import", trailing, "--force"}, exitConfig},
		{[]string{"key", "import", public, "--force"}, exitConfig},
		{[]string{"key", "import", filepath.Join(given, "missing")}, exitConfig},
		{[]string{"key", "import", own, "--force"}, exitDone},
		{[]string{"key", "trust", own}, exitConfig},
		{[]string{"key", "trust", trailing}, exitConfig},
		{[]string{"key", "trust", signing}, exitConfig},
		{[]string{"key", "trust", "out.pem"}, exitRefused},
		{[]string{"key", "trust", public, "--name", seedHex}, exitRefused}, // own key
		{[]string{"key", "trust", public, "--name", seedHex + "!"}, exitUsage},
		{[]string{"key", "trust", "--remove", seedHex}, exitUsage},
		{[]string{"key", "export", seedHex}, exitUsage},
		{[]string{"key", "export", seedHex + "0"}, exitUsage},
		{[]string{"key", "new", "--force"}, exitDone},
		{[]string{"key", "list"}, exitDone},
		{[]string{"key", "show", "--help"}, exitDone},
	} {
		if code := execute(run.args, &shown, &shown); code != run.code {
			t.Errorf("%q: exit code %d, want %d\n%s", run.args, code, run.code, shown.Bytes())
		}
		if data, err := os.ReadFile(signing); err == nil {
			seeds[seedOf(t, data)] = true
		}
	}
	if len(seeds) != 4 {
		t.Errorf("%d keys were seen, want 4", len(seeds))
	}
	if err := os.Chmod(signing, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"key", "new"}, {"key", "new", "--force"}, {"key", "show"}, {"key", "list"}, {"key", "export"}, {"key", "import", own}} {
		if code := execute(args, &shown, &shown); code != exitIntegrity {
			t.Errorf("%q with an unsafe key: exit code %d, want %d", args, code, exitIntegrity)
		}
	}
	for seed := range seeds {
		if !leaks(keyPEM, seedOf(t, keyPEM)) {
			t.Fatal("the test does not see a private key")
		}
		if leaks(shown.Bytes(), seed) {
			t.Errorf("a private key was printed:\n%s", shown.Bytes())
		}
		lookForSeed(t, work, signing, seed)
	}
}

// lookForSeed searches all files below dir except one.
func lookForSeed(t *testing.T, dir, except, seed string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == except {
			return err
		}
		data, err := os.ReadFile(path)
		if leaks(data, seed) {
			t.Errorf("%s holds a private key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leaks reports whether 16 bytes of the seed are in data, raw, in hex or in
// base64 at any alignment.
func leaks(data []byte, seed string) bool {
	lower := bytes.ToLower(data)
	for i := range len(seed) - 15 {
		part := []byte(seed[i : i+16])
		if bytes.Contains(data, part) || bytes.Contains(lower, []byte(hex.EncodeToString(part))) {
			return true
		}
		for shift := range 3 {
			for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				// The first and the last digits also hold neighbouring bits.
				text := enc.EncodeToString(append(make([]byte, shift), part...))
				if bytes.Contains(data, []byte(text[(shift*8+5)/6:(shift+16)*8/6])) {
					return true
				}
			}
		}
	}
	return false
}

func newKeyPair(t *testing.T) (private, public []byte) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
}

func seedOf(t *testing.T, text []byte) string {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM in the signing key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		t.Fatalf("the signing key is a %T", key)
	}
	return string(private.Seed())
}

func writeFiles(t *testing.T, files map[string][]byte) {
	t.Helper()
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeyHelpNamesEveryCommand(t *testing.T) {
	var out bytes.Buffer
	if code := execute([]string{"key", "--help"}, &out, &out); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"new", "show", "list", "export", "import", "trust", "SECUREBENCH_KEYS"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not say %s", want)
		}
	}
}
