package programs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func all(name string) string { return name }

// pack makes a package of entries.
func pack(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for _, h := range entries {
		content := strings.Repeat("x", int(h.Size))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string, size int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}
}

// unpacked unpacks into a folder "in" of a new folder, beside which nothing may
// appear, and returns what is in the new folder.
func unpacked(t testing.TB, do func(root *os.Root, dir string) error) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	failed := do(root, filepath.Join(dir, "in"))
	found := map[string]string{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		info, at := d.Info()
		found[rel] = fmt.Sprint(info.Mode(), info.Size())
		return errors.Join(err, at)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, failed
}

func ours(data []byte, l limits) func(*os.Root, string) error {
	return func(root *os.Root, _ string) error {
		return unpackTarball(context.Background(), bytes.NewReader(data), root, all, l)
	}
}

func TestTarball(t *testing.T) {
	t.Parallel()
	program := file("package/bin/run", 3)
	program.Mode = 0o4777 // only "can be executed" is kept of it
	data := pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "package/", Mode: 0o700}, file("package/package.json", 5), program, file("package/a/b/c", 0), file("package/left/out", 9))
	found, err := unpacked(t, func(root *os.Root, _ string) error {
		return unpackTarball(context.Background(), bytes.NewReader(data), root, func(name string) string {
			if name == "left/out" {
				return ""
			}
			return "to/" + name
		}, ofAgents())
	})
	want := map[string]string{"in/to/package.json": "-rw-r--r-- 5", "in/to/bin/run": "-rwxr-xr-x 3", "in/to/a/b/c": "-rw-r--r-- 0"}
	if err != nil || !maps.Equal(found, want) {
		t.Errorf("got %v, %v", found, err)
	}
}

// naive unpacks as many programs did: it follows what names and links say.
func naive(data []byte) func(*os.Root, string) error {
	return func(_ *os.Root, dir string) error {
		zipped, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return err
		}
		for in := tar.NewReader(zipped); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
				return err
			}
			to := filepath.Join(dir, h.Name)
			switch h.Typeflag {
			case tar.TypeSymlink:
				err = os.Symlink(h.Linkname, to)
			case tar.TypeLink:
				err = os.Link(filepath.Join(dir, h.Linkname), to)
			case tar.TypeReg:
				os.MkdirAll(filepath.Dir(to), 0o755)
				var f *os.File
				if f, err = os.Create(to); err == nil {
					_, err = io.Copy(f, in)
					f.Close()
				}
			}
			if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
				return err
			}
		}
	}
}

// TestLeadsOut: each of these writes beside the folder or leaves a link where it
// is unpacked naively. Here each is refused by name.
func TestTarballLeadsOut(t *testing.T) {
	t.Parallel()
	link := func(kind byte, name, to string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: to}
	}
	for name, entries := range map[string][]tar.Header{
		"dots":                   {file("package/../../out", 1)},
		"dots at the start":      {file("../out", 1)},
		"a link, then through":   {link(tar.TypeSymlink, "package", ".."), file("package/out", 1)},
		"a link to a file":       {link(tar.TypeSymlink, "passwd", "/etc/passwd")},
		"a link to nowhere":      {link(tar.TypeSymlink, "x", "../out"), file("x", 1)},
		"a hard link":            {file("package", 1), link(tar.TypeLink, "b", "package")},
		"the same name twice":    {file("package/a", 1), file("package/a", 2)},
		"two first folders":      {file("one/a", 1), file("two/a", 2)},
		"a slash at the start":   {file("/out", 1)},
		"a double slash":         {file("package//a", 1)},
		"a dot":                  {file("package/./a", 1)},
		"a backslash":            {file(`package/..\..\out`, 1)},
		"a line break":           {file("package/a\nb", 1)},
		"bytes that are no text": {file("package/\xff", 1)},
	} {
		data := pack(t, entries...)
		if found, err := unpacked(t, naive(data)); len(found) == 0 && err == nil {
			t.Errorf("%s: naively, nothing happens either: the test shows nothing", name)
		}
		found, err := unpacked(t, ours(data, ofAgents()))
		if !errors.Is(err, errPackage) || strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
		for f, is := range found {
			if !strings.HasPrefix(f, "in/") || strings.HasPrefix(is, "L") {
				t.Errorf("%s: left %s", name, f)
			}
		}
	}
}

