package terminaltask

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
)

// listing is an archive of a folder as a workspace writes it.
func listing(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := h.Uname // the content
		h.Uname = ""
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fileOf(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Uname: text}
}

func dirOf(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}
}

func baseOf(t *testing.T, archive []byte) *candidate.Base {
	t.Helper()
	b, err := candidate.ReadBase(bytes.NewReader(archive), candidate.Bounds{Bytes: 1 << 20, Files: 100})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBetween: what is new, other or gone is written, once and as a tree has it.
func TestBetween(t *testing.T) {
	before := listing(t, fileOf("a", "1"), dirOf("gone"), fileOf("gone/x", "1"), dirOf("gone/y"), fileOf("gone/y/z", "1"), fileOf("gone-not", "1"),
		dirOf("is"), fileOf("is/now", "1"), fileOf("mode", "1"), fileOf("same", "1"), fileOf("was", "1"))
	mode := fileOf("mode", "1")
	mode.Mode = 0o4755
	after := listing(t, fileOf("a", "2"), fileOf("gone-not", "1"), fileOf("is", "file"), mode, dirOf("new"), tar.Header{Typeflag: tar.TypeSymlink, Name: "new/link", Linkname: "../a"},
		fileOf("same", "1"), tar.Header{Typeflag: tar.TypeFifo, Name: "was"})
	did := changedBetween(baseOf(t, before), baseOf(t, after))
	var got []string
	err := did.copy(func(w io.Writer) error { _, err := w.Write(after); return err }, "app", func(r io.Reader) error {
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				_, err = io.Copy(io.Discard, r)
				return err
			}
			if err != nil {
				return err
			}
			text, _ := io.ReadAll(tr)
			kind := string(h.Typeflag)
			if h.PAXRecords[sandbox.DeletedRecord] != "" {
				kind = "x"
			}
			got = append(got, kind+" "+h.Name+" "+h.FileInfo().Mode().String()+" "+h.Linkname+string(text))
		}
	})
	want := []string{"x app/gone ---------- ", "x app/is/now ---------- ", "0 app/a -rw-r--r-- 2", "0 app/is -rw-r--r-- file", "0 app/mode -rwxr-xr-x 1",
		"5 app/new/ drwxr-xr-x ", "2 app/new/link L--------- ../a", "x app/was ---------- "}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	if did.none() || !changedBetween(baseOf(t, before), baseOf(t, before)).none() {
		t.Error("it does not tell changes from none")
	}
}
