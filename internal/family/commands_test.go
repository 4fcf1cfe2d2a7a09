package family_test

import (
	"slices"
	"testing"

	"securebench/internal/family"
	"securebench/internal/sandbox"
)

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
