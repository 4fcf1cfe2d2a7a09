package oci_test

import (
	"slices"
	"testing"

	"securebench/internal/sandbox/oci"
)

// TestCalled: a call is known by its arguments, whichever of the runtimes it is of, and
// nothing that has only some of them is taken for one.
func TestCalled(t *testing.T) {
	mine := oci.Runtime{Name: "runsc", Path: "/opt/gvisor-2024"}
	call := oci.Call{State: "/s", Bundle: "/b", ID: "the-box", PID: "/pid", Log: "/log"}
	for _, r := range []oci.Runtime{
		{Name: "crun", Path: "/x/runtime/crun", Leaves: true}, {Name: "runc", Path: "/usr/sbin/runc", Leaves: true},
		{Name: "runsc", Path: "/usr/local/bin/runsc"}, mine,
	} {
		args := r.Run(call).Args
		if id, ok := mine.Called(args); !ok || id != "the-box" {
			t.Errorf("%q: %q, %v", args, id, ok)
		}
		if id, _ := mine.Called(append(slices.Clone(args), "more")); id == "the-box" {
			t.Errorf("%q and one more: %q", args, id)
		}
	}
	for name, args := range map[string][]string{
		"none":            nil,
		"another program": {"/bin/python3", "--root", "/s", "run", "the-box"},
		"no root":         {"crun", "run", "--bundle", "/b", "the-box"},
		"root elsewhere":  {"crun", "run", "--root", "/s", "the-box"},
		"another command": {"crun", "--root", "/s", "delete", "the-box"},
		"no command":      {"crun", "--root", "run"},
		"a file":          {"crun/x", "--root", "/s", "run", "the-box"},
	} {
		if id, ok := mine.Called(args); ok {
			t.Errorf("%s: %q is taken for a call of %q", name, args, id)
		}
	}
	if id, ok := mine.Called([]string{"runc", "--root=/s", "create", "the-box"}); !ok || id != "the-box" {
		t.Errorf("the other way to write it: %q, %v", id, ok)
	}
}
