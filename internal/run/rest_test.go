package run

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent/kinds"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// alone takes away all that an agent needs: key, registry, cache, and the provider.
func (a *agents) alone() {
	a.t.Helper()
	a.env = map[string]string{"SECUREBENCH_AGENT_CACHE": filepath.Join(a.t.TempDir(), "empty"), "npm_config_registry": "http://127.0.0.1:1",
		"npm_config_globalconfig": "/dev/null", "npm_config_userconfig": "/dev/null"}
	a.npm.Close()
	a.upstream.Close()
}

// TestRestWithoutAgent: what is left of a run after its agents have ended needs
// neither their program, nor their provider or its key. Another agent does.
func TestRestWithoutAgent(t *testing.T) {
	for name, model := range map[string]string{"codex": "gpt-1", "claude_code": "sonnet"} {
		t.Run(name, func(t *testing.T) {
			a := newAgents(t, name, "model: "+model)
			a.programs["/opt/securebench/claude-code/bin/claude"] = a.program("/v1/messages", "claude-sonnet-1")
			a.broken.Store(true) // so that the verification is left
			if sum, _ := a.run(Fresh); sum.Infrastructure != 6 || a.agents.Load() != 6 {
				t.Fatalf("%+v", sum)
			}
			was := a.manifest()
			a.broken.Store(false)
			a.alone()
			for range 2 { // there is less left each time
				if sum, _ := a.run(Resume); sum.Of(verdict.Computed).Passed != 6 || a.agents.Load() != 6 {
					t.Fatalf("%+v after %d agents", sum, a.agents.Load())
				}
			}
			if m := a.manifest(); m.Model != was.Model || len(m.Programs) != 1 || m.Programs[0] != was.Programs[0] || m.Digests.Config != was.Digests.Config {
				t.Errorf("the manifest changed from %+v to %+v", was, m)
			}
			if err := os.RemoveAll(filepath.Join(a.opts.Config.OutputDir, record.CandidatesName)); err != nil {
				t.Fatal(err)
			}
			if err := a.open(Resume); fault.KindOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "the provider cannot be reached") {
				t.Errorf("a lost candidate: %v", err)
			}
		})
	}
}

// TestUnreachableProvider: a provider at a wrong address ends the run before its
// first task, and before anything is fetched or made.
func TestUnreachableProvider(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	a := newAgents(t, "codex", "model: gpt-1")
	node, err := source.ParseYAML("tester.yaml", []byte("model: gpt-1\nbase_url: http://"+nobody+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Harness{Type: "codex", Config: node}
	h, problems := kinds.Configured(cfg)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	a.opts.Config.Harness, a.opts.Agent = cfg, h
	err = a.open(Fresh)
	want := "tester.yaml:2:11: the provider cannot be reached at " + nobody + ": connection refused"
	if fault.KindOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want %q", err, want)
	}
	if entries, err := os.ReadDir(a.env["SECUREBENCH_AGENT_CACHE"]); err == nil && len(entries) > 0 {
		t.Error("a program was fetched")
	}
	if _, err := os.Stat(filepath.Join(a.opts.Config.OutputDir, record.ManifestName)); !os.IsNotExist(err) {
		t.Errorf("a run was begun: %v", err)
	}
}
