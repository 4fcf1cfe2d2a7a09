package oci_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox/mountns"
)

// section returns the text below a heading of docs/engines.md, up to the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), heading+"\n")
	if !ok {
		t.Fatalf("docs/engines.md has no heading %q", heading)
	}
	body, _, _ := strings.Cut(after, "\n#")
	return body
}

// TestTableOfPaths holds the documentation to the specification.
func TestTableOfPaths(t *testing.T) {
	spec, err := boxes()["plain"].Spec()
	if err != nil {
		t.Fatal(err)
	}
	for _, paragraph := range strings.Split(section(t, "### Paths"), "\n\n") {
		name, list, _ := strings.Cut(strings.TrimSpace(paragraph), " on native:")
		want, ok := map[string][]string{
			"Hidden":    spec.Linux.MaskedPaths,
			"Read-only": append(slices.Clone(spec.Linux.ReadonlyPaths), "/sys"),
		}[name]
		if !ok {
			continue
		}
		var got []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(list, -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the documentation has %q, sandboxes %q", name, got, want)
		}
	}
}

// TestTableOfLimits does the same for the limits of a process, on a machine that has
// room for them.
func TestTableOfLimits(t *testing.T) {
	spec, err := boxes()["plain"].Spec()
	if err != nil {
		t.Fatal(err)
	}
	table := section(t, "### Limits of a process")
	number := func(n uint64) string {
		if n == unix.RLIM_INFINITY {
			return "unlimited"
		}
		return fmt.Sprint(n)
	}
	for _, l := range spec.Process.Rlimits {
		_, line, ok := strings.Cut(table, "`"+l.Type+"` | ")
		if !ok {
			t.Errorf("the documentation lacks %s", l.Type)
			continue
		}
		line, _, _ = strings.Cut(line, " |\n")
		documented := strings.Split(line, " | ")
		if len(documented) != 2 {
			t.Fatalf("%s: %q", l.Type, line)
		}
		// A shell's own limit may be lower.
		for i, n := range []uint64{l.Soft, l.Hard} {
			if got := number(n); got != documented[i] && !lower(n, documented[i]) {
				t.Errorf("%s: the documentation has %s, sandboxes %s", l.Type, documented[i], got)
			}
		}
	}
	if got, want := strings.Count(table, "`RLIMIT_"), len(spec.Process.Rlimits); got != want {
		t.Errorf("the documentation has %d limits, sandboxes %d", got, want)
	}
}

func lower(n uint64, documented string) bool {
	var limit uint64 = unix.RLIM_INFINITY
	if documented != "unlimited" {
		if _, err := fmt.Sscan(documented, &limit); err != nil {
			return false
		}
	}
	return n < limit && n > 0
}

// TestTableOfUsers does the same for the users of the host that sandboxes have.
func TestTableOfUsers(t *testing.T) {
	want := fmt.Sprintf("mapped to %d–%d,", mountns.IDBase, mountns.IDBase+mountns.IDSize-1)
	if !strings.Contains(section(t, "## Hardening, line by line"), want) {
		t.Errorf("the documentation does not say %q", want)
	}
}
