package native_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/oci"
)

// TestChangedFilter: a sandbox whose filter of system calls is not that of those before
// has no outcome, and does not run on.
func TestChangedFilter(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "changed")
	e := withRuntime(t, `"$RUNTIME" "$@" || exit
for id; do :; done # the last
if [ ! -e `+mark+` ]; then
	printf '\006\000\000\000\000\000\377\177' > "$2/$id/seccomp.bpf" && touch `+mark+`
fi`)
	if e.Info().Runtime != "crun" {
		t.Skip("no other runtime is given filters")
	}
	img := enginetest.Image(t, e)
	works(t, e)
	b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"sleep", "600"}, Limits: sandbox.Limits{Timeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	before := zombies(t)
	if out, err := b.Run(t.Context(), sandbox.Streams{}); !errors.Is(err, oci.ErrFilter) {
		t.Errorf("got %+v, %v", out, err)
	}
	if pids, err := native.GroupOf(b).Processes(); err != nil || len(pids) > 0 {
		t.Errorf("it runs on: %v, %v", pids, err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if after := zombies(t); slices.ContainsFunc(after, func(z string) bool { return !slices.Contains(before, z) }) {
		t.Errorf("processes are left: %q, %q before", after, before)
	}
	diffOwned(t, e)
}
