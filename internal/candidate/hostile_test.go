package candidate_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/candidate"
	"securebench/internal/memtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// preimage is what the digest of a tree with one file is a digest of.
func preimage(name, data string) string {
	sum := sha256.Sum256([]byte(data))
	return "securebench tree 2\nf 0644 0 0 sha256:" + hex.EncodeToString(sum[:]) + "\x00" + name + "\x00\x00\n"
}

// TestNoTextIsATree: a text that has the digest of a tree would share the
// tree's name in the store: the one would replace the other, and a record of
// either would verify with both.
func TestNoTextIsATree(t *testing.T) {
	s, folder := newStore(t)
	tree := archive(t, reg("a", "text"))
	twin := preimage("a", "text")
	// A store that takes every text has one name for two contents.
	want, err := candidate.ReadTree(bytes.NewReader(tree), roomy, nil)
	if weak := candidate.New(task.Patch, candidate.File, []byte(twin)); err != nil || weak.Digest != want {
		t.Fatalf("the attack does not collide: %s and %s, %v", weak.Digest, want, err)
	}
	for _, kind := range []task.CandidateKind{task.Text, task.Code, task.Patch} {
		var r *candidate.Rejection
		if _, err := candidate.Admit(kind, candidate.File, []byte(twin), 0); !errors.As(err, &r) || r.Reason != verdict.CandidateNotRegular {
			t.Errorf("%s: admitted with %v", kind, err)
		}
		if _, err := s.Put(kind, candidate.File, strings.NewReader(twin)); !errors.As(err, &r) {
			t.Errorf("%s: stored with %v", kind, err)
		}
	}
	// Whoever puts it there by hand has a damaged candidate.
	name := strings.TrimPrefix(want, "sha256:")
	if err := os.WriteFile(filepath.Join(folder, name), []byte(twin), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(want); !errors.Is(err, candidate.ErrDamaged) {
		t.Errorf("the text is taken for the tree: %v", err)
	}
	c, err := s.Find(candidate.Candidate{Kind: task.Patch, Digest: want})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := c.Bytes(); !errors.Is(err, candidate.ErrDamaged) {
		t.Errorf("read %q, %v", data, err)
	}
	// The honest ones: the tree itself, and texts that only come near.
	if _, err := s.Put(task.Workspace, candidate.File, bytes.NewReader(tree)); err != nil || s.Check(want) != nil {
		t.Errorf("the tree is not stored: %v", err)
	}
	for _, near := range []string{"securebench tree 2", " " + twin, "securebench tree 1\n", string(tree)} {
		c, err := s.Put(task.Patch, candidate.File, strings.NewReader(near))
		if err != nil || s.Check(c.Digest) != nil {
			t.Errorf("%.30q is refused: %v", near, err)
		} else if data, err := c.Bytes(); err != nil || string(data) != near {
			t.Errorf("%.30q became %.30q, %v", near, data, err)
		}
	}
}

// TestDeepImports: folders that no entry of the archive names count as well,
// before there are millions of them.
func TestDeepImports(t *testing.T) {
	const files = 2000
	var items []item
	for i := range files {
		items = append(items, reg(fmt.Sprintf("%d/%sf", i, strings.Repeat("d/", 59)), ""))
	}
	data := archive(t, items...)
	bounds := candidate.Bounds{Bytes: 1, Files: files}
	var err error
	used := memtest.Allocated(func() { _, err = candidate.Import(bytes.NewReader(data), "", at, bounds, io.Discard) })
	var r *candidate.Rejection
	if !errors.As(err, &r) || r.Reason != verdict.CandidateTooLarge {
		t.Fatalf("imported with %v", err)
	}
	if used > 16<<20 {
		t.Errorf("%d MiB were allocated to refuse %d files", used>>20, files)
	}
	bounds.Files *= 61
	if _, err := candidate.Import(bytes.NewReader(data), "", at, bounds, io.Discard); err != nil {
		t.Errorf("with room for the folders: %v", err)
	}
}

// linkWithBytes is an archive whose link has a size, which stands for nothing.
func linkWithBytes(tb testing.TB) []byte {
	tb.Helper()
	b := archive(tb, link("a", "b"))
	copy(b[124:], "00000000005\x00")
	rehash(b)
	return b
}

// rehash mends the checksum of the first header.
func rehash(b []byte) {
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// pax is an archive whose first entry has an extended header with these bytes.
func pax(tb testing.TB, records string) []byte {
	tb.Helper()
	b := archive(tb, reg("x", records), reg("a", "text"))
	b[156] = 'x'
	rehash(b)
	return b
}

// hostileArchives are archives that lie about their form.
func hostileArchives(tb testing.TB) map[string][]byte {
	tb.Helper()
	return map[string][]byte{
		"a link with bytes":   linkWithBytes(tb),
		"sparse in PAX":       pax(tb, "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n30 GNU.sparse.realsize=99999\n"),
		"sparse map in PAX":   pax(tb, "22 GNU.sparse.major=0\n22 GNU.sparse.minor=1\n25 GNU.sparse.map=0,1,9,\n"),
		"negative size":       pax(tb, "11 size=-9\n"),
		"size of the world":   pax(tb, "28 size=9223372036854775807\n"),
		"no such number":      pax(tb, "10 size=x\n"),
		"odd record":          pax(tb, "99 path=a\n"),
		"path in PAX climbs":  pax(tb, "13 path=../x\n"),
		"huge extended":       pax(tb, strings.Repeat("z", 2<<20)),
		"global header":       archive(tb, item{tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "x"}}, ""}),
		"cut behind an entry": archive(tb, reg("a", "text"), reg("b", ""))[:1024],
		"only long name":      archive(tb, reg(strings.Repeat("n/", 200)+"a", ""))[:1024],
		"GNU long name twice": gnuLong(tb),
	}
}

