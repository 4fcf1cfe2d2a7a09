package require

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/oci"
	"securebench/internal/sandbox/sandboxtest"
)

// TestTableOfTested holds the documentation to what auto goes by.
func TestTableOfTested(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Tested\n")
	count := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 5 || cells[4] != "yes" {
			continue
		}
		count++
		runtime, from, _ := strings.Cut(cells[0], " ")
		is := combination{runtime, strings.TrimPrefix(cells[1], "version "), cells[2] == "without root", cells[3] == "yes"}
		if oldest, ok := tested()[is]; !ok || from != fmt.Sprintf("%d.%d", oldest.major, oldest.minor) {
			t.Errorf("%q is documented as tested, and is not: %v, %v", line, ok, oldest)
		}
	}
	if count != len(tested()) {
		t.Errorf("%d kinds of machines are documented as tested, not %d", count, len(tested()))
	}
}

// TestFindRuntime: crun is taken where the engine was tested with it.
func TestFindRuntime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		installed map[string]string // versions
		named     string
		want      string
	}{
		"both":             {map[string]string{"crun": "1.8.1", "runc": "1.1.5+ds1"}, "", "crun 1.8.1"},
		"a newer one":      {map[string]string{"crun": "2.0", "runc": "1.1.5"}, "", "crun 2.0"},
		"an old crun":      {map[string]string{"crun": "0.17", "runc": "1.1.5"}, "", "runc 1.1.5"},
		"an unknown crun":  {map[string]string{"crun": "UNKNOWN", "runc": "1.1.5"}, "", "runc 1.1.5"},
		"both old":         {map[string]string{"crun": "0.17", "runc": "1.0.0"}, "", "runc 1.0.0"},
		"named":            {map[string]string{"crun": "1.8.1", "runc": "1.1.5"}, "runc", "runc 1.1.5"},
		"an old one named": {map[string]string{"crun": "0.17", "runc": "1.1.5"}, "crun", "crun 0.17"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is, crun := combination{"crun", groupsVersion(), mountns.Rootless(), mayMap()}, oci.Runtime{Version: c.installed["crun"]}
			if strings.HasPrefix(c.want, "crun") && c.named == "" && !is.wasTested(crun) {
				t.Skipf("%s %s: not tested", is, crun.Version)
			}
			dir := t.TempDir()
			for runtime, version := range c.installed {
				text := "#!/bin/sh\necho " + runtime + " version " + version + "\n"
				if err := sandboxtest.WriteProgram(filepath.Join(dir, runtime), []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			r, err := FindRuntime(c.named, func(string) string { return dir })
			if got := r.Name + " " + r.Version; err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}
