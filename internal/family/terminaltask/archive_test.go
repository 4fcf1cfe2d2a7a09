package terminaltask

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/tartest"
)

// TestRename: entries keep everything but their names.
func TestRename(t *testing.T) {
	long := strings.Repeat("d/", 60) + strings.Repeat("n", 200)
	in := tartest.Pack(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o750, Uid: 7, Gid: 8},
		tar.Header{Typeflag: tar.TypeReg, Name: "a/left", Mode: 0o600, Size: 700},
		tar.Header{Typeflag: tar.TypeReg, Name: "a/" + long, Mode: 0o751, Uid: 3000000, Gid: 1, Size: 3},
		tar.Header{Typeflag: tar.TypeReg, Name: "a/gone", PAXRecords: map[string]string{sandbox.DeletedRecord: "1"}},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "a/link", Linkname: long, Mode: 0o777})
	var out bytes.Buffer
	err := copyRenamed(&out, bytes.NewReader(in), func(h *tar.Header) (string, bool) { return "p/" + h.Name, h.Name != "a/left" })
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(&out)
	for _, want := range []tar.Header{{Typeflag: tar.TypeDir, Name: "p/a/", Mode: 0o750, Uid: 7, Gid: 8},
		{Typeflag: tar.TypeReg, Name: "p/a/" + long, Mode: 0o751, Uid: 3000000, Gid: 1, Size: 3},
		{Typeflag: tar.TypeReg, Name: "p/a/gone", PAXRecords: map[string]string{sandbox.DeletedRecord: "1"}},
		{Typeflag: tar.TypeSymlink, Name: "p/a/link", Linkname: long, Mode: 0o777}} {
		h, err := tr.Next()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if h.Name != want.Name || h.Typeflag != want.Typeflag || h.Mode != want.Mode || h.Uid != want.Uid || h.Gid != want.Gid ||
			h.Linkname != want.Linkname || h.PAXRecords[sandbox.DeletedRecord] != want.PAXRecords[sandbox.DeletedRecord] ||
			int64(len(content)) != want.Size || err != nil {
			t.Errorf("got %+v with %q, %v; want %+v", h, content, err, want)
		}
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestRenameReportsTheLastByte: an error that comes only after the archive's end
// leaves the copy without its end, so that nobody takes it for whole.
func TestRenameReportsTheLastByte(t *testing.T) {
	in := tartest.Pack(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 1})
	late := errors.New("damaged")
	var out bytes.Buffer
	err := copyRenamed(&out, io.MultiReader(bytes.NewReader(in), failingReader{late}), func(h *tar.Header) (string, bool) { return h.Name, true })
	if !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	if tail := make([]byte, 1024); bytes.HasSuffix(out.Bytes(), tail) {
		t.Error("the copy has an end")
	}
}

// TestNotFolders: a captured folder that the candidate removed, or put something
// else in the place of, is found by its own entry alone.
func TestNotFolders(t *testing.T) {
	in := tartest.Pack(t,
		tar.Header{Typeflag: tar.TypeReg, Name: "gone", PAXRecords: map[string]string{sandbox.DeletedRecord: "1"}},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "gone"},
		tar.Header{Typeflag: tar.TypeDir, Name: "stays/"}, tar.Header{Typeflag: tar.TypeReg, Name: "stays/gone", Size: 2})
	got, err := notFolders(bytes.NewReader(in), []string{"/gone", "/link", "/stays", "/unchanged"})
	if err != nil || len(got) != 2 || !got["/gone"] || !got["/link"] {
		t.Errorf("got %v, %v", got, err)
	}
	damaged := errors.New("damaged")
	if _, err := notFolders(io.MultiReader(bytes.NewReader(in), failingReader{damaged}), nil); !errors.Is(err, damaged) {
		t.Errorf("what follows the archive is not read: %v", err)
	}
	if _, err := notFolders(strings.NewReader(strings.Repeat("x", 1024)), nil); err == nil {
		t.Error("what is no archive is read")
	}
}

// failingReader is a reader that fails.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// FuzzRename: whatever an archive holds, its copy is an archive or an error.
func FuzzRename(f *testing.F) {
	f.Add(tartest.Pack(f, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 5}))
	f.Add(tartest.Pack(f, tar.Header{Typeflag: tar.TypeDir, Name: "a/"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "a/b", Linkname: "c"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		if copyRenamed(&out, bytes.NewReader(data), func(h *tar.Header) (string, bool) { return "p/" + h.Name, true }) != nil {
			return
		}
		for tr := tar.NewReader(&out); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil || !strings.HasPrefix(h.Name, "p/") {
				t.Fatalf("%v, %v", h, err)
			}
		}
	})
}
