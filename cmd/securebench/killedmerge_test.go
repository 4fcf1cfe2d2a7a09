package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
)

// TestKilledMerges kills the merge of a run's shards at random moments, and merges again:
// the records, their files and what the command says are those of a merge that nobody
// disturbed.
func TestKilledMerges(t *testing.T) {
	t.Parallel()
	const tasks, shards = 120, 3
	dir, env := t.TempDir(), []string{"XDG_CONFIG_HOME=" + t.TempDir()}
	at := func(where string, args ...string) outcome {
		t.Helper()
		return background(t, where, env, args...).ended(t, hung)
	}
	done := func(res outcome) outcome {
		t.Helper()
		if res.code != exitDone {
			t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
		}
		return res
	}
	args := append(replayPack(t, dir, tasks, different(2000)), "-o", "out", "-q")
	done(at(dir, append(args, "--prepare", fmt.Sprint(shards))...))
	for i := range shards {
		done(at(dir, append(args, "--shard", fmt.Sprint(i))...))
	}
	copied := func(to string) string {
		t.Helper()
		to = filepath.Join(t.TempDir(), to)
		if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return to
	}
	whole := copied("whole")
	began := time.Now()
	want := done(at(whole, "merge", "out"))
	took := time.Since(began)
	records, files := merged(t, filepath.Join(whole, "out"))
	ended, kills := 0, 5
	if os.Getenv(envFaults) != "" {
		kills = 20
	}
	for seed := range uint64(kills) {
		random := rand.New(rand.NewPCG(seed, 23))
		where := copied(fmt.Sprint("killed-", seed))
		p := background(t, where, env, "merge", "out")
		select {
		case <-time.After(time.Duration(random.Int64N(int64(took)))):
		case <-p.done:
			ended++
		}
		_ = p.Process.Kill() // it may have ended
		<-p.done
		again := done(at(where, "merge", "out"))
		if says, wants := strings.ReplaceAll(again.stdout, where, ""), strings.ReplaceAll(want.stdout, whole, ""); says != wants {
			t.Errorf("kill %d: it says\n%s, want\n%s", seed, says, wants)
		}
		if r, f := merged(t, filepath.Join(where, "out")); r != records || f != files {
			t.Errorf("kill %d: other records or files\n%s, want\n%s", seed, f, files)
		}
		done(at(where, "verify", "out"))
		if err := os.RemoveAll(where); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d merges had ended when they were killed; one takes %v", ended, kills, took)
}

// merged returns the digest of a run's records, and lists its other files, without those
// of history.
func merged(t *testing.T, out string) (records, files string) {
	t.Helper()
	records, err := digest.File(os.DirFS(out), record.LinesName)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, pattern := range []string{"*", "candidates/*", "restricted/*", "restricted/*/*/*"} {
		found, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			info, err := os.Lstat(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, _ := filepath.Rel(out, name)
			if rel != record.HistoryName {
				all = append(all, fmt.Sprint(rel, " ", info.Mode()))
			}
		}
	}
	return records, strings.Join(all, "\n")
}
