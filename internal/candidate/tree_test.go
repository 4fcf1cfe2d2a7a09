package candidate_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/memtest"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

var roomy = candidate.Bounds{Bytes: 1 << 20, Files: 100}

// item is one header and its content.
type item struct {
	tar.Header
	data string
}

func reg(name, data string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(0, 0)}, data}
}

func dir(name string) item {
	return item{tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(0, 0)}, ""}
}

func link(name, to string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777, ModTime: time.Unix(0, 0)}, ""}
}

// gone is a deletion.
func gone(name string) item {
	return with(reg(name, ""), func(h *tar.Header) { h.Mode, h.PAXRecords = 0, map[string]string{sandbox.DeletedRecord: "1"} })
}

func owned(i item, uid, gid int) item {
	return with(i, func(h *tar.Header) { h.Uid, h.Gid = uid, gid })
}

func with(i item, change func(*tar.Header)) item {
	change(&i.Header)
	return i
}

// archive writes items as they are.
func archive(tb testing.TB, items ...item) []byte {
	tb.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, i := range items {
		if err := tw.WriteHeader(&i.Header); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(tw, i.data); err != nil {
			tb.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestTreeDigest: the digest covers exactly the content of a tree.
func TestTreeDigest(t *testing.T) {
	sum := func(items ...item) string {
		t.Helper()
		s, err := candidate.ReadTree(bytes.NewReader(archive(t, items...)), roomy, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := []item{dir("a"), owned(reg("a/b", "x"), 1000, 3_000_000), reg("a.txt", ""), gone("g/h"), link("l", "a/b")}
	want := sum(base...)
	// Records name it: it must not change.
	if want != "sha256:11dca43d02e8e30a7a801f9fbab627e8398a3c7a0213be96f7a8c47f76c124fb" {
		t.Errorf("digest %s", want)
	}
	swap := func(i int, other item) []item {
		out := slices.Clone(base)
		out[i] = other
		return out
	}
	for name, other := range map[string][]item{
		"content":      swap(1, owned(reg("a/b", "y"), 1000, 3_000_000)),
		"name":         swap(1, owned(reg("a/c", "x"), 1000, 3_000_000)),
		"permissions":  swap(0, with(dir("a"), func(h *tar.Header) { h.Mode = 0o700 })),
		"owner":        swap(1, owned(reg("a/b", "x"), 1001, 3_000_000)),
		"group":        swap(1, owned(reg("a/b", "x"), 1000, 3_000_001)),
		"type":         swap(2, dir("a.txt")),
		"no deletion":  swap(3, with(reg("g/h", ""), func(h *tar.Header) { h.Mode = 0 })),
		"target":       swap(4, link("l", "a/c")),
		"one less":     base[:4],
		"an empty one": {},
	} {
		if sum(other...) == want {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

// TestHostileTrees: no archive is a tree that is not one, and what is wrong is
// named. Archives of a store are canonical besides; those of a person may be
// in any order and have times and owners.
func TestHostileTrees(t *testing.T) {
	deep := strings.Repeat("d/", 64) + "f"
	cut := archive(t, reg("a", strings.Repeat("x", 2000)))[:1200]
	for name, tt := range map[string]struct {
		data   []byte
		bounds candidate.Bounds
		want   string
		loose  bool // a person's archive may be so
	}{
		"absolute name":        {archive(t, reg("/a", "")), roomy, `"/a" has an absolute name`, false},
		"climbing name":        {archive(t, reg("../a", "")), roomy, `"../a"`, false},
		"climbing inside":      {archive(t, dir("a"), reg("a/../../b", "")), roomy, `"a/../../b"`, false},
		"backslash":            {archive(t, reg(`a\b`, "")), roomy, "backslash", false},
		"empty part":           {archive(t, dir("a"), reg("a//b", "")), roomy, "empty part", false},
		"bad UTF-8":            {archive(t, with(reg("a", ""), func(h *tar.Header) { h.Name, h.Format = "a\xff", tar.FormatGNU })), roomy, "not valid UTF-8", false},
		"twice":                {archive(t, reg("a", "1"), reg("a", "2")), roomy, `"a" is in the`, false},
		"file and folder":      {archive(t, reg("a", "1"), dir("a")), roomy, `"a" is in the`, false},
		"below a file":         {archive(t, reg("a", ""), reg("a/b", "")), roomy, `"a/b" lies below`, false},
		"below a link":         {archive(t, link("a", "/etc"), reg("a/passwd", "")), roomy, `"a/passwd" lies below`, false},
		"below a deletion":     {archive(t, gone("a"), reg("a/b", "")), roomy, `"a/b" lies below`, false},
		"deletion with bytes":  {archive(t, with(reg("a", "x"), func(h *tar.Header) { h.PAXRecords = gone("").PAXRecords })), roomy, "", false},
		"deletion of a folder": {archive(t, with(dir("a"), func(h *tar.Header) { h.PAXRecords = gone("").PAXRecords })), roomy, "extended headers", false},
		"half a deletion":      {archive(t, with(gone("a"), func(h *tar.Header) { h.PAXRecords = map[string]string{sandbox.DeletedRecord: "0"} })), roomy, "extended headers", false},
		"link to nowhere":      {archive(t, link("a", "x\xff")), roomy, "link target that cannot be kept", false},
		"nobody's":             {archive(t, owned(reg("a", ""), 1<<32-1, 0)), roomy, "an owner that no file can have", false},
		"hard link":            {archive(t, reg("a", ""), item{tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}, ""}), roomy, `"b" is a hard link`, false},
		"pipe":                 {archive(t, item{tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}), roomy, `"p" is a pipe`, false},
		"device":               {archive(t, item{tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1}, ""}), roomy, `"d" is a device`, false},
		"extended header":      {archive(t, with(reg("a", ""), func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "1"} })), roomy, "extended headers", false},
		"sparse":               {sparse(), roomy, "", false},
		"too deep":             {archive(t, reg(deep, "")), roomy, "too deep", false},
		"too long a part":      {archive(t, reg(strings.Repeat("n", 256), "")), roomy, "longer than 255 bytes", false},
		"too many":             {archive(t, reg("a", ""), reg("b", "")), candidate.Bounds{Bytes: 9, Files: 1}, "more than 1 files", false},
		"too large":            {archive(t, reg("a", "0123456789")), candidate.Bounds{Bytes: 9, Files: 9}, "more than 9 bytes", false},
		"cut":                  {cut, roomy, "", false},
		"noise":                {[]byte(strings.Repeat("noise", 300)), roomy, "damaged", false},
		"order":                {archive(t, reg("b", ""), reg("a", "")), roomy, `"a" is out of order`, true},
		"order of bytes":       {archive(t, dir("a"), reg("a.txt", ""), reg("a/b", "")), roomy, `"a/b"`, true},
		"a time":               {archive(t, with(reg("a", ""), func(h *tar.Header) { h.ModTime = time.Unix(1, 0) })), roomy, "canonical", true},
		"an exact time":        {archive(t, with(reg("a", ""), func(h *tar.Header) { h.ModTime, h.Format = time.Unix(1, 5), tar.FormatPAX })), roomy, "extended headers", true},
		"an owner":             {archive(t, with(reg("a", ""), func(h *tar.Header) { h.Uid, h.Uname = 1000, "me" })), roomy, "canonical", true},
		"special bits":         {archive(t, with(reg("a", ""), func(h *tar.Header) { h.Mode = 0o4755 })), roomy, "canonical", true},
		"a dot before":         {archive(t, dir("."), reg("./a", "")), roomy, `"."`, true},
		"something behind":     {append(archive(t, reg("a", "")), 0), roomy, "canonical", true},
		"another form":         {archive(t, with(reg("a", ""), func(h *tar.Header) { h.Format = tar.FormatGNU })), roomy, "canonical", true},
		"a folder's own bytes": {archive(t, with(dir("a"), func(h *tar.Header) { h.Linkname = "x" })), roomy, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := candidate.ReadTree(bytes.NewReader(tt.data), tt.bounds, nil)
			var r *candidate.Rejection
			if !errors.As(err, &r) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("reading: %v, want %q", err, tt.want)
			}
			var out bytes.Buffer
			_, err = candidate.Import(bytes.NewReader(tt.data), "", at, tt.bounds, &out)
			if tt.loose != (err == nil) || err != nil && !errors.As(err, &r) {
				t.Errorf("importing: %v, want success %v", err, tt.loose)
			}
			if err == nil {
				if _, err := candidate.ReadTree(&out, tt.bounds, nil); err != nil {
					t.Errorf("what was imported: %v", err)
				}
			}
		})
	}
}

// sparse is an archive that claims a file of a gigabyte.
func sparse() []byte {
	b := make([]byte, 2048)
	copy(b, "hole")
	copy(b[100:], "0000644\x00")
	copy(b[124:], "00000000000\x00")
	copy(b[136:], "00000000000\x00")
	b[156] = 'S'
	copy(b[257:], "ustar  \x00")
	copy(b[386:], "07777777777\x0000000000000\x00")
	copy(b[483:], "07777777777\x00")
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// TestStoredTrees: a tree is stored under its digest and read back as it was,
// or not to its end.
func TestStoredTrees(t *testing.T) {
	s, folder := newStore(t)
	data := archive(t, dir("a"), reg("a/b", "text"))
	c, err := s.Put(task.Workspace, candidate.File, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := candidate.ReadTree(bytes.NewReader(data), roomy, nil); err != nil || sum != c.Digest || c.Size != int64(len(data)) {
		t.Errorf("stored as %+v, want %s, %v", c, sum, err)
	}
	read := func() ([]byte, error) {
		r, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	if got, err := read(); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := c.Bytes(); err == nil {
		t.Error("a tree is read into memory")
	}
	opens := 0
	if tree, err := candidate.Check(func() (io.ReadCloser, error) { opens++; return c.Open() }, c.Digest, io.Discard); err != nil || !tree || opens != 1 {
		t.Errorf("check: %v, %v, after it was opened %d times", tree, err, opens)
	}
	r, err := c.Open() // which is not read to its end
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 10)); err != nil || r.Close() != nil {
		t.Error("a tree cannot be left in the middle")
	}
	file := filepath.Join(folder, strings.TrimPrefix(c.Digest, "sha256:"))
	for name, changed := range map[string][]byte{
		"another tree": archive(t, dir("a"), reg("a/b", "texT")), "cut": data[:1000], "more": append(slices.Clone(data), 0),
		"not canonical": archive(t, dir("a"), with(reg("a/b", "text"), func(h *tar.Header) { h.Uid = 1 })), "empty": nil,
	} {
		if err := os.WriteFile(file, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(); !errors.Is(err, candidate.ErrDamaged) {
			t.Errorf("%s: read with %v, want ErrDamaged", name, err)
		}
		if err := s.Check(c.Digest); !errors.Is(err, candidate.ErrDamaged) {
			t.Errorf("%s: checked with %v, want ErrDamaged", name, err)
		}
	}
	if _, err := s.Put(task.Workspace, candidate.File, bytes.NewReader(archive(t, reg("../x", "")))); err == nil {
		t.Error("a hostile tree is stored")
	}
	if left, err := fs.Glob(os.DirFS(folder), "*"); err != nil || len(left) != 1 {
		t.Errorf("the store holds %v, %v", left, err)
	}
}

// TestTreesAreStreamed: a tree that is much larger than what may be held goes
// into the store and out of it.
func TestTreesAreStreamed(t *testing.T) {
	const size = 96 << 20
	s, _ := newStore(t)
	pr, pw := io.Pipe()
	go func() {
		tw := candidate.NewTreeWriter(pw, candidate.Bounds{Bytes: size, Files: 1})
		err := tw.Add(candidate.Entry{Path: "zeros", Mode: 0o644, Size: size}, io.LimitReader(zeros{}, size))
		if err == nil {
			_, err = tw.Close()
		}
		_ = pw.CloseWithError(err)
	}()
	used := memtest.Allocated(func() {
		c, err := s.Put(task.Workspace, candidate.File, pr)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		if err != nil || n != c.Size || r.Close() != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	if used > 16<<20 {
		t.Errorf("%d MiB were allocated for a tree of %d MiB", used>>20, size>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// at is where imported archives lie.
var at = candidate.Place{Dir: "/srv/app", Owner: sandbox.User{UID: 1000, GID: 100}}

// TestHeldTrees: a tree that is held is opened once, and checked by the first reader
// that comes to its end.
func TestHeldTrees(t *testing.T) {
	s, folder := newStore(t)
	data := archive(t, dir("a"), reg("a/b", "text"))
	stored, err := s.Put(task.Workspace, candidate.File, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, strings.TrimPrefix(stored.Digest, "sha256:"))
	hold := func() (read func(limit int64) error) {
		c, done, err := stored.Hold()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := done(); err != nil {
				t.Error(err)
			}
		})
		return func(limit int64) error {
			r, err := c.Open()
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, io.LimitReader(r, limit))
			return err
		}
	}
	const whole, part = 1 << 20, 10
	damaged := bytes.Replace(data, []byte("text"), []byte("texT"), 1)
	read, late, other := hold(), hold(), hold()
	if err := errors.Join(read(part), read(whole), other(part)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, damaged, 0o644); err != nil { // the same file
		t.Fatal(err)
	}
	for name, of := range map[string]func(int64) error{"never read": late, "not read to its end": other} {
		for range 2 {
			if err := of(whole); !errors.Is(err, candidate.ErrDamaged) {
				t.Errorf("%s: read with %v, want ErrDamaged", name, err)
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := read(whole); err != nil {
		t.Errorf("opened or checked again: %v", err)
	}
}

// TestNamesHaveNoMeaning (W13): what a file system for layers takes for a
// deletion is a file like any other, and goes through a tree as one.
func TestNamesHaveNoMeaning(t *testing.T) {
	var got []candidate.Entry
	_, err := candidate.ReadTree(bytes.NewReader(archive(t, reg("a/.wh..wh..opq", "x"), reg("a/.wh.b", ""), gone("a/c"))), roomy, func(e candidate.Entry, _ io.Reader) error {
		got = append(got, e)
		return nil
	})
	want := []candidate.Entry{{Path: "a/.wh..wh..opq", Mode: 0o644, Size: 1}, {Path: "a/.wh.b", Mode: 0o644}, {Path: "a/c", Deleted: true}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("-want +got:\n%s%v", d, err)
	}
	var r *candidate.Rejection
	if _, err := candidate.Import(bytes.NewReader(archive(t, gone("a"))), "", at, roomy, io.Discard); !errors.As(err, &r) || !strings.Contains(err.Error(), "is a deletion") {
		t.Errorf("a deletion is imported: %v", err)
	}
}

// TestImport: an archive as tar writes it becomes the canonical one, whatever
// its order.
func TestImport(t *testing.T) {
	items := []item{reg("./b/c", "two"), with(dir("./b"), func(h *tar.Header) { h.Mode, h.Gid = 0o700, 7 }), reg("./x/y", "three"), reg("a", "one"), link("l", "../a")}
	foreign := archive(t, items...)
	var out bytes.Buffer
	sum, err := candidate.Import(bytes.NewReader(foreign), "", at, roomy, &out)
	if err != nil {
		t.Fatal(err)
	}
	placed := func(i item) item {
		return owned(with(i, func(h *tar.Header) { h.Name = "srv/app/" + h.Name }), 1000, 100)
	}
	want := archive(t, placed(reg("a", "one")), placed(with(dir("b"), func(h *tar.Header) { h.Mode = 0o700 })), placed(reg("b/c", "two")),
		placed(link("l", "../a")), placed(reg("x/y", "three")))
	if !bytes.Equal(out.Bytes(), want) {
		t.Error("it is not the canonical archive")
	}
	if got, err := candidate.ReadTree(bytes.NewReader(want), roomy, nil); err != nil || got != sum {
		t.Errorf("digest %s, want %s: %v", got, sum, err)
	}
	if _, err := candidate.Import(bytes.NewReader(foreign), sum, at, roomy, io.Discard); err == nil {
		t.Error("an archive that changed is imported")
	}
}

// TestTreeProperty: whatever files there are, a tree goes through the store and
// an import unchanged, and has one digest.
func TestTreeProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a.é-]{1,3}(/[b.0]{1,2}){0,2}`), rapid.ID[string]).Draw(rt, "names")
		var items []item
		taken := map[string]bool{}
		for _, n := range names {
			if path.Clean(n) != n || strings.HasPrefix(n, ".") || strings.Contains(n, "/.") {
				continue
			}
			clash := taken[n]
			for d := path.Dir(n); d != "."; d = path.Dir(d) {
				clash = clash || slices.ContainsFunc(items, func(i item) bool { return i.Name == d })
			}
			if clash {
				continue
			}
			items = append(items, reg(n, rapid.StringN(0, 9, 9).Draw(rt, "data")))
			for d := path.Dir(n); d != "."; d = path.Dir(d) {
				taken[d] = true
			}
		}
		var out, again bytes.Buffer
		sum, err := candidate.Import(bytes.NewReader(archive(t, items...)), "", at, roomy, &out)
		if err != nil {
			rt.Fatal(err)
		}
		slices.Reverse(items)
		other, err := candidate.Import(bytes.NewReader(archive(t, items...)), "", at, roomy, &again)
		if err != nil || other != sum || !bytes.Equal(out.Bytes(), again.Bytes()) {
			rt.Fatalf("the order of the archive counts: %s and %s, %v", sum, other, err)
		}
		got := map[string]string{}
		read, err := candidate.ReadTree(&out, roomy, func(e candidate.Entry, r io.Reader) error {
			b, err := io.ReadAll(r)
			got[strings.TrimPrefix(e.Path, "srv/app/")] = string(b)
			return err
		})
		want := map[string]string{}
		for _, i := range items {
			want[i.Name] = i.data
		}
		if err != nil || read != sum || !cmp.Equal(want, got) {
			rt.Fatalf("%v became %v: %v", want, got, err)
		}
	})
}

// FuzzReadTree: nothing but a canonical archive is a tree, and its names are
// safe.
func FuzzReadTree(f *testing.F) {
	f.Add(archive(f, dir("a"), owned(reg("a/b", "text"), 1, 2), gone("a/c"), link("l", "x")))
	f.Add(archive(f, reg(strings.Repeat("long/", 30)+"name", "")))
	f.Add(archive(f, reg("../a", "x")))
	f.Add(sparse())
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		tw := candidate.NewTreeWriter(&out, roomy)
		sum, err := candidate.ReadTree(bytes.NewReader(data), roomy, func(e candidate.Entry, r io.Reader) error {
			if !fs.ValidPath(e.Path) || e.Path == "." {
				t.Errorf("name %q", e.Path)
			}
			return tw.Add(e, r)
		})
		if err != nil {
			_, _ = candidate.Import(bytes.NewReader(data), "", at, roomy, io.Discard)
			return
		}
		again, err := tw.Close()
		if err != nil || again != sum || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("two archives are one tree: %v", err)
		}
	})
}

// TestAdmit: limits hold for every text; UTF-8 is asked only of text and code.
func TestAdmit(t *testing.T) {
	for _, tt := range []struct {
		kind task.CandidateKind
		data string
		want verdict.Reason
	}{
		{task.Text, "x\xff", verdict.InvalidUTF8}, {task.Code, "x\xff", verdict.InvalidUTF8}, {task.Patch, "x\xff", ""},
		{task.Patch, "0123456789", verdict.CandidateTooLarge}, {task.Text, "0123456789", verdict.CandidateTooLarge},
		{task.Workspace, "", verdict.CandidateNotRegular}, {task.Text, "", ""},
	} {
		_, err := candidate.Admit(tt.kind, candidate.File, []byte(tt.data), 9)
		var r *candidate.Rejection
		if errors.As(err, &r) != (tt.want != "") || r != nil && r.Reason != tt.want {
			t.Errorf("%s %q: %v, want %q", tt.kind, tt.data, err, tt.want)
		}
	}
}

// TestCheckedTexts: a text is read once, and twice if it begins like an archive, as
// which it is not taken.
func TestCheckedTexts(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		opens int
	}{
		"short": {"x", 1}, "long": {strings.Repeat("x", 5000), 1}, "zeros": {strings.Repeat("\x00", 2000), 2},
		"an archive": {strings.Repeat("x", 257) + "ustar" + strings.Repeat("x", 5000), 2},
	} {
		opens, sum := 0, digest.Bytes([]byte(tt.text))
		var got strings.Builder
		tree, err := candidate.Check(func() (io.ReadCloser, error) { opens++; return io.NopCloser(strings.NewReader(tt.text)), nil }, sum, &got)
		if err != nil || tree || got.String() != tt.text || opens != tt.opens {
			t.Errorf("%s: %v, %v, %d bytes, opened %d times", name, tree, err, got.Len(), opens)
		}
	}
}
