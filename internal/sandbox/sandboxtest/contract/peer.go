package contract

import (
	"context"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

// peer checks that a box reaches the loopback of its peer, and nothing else of
// it; and that without a peer it does not reach that either.
func (s *suite) peer(t *testing.T) {
	service := s.open(t, s.python(probeService))
	ready, ended := newSignal(), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := service.Run(ctx, sandbox.Streams{Stdout: ready})
		ended <- err
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-ready.c:
	case err := <-ended:
		ended <- err
		t.Fatalf("the service ended: %v", err)
	}
	for want, peer := range map[string]sandbox.Box{"hello\nhello\n": service, "nothing\nnothing\n": nil} {
		spec := s.python(probePeer)
		spec.Peer = peer
		if got := s.run(t, spec); got.stdout != want || got.ExitCode != 0 {
			t.Errorf("got %+v, %q, %q, want %q", got.Outcome, got.stdout, got.stderr, want)
		}
	}
}

// readAll checks that a workspace can be read whole where that is asked for, but
// not changed with more than its owner's rights.
func (s *suite) readAll(t *testing.T) {
	for name, c := range map[string]struct {
		owner sandbox.User
		all   bool
	}{
		"another's": {sandbox.Nobody, true}, "root's": {sandbox.User{}, true},
		"another's, without": {sandbox.Nobody, false}, "root's, without": {sandbox.User{}, false},
	} {
		parallel(t, name, func(t *testing.T) {
			w := s.make(t, sandbox.WorkspaceSpec{Labels: sandbox.Labels{Run: "suite"},
				Owner: c.owner, Disk: 1 << 20, ReadAll: c.all})
			put(t, w, plain("mine", "y", 0o600))
			spec := s.python(probeClosed)
			spec.User, spec.Capabilities = &sandbox.User{}, []sandbox.Capability{sandbox.Chown, sandbox.DACOverride}
			spec.Mounts = []sandbox.Mount{{Workspace: w, Target: "/workspace"}}
			if got := s.run(t, spec); got.ExitCode != 0 {
				t.Fatalf("got %+v\n%s", got.Outcome, got.stderr)
			}
			want := []string{"0 600 mine y", "5 700 shut/", "0 600 shut/f x"}
			got := tree(t, w, ".")
			if slices.Equal(got, want) != c.all || !c.all && strings.Contains(strings.Join(got, "\n"), "shut/f") {
				t.Errorf("got %q", got)
			}
			if err := w.Put(t.Context(), archive(t, plain("shut/new", "x", 0o644))); err == nil {
				t.Error("a folder of another user's was changed")
			}
			if u, err := w.Usage(t.Context()); err != nil || u.Root != c.owner {
				t.Errorf("the root belongs to %v, %v", u.Root, err)
			}
		})
	}
}
