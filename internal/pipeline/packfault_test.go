package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/checkout"
	"securebench/internal/digest"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestChangedAssetIsThePacksFault: an asset that changed after loading makes
// the attempt a pack fault, without retries; no agent sees it, it is not an
// infrastructure error, and other tasks continue. In the weak set-up, without
// the digests, the agent gets the changed asset.
func TestChangedAssetIsThePacksFault(t *testing.T) {
	for name, weak := range map[string]bool{"ours": false, "without digests": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			dir := t.TempDir()
			outside := filepath.Join(t.TempDir(), "outside")
			if err := os.WriteFile(outside, []byte("one"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(outside, filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			harness, ok := b.cfg.Agent.(*agent.Harness)
			if !ok {
				t.Fatalf("the bench's agent is a %T", b.cfg.Agent)
			}
			harness.Producer.Assets, harness.Expect = root, map[string]string{"a": digest.Bytes([]byte("one"))}
			if weak {
				harness.Expect = nil
			}
			b.cfg.Retries = 2
			if err := os.WriteFile(outside, []byte("EVIL"), 0o644); err != nil {
				t.Fatal(err)
			}
			sum, err := b.run(t.Context(), withAsset(t, "uses it"), question(t, "does not", "4", `"4"`))
			if err != nil {
				t.Fatal(err)
			}
			if weak {
				if sum.Of(verdict.Computed).Passed != 2 {
					t.Errorf("without digests, %+v", sum)
				}
				return
			}
			if sum.Of(verdict.Computed).Passed != 1 || sum.Of(verdict.Computed).Pending != 1 || sum.PackFaults != 1 || sum.Infrastructure != 0 || b.events.count("retry") != 0 {
				t.Errorf("%+v, %d retries", sum, b.events.count("retry"))
			}
			for _, line := range b.lines() {
				if line["task_id"] != "uses it" {
					continue
				}
				message, _ := line["failure_message"].(string)
				if line["outcome"] != "pending" || line["failure_reason"] != "pack" || line["failure_phase"] != "prepare" ||
					!strings.Contains(message, "the pack's files changed since it was loaded: a") {
					t.Errorf("%v", line)
				}
			}
			if n := b.engine.Left(); n != 0 {
				t.Errorf("%d boxes and workspaces are left", n)
			}
		})
	}
}

// withAsset makes a task whose workspace holds the asset "a".
func withAsset(t *testing.T, id string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: id, Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1},
		Environment: task.Environment{Image: "img"}, Row: []byte(id), Assets: []task.Asset{{Path: "a", Mount: "a"}},
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: []byte(`"4"`)},
			{Name: "accepted_answers", Lane: task.Hidden, Value: []byte(`["4"]`)}}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// TestUnusableCheckoutIsThePacksFault: what the image of a row is to blame for
// ends the attempt at once; any other error of the same step is tried again.
func TestUnusableCheckoutIsThePacksFault(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		faults int
		passed int
		tries  int
	}{
		"the image's fault":  {fmt.Errorf("HEAD is another commit: %w", checkout.ErrUnusable), 1, 1, 0},
		"the engine's fault": {errors.New("HEAD is another commit"), 0, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			b.cfg.Retries = 2
			b.engine.FailOpen(1, test.err)
			sum, err := b.run(t.Context(), question(t, "one", "4", `"4"`), question(t, "two", "4", `"4"`))
			if err != nil {
				t.Fatal(err)
			}
			if sum.PackFaults != test.faults || sum.Of(verdict.Computed).Passed != test.passed || sum.Infrastructure != 0 || b.events.count("retry") != test.tries {
				t.Errorf("%+v, %d retries", sum, b.events.count("retry"))
			}
			for _, line := range b.lines() {
				if line["status"] == "pending" && (line["failure_reason"] != "pack" || line["score"] != nil) {
					t.Errorf("%v", line)
				}
			}
			if n := b.engine.Left(); n != 0 {
				t.Errorf("%d boxes and workspaces are left", n)
			}
		})
	}
}

// TestRowFault: a row that cannot be run in its image is pending at once, its agent
// does not run, and the others go on; an engine that does not say is asked again. What
// an agent does to its own sandbox is no such fault.
func TestRowFault(t *testing.T) {
	for name, test := range map[string]struct {
		err         error
		faults, try int
	}{
		"the image's fault":  {sandbox.Unusable(errors.New("the image has a file at /app")), 1, 0},
		"the engine's fault": {errors.New("the engine is busy"), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			b.cfg.Retries = 2
			asked := 0
			b.cfg.Fault = func(_ context.Context, tk task.Task) error {
				if tk.ID() != "one" {
					return nil
				}
				if asked++; asked > 1 && test.faults == 0 {
					return nil
				}
				return test.err
			}
			sum, err := b.run(t.Context(), question(t, "one", "4", `"4"`), question(t, "two", "4", `"4"`))
			if err != nil {
				t.Fatal(err)
			}
			if sum.PackFaults != test.faults || sum.Of(verdict.Computed).Passed != 2-test.faults || sum.Infrastructure != 0 || b.events.count("retry") != test.try {
				t.Errorf("%+v, %d retries", sum, b.events.count("retry"))
			}
			for _, line := range b.lines() {
				if line["status"] == "pending" && (line["failure_reason"] != "pack" || line["failure_phase"] != "prepare" || line["failure_message"] != "the image has a file at /app") {
					t.Errorf("%v", line)
				}
			}
			if n := b.engine.Left(); n != 0 {
				t.Errorf("%d boxes and workspaces are left", n)
			}
		})
	}
}