// TestOddEntries: nothing but files and folders is unpacked.
func TestTarballOddEntries(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{tar.TypeSymlink, tar.TypeLink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo, tar.TypeCont} {
		data := pack(t, file("package/first", 1), tar.Header{Typeflag: kind, Name: "package/odd", Linkname: "first"})
		if found, err := unpacked(t, ours(data, ofAgents())); !errors.Is(err, errPackage) || len(found) > 1 {
			t.Errorf("%c: %v, %v", kind, found, err)
		}
	}
	// A file where another has a folder, and the other way round.
	for _, data := range [][]byte{
		pack(t, file("package/a", 1), file("package/a/b", 1)), pack(t, file("package/a/b", 1), file("package/a", 1)),
	} {
		if _, err := unpacked(t, ours(data, ofAgents())); !errors.Is(err, errPackage) || !strings.Contains(err.Error(), "in the place of another") {
			t.Errorf("got %v", err)
		}
	}
}

// TestLimits: a package within the limits is unpacked, one beyond any of them is
// refused before it takes much more than that.
func TestTarballLimits(t *testing.T) {
	t.Parallel()
	small := limits{files: 10, bytes: 64 << 10, depth: 5, name: 60}
	many := make([]tar.Header, 11)
	for i := range many {
		many[i] = file(fmt.Sprintf("package/%d", i), 1)
	}
	folders := make([]tar.Header, 11)
	for i := range folders {
		folders[i] = tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("package/%d/", i)}
	}
	records := map[string]string{}
	for i := range 15 {
		records[fmt.Sprintf("SB.%d", i)] = strings.Repeat("y", 60_000)
	}
	heavy := make([]tar.Header, 3)
	for i := range heavy {
		heavy[i] = file(fmt.Sprintf("package/%d", i), 0)
		heavy[i].PAXRecords, heavy[i].Format = records, tar.FormatPAX
	}
	for name, c := range map[string]struct {
		data []byte
		good bool
	}{
		"as large as may be":  {pack(t, file("package/a", 64<<10)), true},
		"as many as may be":   {pack(t, many[:10]...), true},
		"one byte more":       {pack(t, file("package/a", 64<<10), file("package/b", 1)), false},
		"a bomb":              {pack(t, file("package/a", 2<<20)), false},
		"one entry more":      {pack(t, many...), false},
		"folders":             {pack(t, folders...), false},
		"deep":                {pack(t, file("package/1/2/3/4/5/6", 1)), false},
		"a long name":         {pack(t, file("package/"+strings.Repeat("n", 60), 1)), false},
		"heavy headers":       {pack(t, heavy...), false},
		"not compressed":      {[]byte("a text that is long enough to be a header"), false},
		"nothing":             {nil, false},
		"a cut package":       {pack(t, file("package/a", 1000))[:60], false},
		"not a tar in a gzip": {gzipped(t, strings.Repeat("not a header ", 100)), false},
	} {
		found, err := unpacked(t, ours(c.data, small))
		if c.good != (err == nil) || !c.good && !errors.Is(err, errPackage) {
			t.Errorf("%s: %v", name, err)
		}
		if len(found) > small.files {
			t.Errorf("%s: %d files", name, len(found))
		}
	}
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSparse: a file of holes counts with the size that it has on the disk.
func TestTarballSparse(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	const size = 1 << 40
	content := fmt.Sprintf("1\n%d\n0\n", size)
	content += strings.Repeat("\x00", 512-len(content))
	h := file("package/GNUSparseFile.0/holes", int64(len(content)))
	h.Format = tar.FormatPAX
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, content)
	w.Close()
	// Go writes no sparse files, so the record that makes it one is put in front.
	record := func(k, v string) string {
		n := len(k) + len(v) + 3
		for n != len(fmt.Sprint(n))+len(k)+len(v)+3 {
			n = len(fmt.Sprint(n)) + len(k) + len(v) + 3
		}
		return fmt.Sprintf("%d %s=%s\n", n, k, v)
	}
	records := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", "package/holes") + record("GNU.sparse.realsize", fmt.Sprint(size))
	var head bytes.Buffer
	hw := tar.NewWriter(&head)
	x := tar.Header{Typeflag: tar.TypeReg, Name: "PaxHeaders.0/holes", Size: int64(len(records)), Format: tar.FormatUSTAR}
	if err := hw.WriteHeader(&x); err != nil {
		t.Fatal(err)
	}
	io.WriteString(hw, records)
	hw.Flush()
	raw := head.Bytes()
	raw[156] = 'x'
	checksum(raw)
	data := gzipped(t, string(raw)+b.String())
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(zipped).Next(); err != nil || h.Size != size {
		t.Fatalf("it is not sparse: the test shows nothing: %+v, %v", h, err)
	}
	if found, err := unpacked(t, ours(data, ofAgents())); !errors.Is(err, errPackage) || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// checksum sets the checksum of a header.
func checksum(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, c := range block[:512] {
		sum += int(c)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func TestTarballInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	data := pack(t, file("package/a", 1), file("package/b", 1))
	_, err := unpacked(t, func(root *os.Root, _ string) error {
		return unpackTarball(ctx, bytes.NewReader(data), root, func(name string) string { cancel(); return name }, ofAgents())
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
