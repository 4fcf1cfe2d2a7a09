package config_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/config"
	"securebench/internal/source"
)

func TestParseSize(t *testing.T) {
	tests := map[string]int64{
		"1B": 1, "100B": 100, "4KiB": 4096, "512MiB": 512 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"007MiB": 7 << 20, "8388607TiB": 8388607 << 40,
		"": 0, "512": 0, "0MiB": 0, "-1MiB": 0, "1.5GiB": 0, "1MB": 0, "1mib": 0, " 1MiB": 0, "1 MiB": 0,
		"1MiB\n": 0, "8388608TiB": 0, "99999999999999999999B": 0, "MiB": 0, "١MiB": 0,
	}
	for in, want := range tests {
		got, err := config.ParseSize(in)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	tests := map[string]time.Duration{
		"30": 30 * time.Second, "0.25": 250 * time.Millisecond, "1e-300": time.Millisecond,
		"4e9": 4e9 * time.Second, "0": 0, "-3": 0, "1e10": 0, "1e300": 0, `"30"`: 0, "true": 0,
	}
	for in, want := range tests {
		n, err := source.ParseJSON("f", 1, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		got, problem := config.Seconds(n, "x")
		if got != want || (problem == nil) != (want > 0) {
			t.Errorf("Seconds(%s) = %v, %v; want %v", in, got, problem, want)
		}
	}
}

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
		"[::1]", strings.Repeat("a.", 127) + "com"} {
		_, err := config.ParseDomain(bad)
		if (err == nil) != (bad == "example.com") {
			t.Errorf("ParseDomain(%q): %v", bad, err)
		}
	}
}

func TestParseDomainProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9.:*/\[\] -]{0,20}`)).Draw(t, "s")
		d, err := config.ParseDomain(s)
		if err != nil {
			return
		}
		if again, err := config.ParseDomain(d); err != nil || again != d {
			t.Fatalf("%q is not in normal form: %q, %v", d, again, err)
		}
		if strings.Trim(d, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || !strings.Contains(d, ".") {
			t.Fatalf("ParseDomain(%q) = %q", s, d)
		}
	})
}
