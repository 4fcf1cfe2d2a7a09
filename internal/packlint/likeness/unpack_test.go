package likeness

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestBombs: archives that never end take what one file may, and no more. What comes
// before is looked at.
func TestBombs(t *testing.T) {
	zeros := func(w io.Writer) {
		for range 64 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}
	var zipped, gzipped, tarred, many bytes.Buffer
	z := zip.NewWriter(&zipped)
	for i := range 3 {
		w, err := z.Create(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			_, _ = io.WriteString(w, "comes before the bomb")
			continue
		}
		zeros(w)
	}
	g := gzip.NewWriter(&gzipped)
	zeros(g)
	outer := gzip.NewWriter(&tarred)
	w := tar.NewWriter(outer)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "first", Size: 21, Mode: 0o644})
	_, _ = io.WriteString(w, "comes before the bomb")
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb", Size: 64 << 20, Mode: 0o644})
	zeros(w)
	entries := zip.NewWriter(&many)
	for i := range 200_000 {
		if _, err := entries.CreateRaw(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{z, g, w, outer, entries} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		data  []byte
		found int
	}{"zip": {zipped.Bytes(), 1}, "gzip": {gzipped.Bytes(), 0}, "tar.gz": {tarred.Bytes(), 1}, "a zip of empty files": {many.Bytes(), 0}} {
		var found int
		u := &unpacker{left: 8 << 20, each: func(_ string, content []byte, _ Marks) {
			if strings.HasPrefix(string(content), "comes before") {
				found++
			}
		}}
		u.content("", bytes.NewReader(tt.data), 0)
		if found != tt.found || u.left < 0 || u.members > maxMembers+1 {
			t.Errorf("%s: %d found, %d bytes left, %d members", name, found, u.left, u.members)
		}
	}
	deep := []byte("sixteen letters and more")
	for range maxDepth + 5 {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(deep); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		deep = b.Bytes()
	}
	u := &unpacker{left: 1 << 20, each: func(_ string, content []byte, _ Marks) {
		if bytes.HasPrefix(content, []byte("sixteen")) {
			t.Error("it was unpacked without end")
		}
	}}
	u.content("", bytes.NewReader(deep), 0)
}

// TestDocuments: what office programs put into each document is not looked at, and what its
// author put there is; a document is known whole.
func TestDocuments(t *testing.T) {
	for name, want := range map[string]int{"[Content_Types].xml": 2, "META-INF/manifest.xml": 2, "manifest.xml": 4} {
		var file bytes.Buffer
		z := zip.NewWriter(&file)
		for _, member := range []string{name, "xl/theme/theme1.xml", "xl/media/tests.txt"} {
			w, err := z.Create(member)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(w, "a text of some length, as every document has it")
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		found := 0
		if err := Walk(bytes.NewReader(file.Bytes()), int64(file.Len()), "sum", func(string, []byte, Marks) { found++ }); err != nil || found != want {
			t.Errorf("%s: %d looks, want %d: %v", name, found, want, err)
		}
	}
}
