package repository_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/repository"
	"securebench/internal/sandbox/holder"
	"securebench/internal/verdict"
)

func entry(name string, kind byte, records ...string) tar.Header {
	h := tar.Header{Name: name, Typeflag: kind, Mode: 0o644}
	for i := 0; i < len(records); i += 2 {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[records[i]] = records[i+1]
	}
	return h
}

func regular(name, content string, records ...string) tar.Header {
	h := entry(name, tar.TypeReg, records...)
	h.Size = int64(len(content))
	return h
}

// TestRead: what a workspace's archive can hold, and what of it is odd.
func TestRead(t *testing.T) {
	t.Parallel()
	contents := map[string]string{"a.py": "x = 1\n", "run": "#!/bin/sh\n", "both": "same", "sub/.git": "gitdir: /x\n", ".git/config": "[core]\n"}
	run := regular("run", contents["run"])
	run.Mode = 0o4755
	link := entry("link", tar.TypeSymlink)
	link.Linkname = "../target"
	archive := pack(t, []tar.Header{
		entry(".git/", tar.TypeDir), regular(".git/config", contents[".git/config"]),
		entry("pipe", tar.TypeFifo), entry("sock", tar.TypeFifo, holder.RecordType, holder.Socket),
		entry("closed", tar.TypeFifo, holder.RecordType, holder.Unreadable), entry("dev", tar.TypeChar),
		regular("a.py", contents["a.py"]), regular("both", contents["both"], holder.RecordLinks, "2"), run, link,
		entry("empty/", tar.TypeDir), entry("sub/", tar.TypeDir), regular("sub/.git", contents["sub/.git"]),
		entry("deep/", tar.TypeDir), entry("deep/er/", tar.TypeDir), entry("deep/er/.GIT/", tar.TypeDir), regular("deep/er/.GIT/config", ""),
	}, contents)
	got := map[string]string{}
	tree, err := repository.Read(bytes.NewReader(archive), roomy, func(name string, e repository.Entry, content io.Reader) error {
		data, err := io.ReadAll(content)
		got[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]repository.Entry{}
	for name, mode := range map[string]repository.Mode{"a.py": repository.Regular, "both": repository.Regular, "run": repository.Executable} {
		want[name] = repository.Entry{Mode: mode, Size: int64(len(contents[name])), Sum: sha256.Sum256([]byte(contents[name]))}
	}
	want["link"] = repository.Entry{Mode: repository.Symlink, Size: 9, Sum: sha256.Sum256([]byte("../target"))}
	if diff := cmp.Diff(want, tree.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	odd := map[string]string{"pipe": "a named pipe", "sock": "a socket", "closed": "unreadable", "dev": "a device",
		"both": "a hard link", "sub/.git": "a nested repository", "deep/er/.GIT": "a nested repository"}
	if diff := cmp.Diff(odd, tree.Odd); diff != "" {
		t.Errorf("odd (-want +got):\n%s", diff)
	}
	kept := map[string]string{"a.py": contents["a.py"], "both": "same", "run": contents["run"], "link": "../target"}
	if diff := cmp.Diff(kept, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	// Whoever keeps nothing of a content gets the same tree.
	again, err := repository.Read(bytes.NewReader(archive), roomy, func(string, repository.Entry, io.Reader) error { return nil })
	if err != nil || !cmp.Equal(again, tree) {
		t.Errorf("another tree without reading: %v", err)
	}
}

// TestReadRefuses: bounds, and archives that no workspace writes.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	one := func(name string) []tar.Header { return []tar.Header{entry(name, tar.TypeReg)} }
	deep := strings.Repeat("d/", 64) + "f"
	for name, c := range map[string]struct {
		items  []tar.Header
		bounds repository.Bounds
		reason verdict.Reason
	}{
		"too many files": {[]tar.Header{entry("a", tar.TypeReg), entry("b/", tar.TypeDir)}, repository.Bounds{Bytes: 10, Files: 1}, verdict.CandidateTooLarge},
		"too many bytes": {[]tar.Header{regular("a", "12345")}, repository.Bounds{Bytes: 4, Files: 9}, verdict.CandidateTooLarge},
		"long links":     {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "12345"}}, repository.Bounds{Bytes: 4, Files: 9}, verdict.CandidateTooLarge},
		"no bounds":      {one("a"), repository.Bounds{}, verdict.CandidateTooLarge},
		"deep":           {one(deep), roomy, verdict.CandidateTooLarge},
		"long name":      {one(strings.Repeat("n", 256)), roomy, verdict.CandidateTooLarge},
		"absolute":       {one("/etc/passwd"), roomy, verdict.CandidateNotRegular},
		"outside":        {one("../x"), roomy, verdict.CandidateNotRegular},
		"not clean":      {one("a//b"), roomy, verdict.CandidateNotRegular},
		"a dot":          {one("./a"), roomy, verdict.CandidateNotRegular},
		"twice":          {[]tar.Header{entry("a", tar.TypeReg), entry("a", tar.TypeReg)}, roomy, verdict.CandidateNotRegular},
		"file, folder":   {[]tar.Header{entry("a", tar.TypeReg), entry("a/", tar.TypeDir)}, roomy, verdict.CandidateNotRegular},
		"folder, file":   {[]tar.Header{entry("a/b", tar.TypeReg), entry("a", tar.TypeReg)}, roomy, verdict.CandidateNotRegular},
		"below a file":   {[]tar.Header{entry("a", tar.TypeReg), entry("a/b/c", tar.TypeReg)}, roomy, verdict.CandidateNotRegular},
		"below a link":   {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "x"}, entry("a/b", tar.TypeReg)}, roomy, verdict.CandidateNotRegular},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contents := map[string]string{}
			for _, h := range c.items {
				contents[h.Name] = strings.Repeat("x", int(h.Size))
			}
			_, err := repository.Read(bytes.NewReader(pack(t, c.items, contents)), c.bounds, nil)
			wantRejection(t, err, c.reason, "")
		})
	}
	closed, err := repository.Read(bytes.NewReader(pack(t, []tar.Header{entry(".", tar.TypeFifo, holder.RecordType, holder.Unreadable)}, nil)), roomy, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantRejection(t, repository.Refuse(&repository.Tree{}, closed), verdict.CandidateNotRegular, `"." cannot be read`)
	whole := pack(t, []tar.Header{regular("a", "12345")}, map[string]string{"a": "12345"})
	_, err = repository.Read(bytes.NewReader(whole[:515]), roomy, nil)
	wantRejection(t, err, verdict.CandidateNotRegular, "damaged")
	broken := errors.New("the engine is gone")
	_, err = repository.Read(io.MultiReader(bytes.NewReader(whole[:515]), brokenReader{broken}), roomy, nil)
	if !errors.Is(err, broken) {
		t.Errorf("the reader's own error became %v", err)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// wantRejection checks a rejection and that its message has a part.
func wantRejection(t *testing.T, err error, reason verdict.Reason, part string) {
	t.Helper()
	var rejection *candidate.Rejection
	if !errors.As(err, &rejection) {
		t.Errorf("no rejection, but %v", err)
	} else if rejection.Reason != reason || !strings.Contains(rejection.Message, part) {
		t.Errorf("rejected as %s, %q; want %s with %q", rejection.Reason, rejection.Message, reason, part)
	}
}

// FuzzRead: no archive breaks the reader, and what it returns is clean.
func FuzzRead(f *testing.F) {
	contents := map[string]string{"a": "x", "sub/b": "y"}
	f.Add(pack(f, []tar.Header{regular("a", "x", holder.RecordLinks, "2"), entry("sub/", tar.TypeDir), regular("sub/b", "y"), entry("p", tar.TypeFifo)}, contents))
	f.Add(pack(f, []tar.Header{entry("sub/.git/", tar.TypeDir), {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}}, nil))
	f.Fuzz(func(t *testing.T, archive []byte) {
		tree, err := repository.Read(bytes.NewReader(archive), repository.Bounds{Bytes: 1 << 20, Files: 1000}, nil)
		if err != nil {
			return
		}
		for name := range tree.Entries {
			if name == "" || name[0] == '/' || name == ".git" || strings.HasPrefix(name, ".git/") || strings.Contains("/"+name+"/", "/../") {
				t.Errorf("the tree has %q", name)
			}
		}
		if err := repository.Refuse(tree, tree); err != nil {
			t.Errorf("a tree is refused beside itself: %v", err)
		}
		if changes := repository.Compare(tree, tree); len(changes) > 0 {
			t.Errorf("a tree differs from itself: %v", changes)
		}
	})
}

// BenchmarkRead reads a checkout of 10,000 files and 30 MB; the floor only
// reads its archive.
func BenchmarkRead(b *testing.B) {
	f := files{}
	for i := range 10_000 {
		f[fmt.Sprintf("pkg%d/mod%d/file%d.py", i%20, i%400, i)] = file{repository.Regular, strings.Repeat(fmt.Sprintf("line %d\n", i), 3000/10)}
	}
	archive := f.archive(b)
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(len(archive)))
		for b.Loop() {
			tr := tar.NewReader(bytes.NewReader(archive))
			for {
				if _, err := tr.Next(); errors.Is(err, io.EOF) {
					break
				}
				if _, err := io.Copy(io.Discard, tr); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(archive)))
		for b.Loop() {
			if _, err := repository.Read(bytes.NewReader(archive), roomy, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	tree := f.tree(b)
	changed := repository.Tree{Entries: maps.Clone(tree.Entries), Odd: map[string]string{}}
	changed.Entries["new.py"] = repository.Entry{Mode: repository.Regular}
	b.Run("compare", func(b *testing.B) {
		for b.Loop() {
			if len(repository.Compare(tree, &changed)) != 1 || repository.Refuse(tree, &changed) != nil {
				b.Fatal("wrong")
			}
		}
	})
}
