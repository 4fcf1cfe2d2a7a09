package family

import (
	"slices"
	"strings"

	"securebench/internal/sandbox"
)

// Commands is the operator's decision on the dangerous commands that checkers
// ask for. The zero value denies all.
type Commands struct {
	Allow bool
	Deny  []string // by name, even if Allow is set
}

// Permit decides about the dangerous commands that a checker needs. It returns
// what they may do, or the names of those that are denied and why, in the words
// of the reference.
func (c Commands) Permit(needed []string) (grants []sandbox.Capability, denied []string, why string) {
	for _, name := range needed {
		if slices.Contains(c.Deny, name) {
			denied = append(denied, name)
		}
	}
	switch {
	case len(denied) > 0:
		return nil, denied, "dangerous verifier command denied by tester policy: " + strings.Join(denied, ", ")
	case len(needed) > 0 && !c.Allow:
		return nil, needed, "dangerous verifier commands are disabled by tester policy"
	}
	for _, name := range needed {
		if name == "chroot" {
			grants = append(grants, sandbox.SysChroot)
		}
	}
	return grants, nil, ""
}
