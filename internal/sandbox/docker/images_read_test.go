package docker

import (
	"archive/tar"
	"bytes"
	"testing"
)

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOnlyFile(t *testing.T) {
	reg := tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Size: 10}
	b, err := onlyFile(bytes.NewReader(tarOf(t, reg)), 10)
	if err != nil || len(b) != 10 {
		t.Errorf("got %q, %v", b, err)
	}
	for name, in := range map[string][]byte{
		"link":      tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "passwd", Linkname: "/etc/shadow"}),
		"directory": tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "passwd/"}),
		"two":       tarOf(t, reg, reg), "large": tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p", Size: 11}),
		"none": tarOf(t), "cut": tarOf(t, reg)[:515],
	} {
		if b, err := onlyFile(bytes.NewReader(in), 10); err == nil {
			t.Errorf("%s: got %q", name, b)
		}
	}
}

func FuzzOnlyFile(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Size: 10}))
	f.Fuzz(func(t *testing.T, in []byte) {
		if b, err := onlyFile(bytes.NewReader(in), 64); err == nil && len(b) > 64 {
			t.Errorf("got %d bytes", len(b))
		}
	})
}
