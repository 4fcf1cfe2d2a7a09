package attest_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"securebench/internal/attest"
	"securebench/internal/digest"
)

// newKey returns a key and its PKCS#8 PEM.
func newKey(t testing.TB) (attest.PrivateKey, []byte) {
	t.Helper()
	_, raw, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := privatePEM(t, raw)
	key, err := attest.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key, text
}

func privatePEM(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func publicPEM(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestSignAndVerify(t *testing.T) {
	key, err := attest.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newKey(t)
	k, message := key.Public(), []byte("message")
	sig := key.Sign(message)
	if !k.Verify(message, sig) {
		t.Error("the key refuses its own signature")
	}
	if k.Verify([]byte("massage"), sig) || k.Verify(message, sig[1:]) || k.Verify(message, nil) || other.Public().Verify(message, sig) {
		t.Error("a wrong signature is accepted")
	}
	block, _ := pem.Decode(k.PEM())
	if want := digest.Bytes(block.Bytes); k.ID != want || k.String() != want {
		t.Errorf("id %s, shown as %s, want %s", k.ID, k, want)
	}
	if again, err := attest.ParsePublicKey(k.PEM()); err != nil || again != k {
		t.Errorf("read back as %v, %v", again, err)
	}
}

// Test vector 1 of RFC 8032: ids must not change.
func TestKnownKey(t *testing.T) {
	seed, err := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParsePrivateKey(privatePEM(t, ed25519.NewKeyFromSeed(seed)))
	if err != nil {
		t.Fatal(err)
	}
	const want = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n"
	if got := string(key.Public().PEM()); got != want {
		t.Errorf("public key\n%swant\n%s", got, want)
	}
	const sig = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
	if got := hex.EncodeToString(key.Sign(nil)); got != sig {
		t.Errorf("signature %s, want %s", got, sig)
	}
}

func TestParsePublicKey(t *testing.T) {
	key, private := newKey(t)
	good := string(key.Public().PEM())
	named := func(header string) string {
		return strings.Replace(good, "KEY-----\n", "KEY-----\n"+header+"\n\n", 1)
	}
	ecKey, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(good))
	trailing := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: append(block.Bytes, 0)}))
	const (
		notOne    = "want one Ed25519 public key in PEM"
		isPrivate = "this is a private key"
	)
	tests := map[string]struct{ in, want string }{
		"good":             {good, ""},
		"white space":      {"\r\n" + good + " \n\t\n", ""},
		"Windows":          {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"named":            {named("Name: lab 7"), ""},
		"bad name":         {named("Name: l\u00e4b"), notOne},
		"empty name":       {named("Name: "), notOne},
		"long name":        {named("Name: " + strings.Repeat("x", 65)), notOne},
		"other header":     {named("Comment: lab"), notOne},
		"two headers":      {named("Comment: x\nName: lab"), notOne},
		"repeated header":  {named("Name: a\nName: b"), notOne},
		"empty":            {"", notOne},
		"text":             {"ssh-ed25519 AAAA lab", notOne},
		"text in front":    {"my key\n" + good, notOne},
		"trailing text":    {good + "x", notOne},
		"second block":     {good + good, notOne},
		"damaged in front": {"-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n" + good, notOne},
		"trailing DER":     {trailing, notOne},
		"other type":       {strings.ReplaceAll(good, "PUBLIC KEY", "CERTIFICATE"), notOne},
		"X25519":           {string(publicPEM(t, ecKey.PublicKey())), notOne},
		"private":          {string(private), isPrivate},
		"private behind":   {good + string(private), isPrivate},
		"OpenSSH private":  {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", isPrivate},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, err := attest.ParsePublicKey([]byte(tt.in))
			if tt.want == "" {
				if err != nil || k != key.Public() {
					t.Errorf("got %v, %v", k, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || k != (attest.PublicKey{}) {
				t.Errorf("got %v, %v; want an error with %q", k, err, tt.want)
			}
		})
	}
}

func TestParsePrivateKey(t *testing.T) {
	key, text := newKey(t)
	good := string(text)
	ecKey, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	trailing := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: append(block.Bytes, 0)}))
	const notOne = "want one Ed25519 private key in PKCS#8 PEM"
	tests := map[string]struct{ in, want string }{
		"good":          {good, ""},
		"Windows":       {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"empty":         {"", notOne},
		"text in front": {"x\n" + good, notOne},
		"trailing text": {good + "x", notOne},
		"second block":  {good + good, notOne},
		"header":        {strings.Replace(good, "KEY-----\n", "KEY-----\nName: lab\n\n", 1), notOne},
		"trailing DER":  {trailing, notOne},
		"encrypted":     {strings.ReplaceAll(good, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), notOne},
		"X25519":        {string(privatePEM(t, ecKey)), notOne},
		"public":        {string(key.Public().PEM()), "securebench key trust"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, err := attest.ParsePrivateKey([]byte(tt.in))
			if tt.want == "" {
				if err != nil || k.Public() != key.Public() {
					t.Errorf("got %v, %v", k, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || k.Public() != (attest.PublicKey{}) {
				t.Errorf("got %v, %v; want an error with %q", k, err, tt.want)
			}
		})
	}
}

// Keys of small order are refused: for each of them the same bytes are a valid
// signature of at least one message in eight.
func TestSmallOrderKeys(t *testing.T) {
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1 // R is the neutral element, S is zero
	holds := func(verify func(message, sig []byte) bool) bool {
		for i := range 256 {
			if verify([]byte{byte(i)}, forged) {
				return true
			}
		}
		return false
	}
	for _, digits := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		key, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if !holds(func(message, sig []byte) bool { return ed25519.Verify(key, message, sig) }) {
			t.Errorf("%s: no signature can be forged: it need not be listed", digits)
		}
		for _, sign := range []byte{0, 0x80} {
			key[31] = key[31]&0x7f | sign
			if k, err := attest.ParsePublicKey(publicPEM(t, ed25519.PublicKey(key))); err == nil {
				t.Errorf("%x is accepted as %v", key, k)
			}
		}
	}
	if holds(attest.PublicKey{}.Verify) {
		t.Error("the zero key accepts a signature")
	}
}

func TestPrivateKeyIsNotShown(t *testing.T) {
	key, text := newKey(t)
	windows := secretWindows(t, text)
	if !windows.in(text) || !windows.in([]byte(fmt.Sprintf("%x", windows.seed))) {
		t.Fatal("the test does not see a private key")
	}
	type holder struct {
		Name string
		key  attest.PrivateKey
		Key  *attest.PrivateKey
	}
	h := holder{"n", key, &key}
	var out bytes.Buffer
	for _, v := range []any{key, &key, h, &h, []attest.PrivateKey{key}, map[string]attest.PrivateKey{"k": key}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", v)
	}
	if windows.in(out.Bytes()) {
		t.Errorf("the key is shown:\n%s", out.Bytes())
	}
	if got := fmt.Sprintf("%#v", key); got != "private key of "+key.Public().ID {
		t.Errorf("shown as %q", got)
	}
	if b, err := json.Marshal(key); err == nil {
		t.Errorf("marshalled as %s", b)
	}
}

// windows are the ways in which 16 bytes of a seed can appear.
type windows struct {
	seed []byte
	all  [][]byte
}

func secretWindows(t testing.TB, text []byte) windows {
	t.Helper()
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	raw, ok := key.(ed25519.PrivateKey)
	if !ok {
		t.Fatalf("a %T", key)
	}
	w := windows{seed: raw.Seed()}
	for i := range len(w.seed) - 15 {
		part := w.seed[i : i+16]
		w.all = append(w.all, part, []byte(hex.EncodeToString(part)), []byte(fmt.Sprintf("%X", part)),
			[]byte(strings.Trim(fmt.Sprintf("%d", part), "[]")), base64Core(part))
	}
	return w
}

// base64Core returns part as it occurs in the base64 of the PEM, where the seed
// starts after 16 bytes.
func base64Core(part []byte) []byte {
	text := pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: append(make([]byte, 3), part...)})
	return bytes.Split(text, []byte("\n"))[1][4:24]
}

