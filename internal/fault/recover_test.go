package fault_test

import (
	"strings"
	"testing"

	"securebench/internal/fault"
)

// TestRecover: what the runtime says of a panic and where it was are in the error, and
// what a program says is not.
func TestRecover(t *testing.T) {
	broken := func(do func()) (err error) {
		defer fault.Recover(&err)
		do()
		return nil
	}
	if err := broken(func() {}); err != nil {
		t.Error(err)
	}
	var list []int
	err := broken(func() { list[len("abc")] = 1 })
	for _, want := range []string{"index out of range [3] with length 0", "TestRecover", ":2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	err = broken(func() { panic("the answer is 42") })
	if err == nil || strings.Contains(err.Error(), "42") || !strings.Contains(err.Error(), "TestRecover") || fault.KindOf(err) != fault.Internal {
		t.Errorf("%v", err)
	}
}
