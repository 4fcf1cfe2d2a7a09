package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"securebench/internal/memtest"
	"securebench/internal/redact"
)

const key = "sk-4f9Q/x7+Zr=e8Lm"

// keyed knows the key.
func keyed(t testing.TB) *redact.Registry {
	t.Helper()
	r := &redact.Registry{}
	if err := r.Add("KEY", []byte(key)); err != nil {
		t.Fatal(err)
	}
	return r
}

// wrapped breaks a text after every n bytes.
func wrapped(text string, n int, end string) string {
	var out []string
	for ; len(text) > n; text = text[n:] {
		out = append(out, text[:n])
	}
	return strings.Join(append(out, text), end)
}

// TestWrappedSecrets: a secret that is wrapped over several lines is redacted in
// every encoding; a search of single lines, or of contiguous bytes, would find
// none of these. Lines without a secret are not changed.
func TestWrappedSecrets(t *testing.T) {
	r := keyed(t)
	for name, form := range map[string]string{
		"plain": key, "hex": hex.EncodeToString([]byte(key)), "base64": base64.StdEncoding.EncodeToString([]byte(key)),
		"base64 of more": base64.StdEncoding.EncodeToString([]byte("the key is " + key + " and no other")),
		"url":            "sk-4f9Q%2Fx7%2BZr%3De8Lm", "json": `sk-4f9Q\/x7+Zr=e8Lm`,
	} {
		for _, end := range []string{"\n", "\r\n", "\n    ", "\n\t", "\r", "\n\n"} {
			for _, n := range []int{1, 4, 7} {
				text := "before\n" + wrapped(form, n, end) + "\nafter"
				if bytes.Contains([]byte(text), []byte(form)) {
					t.Fatalf("%s is in one piece: the test shows nothing", name)
				}
				got := string(r.Bytes([]byte(text)))
				if !strings.Contains(got, "[redacted:KEY]") || !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after") {
					t.Errorf("%s in lines of %d, ended by %q: %q", name, n, end, got)
				}
			}
		}
	}
	for _, text := range []string{
		"sk-4f9Q\n\n  not the key\r\n\tZr=e8Lm\n", "s\nk\n-\n4\n", "\n\n\n  s", "sk-4f9Q" + strings.Repeat("\n", 300) + "/x7+Zr=e8Lm",
	} {
		if got := string(r.Bytes([]byte(text))); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if err := (&redact.Registry{}).Add("BREAKS", []byte("a\n\n\n\n\n\n\n\nb")); err == nil {
		t.Error("a secret of two letters and line breaks is accepted: it would redact every a and b")
	}
	several := &redact.Registry{}
	if err := several.Add("PEM", []byte("-----BEGIN-----\nMIIabc\nMIIdef\n-----END-----\n")); err != nil {
		t.Fatal(err)
	}
	if got := string(several.Bytes([]byte("x\n-----BEGIN-----\r\n  MIIabcMII\r\ndef\r\n-----END-----\ny"))); got != "x\n[redacted:PEM]\ny" {
		t.Errorf("a secret of several lines, with other line ends: %q", got)
	}
}

// TestSplitOverStreams: a secret that begins at the end of one text and continues
// at the start of another is redacted in both.
func TestSplitOverStreams(t *testing.T) {
	r := keyed(t)
	for cut := 1; cut < len(key); cut++ {
		a, b := []byte("first "+key[:cut]+"\n"), []byte(key[cut:]+" last")
		if one := string(r.Bytes(a)) + string(r.Bytes(b)); one != string(a)+string(b) {
			t.Fatalf("each text alone already gives %q", one)
		}
		for _, texts := range [][][]byte{{a, b}, {b, a}, {a, []byte("else"), b}, {b, nil, a}} {
			got := r.Split(texts...)
			for i, text := range texts {
				want := map[string]string{string(a): "first [redacted:KEY]", string(b): "[redacted:KEY] last", "else": "else", "": ""}[string(text)]
				if strings.TrimRight(string(got[i]), "\n") != want {
					t.Errorf("cut at %d: %q became %q, want %q", cut, text, got[i], want)
				}
			}
		}
	}
	honest := [][]byte{[]byte("first sk-4f9Q"), []byte("and /x7+Zr=e8Lm")}
	for i, got := range r.Split(honest...) {
		if !bytes.Equal(got, honest[i]) {
			t.Errorf("%q became %q", honest[i], got)
		}
	}
	if got := r.Split([]byte("x " + key)); string(got[0]) != "x [redacted:KEY]" {
		t.Errorf("a text alone: %q", got[0])
	}
}

