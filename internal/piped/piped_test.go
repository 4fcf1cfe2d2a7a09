package piped

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestBoth(t *testing.T) {
	broken, refused := errors.New("broken"), errors.New("refused")
	all := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	fails := func(io.Writer) error { return broken }
	endless := func(w io.Writer) error {
		for {
			if _, err := io.WriteString(w, "x"); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
	}
	for name, c := range map[string]struct {
		write        func(io.Writer) error
		read         func(io.Reader) error
		written, got error
	}{
		"whole":          {func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }, all, nil, nil},
		"a broken write": {fails, all, broken, broken},
		"enough":         {endless, func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, 9)); return err }, nil, nil},
		"a refusal":      {endless, func(io.Reader) error { return refused }, nil, refused},
		"both":           {fails, func(io.Reader) error { return refused }, broken, refused},
	} {
		written, got := Both(c.write, c.read)
		if !errors.Is(written, c.written) || !errors.Is(got, c.got) || (c.written == nil) != (written == nil) || (c.got == nil) != (got == nil) {
			t.Errorf("%s: %v, %v", name, written, got)
		}
	}
	var b strings.Builder
	err := Run(func(w io.Writer) error { _, err := io.WriteString(w, "content"); return err }, func(r io.Reader) error { _, err := io.Copy(&b, r); return err })
	if err != nil || b.String() != "content" {
		t.Errorf("%q, %v", b.String(), err)
	}
	if err := Run(fails, func(io.Reader) error { return refused }); !errors.Is(err, broken) {
		t.Errorf("the first cause comes first: %v", err)
	}
}
