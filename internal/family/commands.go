package family

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/sandbox"
)

// Argv reads a command of a row: a list is run as it is, a string as the last argument of
// a shell, which is /bin/sh -c unless another is given.
func Argv(v jsontext.Value, shell ...string) ([]string, bool) {
	var one string
	var many []string
	if len(shell) == 0 {
		shell = []string{"/bin/sh", "-c"}
	}
	switch {
	case v.Kind() == '"' && json.Unmarshal(v, &one) == nil:
		return append(slices.Clip(shell), one), one != ""
	case v.Kind() == '[' && json.Unmarshal(v, &many) == nil:
		return many, len(many) > 0
	}
	return nil, false
}

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