// TestGroup: live streams show no secret that is spread over both of them,
// wherever and however often it is cut.
func TestGroup(t *testing.T) {
	r := keyed(t)
	seed := uint64(20261122)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		g := r.Group()
		var shown bytes.Buffer // as a terminal shows both
		var streams [2]bytes.Buffer
		ws := [2]*redact.Writer{}
		for i := range ws {
			ws[i] = g.Writer(io.MultiWriter(&streams[i], &shown))
		}
		text, switches := "before "+key+" after", 0
		for rest := text; rest != ""; switches++ {
			n := min(1+rnd.IntN(9), len(rest))
			if _, err := ws[switches%2].Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		for _, w := range ws {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		all := streams[0].String() + streams[1].String()
		for _, piece := range []string{"4f9Q", "x7+Z", "e8L"} { // no part of it remains
			for i := range len(piece) - 1 {
				if strings.Contains(shown.String(), piece[i:i+2]) {
					t.Fatalf("%q of the key is shown in %q (seed %d)", piece[i:i+2], shown.String(), seed)
				}
			}
		}
		plain := strings.ReplaceAll(all, "[redacted:KEY]", "")
		if len(plain) != len("before  after") {
			t.Fatalf("%q is left of %q (seed %d)", all, text, seed)
		}
	}
}

// TestGroupKeepsHonestText: streams without a secret are not changed.
func TestGroupKeepsHonestText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		g := keyed(t).Group()
		var want, got [2]bytes.Buffer
		ws := [2]*redact.Writer{g.Writer(&got[0]), g.Writer(&got[1])}
		for range 40 {
			i, piece := rnd.IntN(2), make([]byte, rnd.IntN(6))
			for k := range piece {
				piece[k] = "sk-4\n s"[rnd.IntN(7)]
			}
			want[i].Write(piece)
			if _, err := ws[i].Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		for i := range ws {
			if err := ws[i].Close(); err != nil {
				t.Fatal(err)
			}
			if got[i].String() != want[i].String() {
				t.Fatalf("%q became %q", want[i].String(), got[i].String())
			}
		}
	}
}

// TestLineBreaksCostNoMemory: a flood of line breaks after the start of a secret
// is not kept in memory.
func TestLineBreaksCostNoMemory(t *testing.T) {
	w := keyed(t).Writer(io.Discard)
	breaks := bytes.Repeat([]byte("\n"), 1<<20)
	before := memtest.Kept()
	for range 64 {
		for _, p := range [][]byte{[]byte("sk-4f9Q"), breaks} {
			if _, err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if grown := memtest.Kept() - before; grown > 8<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzSplit: however a text is cut into streams and pieces, no secret is left in
// it, and a text without secrets is not changed.
func FuzzSplit(f *testing.F) {
	f.Add("a "+key+" b", uint8(9), uint8(3))
	f.Add(wrapped(key, 2, "\n  "), uint8(4), uint8(1))
	f.Add(key[3:]+key[:3], uint8(200), uint8(7))
	f.Fuzz(func(t *testing.T, text string, cut, step uint8) {
		r := keyed(t)
		n := min(int(cut), len(text))
		a, b := []byte(text[:n]), []byte(text[n:])
		got := r.Split(a, b)
		joined := strings.NewReplacer("\n", "", "\r", "").Replace(string(got[0]) + string(got[1]))
		if strings.Contains(joined, key) {
			t.Errorf("%q + %q became %q", a, b, got)
		}
		g := r.Group()
		var out [2]bytes.Buffer
		ws := [2]*redact.Writer{g.Writer(&out[0]), g.Writer(&out[1])}
		for i, rest := 0, text; rest != ""; i++ {
			k := min(1+int(step), len(rest))
			if _, err := ws[i%2].Write([]byte(rest[:k])); err != nil {
				t.Fatal(err)
			}
			rest = rest[k:]
		}
		for _, w := range ws {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		marks := strings.Contains(out[0].String()+out[1].String(), "[redacted:KEY]")
		if !marks && out[0].Len()+out[1].Len() != len(text) {
			t.Errorf("%q came out as %q and %q", text, out[0].String(), out[1].String())
		}
		if marks == (string(r.Bytes([]byte(text))) == text) && !strings.Contains(text, "[redacted") {
			want := fmt.Sprintf("%q", r.Bytes([]byte(text)))
			if !marks {
				t.Errorf("in one stream %s, in two %q and %q", want, out[0].String(), out[1].String())
			}
		}
	})
}
