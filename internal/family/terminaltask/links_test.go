package terminaltask

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

// fakeBox knows where paths lead, and keeps what is applied.
type fakeBox struct {
	leads   func(string) string
	deleted []string
	err     error
}

func (b *fakeBox) Destinations(_ context.Context, paths []string) (out []initproc.Place, err error) {
	for _, p := range paths {
		out = append(out, initproc.Place{Path: b.leads(p)})
	}
	return out, b.err
}

func (b *fakeBox) Apply(_ context.Context, changes io.Reader) error {
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

// linksTo is one of a file and links, by their targets.
func linksTo(t testing.TB, targets ...string) []byte {
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

func isAstray(_, _ string, to initproc.Place) (bool, error) {
	return strings.HasPrefix(to.Path, "/hidden"), nil
}

// TestRemove removes what leads isAstray and nothing else, wherever in the archive it
// is.
func TestRemove(t *testing.T) {
	for _, n := range []int{0, 1, linksAtOnce - 1, linksAtOnce, linksAtOnce + 1, 3 * linksAtOnce} {
		targets := slices.Repeat([]string{"x"}, n)
		bad := fmt.Sprintf("/app/%d", n-1)
		b := &fakeBox{leads: func(p string) string {
			if p == bad {
				return "/hidden/x"
			}
			return p
		}}
		got, err := removeLinks(t.Context(), b, bytes.NewReader(linksTo(t, targets...)), isAstray)
		if want := []string{bad}[:min(n, 1)]; err != nil || !slices.Equal(got, want) || len(b.deleted) != len(want) || n > 0 && "/"+b.deleted[0] != bad {
			t.Errorf("%d links: %q removed, %q deleted, %v", n, got, b.deleted, err)
		}
	}
}

// TestRemoveEnds: no archive makes it keep more than it may, and no error is lost.
func TestRemoveEnds(t *testing.T) {
	b := &fakeBox{leads: func(string) string { return "/hidden" }}
	if _, err := removeLinks(t.Context(), b, bytes.NewReader(linksTo(t, slices.Repeat([]string{"x"}, maxRemovedLinks+1)...)), isAstray); !errors.Is(err, errTooManyLinks) || b.deleted != nil {
		t.Errorf("too many: %v, %d deleted", err, len(b.deleted))
	}
	if _, err := removeLinks(t.Context(), b, bytes.NewReader(linksTo(t, "x")[:700]), isAstray); err == nil {
		t.Error("half an archive is no error")
	}
	b.err = errors.New("lost")
	if _, err := removeLinks(t.Context(), b, bytes.NewReader(linksTo(t, "x")), isAstray); !errors.Is(err, b.err) {
		t.Errorf("a lost box: %v", err)
	}
}
