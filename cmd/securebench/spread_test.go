package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/pipeline/record"
	"securebench/internal/sampletest"
)

// TestSpread runs packs in one process, merged from shards, 3 of one pack and 7 of another,
// and by three workers of a hub. The records are equal in all but times, workers and what the run's
// salt makes, and the verdicts are derived again. One pack is also run by an agent with
// files of its own. With SECUREBENCH_TEST_FLEET there are two more packs, each in both
// divisions, and each is also run with no candidates.
func TestSpread(t *testing.T) {
	t.Parallel()
	sampletest.Nightly(t, "TestHub compares workers with one machine, and shards have tests of their own; make fleet-test runs it")
	needEngine(t)
	packs, agents := []string{"demo", "humaneval-sample"}, []string{"oracle"}
	divisions := map[string][]int{"demo": {7}, "humaneval-sample": {3}}
	if os.Getenv("SECUREBENCH_TEST_FLEET") != "" {
		packs, agents = append(packs, "quixbugs", "terminal-bench-sample"), append(agents, "null")
		for _, name := range packs {
			divisions[name] = []int{3, 7}
		}
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
				s := spread{newMachines(t), dir, []string{dir, "--agent", agent}, programs}
				if _, err := os.Stat(filepath.Join(dir, "images")); err == nil {
					s.must("pack", "build", dir)
				}
				s.compare(divisions[name]...)
			})
		}
	}
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		dir, err := filepath.Abs(filepath.Join("..", "..", "packs", packs[0]))
		if err != nil {
			t.Fatal(err)
		}
		for id, r := range (spread{newMachines(t), dir, []string{"--config", filesAgent(t, dir)}, false}).compare(3) {
			if said := fmt.Sprint(r["producer_stdout"], r["producer_stderr"]); !strings.Contains(said, "Answer: B") || !strings.Contains(said, "0 644 data/answer") {
				t.Errorf("%s: the agent said %s", id, said)
			}
		}
	})
}

// filesAgent writes the tester YAML of an agent that answers with what its files say, and
// lists them.
func filesAgent(t *testing.T, pack string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "agent", "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "agent", "data", "answer"), "Answer: B\n")
	write(t, filepath.Join(dir, "agent", "work"), "#!/bin/sh\ncd \"${0%/*}\" && cat data/answer && find . | sort >&2 && stat -c '%u %a %n' data/* >&2\n")
	if err := os.Chmod(filepath.Join(dir, "agent", "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	tester := filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf("schema_version: \"0.2\"\nrun: {id: %q, output_dir: out}\nbenchmark: {manifest: %q, tasks: %q}\n"+
		"harness:\n  type: command\n  config: {files: agent, command: [/opt/securebench/agent/work]}\n", ownRun("files"), filepath.Join(pack, "manifest.yaml"), filepath.Join(pack, "tasks.jsonl")))
	return tester
}

// spread is a pack that an agent runs on, in several ways.
type spread struct {
	*machines
	pack     string
	args     []string // of run, about what it runs
	programs bool     // its candidates are made by programs, which make new keys and start servers
}

// compare makes the run in each way, with so many shards, and returns the records.
func (s spread) compare(shards ...int) (want map[string]map[string]any) {
	s.Helper()
	whole := filepath.Join(s.TempDir(), "whole")
	s.run(whole)
	want = s.found(whole)
	for _, n := range shards {
		s.check(s.shards(n), want)
	}
	s.check(s.workers(), want)
	return want
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
	s.must(slices.Concat([]string{"run"}, s.args, []string{"-o", out, "-q"}, flags)...)
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
	run, addr := s.machines.run(append(slices.Clone(s.args), "-o", out)...)
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
