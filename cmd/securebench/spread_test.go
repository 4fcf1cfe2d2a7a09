package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/pipeline/record"
)

// TestSpread runs packs in one process, merged from 3 and from 7 shards, and by three
// workers of a hub. The records are equal in all but times, workers and what the run's
// salt makes, and the verdicts are derived again. With SECUREBENCH_TEST_FLEET there are
// two more packs, and each is also run with no candidates.
func TestSpread(t *testing.T) {
	t.Parallel()
	needEngine(t)
	packs, agents := []string{"demo", "humaneval-sample"}, []string{"oracle"}
	if os.Getenv("SECUREBENCH_TEST_FLEET") != "" {
		packs, agents = append(packs, "quixbugs", "terminal-bench-sample"), append(agents, "null")
	}
	for _, name := range packs {
		dir, err := filepath.Abs(filepath.Join("..", "..", "packs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range agents {
			t.Run(name+" "+agent, func(t *testing.T) {
				t.Parallel()
				programs := name == "terminal-bench-sample" && agent == "oracle"
				s := spread{newMachines(t), dir, agent, programs}
				if _, err := os.Stat(filepath.Join(dir, "images")); err == nil {
					s.must("pack", "build", dir)
				}
				whole := filepath.Join(t.TempDir(), "whole")
				s.run(whole)
				want := s.found(whole)
				for _, n := range []int{3, 7} {
					s.check(s.shards(n), want)
				}
				if !programs { // which a hub refuses
					s.check(s.workers(), want)
				}
			})
		}
	}
}

// spread is a pack that an agent runs on, in several ways.
type spread struct {
	*machines
	pack, agent string
	programs    bool // its candidates are made by programs, which make new keys and start servers
}

// found reads the records of a run, without what a program never makes twice.
func (s spread) found(out string) map[string]map[string]any {
	s.Helper()
	all := found(s.T, out)
	for _, r := range all {
		if s.programs {
			for _, key := range []string{"candidate_workspace", "producer_stdout", "producer_stderr", "restricted"} {
				delete(r, key)
			}
			delete(r["digests"].(map[string]any), "candidate")
		}
	}
	return all
}

// run runs the pack.
func (s spread) run(out string, flags ...string) {
	s.Helper()
	s.must(append([]string{"run", s.pack, "--agent", s.agent, "-o", out, "-q"}, flags...)...)
}

// shards merges a run from shards.
func (s spread) shards(n int) (out string) {
	s.Helper()
	out = filepath.Join(s.TempDir(), strconv.Itoa(n)+"-shards")
	s.run(out, "--prepare", strconv.Itoa(n))
	for i := range n {
		s.run(out, "--shard", strconv.Itoa(i))
	}
	s.must("merge", out)
	return out
}

// workers lets three workers of a hub make a run.
func (s spread) workers() (out string) {
	s.Helper()
	out = filepath.Join(s.TempDir(), "workers")
	credentials := s.invite("both", "produce,verify")
	run, addr := s.machines.run(s.pack, "--agent", s.agent, "-o", out)
	var all []*member
	for range 3 {
		all = append(all, s.start("worker", "--hub", addr, "--credentials", credentials, "--stay"))
	}
	s.ends(run, exitDone)
	for _, w := range all {
		if err := w.Process.Signal(os.Interrupt); err != nil {
			s.Fatal(err)
		}
		s.ends(w, exitDrained)
	}
	if m := readManifest(s.T, out); len(m.Workers) == 0 || !slices.Contains(m.Labels, record.OneTrustZone) {
		s.Errorf("run.json: %+v, %s", m.Workers, m.Labels)
	}
	return out
}

// check fails unless a run has these records, and its verdicts are derived again.
func (s spread) check(out string, want map[string]map[string]any) {
	s.Helper()
	if d := cmp.Diff(want, s.found(out)); d != "" {
		s.Errorf("%s: records (-one process +it):\n%s", filepath.Base(out), d)
	}
	s.must("verify", out)
	if res := s.must("reverify", out, "--pack", s.pack, "--sample=7"); !strings.Contains(res.stdout, " 0 different") {
		s.Errorf("%s, derived again: %s", filepath.Base(out), res.stdout)
	}
}