func (w windows) in(b []byte) bool {
	for _, part := range w.all {
		if bytes.Contains(b, part) {
			return true
		}
	}
	return false
}

func FuzzParsePublicKey(f *testing.F) {
	key, private := newKey(f)
	good := key.Public().PEM()
	f.Add(good)
	f.Add(private)
	f.Add(bytes.Replace(good, []byte("KEY-----\n"), []byte("KEY-----\nName: lab\n\n"), 1))
	f.Add(append(good, good...))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := attest.ParsePublicKey(data)
		if err != nil {
			if k != (attest.PublicKey{}) {
				t.Errorf("%v beside the error %v", k, err)
			}
			return
		}
		if again, err := attest.ParsePublicKey(k.PEM()); err != nil || again != k {
			t.Errorf("read back as %v, %v; want %v", again, err, k)
		}
		block := onlyBlock(t, data)
		for name := range block.Headers {
			if name != "Name" {
				t.Errorf("a header %q is accepted", name)
			}
		}
		block.Headers = nil
		if canonical := pem.EncodeToMemory(block); !bytes.Equal(canonical, k.PEM()) {
			t.Errorf("encoded as\n%swant\n%s", k.PEM(), canonical)
		}
		if _, err := attest.ParsePublicKey(append(data, "\nx"...)); err == nil {
			t.Error("trailing data is accepted")
		}
		if _, err := attest.ParsePublicKey(append(data, k.PEM()...)); err == nil {
			t.Error("a second block is accepted")
		}
	})
}

func FuzzParsePrivateKey(f *testing.F) {
	key, private := newKey(f)
	f.Add(private)
	f.Add(key.Public().PEM())
	f.Add(append(private, private...))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := attest.ParsePrivateKey(data)
		if err != nil {
			if errors.Unwrap(err) != nil {
				t.Errorf("the error comes from a parser that may quote the key: %v", err)
			}
			return
		}
		block := onlyBlock(t, data)
		if len(block.Headers) > 0 {
			t.Errorf("headers are accepted: %q", block.Headers)
		}
		if again, err := attest.ParsePrivateKey(pem.EncodeToMemory(block)); err != nil || again.Public() != k.Public() {
			t.Errorf("read back as %v, %v; want %v", again, err, k)
		}
		if !k.Public().Verify(data, k.Sign(data)) {
			t.Error("the key refuses its own signature")
		}
		if _, err := attest.ParsePrivateKey(append(data, "\nx"...)); err == nil {
			t.Error("trailing data is accepted")
		}
	})
}

func onlyBlock(t *testing.T, data []byte) *pem.Block {
	t.Helper()
	block, rest := pem.Decode(data)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 || bytes.Count(data, []byte("\n-----BEGIN ")) > 1 {
		t.Fatalf("accepted, but not one block: %q", data)
	}
	return block
}
