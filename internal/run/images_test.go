package run

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestImagesOfVerifiers: run.json binds the image that a row's evaluation inputs
// name without its reference, unless that is public elsewhere; a resume runs
// again what was verified in another one.
func TestImagesOfVerifiers(t *testing.T) {
	b := newBench(t)
	images := map[string]sandbox.Image{"img": {ID: digest.Bytes([]byte("img"))}, "secret:1": {ID: digest.Bytes([]byte("one"))}}
	memory := sandboxtest.New(sandboxtest.Config{Images: images, Programs: map[string]sandboxtest.Program{
		"agent": func(_ context.Context, p *sandboxtest.Process) int {
			fmt.Fprintln(p.Stdout, "4")
			return 0
		},
	}})
	b.opts.OpenEngine = func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) { return memory, nil }
	for name, fam := range b.opts.Families {
		fam.NeedsImage = true
		fam.Images = func(v task.SandboxView) []string {
			if v.ID() == "t0" {
				return []string{"secret:1", "img"}
			}
			return nil
		}
		b.opts.Families[name] = fam
	}
	if sum, _ := b.run(Fresh); sum.Of(verdict.Computed).Passed != 6 {
		t.Fatalf("%+v", sum)
	}
	read := func() record.Manifest {
		t.Helper()
		m, raw, err := record.ReadManifest(os.DirFS(b.opts.Config.OutputDir))
		if err != nil || strings.Contains(string(raw), "secret") || len(m.Images) != 2 || m.Images["img"] != images["img"].ID {
			t.Fatalf("%s, %v", raw, err)
		}
		return m
	}
	bound := func(m record.Manifest, id string) {
		t.Helper()
		for name, got := range m.Images {
			if name != "img" && got != id {
				t.Errorf("image %s is %s, want %s", name, got, id)
			}
		}
	}
	bound(read(), images["secret:1"].ID)
	images["secret:1"] = sandbox.Image{ID: digest.Bytes([]byte("two"))}
	b.opts.Mode = Resume
	if _, err := Open(t.Context(), b.opts); err == nil || !strings.Contains(err.Error(), "secret:1") {
		t.Errorf("a resume with another image: %v", err)
	}
	b.reset()
	if sum, _ := b.run(ResumeChanged); sum.Of(verdict.Computed).Passed != 6 {
		t.Fatalf("%+v", sum)
	}
	m := read()
	bound(m, images["secret:1"].ID)
	if got := m.ResumedFrom[0]; got.Kept != 4 || got.Rerun[record.InputsChanged] != 2 {
		t.Errorf("the resume: %+v", got)
	}
}
