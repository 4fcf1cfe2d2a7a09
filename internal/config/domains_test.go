package config_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/config"
	"securebench/internal/source"
)

func TestDomainVectors(t *testing.T) {
	files := []string{"testdata/domains.jsonl"}
	if dir := os.Getenv("SECUREBENCH_VECTORS"); dir != "" {
		files = append(files, filepath.Join(dir, "domains.jsonl"))
	} else {
		t.Log("SECUREBENCH_VECTORS is not set: own copy only")
	}
	wording := map[string]string{
		"localhost": "localhost", "ip": "IP address", "scheme/port/path/wildcard": "scheme, port, path or wildcard",
		"two labels": "two labels", "invalid": "invalid DNS name", "non-empty": "non-empty",
	}
	for _, file := range files {
		for _, line := range readLines(t, file) {
			n, err := source.ParseJSON(file, 1, []byte(line))
			if err != nil {
				t.Fatal(err)
			}
			list := &source.Node{Kind: source.List, Items: []*source.Node{n.Get("value")}}
			kind, detail := n.Get("expect").Items[0].Text, n.Get("expect").Items[1].Text
			switch n.Get("value").Text { // docs/deviations.md, "Network"
			case "*.example.com":
				kind, detail = "ok", "*.example.com"
			case "0x7f.1":
				kind, detail = "error", "ip"
			}
			got, ps := config.ParseDomains(list, "allowed_domains")
			switch {
			case kind == "ok":
				if d := cmp.Diff([]string{detail}, got); d != "" || ps != nil {
					t.Errorf("%s: %v, -want +got:\n%s", line, ps.Err(), d)
				}
			case len(ps) != 1 || !strings.Contains(ps[0].Message, wording[detail]):
				t.Errorf("%s: %q, %v", line, got, ps.Err())
			}
		}
	}
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		out = append(out, s.Text())
	}
	if len(out) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return out
}

func TestParseDomains(t *testing.T) {
	n, err := source.ParseYAML("f", []byte("[a.com, A.com., b.com]"))
	if err != nil {
		t.Fatal(err)
	}
	got, ps := config.ParseDomains(n, "x")
	if d := cmp.Diff([]string{"a.com", "b.com"}, got); d != "" || ps != nil {
		t.Errorf("%v %s", ps.Err(), d)
	}
	// The Kelvin sign lower-cases to an ASCII k.
	for _, bad := range []string{"example.com", "a.com\x00", "a com.b", "a.\u212aelvin", "\u212a.com",
		"*.a.com.*", "*.*.a.com", "**.a.com", "a.*.com", "*", "*.", "*a.com", "[::1]", strings.Repeat("a.", 127) + "com"} {
		if _, err := parseDomain(bad); (err == nil) != (bad == "example.com") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParseDomainProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9.:*/\[\] -]{0,20}`)).Draw(t, "s")
		d, err := parseDomain(s)
		if err != nil {
			return
		}
		if again, err := parseDomain(d); err != nil || again != d {
			t.Fatalf("%q is not in normal form: %q, %v", d, again, err)
		}
		if strings.Trim(strings.TrimPrefix(d, "*."), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || !strings.Contains(d, ".") {
			t.Fatalf("%q became %q", s, d)
		}
	})
}

// parseDomain reads a list of one.
func parseDomain(s string) (string, error) {
	list := &source.Node{Kind: source.List, Items: []*source.Node{{Kind: source.String, Text: s}}}
	out, ps := config.ParseDomains(list, "x")
	if len(ps) > 0 {
		return "", ps.Err()
	}
	return out[0], nil
}

// TestPatterns holds patterns below public suffixes, of both sections of the
// list, and exact names at them.
func TestPatterns(t *testing.T) {
	for in, want := range map[string]string{
		"*.Example.com.": "*.example.com", "*.a.b.example.com": "*.a.b.example.com", "*.example.co.uk": "*.example.co.uk",
		"*.someone.github.io": "*.someone.github.io", "*.corp.internal": "*.corp.internal",
		"github.io": "github.io", "co.uk": "co.uk", // exact names match one host
		"*.com": "two labels after *.", "*.uk": "two labels", "*.co.uk": "many owners", "*.github.io": "many owners",
		"*.s3.amazonaws.com": "many owners", "*.kawasaki.jp": "many owners", "*.x.kawasaki.jp": "many owners",
		"*.city.kawasaki.jp": "*.city.kawasaki.jp", // an exception of the list
		"*.localhost":        "localhost", "*.127.0.0.1": "IP address", "*.0.1": "IP address",
	} {
		got, err := parseDomain(in)
		if got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

// TestNumbersAsNames: to some resolvers these are IPv4 addresses (N09).
func TestNumbersAsNames(t *testing.T) {
	for _, in := range []string{"2130706433", "0x7f000001", "127.1", "010.0.0.1", "0", "0x7f.1", "1.2.3.0x4", "a.0x", "127.0.0.1."} {
		if got, err := parseDomain(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
	for _, in := range []string{"1.2.3.4.example.com", "0x7f.example", "163.com", "a.x0"} {
		if _, err := parseDomain(in); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}