// gnuLong is an archive with two long names before one entry.
func gnuLong(tb testing.TB) []byte {
	tb.Helper()
	one := archive(tb, item{tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: 4, ModTime: time.Unix(0, 0)}, "../y"})[:1024]
	one[156] = 'L'
	rehash(one)
	return append(append(append([]byte{}, one...), one...), archive(tb, reg("a", ""))...)
}

// TestLyingArchives: whatever an archive says, it is refused as the fault of
// who made it. An error of ours would be tried again.
func TestLyingArchives(t *testing.T) {
	for name, data := range hostileArchives(t) {
		t.Run(name, func(t *testing.T) {
			var r *candidate.Rejection
			if _, err := candidate.ReadTree(bytes.NewReader(data), roomy, nil); !errors.As(err, &r) {
				t.Errorf("reading: %v", err)
			}
			if _, err := candidate.Import(bytes.NewReader(data), "", at, roomy, io.Discard); !errors.As(err, &r) {
				t.Errorf("importing: %v", err)
			}
		})
	}
	if _, err := candidate.Import(bytes.NewReader(pax(t, "10 path=b\n")), "", at, roomy, io.Discard); err != nil {
		t.Errorf("an honest extended header: %v", err)
	}
}

// swapped is an archive that changes when it was read to its end.
type swapped struct {
	*bytes.Reader
	then []byte
}

func (s *swapped) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if errors.Is(err, io.EOF) && s.then != nil {
		s.Reader, s.then = bytes.NewReader(s.then), nil
		_, _ = s.Seek(0, io.SeekEnd)
	}
	return n, err
}

// TestSwappedArchive: an archive is read twice. What it is the second time must
// be what its digest was taken of.
func TestSwappedArchive(t *testing.T) {
	right, wrong := archive(t, reg("a", "right")), archive(t, reg("a", "wrong"))
	sum := candidate.New(task.Patch, candidate.File, right).Digest
	for name, then := range map[string][]byte{"other content": wrong, "cut": right[:514]} {
		if _, err := candidate.Import(&swapped{bytes.NewReader(right), then}, sum, at, roomy, io.Discard); err == nil {
			t.Errorf("%s: imported", name)
		}
	}
	if _, err := candidate.Import(&swapped{bytes.NewReader(right), right}, sum, at, roomy, io.Discard); err != nil {
		t.Errorf("the same again: %v", err)
	}
}

// TestOddStoreEntries: what is in the store under a candidate's name must
// be a file. A pipe would be waited for, and a link leads elsewhere.
func TestOddStoreEntries(t *testing.T) {
	data := archive(t, reg("a", "text"))
	elsewhere := filepath.Join(t.TempDir(), "tree")
	if err := os.WriteFile(elsewhere, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]func(string) error{
		"pipe":   func(f string) error { return syscall.Mkfifo(f, 0o600) },
		"link":   func(f string) error { return os.Symlink(elsewhere, f) },
		"folder": func(f string) error { return os.Mkdir(f, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newStore(t)
			c, err := s.Put(task.Workspace, candidate.File, bytes.NewReader(data))
			if err != nil || s.Check(c.Digest) != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, strings.TrimPrefix(c.Digest, "sha256:"))
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := place(file); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(c.Digest); err == nil {
				t.Error("it is taken for the candidate")
			}
			if r, err := c.Open(); err == nil {
				t.Error("it is opened")
				_ = r.Close()
			}
			if _, err := s.Find(c); err == nil {
				t.Error("it is found")
			}
		})
	}
}

// TestDroppedTrees: a tree that is not read to its end leaves no goroutine.
func TestDroppedTrees(t *testing.T) {
	s, _ := newStore(t)
	c, err := s.Put(task.Workspace, candidate.File, bytes.NewReader(archive(t, reg("a", strings.Repeat("x", 1<<16)))))
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for i := range 100 {
		r, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = r.Read(make([]byte, i*10))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("a closed tree is read")
		}
	}
	if !awaittest.Soon(func() bool { return runtime.NumGoroutine() <= before+2 }) {
		t.Errorf("%d goroutines, before %d", runtime.NumGoroutine(), before)
	}
}

// FuzzImport: no archive can cause an error of ours, and what is imported is a tree.
func FuzzImport(f *testing.F) {
	for _, data := range hostileArchives(f) {
		f.Add(data)
	}
	f.Add(archive(f, reg("./b", "text"), link("l", "x"), reg("a/b/c", "x")))
	f.Add(sparse())
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		var r *candidate.Rejection
		sum, err := candidate.Import(bytes.NewReader(data), "", at, roomy, &out)
		if err != nil && !errors.As(err, &r) {
			t.Fatalf("importing: %v", err)
		}
		if _, readErr := candidate.ReadTree(bytes.NewReader(data), roomy, nil); readErr != nil && !errors.As(readErr, &r) {
			t.Errorf("reading: %v", readErr)
		}
		if err == nil {
			if got, err := candidate.ReadTree(&out, roomy, nil); err != nil || got != sum {
				t.Errorf("%s was imported, read is %s, %v", sum, got, err)
			}
		}
	})
}
