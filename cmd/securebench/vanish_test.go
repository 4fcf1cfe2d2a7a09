package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/awaittest"
)

// TestVanishingFolders: an operator's folder that disappears during the run
// takes the salt with it, and a run without a salt looks like a published
// copy, which verifies. The run ends with an error that names what is gone;
// when it is restored, the run can be resumed.
func TestVanishingFolders(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	for _, moved := range []string{"restricted", "restricted/salt"} {
		t.Run(strings.ReplaceAll(moved, "/", "-"), func(t *testing.T) {
			t.Parallel()
			dir, runID := t.TempDir(), ownRun("vanish-"+strings.ReplaceAll(moved, "/", "-"))
			tester, _ := mixedPack(t, dir, image, runID, 6, 2)
			p := background(t, dir, nil, "run", tester, "--progress", "plain", "--workers", "1")
			awaittest.Until(t, "the first record", func() bool { return recordedLines(dir) >= 1 })
			from, away := filepath.Join(dir, "out", moved), filepath.Join(dir, "away")
			if err := os.Rename(from, away); err != nil {
				t.Fatal(err)
			}
			res := p.ended(t, hung)
			want := "securebench: error: integrity check failed: restricted/salt was removed from the output directory or replaced; what was recorded is kept in "
			if res.code != exitIntegrity || !strings.Contains(res.stderr, want) || strings.Contains(res.stderr, "to continue: ") {
				t.Errorf("exit %d, want %d and %q\n%s", res.code, exitIntegrity, want, res.stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "out", "restricted", "salt")); err == nil {
				t.Error("the folder was created again")
			}
			if left := leftovers(t, runID); len(left) > 0 {
				t.Errorf("%d objects are left on the engine", len(left))
			}
			if res := securebench(t, nil, "run", tester, "--resume"); res.code != exitIntegrity {
				t.Errorf("a resume without the salt: exit %d\n%s", res.code, res.stderr)
			}
			if err := os.Rename(away, from); err != nil {
				t.Fatal(err)
			}
			if res := securebench(t, nil, "run", tester, "--resume"); res.code != exitDone || !strings.Contains(res.stdout, "verification=complete verified=6 ") {
				t.Errorf("put back: exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			if res := securebench(t, nil, "verify", filepath.Join(dir, "out")); res.code != exitDone || strings.Contains(res.stdout, "published copy") {
				t.Errorf("verify: exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
		})
	}
}

// recordedLines counts the records of a run in dir/out.
func recordedLines(dir string) int {
	data, err := os.ReadFile(filepath.Join(dir, "out", "candidates.jsonl"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n")
}
