package scoring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/workload"
)

// hollow is an engine some of whose images let nothing run.
type hollow struct {
	*sandboxtest.Engine
	broken error // of looking images up
}

func (h *hollow) Image(ctx context.Context, ref string) (sandbox.Image, error) {
	img, err := h.Engine.Image(ctx, ref)
	switch {
	case err == nil && strings.HasPrefix(ref, "hollow"):
		err = sandbox.Unusable(fmt.Errorf("its user is not in /etc/passwd (%s)", ref))
	case h.broken != nil:
		err = h.broken
	}
	return img, err
}

// faulty opens a scorer for a pack whose rows name images and users.
func faulty(t *testing.T, e sandbox.Engine, rows ...string) (*scoring.Scorer, *workload.Workload, []string, error) {
	t.Helper()
	dir := t.TempDir()
	reg := family.NewRegistry(family.Family{Name: "f", NeedsImage: true, NewVerifier: func(family.Resources) family.Verifier { return nil },
		Images: func(v task.SandboxView) []string {
			if v.ID() == "hidden" {
				return []string{"hollow-secret"}
			}
			return nil
		}})
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	for name, text := range map[string]string{loc.Manifest: "id: p\nversion: 1\ndefaults: {family: f}\n", loc.Tasks: strings.Join(rows, "\n") + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workload.Load(t.Context(), loc, reg, workload.All, workload.Demands{Image: func(family.Family, task.Task) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	s, err := scoring.Open(t.Context(), w, func(context.Context, config.Sandbox, func(string)) (sandbox.Engine, error) { return e, nil },
		config.Sandbox{}, true, func(line string) { said = append(said, line) })
	return s, w, said, err
}

// TestImageFaults: an image in which nothing can run, and a user that an image does
// not have, are the faults of the rows that name them. The name of an image that only
// the evaluation has is in a warning and in no message of a record.
func TestImageFaults(t *testing.T) {
	rows := []string{
		`{"id": "good", "environment": {"image": "img", "user": "7:7"}, "input": {}, "eval": {}}`,
		`{"id": "image", "environment": {"image": "hollow"}, "input": {}, "eval": {}}`,
		`{"id": "user", "environment": {"image": "img", "user": "ghost"}, "input": {}, "eval": {}}`,
		`{"id": "hidden", "environment": {"image": "img"}, "input": {}, "eval": {}}`,
	}
	s, w, said, err := faulty(t, &hollow{Engine: sandboxtest.New(sandboxtest.Config{})}, rows...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := map[string]string{"good": "", "image": "nothing can run in image hollow: its user", "user": `environment.user: the image has no user "ghost"`,
		"hidden": "nothing can run in the image that the row's evaluation names"}
	for tk, err := range w.Tasks(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got := s.Fault(t.Context(), w, tk, scoring.Place{Sandboxed: true})
		switch text := want[tk.ID()]; {
		case text == "" && got != nil:
			t.Errorf("%s: %v", tk.ID(), got)
		case text != "" && (!errors.Is(got, sandbox.ErrUnusable) || !strings.HasPrefix(got.Error(), text) || strings.Contains(got.Error(), "secret")):
			t.Errorf("%s: %v, want %q", tk.ID(), got, text)
		}
	}
	if all := strings.Join(said, "\n"); len(said) != 2 || !strings.Contains(all, "hollow-secret") {
		t.Errorf("said %q", said)
	}
	busy := errors.New("the engine is busy")
	if _, _, _, err := faulty(t, &hollow{sandboxtest.New(sandboxtest.Config{}), busy}, rows...); !errors.Is(err, busy) || fault.KindOf(err) != fault.Engine {
		t.Errorf("with a busy engine: %v", err)
	}
}

// TestPlatforms: before anything else, an image for another machine, or for another
// platform than a row asks for, is refused with both sides and what gets the right one.
func TestPlatforms(t *testing.T) {
	images := map[string]sandbox.Image{"own": {ID: "sha256:1", OS: "linux", Arch: "amd64"}, "arm": {ID: "sha256:2", OS: "linux", Arch: "arm64"}, "silent": {ID: "sha256:3"}}
	for name, c := range map[string]struct{ environment, want string }{
		"own":               {`"image": "own"`, ""},
		"own, asked for":    {`"image": "own", "platform": "linux/amd64"`, ""},
		"silent":            {`"image": "silent"`, ""},
		"another":           {`"image": "arm"`, "image arm: it is for linux/arm64, and this machine runs linux/amd64"},
		"asked, is another": {`"image": "own", "platform": "linux/arm64"`, "image own: it is for linux/amd64, and linux/arm64 is asked for (environment.platform at "},
		"asked, not run":    {`"image": "arm", "platform": "linux/arm64"`, "run these rows on such a machine, or register an emulator"},
	} {
		_, _, _, err := faulty(t, sandboxtest.New(sandboxtest.Config{Images: images}), `{"id": "a", "environment": {`+c.environment+`}, "input": {}, "eval": {}}`)
		if (err != nil) != (c.want != "") || err != nil && (fault.KindOf(err) != fault.Engine || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
