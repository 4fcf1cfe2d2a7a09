package run

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"

	"securebench/internal/config"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// called is an engine of another name.
type called struct {
	sandbox.Engine
	name, choice string
}

func (c *called) Info() sandbox.Info {
	info := c.Engine.Info()
	info.Name, info.Choice = c.name, c.choice
	return info
}

func (*called) Close() error { return nil }

// starts keeps the first event.
type starts struct{ start progress.RunStart }

func (s *starts) Event(e progress.Event) {
	if start, ok := e.(progress.RunStart); ok {
		s.start = start
	}
}

// TestEngineOfResume: the record and the first event say which engine runs and
// why. A resume asks for that engine, also where auto would take another one now
// and where it is named now; the records stay bound to it.
func TestEngineOfResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	memory, err := b.opts.OpenEngine(t.Context(), config.Sandbox{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	best := "native"
	var asked []config.Sandbox
	b.opts.OpenEngine = func(_ context.Context, cfg config.Sandbox, _ func(string)) (sandbox.Engine, error) {
		asked = append(asked, cfg)
		return &called{memory, cmp.Or(cfg.Former, best), "because"}, nil
	}
	seen := &starts{}
	b.opts.Progress = seen
	b.run(Fresh)
	m, _, err := record.ReadManifest(os.DirFS(b.opts.Config.OutputDir))
	if err != nil {
		t.Fatal(err)
	}
	if name, choice := m.EngineName(); name != "native" || choice != "because" {
		t.Errorf("the record names the engine %s (%s)", name, choice)
	}
	if seen.start.Engine != "native" || seen.start.EngineChoice != "because" {
		t.Errorf("the run started with %+v", seen.start)
	}
	// One attempt is left to do.
	cut(t, filepath.Join(b.opts.Config.OutputDir, "candidates.jsonl"))
	best = "docker"
	b.opts.Config.Sandbox.Engine = "native" // named now, it was auto
	b.reset()
	if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 || b.agents.Load() != 1 {
		t.Errorf("the resume ran %d agents: %+v", b.agents.Load(), sum)
	}
	if asked[0].Former != "" || len(asked) != 2 || asked[1].Former != "native" {
		t.Errorf("asked for %+v", asked)
	}
	b.run(Replace)
	if last := asked[len(asked)-1]; last.Former != "" {
		t.Errorf("a new run asked for the engine %q", last.Former)
	}
}

// cut removes the last line of a file.
func cut(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := len(text) - 2
	for end >= 0 && text[end] != '\n' {
		end--
	}
	if err := os.Truncate(file, int64(end+1)); err != nil {
		t.Fatal(err)
	}
}
