package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestShardsEqual runs packs on their own solutions in one process, and merged from 3 and
// from 7 shards. The records are equal in all but times and what the run's salt makes, and
// the verdicts are derived again from the merged run.
func TestShardsEqual(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, pack := range []string{"demo", "humaneval-sample"} {
		t.Run(pack, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.Abs(filepath.Join("..", "..", "packs", pack))
			if err != nil {
				t.Fatal(err)
			}
			run := func(out string, flags ...string) string {
				t.Helper()
				args := append([]string{"run", dir, "--agent", "oracle", "-o", out, "-q"}, flags...)
				res := securebench(t, nil, args...)
				if res.code != exitDone {
					t.Fatalf("%v: exit %d\n%s%s", flags, res.code, res.stdout, res.stderr)
				}
				return res.stdout
			}
			whole := filepath.Join(t.TempDir(), "whole")
			run(whole)
			want := untimed(t, whole)
			for _, n := range []int{3, 7} {
				out := filepath.Join(t.TempDir(), "out")
				run(out, "--prepare", strconv.Itoa(n))
				for i := range n {
					run(out, "--shard", strconv.Itoa(i))
				}
				for _, args := range [][]string{{"merge", out}, {"verify", out}, {"reverify", out, "--pack", dir, "--sample=7"}} {
					if res := securebench(t, nil, args...); res.code != exitDone {
						t.Fatalf("%v: exit %d\n%s%s", args, res.code, res.stdout, res.stderr)
					}
				}
				got := untimed(t, out)
				if !maps.Equal(got, want) {
					t.Errorf("merged from %d shards, %d records differ from those of one process, for example:\n%s", n, len(got), differing(got, want))
				}
			}
		})
	}
}

func differing(got, want map[string]string) string {
	for key, text := range want {
		if got[key] != text {
			return text + "\n" + got[key]
		}
	}
	return "one more"
}

// untimed reads the records of a run without times, places in the chain, and keyed
// digests.
func untimed(t *testing.T, out string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"timings_ms", "prev", "seq", "mac"} {
			delete(r, name)
		}
		for _, name := range []string{"pack", "assets", "row"} {
			delete(r["digests"].(map[string]any), name)
		}
		for _, f := range r["restricted"].([]any) {
			delete(f.(map[string]any), "digest")
		}
		rest, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprintf("%v/%v", r["index"], r["attempt"])] = string(rest)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no records", out)
	}
	return all
}
