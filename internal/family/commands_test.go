package family_test

import (
	"slices"
	"testing"

	"securebench/internal/family"
	"securebench/internal/sandbox"
)

// TestArgv: a list is the command, a string is one for a shell; what is empty is neither.
func TestArgv(t *testing.T) {
	for in, want := range map[string][]string{
		`["a", "b c"]`: {"a", "b c"},
		`"a b"`:        {"/bin/sh", "-c", "a b"},
		`""`:           nil,
		`[]`:           nil,
		`["a", 1]`:     nil,
		`{"a": 1}`:     nil,
		`null`:         nil,
		``:             nil,
	} {
		if got, ok := family.Argv([]byte(in)); ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %q, %t", in, got, ok)
		}
	}
	if got, _ := family.Argv([]byte(`"a"`), "bash", "-lc"); !slices.Equal(got, []string{"bash", "-lc", "a"}) {
		t.Errorf("by another shell: %q", got)
	}
}

// TestPermit: the operator's word counts, and silence denies.
func TestPermit(t *testing.T) {
	chroot := []string{"chroot"}
	for name, tt := range map[string]struct {
		needed []string
		by     family.Commands
		grants []sandbox.Capability
		why    string
	}{
		"nothing is needed":        {nil, family.Commands{}, nil, ""},
		"the default":              {chroot, family.Commands{}, nil, "dangerous verifier commands are disabled by tester policy"},
		"allowed":                  {chroot, family.Commands{Allow: true}, []sandbox.Capability{sandbox.SysChroot}, ""},
		"allowed, but this is not": {chroot, family.Commands{Allow: true, Deny: chroot}, nil, "dangerous verifier command denied by tester policy: chroot"},
	} {
		grants, denied, why := tt.by.Permit(tt.needed)
		if !slices.Equal(grants, tt.grants) || why != tt.why || (len(denied) > 0) != (tt.why != "") {
			t.Errorf("%s: %q, %q, %q", name, grants, denied, why)
		}
	}
}
