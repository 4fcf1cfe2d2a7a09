package candidate_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
)

// folderArchive writes headers with content that their names make up.
func folderArchive(t interface{ Fatal(...any) }, headers []tar.Header) []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		err := tw.WriteHeader(&h)
		if err == nil && h.Typeflag == tar.TypeReg {
			_, err = tw.Write([]byte(h.Name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// all lists the fingerprints of a base.
func all(b *candidate.Base) (out []candidate.Fingerprint) {
	next := b.All()
	for p, ok := next(); ok; p, ok = next() {
		out = append(out, p)
	}
	return out
}

var folder = []tar.Header{
	{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 1000},
	{Name: "a/b", Typeflag: tar.TypeReg, Mode: 0o4755},
	{Name: "a/c", Typeflag: tar.TypeSymlink, Linkname: "b"},
	{Name: "a.b", Typeflag: tar.TypeReg, Mode: 0o644},
	{Name: "p\xff", Typeflag: tar.TypeFifo},
}

func TestBaseKeepsFingerprints(t *testing.T) {
	b, err := candidate.ReadBase(bytes.NewReader(folderArchive(t, folder)), candidate.Bounds{Bytes: 6, Files: 5})
	if err != nil {
		t.Fatal(err)
	}
	got := all(b)
	var paths []string
	for _, p := range got {
		paths = append(paths, p.Path)
	}
	if !slices.Equal(paths, []string{"a", "a/b", "a/c", "a.b", "p\xff"}) || b.Bounds() != (candidate.Bounds{Bytes: 6, Files: 5}) {
		t.Errorf("%q, %+v", paths, b.Bounds())
	}
	if p := got[0]; p.UID != 1000 || p.Mode != fs.ModeDir|0o755 {
		t.Errorf("%+v", p)
	}
	if p := got[1]; p.Mode != fs.ModeSetuid|0o755 || p.Size != 3 {
		t.Errorf("%+v", p)
	}
	if len(all(nil)) != 0 || (*candidate.Base)(nil).Bounds() != (candidate.Bounds{}) {
		t.Error("no base is an empty folder")
	}
}

// TestBaseSeesChanges: whatever differs between two entries differs in their
// fingerprints; times and the number of a file's names do not count.
func TestBaseSeesChanges(t *testing.T) {
	taken := func(h tar.Header) candidate.Fingerprint {
		b, err := candidate.ReadBase(bytes.NewReader(folderArchive(t, []tar.Header{h})), candidate.Bounds{Bytes: 9, Files: 9})
		if err != nil {
			t.Fatal(err)
		}
		return all(b)[0]
	}
	link := tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "x"}
	for name, change := range map[string]func(*tar.Header){
		"target": func(h *tar.Header) { h.Linkname = "y" },
		"owner":  func(h *tar.Header) { h.Uid = 1 },
		"group":  func(h *tar.Header) { h.Gid = 1 },
		"mode":   func(h *tar.Header) { h.Mode = 0o4000 },
		"type":   func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeFifo, "" },
		"record": func(h *tar.Header) { h.PAXRecords = map[string]string{"SECUREBENCH.type": "socket"} },
	} {
		h := link
		change(&h)
		if taken(h) == taken(link) {
			t.Errorf("%s: no difference", name)
		}
	}
	same := link
	same.ModTime, same.PAXRecords = time.Unix(1e9, 0), map[string]string{"SECUREBENCH.nlink": "2"}
	if taken(same) != taken(link) {
		t.Error("times or names make a difference")
	}
}

func TestBaseIsBounded(t *testing.T) {
	data := folderArchive(t, folder)
	for name, b := range map[string]candidate.Bounds{"bytes": {Bytes: 5, Files: 5}, "files": {Bytes: 6, Files: 4}} {
		if _, err := candidate.ReadBase(bytes.NewReader(data), b); !errors.Is(err, sandbox.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twisted := slices.Clone(folder)
	slices.Reverse(twisted)
	if _, err := candidate.ReadBase(bytes.NewReader(folderArchive(t, twisted)), candidate.Bounds{Bytes: 9, Files: 9}); err == nil {
		t.Error("a base that is out of order was read")
	}
	if _, err := candidate.ReadBase(strings.NewReader("x"), candidate.Bounds{}); err == nil {
		t.Error("a damaged archive was read")
	}
}

// TestBaseKeepsAnyPath: what is shared with the path before is put back.
func TestBaseKeepsAnyPath(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[ab.]{1,3}[x]{0,2}é?`), rapid.ID).Draw(rt, "names")
		slices.Sort(names)
		var headers []tar.Header
		for _, n := range names {
			headers = append(headers, tar.Header{Name: n, Typeflag: tar.TypeReg, Uid: len(n)})
		}
		b, err := candidate.ReadBase(bytes.NewReader(folderArchive(rt, headers)), candidate.Bounds{Bytes: 1 << 20, Files: 1 << 10})
		if err != nil {
			rt.Fatal(err)
		}
		for i, p := range all(b) {
			if p.Path != names[i] || p.UID != len(p.Path) {
				rt.Fatalf("%d: %+v, want %q", i, p, names[i])
			}
		}
	})
}
