package attest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"securebench/internal/attest"
	"securebench/internal/digest"
)

func statement() attest.Statement {
	return attest.Statement{
		Subject: []attest.Subject{{Name: "candidates.jsonl", Digest: map[string]string{"sha256": strings.Repeat("a", 64)}}},
		Predicate: attest.Predicate{RunID: "run <é>", Ended: "2026-01-02T03:04:05Z", Planned: attest.Planned{Tasks: 3, Attempts: 2},
			Counts: attest.Counts{Passed: 5, Failed: 1}, Records: 6, MerkleRoot: digest.Bytes(nil)},
	}
}

func signed(t testing.TB) (attest.PrivateKey, []byte) {
	t.Helper()
	key, _ := newKey(t)
	raw, err := attest.Sign(statement(), key)
	if err != nil {
		t.Fatal(err)
	}
	return key, raw
}

func TestSignedStatement(t *testing.T) {
	key, raw := signed(t)
	s, err := attest.Open(raw)
	if err != nil || s.Signer != key.Public() || s.Predicate.Records != 6 || s.Predicate.RunID != "run <é>" {
		t.Fatalf("%+v, %v", s, err)
	}
	// What other tools expect of an in-toto statement in a DSSE envelope.
	var env struct {
		PayloadType string
		Payload     []byte
		Signatures  []struct {
			KeyID string
			Sig   []byte
		}
	}
	if err := json.Unmarshal(raw, &env); err != nil || env.PayloadType != "application/vnd.in-toto+json" {
		t.Fatalf("%+v, %v", env, err)
	}
	pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(env.PayloadType), env.PayloadType, len(env.Payload), env.Payload)
	if !key.Public().Verify([]byte(pae), env.Signatures[0].Sig) {
		t.Error("the signature is not over the DSSE pre-authentication encoding")
	}
	if !bytes.Contains(env.Payload, []byte(`"_type":"https://in-toto.io/Statement/v1"`)) {
		t.Errorf("payload %s", env.Payload)
	}
}

// TestEveryByteOfAStatementCounts flips every bit, and drops and repeats every
// byte.
func TestEveryByteOfAStatementCounts(t *testing.T) {
	key, raw := signed(t)
	check := func(what string, b []byte) {
		t.Helper()
		if bytes.Equal(b, raw) {
			return
		}
		if s, err := attest.Open(b); err == nil && s.Signer == key.Public() {
			t.Fatalf("%s: accepted", what)
		}
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(raw); i += step {
		for bit := range 8 {
			b := bytes.Clone(raw)
			b[i] ^= 1 << bit
			check(fmt.Sprintf("bit %d of byte %d", bit, i), b)
		}
		check(fmt.Sprintf("without byte %d", i), append(bytes.Clone(raw[:i]), raw[i+1:]...))
		check(fmt.Sprintf("byte %d twice", i), append(bytes.Clone(raw[:i+1]), raw[i:]...))
	}
	check("two lines", append(bytes.Clone(raw), '\n'))
}

// TestStatementSpellings: other encodings that lenient readers accept as the same
// envelope.
func TestStatementSpellings(t *testing.T) {
	_, raw := signed(t)
	var env map[string]any
	if err := json.Unmarshal(raw, &env); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(env["payload"].(string))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, b := range map[string]string{
		"white space":        strings.Replace(text, `":"`, `": "`, 1),
		"url base64":         strings.Replace(text, env["payload"].(string), base64.URLEncoding.EncodeToString(payload), 1),
		"unpadded":           strings.Replace(text, "=\"", "\"", 1),
		"newline in base64":  strings.Replace(text, `"payload":"`, `"payload":"\n`, 1),
		"another key":        strings.Replace(text, `{"payload"`, `{"extra":1,"payload"`, 1),
		"key twice":          strings.Replace(text, `{"payload"`, `{"payload":"","payload"`, 1),
		"other case":         strings.Replace(text, `"payload"`, `"Payload"`, 1),
		"no signature":       text[:strings.Index(text, `"signatures":`)] + `"signatures":[]}` + "\n",
		"signature twice":    strings.Replace(text, `"signatures":[`, `"signatures":[`+text[strings.Index(text, `"signatures":[`)+len(`"signatures":[`):strings.LastIndex(text, "]")]+",", 1),
		"escaped":            strings.Replace(text, "a", `\u0061`, 1),
		"other payload type": strings.Replace(text, "in-toto", "in-tota", 1),
		"no newline":         strings.TrimSuffix(text, "\n"),
		"empty":              "",
		"huge":               text + strings.Repeat(" ", attest.MaxEnvelope),
	} {
		if b == text {
			continue // this key has no byte that differs
		}
		if _, err := attest.Open([]byte(b)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestSignerIsNotTakenOnTrust: a statement that names one key and is signed
// by another is not that key's.
func TestSignerIsNotTakenOnTrust(t *testing.T) {
	victim, raw := signed(t)
	thief, _ := newKey(t)
	forged, err := attest.Sign(statement(), thief)
	if err != nil {
		t.Fatal(err)
	}
	b := strings.ReplaceAll(string(forged), thief.Public().ID, victim.Public().ID)
	if _, err := attest.Open([]byte(b)); err == nil {
		t.Error("accepted with only the victim's key id")
	}
	mixed := func(payload, signatures []byte) []byte {
		p, s := string(payload), string(signatures)
		return []byte(p[:strings.Index(p, `"signatures"`)] + s[strings.Index(s, `"signatures"`):])
	}
	if _, err := attest.Open(mixed(raw, forged)); err == nil {
		t.Error("accepted with another statement's signature")
	}
	if s, err := attest.Open(forged); err != nil || s.Signer != thief.Public() {
		t.Errorf("the honest twin: %v", err)
	}
}

// TestTree compares with the library that holds whole trees.
func TestTree(t *testing.T) {
	var tree attest.Tree
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range indexes {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for n := range int64(70) {
		want, err := tlog.TreeHash(n, read)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && tree.Root() != digest.Format(want[:]) {
			t.Fatalf("%d leaves: root %s, want %x", n, tree.Root(), want)
		}
		leaf := fmt.Appendf(nil, "line %d", n)
		tree.Add(leaf)
		hashes, err := tlog.StoredHashes(n, leaf, read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
	}
	if empty := new(attest.Tree).Root(); empty != digest.Bytes(nil) {
		t.Errorf("the empty tree's root is %s, RFC 6962 has the digest of nothing", empty)
	}
}

func FuzzOpen(f *testing.F) {
	_, raw := signed(f)
	f.Add(raw)
	f.Add([]byte(`{"payload":"","payloadType":"application/vnd.in-toto+json","signatures":[]}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := attest.Open(b)
		if err == nil && !bytes.Equal(b, raw) && s.Signer.ID == "" {
			t.Error("accepted without a signer")
		}
	})
}
