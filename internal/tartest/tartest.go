// Package tartest makes tar archives for tests.
package tartest

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"
)

// Pack makes an archive. The content of a file is in its link name; one without has as
// many bytes as its size says.
func Pack(tb testing.TB, entries ...tar.Header) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			if content == "" {
				content = strings.Repeat("x", int(h.Size))
			}
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}
