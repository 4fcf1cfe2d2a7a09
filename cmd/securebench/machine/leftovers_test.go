package machine

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
)

// messy is an engine on which dead processes left something.
type messy struct {
	*sandboxtest.Engine
	left []sandbox.Leftover
}

func (m *messy) Left(context.Context) ([]sandbox.Leftover, error) { return m.left, nil }

func (m *messy) RemoveLeft(_ context.Context, l sandbox.Leftover) error {
	if l.Name == "stuck" {
		return errors.New("it is stuck")
	}
	m.left = slices.DeleteFunc(m.left, func(o sandbox.Leftover) bool { return o == l })
	return nil
}

func newMessy(t *testing.T, keys ...string) *messy {
	t.Helper()
	m := &messy{Engine: sandboxtest.New(sandboxtest.Config{}), left: []sandbox.Leftover{{Kind: "container", Name: "a", Size: 5}, {Kind: "volume", Name: "stuck"}}}
	t.Cleanup(func() { _ = m.Close() })
	for _, key := range keys {
		fill := func(w io.Writer) error { return tar.NewWriter(w).Close() }
		if _, err := m.Overlay(t.Context(), sandbox.OverlaySpec{Key: key}, fill); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestCleaning: what is found is removed; what fails says why and stays, and so
// does the program that the cache has.
func TestCleaning(t *testing.T) {
	m := newMessy(t, "cached", "old")
	places := []place{
		{Name: "broken", Find: func(context.Context) ([]sandbox.Leftover, error) { return nil, errors.New("no answer") }},
		onEngine("memory", m, func() (map[string]bool, error) { return map[string]bool{"cached": true}, nil }),
	}
	items, err := findLeft(t.Context(), places)
	if err == nil || len(items) != 3 {
		t.Fatalf("found %+v, %v", items, err)
	}
	removed, err := removeLeft(t.Context(), places, items)
	if err != nil || len(removed) != 3 || removed[0].Err != nil || removed[1].Err == nil || removed[2].Err != nil {
		t.Errorf("removed %+v, %v", removed, err)
	}
	left, err := m.Overlays(t.Context())
	if err != nil || len(left) != 1 || left[0].Key != "cached" || len(m.left) != 1 {
		t.Errorf("left %v and %v, %v", m.left, left, err)
	}
}

// TestUnreadableCache: where the cache cannot be read, no program is taken for
// unneeded; without a look at the cache, none is listed.
func TestUnreadableCache(t *testing.T) {
	m := newMessy(t, "old")
	unreadable := func() (map[string]bool, error) { return nil, errors.New("unreadable") }
	items, err := findLeft(t.Context(), []place{onEngine("memory", m, unreadable)})
	if err == nil || len(items) != 2 {
		t.Errorf("found %+v, %v", items, err)
	}
	items, err = findLeft(t.Context(), []place{onEngine("memory", m, nil)})
	if err != nil || len(items) != 2 {
		t.Errorf("found %+v, %v", items, err)
	}
}

// TestEngineThatSaysNothing: an engine that cannot list what was left has nothing.
func TestEngineThatSaysNothing(t *testing.T) {
	e := sandboxtest.New(sandboxtest.Config{})
	items, err := findLeft(t.Context(), []place{onEngine("memory", e, nil)})
	if err != nil || len(items) != 0 {
		t.Errorf("found %+v, %v", items, err)
	}
}

// TestInterrupted: nothing is removed after the end of the context.
func TestInterrupted(t *testing.T) {
	m := newMessy(t)
	places := []place{onEngine("memory", m, nil)}
	items, _ := findLeft(t.Context(), places)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if removed, err := removeLeft(ctx, places, items); err == nil || len(removed) != 0 || len(m.left) != 2 {
		t.Errorf("removed %+v, %v", removed, err)
	}
}
