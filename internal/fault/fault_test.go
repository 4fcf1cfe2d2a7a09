package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"securebench/internal/fault"
)

func TestKinds(t *testing.T) {
	pack := fault.As(fault.Pack, io.EOF)
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"none":          {io.EOF, fault.Internal},
		"given":         {pack, fault.Pack},
		"keeps":         {fault.As(fault.Config, fmt.Errorf("reading: %w", pack)), fault.Pack},
		"first of many": {errors.Join(io.EOF, pack, fault.As(fault.Engine, io.EOF)), fault.Pack},
		"overridden":    {fault.Errorf(fault.Refused, "not now: %w", pack), fault.Refused},
	} {
		if got := fault.KindOf(c.err); got != c.want || !errors.Is(c.err, io.EOF) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	if fault.As(fault.Pack, nil) != nil {
		t.Error("nil became an error")
	}
}
