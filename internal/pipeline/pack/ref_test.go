package pack_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
)

// TestReader: rows that are read by reference are those that Load saw, in any
// order and whatever the line endings.
func TestReader(t *testing.T) {
	rows := "\n{\"id\":\"a\"}\r\n\n  {\"id\":\"bé\"} \n{\"id\":\"c\"}"
	loc := write(t, manifest, "")
	if err := os.WriteFile(loc.Tasks, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	var loaded []pack.Row
	p, err := pack.Load(context.Background(), loc, nil, func(r pack.Row) (errs, warnings source.Problems) {
		loaded = append(loaded, r)
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, i := range []int{2, 0, 1} {
		want := loaded[i]
		got, err := r.Row(want.Ref())
		if err != nil || got.ID != want.ID || string(got.Raw) != string(want.Raw) || got.Pos != want.Pos || got.Index != i || got.Line != want.Line {
			t.Errorf("row %d: got %+v, want %+v, %v", i, got, want, err)
		}
	}
}

// TestReaderNoticesChanges: every change to the file is detected.
func TestReaderNoticesChanges(t *testing.T) {
	loc := write(t, manifest, "")
	const rows = `{"id":"a"}` + "\n" + `{"id":"b"}` + "\n"
	if err := os.WriteFile(loc.Tasks, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	var last pack.Row
	p, err := pack.Load(context.Background(), loc, nil, func(r pack.Row) (errs, warnings source.Problems) { last = r; return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ rows, want string }{
		"same":     {rows, ""},
		"no end":   {strings.TrimSuffix(rows, "\n"), ""},
		"changed":  {strings.Replace(rows, "b", "x", 1), "row 2 changed"},
		"longer":   {strings.TrimSuffix(rows, "\n") + "}", "row 2 changed"},
		"moved":    {" " + rows, "row 2 changed"},
		"cut":      {rows[:len(rows)-4], "row 2 is missing"},
		"all gone": {"", "row 2 is missing"},
	} {
		if err := os.WriteFile(loc.Tasks, []byte(c.rows), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := p.Open()
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Row(last.Ref())
		var changed *pack.ChangedError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &changed) || changed.What != c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		r.Close()
	}
}
