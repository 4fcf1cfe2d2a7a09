package upper

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// must fails a test with the first of some errors.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// changesOf lists changes by lines.
func changesOf(t testing.TB, l Layer) (lines []string) {
	t.Helper()
	all, err := l.Changes(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Path, c.Kind, c.Type)))
	}
	return lines
}

// plain is a layer without a mount, for what the kernel has no part in.
func plain(t testing.TB, fill func(lower, upper string)) (l Layer, upper string) {
	t.Helper()
	dir := t.TempDir()
	lower, upper := dir+"/lower", dir+"/upper"
	must(t, os.Mkdir(lower, 0o755), os.Mkdir(upper, 0o755))
	fill(lower, upper)
	return (&stack{target: dir + "/merged", lower: []string{lower}}).layer(t), upper
}

// TestMountPoints: what was made for mount points is not reported, and what is at
// them not read.
func TestMountPoints(t *testing.T) {
	l, _ := plain(t, func(lower, upper string) {
		must(t, os.MkdirAll(lower+"/var", 0o755), os.MkdirAll(upper+"/var/lib/mount/in", 0o755), os.MkdirAll(upper+"/made/for/mount", 0o755),
			os.MkdirAll(upper+"/also/for/mount", 0o755), os.WriteFile(upper+"/also/own", nil, 0o644), os.WriteFile(upper+"/hosts", nil, 0o644))
	})
	l.Hidden = []string{"/var/lib/mount", "/made/for/mount", "/also/for/mount", "/hosts"}
	if d := cmp.Diff([]string{"/also added directory", "/also/own added file"}, changesOf(t, l)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	var b bytes.Buffer
	must(t, l.Archive(t.Context(), []string{"/", "/hosts", "/var/lib/mount/in"}, 1<<20, &b))
	var got []string
	for p := range unpacked(t, &b) {
		if strings.HasSuffix(p, "mount") || strings.Contains(p, "hosts") || strings.HasSuffix(p, "in") {
			got = append(got, p)
		}
	}
	if len(got) > 0 {
		t.Errorf("the archive has %q", got)
	}
}

// TestUntouchedContent: a file that was opened for writing and left alone, or
// written again as it was, is no change; a large one is not read and counts.
func TestUntouchedContent(t *testing.T) {
	large := strings.Repeat("x", maxCompared+1)
	l, _ := plain(t, func(lower, upper string) {
		for _, name := range []string{"same", "other", "large", "mode", "longer"} {
			must(t, os.WriteFile(lower+"/"+name, []byte("abc"), 0o644), os.WriteFile(upper+"/"+name, []byte("abc"), 0o644))
		}
		must(t, os.WriteFile(upper+"/other", []byte("abd"), 0o644), os.WriteFile(upper+"/longer", []byte("abcd"), 0o644), os.Chmod(upper+"/mode", 0o600),
			os.WriteFile(lower+"/large", []byte(large), 0o644), os.WriteFile(upper+"/large", []byte(large), 0o644))
	})
	if d := cmp.Diff([]string{"/large modified file", "/longer modified file", "/mode modified file", "/other modified file"}, changesOf(t, l)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

// TestDeepAndOddPaths: what no tree can hold is refused or has no type.
func TestDeepAndOddPaths(t *testing.T) {
	deep := func(n int, name string) func(_, upper string) {
		return func(_, upper string) {
			root, err := os.OpenRoot(upper)
			must(t, err)
			for range n {
				must(t, root.Mkdir(name, 0o755))
				if root, err = root.OpenRoot(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		fill func(lower, upper string)
		want error
	}{
		"200 levels": {deep(maxLevels, "d"), nil}, "201 levels": {deep(maxLevels+1, "d"), sandbox.ErrTooLarge},
		"long": {deep(15, strings.Repeat("n", 255)), nil}, "too long": {deep(17, strings.Repeat("n", 255)), sandbox.ErrTooLarge},
	} {
		l, _ := plain(t, tt.fill)
		_, err := l.Changes(t.Context(), 1000)
		archiveErr := l.Archive(t.Context(), []string{"/"}, 1<<20, io.Discard)
		if !errors.Is(err, tt.want) || !errors.Is(archiveErr, tt.want) {
			t.Errorf("%s: got %v and %v, want %v", name, err, archiveErr, tt.want)
		}
	}
	l, _ := plain(t, func(_, upper string) {
		must(t, os.WriteFile(upper+"/x\xff", nil, 0o644), os.Mkdir(upper+"/d", 0o755), os.WriteFile(upper+"/d/y\xff", nil, 0o644))
	})
	if d := cmp.Diff([]string{"/d added directory", "/d/y\xff added", "/x\xff added"}, changesOf(t, l)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	var b bytes.Buffer
	must(t, l.Archive(t.Context(), []string{"/d"}, 1<<20, &b))
	if _, ok := unpacked(t, &b)["/d/y\xff"]; !ok {
		t.Error("a name that is not UTF-8 is not archived with its folder")
	}
}

// TestMarksOfPrograms: attributes that a program in the sandbox can set do not mark
// anything, and the kernel's own do.
func TestMarksOfPrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		attribute, marks string
		want             []string
	}{
		"root's overlay, program's attribute":   {"user.overlay.opaque", "trusted.overlay.", []string{"/d modified directory"}},
		"root's overlay, kernel's":              {"trusted.overlay.opaque", "trusted.overlay.", []string{"/d/f deleted"}},
		"user's overlay, kernel's":              {"user.overlay.opaque", "user.overlay.", []string{"/d/f deleted"}},
		"user's overlay, one of the other kind": {"trusted.overlay.opaque", "user.overlay.", nil},
	} {
		l, upper := plain(t, func(lower, upper string) {
			must(t, os.Mkdir(lower+"/d", 0o755), os.WriteFile(lower+"/d/f", nil, 0o644), os.Mkdir(upper+"/d", 0o755))
		})
		if err := unix.Setxattr(upper+"/d", tt.attribute, []byte("y"), 0); err != nil {
			t.Skipf("the attribute %s cannot be set: %v", tt.attribute, err)
		}
		l.marks = tt.marks
		if d := cmp.Diff(tt.want, changesOf(t, l)); d != "" {
			t.Errorf("%s: changes (-want +got):\n%s", name, d)
		}
	}
	for attribute, isFile := range map[string]bool{"trusted.overlay.redirect": false, "trusted.overlay.metacopy": true} {
		l, upper := plain(t, func(lower, upper string) {
			must(t, os.Mkdir(upper+"/d", 0o755), os.WriteFile(lower+"/f", nil, 0o644), os.WriteFile(upper+"/f", nil, 0o644))
		})
		name := map[bool]string{false: "/d", true: "/f"}[isFile]
		must(t, unix.Setxattr(upper+name, attribute, nil, 0))
		_, err := l.Changes(t.Context(), 10)
		if archiveErr := l.Archive(t.Context(), []string{"/"}, 1<<20, io.Discard); err == nil || archiveErr == nil {
			t.Errorf("%s: got %v and %v", attribute, err, archiveErr)
		}
	}
}

// TestOwners: owners in the upper layer are those of the sandbox's user namespace.
func TestOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	l, _ := plain(t, func(lower, upper string) {
		for name, base := range map[string]int{lower: 0, upper: 1_000_000} {
			must(t, os.WriteFile(name+"/f", nil, 0o644), os.Chown(name+"/f", base+5, base+6))
		}
		must(t, os.WriteFile(upper+"/host", nil, 0o644))
	})
	l.IDBase = 1_000_000
	if d := cmp.Diff([]string{"/host added file"}, changesOf(t, l)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	var b bytes.Buffer
	must(t, l.Archive(t.Context(), []string{"/"}, 1<<20, &b))
	got := unpacked(t, &b)
	if f, host := got["/f"], got["/host"]; f.UID != 5 || f.GID != 6 || host.UID != 65534 {
		t.Errorf("owners %d:%d and %d", f.UID, f.GID, host.UID)
	}
}

// TestArchiveBounds: an archive is never longer than it may be, and a file of the
// size of a disk is not read.
func TestArchiveBounds(t *testing.T) {
	l, _ := plain(t, func(_, upper string) {
		must(t, os.WriteFile(upper+"/f", make([]byte, 100_000), 0o644), os.WriteFile(upper+"/sparse", nil, 0o644), os.Truncate(upper+"/sparse", 1<<40),
			os.Link(upper+"/f", upper+"/g"), unix.Mkfifo(upper+"/pipe", 0o644), os.Symlink("/etc", upper+"/l"))
	})
	for _, limit := range []int64{0, 511, 1024, 99_999, 100_000} {
		var b bytes.Buffer
		if err := l.Archive(t.Context(), []string{"/f"}, limit, &b); !errors.Is(err, sandbox.ErrTooLarge) || int64(b.Len()) > limit {
			t.Errorf("limit %d: %d bytes, %v", limit, b.Len(), err)
		}
	}
	if err := l.Archive(t.Context(), []string{"/sparse"}, 1<<39, io.Discard); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("a sparse file: %v", err)
	}
	var b bytes.Buffer
	must(t, l.Archive(t.Context(), []string{"/f", "/g", "/l", "/l/passwd", "/f/x", "/none", "/" + strings.Repeat("n", 300) + "/x", "/pipe"}, 110_000, &b))
	var types []byte
	for tr := tar.NewReader(&b); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		types = append(types, h.Typeflag)
	}
	if string(types) != "0126" {
		t.Errorf("types %q", types)
	}
	for _, bad := range []string{"", "f", "/a/../f", "/f/", "//f", "/f\x00"} {
		if err := l.Archive(t.Context(), []string{bad}, 1<<20, io.Discard); err == nil {
			t.Errorf("Archive(%q) is no error", bad)
		}
	}
	if _, err := l.Changes(t.Context(), 4); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("five changes with a limit of four: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	_, err := l.Changes(ctx, 10)
	if archiveErr := l.Archive(ctx, []string{"/f"}, 1<<20, io.Discard); !errors.Is(err, cause) || !errors.Is(archiveErr, cause) {
		t.Errorf("after the end: %v, %v", err, archiveErr)
	}
	if err := l.Archive(t.Context(), []string{"/f"}, 1<<20, iotest.TruncateWriter(failing{cause}, 0)); err != nil {
		t.Errorf("a writer that drops everything: %v", err)
	}
	if err := l.Archive(t.Context(), []string{"/f"}, 1<<20, failing{cause}); !errors.Is(err, cause) {
		t.Errorf("a broken writer: %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

// TestDescriptors: a deep tree takes no more of them than a flat one, and none stays.
func TestDescriptors(t *testing.T) {
	l, _ := plain(t, func(lower, upper string) {
		deep := strings.Repeat("/d", 150)
		must(t, os.MkdirAll(lower+deep, 0o755), os.MkdirAll(upper+deep, 0o755))
	})
	before := descriptors(t)
	most := 0
	w := writer(func(p []byte) (int, error) { most = max(most, descriptors(t)); return len(p), nil })
	must(t, l.Archive(t.Context(), []string{"/"}, 1<<20, w))
	if most-before > 8 || descriptors(t) != before {
		t.Errorf("%d descriptors before, at most %d, %d after", before, most, descriptors(t))
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// BenchmarkChanges: a few changes cost the same above a small and a large image.
func BenchmarkChanges(b *testing.B) {
	for _, files := range []int{100, 100_000} {
		l, _ := plain(b, func(lower, upper string) {
			content := make([]byte, 10<<10)
			for i := range files {
				dir := fmt.Sprintf("%s/%d", lower, i%100)
				if i < 100 {
					must(b, os.Mkdir(dir, 0o755))
				}
				must(b, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), content, 0o644))
			}
			for i := range 10 {
				must(b, os.MkdirAll(fmt.Sprintf("%s/%d", upper, i), 0o755), os.WriteFile(fmt.Sprintf("%s/%d/new", upper, i), content, 0o644))
			}
		})
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if all, err := l.Changes(b.Context(), 100); err != nil || len(all) != 10 {
					b.Fatal(all, err)
				}
			}
		})
	}
}
