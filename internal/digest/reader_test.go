package digest_test

import (
	"testing"
	"testing/fstest"

	"securebench/internal/digest"
)

func TestFile(t *testing.T) {
	fsys := fstest.MapFS{"f": {Data: []byte("text")}}
	sum, err := digest.File(fsys, "f")
	if err != nil || sum != digest.Bytes([]byte("text")) {
		t.Errorf("got %s, %v", sum, err)
	}
	if _, err := digest.File(fsys, "none"); err == nil {
		t.Error("a missing file has a digest")
	}
}
