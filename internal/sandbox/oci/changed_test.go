package oci_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"securebench/internal/sandbox/oci"
)

// allowAll is a filter that allows every call.
var allowAll = []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}

// given is the filter that crun is given in a specification.
const given = "run.oci.seccomp_bpf_data"

// TestChangedFilter: a filter that something has changed, whenever it did, is an error at
// the next look, and is given to no sandbox.
func TestChangedFilter(t *testing.T) {
	if _, err := oci.FindRuntime(os.Getenv, "crun"); errors.Is(err, oci.ErrNoRuntime) {
		t.Skip(err) // no other runtime is given filters
	}
	change := func(t *testing.T, p *place, c *container) {
		t.Helper()
		file := filepath.Join(c.call.State, c.call.ID, "seccomp.bpf")
		if err := p.ns.Do(func() error { return os.WriteFile(file, allowAll, 0o600) }); err != nil {
			t.Fatal(err)
		}
	}
	// The error of the last of some starts, each of which is changed or not.
	run := func(t *testing.T, p *place, changed bool, weaken ...func(*specs.Spec)) error {
		t.Helper()
		b := p.box("true")
		c := p.startUnseen(b, weaken...)
		if c.failed != nil {
			t.Fatalf("%v: %s", c.failed, c.stderr.String())
		}
		if changed {
			change(t, p, c)
		}
		err := p.look(b, c)
		c.end(t)
		spec, specErr := p.runtime.Spec(p.box("true"))
		if specErr != nil {
			t.Fatal(specErr)
		}
		if spec.Annotations[given] == base64.StdEncoding.EncodeToString(allowAll) {
			t.Error("the next sandbox gets what was changed")
		}
		return err
	}
	t.Run("of the first", func(t *testing.T) {
		p := newPlace(t, "crun")
		if err := run(t, p, true); err != nil {
			t.Error(err)
		}
		if err := run(t, p, false); !errors.Is(err, oci.ErrFilter) {
			t.Errorf("the second: %v", err)
		}
	})
	t.Run("of the second", func(t *testing.T) {
		p := newPlace(t, "crun")
		if err := run(t, p, false); err != nil {
			t.Error(err)
		}
		if err := run(t, p, true); !errors.Is(err, oci.ErrFilter) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("of the one that is given", func(t *testing.T) {
		p := newPlace(t, "crun")
		if err := errors.Join(run(t, p, false), run(t, p, false)); err != nil || !p.runtime.Knows(p.box("true")) {
			t.Errorf("it is not known: %v", err)
		}
		err := run(t, p, false, func(s *specs.Spec) { s.Annotations[given] = base64.StdEncoding.EncodeToString(allowAll) })
		if !errors.Is(err, oci.ErrFilter) {
			t.Errorf("got %v", err)
		}
		if err := run(t, p, false); err != nil {
			t.Errorf("one that is as it was: %v", err)
		}
	})
}
