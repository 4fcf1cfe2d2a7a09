package links

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// box knows where paths lead, and keeps what is applied.
type box struct {
	leads   func(string) string
	deleted []string
	err     error
}

func (b *box) Destinations(_ context.Context, paths []string) (out []initproc.Place, err error) {
	for _, p := range paths {
		out = append(out, initproc.Place{Path: b.leads(p)})
	}
	return out, b.err
}

func (b *box) Apply(_ context.Context, changes io.Reader) error {
	for tr := tar.NewReader(changes); ; {
		h, err := tr.Next()
		if err != nil {
			return nil
		}
		if h.PAXRecords[sandbox.DeletedRecord] == "1" {
			b.deleted = append(b.deleted, h.Name)
		}
	}
}

// archive is one of a file and links, by their targets.
func archive(t testing.TB, targets ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	headers := []tar.Header{{Typeflag: tar.TypeReg, Name: "app/bad", Mode: 0o644}}
	for i, to := range targets {
		headers = append(headers, tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprintf("app/%d", i), Linkname: to})
	}
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func astray(_, _ string, to initproc.Place) (bool, error) {
	return strings.HasPrefix(to.Path, "/hidden"), nil
}

// TestRemove removes what leads astray and nothing else, wherever in the archive it
// is.
func TestRemove(t *testing.T) {
	for _, n := range []int{0, 1, atOnce - 1, atOnce, atOnce + 1, 3 * atOnce} {
		targets := slices.Repeat([]string{"x"}, n)
		bad := fmt.Sprintf("/app/%d", n-1)
		b := &box{leads: func(p string) string {
			if p == bad {
				return "/hidden/x"
			}
			return p
		}}
		got, err := Remove(t.Context(), b, bytes.NewReader(archive(t, targets...)), astray)
		if want := []string{bad}[:min(n, 1)]; err != nil || !slices.Equal(got, want) || len(b.deleted) != len(want) || n > 0 && "/"+b.deleted[0] != bad {
			t.Errorf("%d links: %q removed, %q deleted, %v", n, got, b.deleted, err)
		}
	}
}

// TestRemoveEnds: no archive makes it keep more than it may, and no error is lost.
func TestRemoveEnds(t *testing.T) {
	b := &box{leads: func(string) string { return "/hidden" }}
	if _, err := Remove(t.Context(), b, bytes.NewReader(archive(t, slices.Repeat([]string{"x"}, maxRemoved+1)...)), astray); !errors.Is(err, ErrTooMany) || b.deleted != nil {
		t.Errorf("too many: %v, %d deleted", err, len(b.deleted))
	}
	if _, err := Remove(t.Context(), b, bytes.NewReader(archive(t, "x")[:700]), astray); err == nil {
		t.Error("half an archive is no error")
	}
	b.err = errors.New("lost")
	if _, err := Remove(t.Context(), b, bytes.NewReader(archive(t, "x")), astray); !errors.Is(err, b.err) {
		t.Errorf("a lost box: %v", err)
	}
}
