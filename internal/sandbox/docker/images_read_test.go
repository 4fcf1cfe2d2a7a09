package docker

import (
	"archive/tar"
	"bytes"
	"testing"

	"securebench/internal/tartest"
)

func TestOnlyFile(t *testing.T) {
	reg := tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Size: 10}
	b, err := onlyFile(bytes.NewReader(tartest.Pack(t, reg)), 10)
	if err != nil || len(b) != 10 {
		t.Errorf("got %q, %v", b, err)
	}
	for name, in := range map[string][]byte{
		"link":      tartest.Pack(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "passwd", Linkname: "/etc/shadow"}),
		"directory": tartest.Pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "passwd/"}),
		"two":       tartest.Pack(t, reg, reg), "large": tartest.Pack(t, tar.Header{Typeflag: tar.TypeReg, Name: "p", Size: 11}),
		"none": tartest.Pack(t), "cut": tartest.Pack(t, reg)[:515],
	} {
		if b, err := onlyFile(bytes.NewReader(in), 10); err == nil {
			t.Errorf("%s: got %q", name, b)
		}
	}
}

func FuzzOnlyFile(f *testing.F) {
	f.Add(tartest.Pack(f, tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Size: 10}))
	f.Fuzz(func(t *testing.T, in []byte) {
		if b, err := onlyFile(bytes.NewReader(in), 64); err == nil && len(b) > 64 {
			t.Errorf("got %d bytes", len(b))
		}
	})
}
