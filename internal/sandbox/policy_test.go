package sandbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/sandbox/sandboxtest/contract"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name        string
		allow, deny []string
		command     []string
		reason      string
	}{
		{"no lists", nil, nil, []string{"rm", "-rf"}, sandbox.ReasonAllowed},
		{"denied", nil, []string{"rm"}, []string{"rm"}, sandbox.ReasonDenied},
		{"deny wins", []string{"rm"}, []string{"rm"}, []string{"rm"}, sandbox.ReasonDenied},
		{"all denied", []string{"rm"}, []string{"*"}, []string{"rm"}, sandbox.ReasonDenied},
		{"allowed", []string{"ls", "rm"}, nil, []string{"rm"}, sandbox.ReasonAllowed},
		{"not allowed", []string{"ls"}, nil, []string{"rm"}, sandbox.ReasonNotAllowed},
		{"a star allows no more than itself", []string{"*"}, nil, []string{"rm"}, sandbox.ReasonNotAllowed},
		{"no basename", nil, []string{"rm"}, []string{"/bin/rm"}, sandbox.ReasonAllowed},
		{"case counts", nil, []string{"rm"}, []string{"RM"}, sandbox.ReasonAllowed},
		{"a shell hides", nil, []string{"rm"}, []string{"sh", "-c", "rm"}, sandbox.ReasonAllowed},
		{"no command", []string{"ls"}, nil, nil, sandbox.ReasonNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := sandbox.Policy{Allow: c.allow, Deny: c.deny}.Decide(c.command)
			if d.Reason != c.reason || d.Allowed != (c.reason == sandbox.ReasonAllowed) {
				t.Errorf("got %+v, want %q", d, c.reason)
			}
		})
	}
}

func TestDecideProperties(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c", "*"})
	rapid.Check(t, func(t *rapid.T) {
		p := sandbox.Policy{Allow: rapid.SliceOf(word).Draw(t, "allow"), Deny: rapid.SliceOf(word).Draw(t, "deny")}
		command := rapid.SliceOfN(word, 1, 3).Draw(t, "command")
		d := p.Decide(command)
		want := !slices.Contains(p.Deny, command[0]) && !slices.Contains(p.Deny, "*") &&
			(len(p.Allow) == 0 || slices.Contains(p.Allow, command[0]))
		if d.Allowed != want || d.Name != command[0] {
			t.Fatalf("%+v decides %+v", p, d)
		}
	})
}

func TestPolicyEngine(t *testing.T) {
	inner := sandboxtest.New(sandboxtest.Config{})
	e := sandbox.WithPolicy(inner, sandbox.Policy{Deny: []string{"curl"}})
	img, err := e.Image(t.Context(), "image")
	if err != nil {
		t.Fatal(err)
	}
	open := func(task string, attempt int, command ...string) error {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: command,
			Labels: sandbox.Labels{Task: task, Attempt: attempt}})
		if err != nil {
			return err
		}
		return b.Close(context.Background())
	}
	if err := open("t", 1, "ls"); err != nil {
		t.Errorf("ls: %v", err)
	}
	blocked := open("t", 1, "curl", "http://x")
	var pe *sandbox.PolicyError
	if !errors.As(blocked, &pe) || pe.Decision.Name != "curl" {
		t.Errorf("curl: got %v, want a PolicyError", blocked)
	}
	if n := len(inner.Specs()); n != 1 {
		t.Errorf("%d sandboxes were made, want 1", n)
	}
	for range 100 {
		if err := open("other", 1, "ls"); err != nil {
			t.Fatal(err)
		}
	}
	want := sandbox.Audit{Allowed: 1, Denied: 1, Decisions: []sandbox.Decision{
		{Command: []string{"ls"}, Name: "ls", Allowed: true, Reason: sandbox.ReasonAllowed},
		{Command: []string{"curl", "http://x"}, Name: "curl", Reason: sandbox.ReasonDenied},
	}}
	if d := cmp.Diff(want, e.Take("t", 1)); d != "" {
		t.Errorf("audit (-want +got):\n%s", d)
	}
	if a := e.Take("t", 1); a.Allowed+a.Denied+len(a.Decisions) != 0 {
		t.Errorf("a taken audit is still there: %+v", a)
	}
	if a := e.Take("other", 1); a.Allowed != 100 || len(a.Decisions) != 64 {
		t.Errorf("got %d allowed and %d decisions", a.Allowed, len(a.Decisions))
	}
}

// TestPolicyKeepsContract runs the engine's contract through the decorator.
func TestPolicyKeepsContract(t *testing.T) {
	inner := sandboxtest.New(sandboxtest.Config{Programs: contract.Programs(), Images: map[string]sandbox.Image{}, Root: contract.Root()})
	contract.Suite(t, sandbox.WithPolicy(inner, sandbox.Policy{}), contract.Caps{Image: sandbox.Image{ID: "sha256:test"}})
}

// TestPolicyAdmits: the commands of a sandbox with an init are counted and refused
// when they are admitted, and its init is no command.
func TestPolicyAdmits(t *testing.T) {
	e := sandbox.WithPolicy(nowhere{}, sandbox.Policy{Allow: []string{"python3"}})
	labels := sandbox.Labels{Task: "t", Attempt: 1}
	if _, err := e.Open(t.Context(), sandbox.Spec{Labels: labels, Init: true}); !errors.Is(err, errNowhere) {
		t.Errorf("an init is refused: %v", err)
	}
	if err := e.Admit(labels, []string{"python3", "x"}); err != nil {
		t.Error(err)
	}
	var refused *sandbox.PolicyError
	if err := e.Admit(labels, []string{"rm"}); !errors.As(err, &refused) {
		t.Errorf("rm is admitted: %v", err)
	}
	if a := e.Take("t", 1); a.Allowed != 1 || a.Denied != 1 {
		t.Errorf("audit %+v", a)
	}
}

var errNowhere = errors.New("there is no engine")

// nowhere is an engine that makes nothing.
type nowhere struct{ sandbox.Engine }

func (nowhere) Open(context.Context, sandbox.Spec) (sandbox.Box, error) { return nil, errNowhere }
