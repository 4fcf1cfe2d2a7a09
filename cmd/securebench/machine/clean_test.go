package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
)

// leftPlace is a place in which names are left. "stuck" cannot be removed.
func leftPlace(names ...string) (place, *[]string) {
	var removed []string
	return place{Name: "docker",
		Find: func(context.Context) (out []sandbox.Leftover, err error) {
			for _, n := range names {
				out = append(out, sandbox.Leftover{Kind: "container", Name: n, Size: 1 << 20})
			}
			return out, nil
		},
		Remove: func(_ context.Context, l sandbox.Leftover) error {
			if l.Name == "stuck" {
				return errors.New("it is\nstuck")
			}
			removed = append(removed, l.Name)
			return nil
		},
	}, &removed
}

// TestClean: nothing is removed without --yes or a person's answer; then
// everything is that can be, and the rest is an error.
func TestClean(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left    []string
		flags   cleaning
		removed int
		kind    fault.Kind
		out     string
	}{
		"nothing left":   {nil, cleaning{}, 0, "", "nothing is left\n"},
		"listed alone":   {[]string{"a\x1b"}, cleaning{}, 0, "", "docker  container  1 MiB  a\\x1b\n"},
		"removed":        {[]string{"a", "b"}, cleaning{yes: true}, 2, "", "removed 2 objects, 2 MiB\n"},
		"some cannot be": {[]string{"stuck", "b"}, cleaning{yes: true}, 1, fault.Engine, "removed 1 object, 1 MiB\n"},
		"JSON removes nothing": {[]string{"a"}, cleaning{json: true}, 0, "",
			`{"where":"docker","kind":"container","name":"a","bytes":1048576,"removed":false}` + "\n"},
		"JSON": {[]string{"a", "stuck"}, cleaning{json: true, yes: true}, 1, fault.Engine,
			`"removed":true}` + "\n" + `{"where":"docker","kind":"container","name":"stuck","bytes":1048576,"removed":false,"error":"it is\nstuck"}` + "\n"},
		"JSON, nothing left": {nil, cleaning{json: true}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where, removed := leftPlace(c.left...)
			var out strings.Builder
			g := group{&subcommand.Shell{Stdout: &out, Stderr: io.Discard, Say: func(string, ...any) {}}}
			err := g.cleanPlaces(t.Context(), []place{where}, c.flags, strings.NewReader("y\n"))
			if (err != nil) != (c.kind != "") || err != nil && fault.KindOf(err) != c.kind {
				t.Errorf("error %v, want kind %q", err, c.kind)
			}
			if len(*removed) != c.removed || !strings.HasSuffix(out.String(), c.out) {
				t.Errorf("removed %q and printed %q, want %d and %q", *removed, out.String(), c.removed, c.out)
			}
		})
	}
}

// TestCleanAfterAnError: a place that cannot be looked at is an error, but no
// reason to leave the others.
func TestCleanAfterAnError(t *testing.T) {
	t.Parallel()
	where, removed := leftPlace("a")
	broken := place{Name: "native", Find: func(context.Context) ([]sandbox.Leftover, error) { return nil, errors.New("no answer") }}
	var out strings.Builder
	g := group{&subcommand.Shell{Stdout: &out, Stderr: io.Discard, Say: func(string, ...any) {}}}
	err := g.cleanPlaces(t.Context(), []place{broken, where}, cleaning{yes: true}, nil)
	if fault.KindOf(err) != fault.Engine || len(*removed) != 1 {
		t.Errorf("removed %q, error %v", *removed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.cleanPlaces(ctx, []place{where}, cleaning{yes: true}, nil); fault.KindOf(err) != fault.Interrupted || len(*removed) != 1 {
		t.Errorf("after an interrupt: %v, %s", err, fmt.Sprint(*removed))
	}
}
