package wheels

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/fault"
)

var debian = Python{Implementation: "cpython", Minor: 11, Patch: 2, Machine: "x86_64", Glibc: 36}

// entry is a file of a wheel.
type entry struct {
	name, text string
	mode       fs.FileMode // 0 is a plain file's
}

// packed packs entries as a wheel is.
func packed(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.text == "" { // to begin to compress takes longer than to compress
			h.Method = zip.Store
		}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, e.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sumOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// shop is a registry with files of projects, by project and name.
func shop(t *testing.T, projects map[string]map[string][]byte) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		dir, name, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
		files := projects[strings.Trim(name, "/")]
		if data, ok := projects[filepath.Dir(name)][filepath.Base(name)]; ok && dir == "files" {
			_, _ = w.Write(data)
			return
		}
		if dir != "simple" || files == nil {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "<html>")
		for file, data := range files {
			fmt.Fprintf(w, `<a href="/files/%s/%s#sha256=%s">%s</a>`, strings.Trim(name, "/"), file, sumOf(data), file)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/simple", asked
}

// installed lists a tree of requirements, with modes and contents of programs.
func installed(t *testing.T, c *Cache, set Set) (names string, err error) {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteTar(set, &b); err != nil {
		return "", err
	}
	for in := tar.NewReader(&b); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(names), nil
		}
		if err != nil || h.Uid != 0 || h.Mode&0o444 != 0o444 || !filepath.IsLocal(h.Name) {
			t.Fatalf("%+v, %v", h, err)
		}
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			names += fmt.Sprintf("%s %o %q\n", h.Name, h.Mode, text)
		}
	}
}

// requiring are requirements of one file each.
func requiring(files ...[]byte) (out []Requirement) {
	for i, data := range files {
		out = append(out, Requirement{Project: fmt.Sprintf("p%d", i), Version: "1", SHA256: []string{sumOf(data)}, line: i + 1})
	}
	return out
}

// have puts files into the cache, as wheels of the projects p0, p1 and so on.
func have(t *testing.T, files ...[]byte) (*Cache, Set) {
	t.Helper()
	dir, set := t.TempDir(), Set{Name: "requirements", Version: "1", Installed: true}
	for i, data := range files {
		w := Wheel{fmt.Sprintf("p%d", i), fmt.Sprintf("p%d-1-py3-none-any.whl", i), sumOf(data)}
		if err := os.WriteFile(filepath.Join(dir, w.File), data, 0o600); err != nil {
			t.Fatal(err)
		}
		set.Wheels = append(set.Wheels, w)
	}
	return open(t, dir, nil), set
}

// TestInstall: wheels are laid out as pip does it, without running anything of them.
func TestInstall(t *testing.T) {
	t.Parallel()
	one := packed(t, entry{name: "p0/"}, entry{name: "p0/__init__.py", text: "x"}, entry{name: "p0/tool.so", text: "ELF", mode: 0o755}, entry{name: "space/__init__.py"},
		entry{name: "p0-1.data/scripts/run", text: "#!python\nimport p0\n"}, entry{name: "p0-1.data/scripts/native", text: "\x7fELF"}, entry{name: "p0-1.data/purelib/pure.py", text: "y"},
		entry{name: "p0-1.data/data/share/p0.txt", text: "z"}, entry{name: "p0-1.data/headers/p0.h", text: "h"}, entry{name: "evil.pth", text: "import os; os.system('id')"},
		entry{name: "p0-1.dist-info/entry_points.txt", text: "[console_scripts]\np0 = p0.main:cli.run [extra]\n../../x = p0:f\nbad = p0;import os:f\n[gui_scripts]\ng = p0:g\n"})
	two := packed(t, entry{name: "p1.py", text: "b"}, entry{name: "space/__init__.py"})
	c, set := have(t, one, two)
	got, err := installed(t, c, set)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`lib/p0/__init__.py 644 "x"`, `lib/p0/tool.so 755 "ELF"`, `lib/pure.py 644 "y"`, `lib/p1.py 644 "b"`, `data/share/p0.txt 644 "z"`, `lib/evil.pth 644 "import`,
		`bin/run 755 "#!/usr/bin/env python3\nimport p0\n"`, `bin/native 755 "\x7fELF"`, `bin/p0 755 "#!/usr/bin/env python3\nimport sys\nfrom p0.main import cli\nsys.exit(cli.run())\n"`,
		`lib/p0-1.dist-info/entry_points.txt 644 "[console`, `lib/space/__init__.py 644 ""`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 11 || strings.Contains(got, "headers") {
		t.Errorf("%d files:\n%s", n, got)
	}
}

// TestHostileWheels: a wheel cannot lay anything elsewhere, link to it, or fill the disk.
func TestHostileWheels(t *testing.T) {
	t.Parallel()
	many := make([]entry, maxInstalledFiles+1)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("p0/%d.py", i)}
	}
	for name, c := range map[string]struct {
		files [][]byte
		want  string
	}{
		"above":           {[][]byte{packed(t, entry{name: "../x.py"})}, "its file ../x.py cannot be laid below a folder"},
		"above, deeper":   {[][]byte{packed(t, entry{name: "p0/../../x.py"})}, "cannot be laid"},
		"absolute":        {[][]byte{packed(t, entry{name: "/etc/x"})}, "cannot be laid"},
		"other slashes":   {[][]byte{packed(t, entry{name: `..\x.py`})}, "cannot be laid"},
		"a folder above":  {[][]byte{packed(t, entry{name: "../x/"})}, "cannot be laid"},
		"out of data":     {[][]byte{packed(t, entry{name: "p0-1.data/data/../../../x"})}, "cannot be laid"},
		"out of scripts":  {[][]byte{packed(t, entry{name: "p0-1.data/scripts/../../x"})}, "cannot be laid"},
		"control":         {[][]byte{packed(t, entry{name: "p0/\x1b[2J.py"})}, "cannot be laid"},
		"whiteout":        {[][]byte{packed(t, entry{name: "p0/.wh.x"})}, "cannot be laid"},
		"long":            {[][]byte{packed(t, entry{name: strings.Repeat("a/", 300) + "x"})}, "cannot be laid"},
		"link":            {[][]byte{packed(t, entry{"p0/x", "/etc/passwd", fs.ModeSymlink | 0o777})}, "p0/x is no regular file"},
		"device":          {[][]byte{packed(t, entry{"p0/x", "", fs.ModeDevice | 0o666})}, "p0/x is no regular file"},
		"many":            {[][]byte{packed(t, many...)}, "more than 50000 files and folders"},
		"huge":            {[][]byte{claiming(t, packed(t, entry{name: "p0/x", text: "x"}), maxInstalled+1)}, "unpack to more than 1024 MiB"},
		"longer":          {[][]byte{claiming(t, packed(t, entry{name: "p0/x", text: strings.Repeat("x", 1000)}), 10)}, "p0/x is"},
		"shorter":         {[][]byte{claiming(t, packed(t, entry{name: "p0/x", text: "x"}), 1000)}, "p0/x is not as long as it says"},
		"no zip":          {[][]byte{[]byte("no wheel")}, "it is no wheel"},
		"file and folder": {[][]byte{packed(t, entry{name: "a", text: "x"}), packed(t, entry{name: "a/b", text: "x"})}, "lib/a is a file and a folder"},
		"folder and file": {[][]byte{packed(t, entry{name: "a/b", text: "x"}), packed(t, entry{name: "a", text: "x"})}, "is there already"},
		"over another":    {[][]byte{packed(t, entry{name: "a.py", text: "x"}), packed(t, entry{name: "a.py", text: "y"})}, "lib/a.py is there already, with other content"},
		"over a program":  {[][]byte{packed(t, entry{name: "p0-1.data/scripts/x", text: "x"}, entry{name: "p0-1.dist-info/entry_points.txt", text: "[console_scripts]\nx = a:b\n"})}, "bin/x is there already"},
	} {
		cache, set := have(t, c.files...)
		got, err := installed(t, cache, set)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: %v, %.200s", name, err, got)
		}
	}
	// The weak set-up: what joins names and does not look at them writes beside its folder.
	if to := filepath.Join("/tree", "../x.py"); to != "/x.py" {
		t.Errorf("joined names stay: %s", to)
	}
}

// claiming changes the size that a wheel's only file says it has, in both its headers.
func claiming(t *testing.T, data []byte, size uint32) []byte {
	t.Helper()
	at := bytes.Index(data, []byte("PK\x01\x02"))
	if at < 0 {
		t.Fatal("there is no directory")
	}
	binary.LittleEndian.PutUint32(data[at+24:], size)
	return data
}

// TestResolve: of the files with one of the digests, the one that fits the Python best is
// taken; then no registry is needed. Nothing else is taken, whatever the registry says.
func TestResolve(t *testing.T) {
	t.Parallel()
	pure, own, other, source, foreign := packed(t, entry{name: "p0.py", text: "pure"}), packed(t, entry{name: "p0.py", text: "own"}),
		packed(t, entry{name: "p0.py", text: "other"}), []byte("a source archive"), packed(t, entry{name: "p0.py", text: "foreign"})
	url, asked := shop(t, map[string]map[string][]byte{"p0": {"p0-1-py3-none-any.whl": pure, "p0-1-cp311-cp311-manylinux2014_x86_64.whl": own,
		"p0-1-cp312-cp312-manylinux2014_x86_64.whl": other, "p0-1.tar.gz": source, "p0-1-cp311-abi3-manylinux_2_5_x86_64.whl": foreign, "q-1-cp311-cp311-manylinux2014_x86_64.whl": []byte("q")}})
	dir := t.TempDir()
	resolve := func(index string, p Python, sums ...[]byte) (Set, error) {
		r := Requirement{Project: "p0", Version: "1", line: 3}
		for _, data := range sums {
			r.SHA256 = append(r.SHA256, sumOf(data))
		}
		return open(t, dir, map[string]string{"PIP_INDEX_URL": index}).Resolve(t.Context(), []Requirement{r}, p, quiet)
	}
	for _, c := range []struct {
		p    Python
		sums [][]byte
		file string
	}{
		{debian, [][]byte{pure, own, other, source}, "p0-1-cp311-cp311-manylinux2014_x86_64.whl"},
		{debian, [][]byte{pure, other, source}, "p0-1-py3-none-any.whl"}, // the foreign one would be better, and has no digest
		{Python{Implementation: "cpython", Minor: 12, Machine: "x86_64", Glibc: 36}, [][]byte{pure, own, other}, "p0-1-cp312-cp312-manylinux2014_x86_64.whl"},
	} {
		set, err := resolve(url, c.p, c.sums...)
		if err != nil || len(set.Wheels) != 1 || set.Wheels[0].File != c.file {
			t.Errorf("%s: %+v, %v", c.file, set, err)
		}
		before := asked.Load()
		if again, err := resolve("http://127.0.0.1:1/", c.p, c.sums...); err != nil || again.Wheels[0] != set.Wheels[0] || asked.Load() != before {
			t.Errorf("%s again: %+v, %v", c.file, again, err)
		}
	}
	for _, c := range []struct {
		want string
		sums [][]byte
	}{
		{"line 3: p0==1: its digests are those of source archives, and nothing is built here", [][]byte{source}},
		{"line 3: p0==1: none of its wheels with one of the digests is for cpython 3.11.2 on x86_64 with glibc 2.36 of the image: there is p0-1-cp312", [][]byte{other, source}},
		{"the registry has no file with one of its digests", [][]byte{[]byte("nothing")}},
		{"the registry has no file with one of its digests", [][]byte{[]byte("p0.py")}},
		{"its digests are those of source archives", [][]byte{[]byte("q")}}, // of another project
	} {
		if set, err := resolve(url, debian, c.sums...); fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.want, set, err)
		}
	}
}

// TestRegistryThatLies: a registry whose page has the digest that is asked for, and that
// sends another file, gives nothing.
func TestRegistryThatLies(t *testing.T) {
	t.Parallel()
	good, evil := packed(t, entry{name: "p0.py", text: "good"}), packed(t, entry{name: "p0.py", text: "evil"})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/files/") {
			_, _ = w.Write(evil)
			return
		}
		fmt.Fprintf(w, `{"files": [{"filename": "p0-1-py3-none-any.whl", "url": "/files/x", "hashes": {"sha256": %q}},
			{"filename": "../../p0-1-py3-none-any.whl", "url": "/files/x", "hashes": {"sha256": %[1]q}}]}`, sumOf(good))
	}))
	defer s.Close()
	dir := t.TempDir()
	c := open(t, dir, map[string]string{"PIP_INDEX_URL": s.URL})
	set, err := c.Resolve(t.Context(), requiring(good), debian, quiet)
	if err != nil || set.Wheels[0].File != "p0-1-py3-none-any.whl" {
		t.Fatalf("%+v, %v", set, err)
	}
	if err := c.Fetch(t.Context(), set, quiet); fault.KindOf(err) != fault.Integrity || !strings.Contains(err.Error(), "digest is another") {
		t.Errorf("fetched: %v", err)
	}
	if _, err := installed(t, c, set); err == nil {
		t.Error("it is installed")
	}
	// What was chosen is not believed for other digests, or with a name that leads out.
	for _, bad := range []string{strings.Replace(sumOf(good), "a", "b", 1), "../../x-1-py3-none-any.whl"} {
		names, err := filepath.Glob(filepath.Join(dir, "chosen-*.json"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		text := fmt.Sprintf(`[{"Project":"p0","File":"p0-1-py3-none-any.whl","SHA256":%q}]`, bad)
		if strings.HasPrefix(bad, "..") {
			text = fmt.Sprintf(`[{"Project":"p0","File":%q,"SHA256":%q}]`, bad, sumOf(good))
		}
		if err := os.WriteFile(names[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if set, err := c.Resolve(t.Context(), requiring(good), debian, quiet); err != nil || set.Wheels[0].File != "p0-1-py3-none-any.whl" || set.Wheels[0].SHA256 != sumOf(good) {
			t.Errorf("%+v, %v", set, err)
		}
	}
}

// TestTwiceRequired: of two lines of a project, at most one is for a Python.
func TestTwiceRequired(t *testing.T) {
	t.Parallel()
	line := func(marker string, n int) Requirement {
		return Requirement{Project: "a", Version: "1", Marker: marker, SHA256: []string{sumA}, line: n}
	}
	if got, err := applicable([]Requirement{line(`python_version < "3.11"`, 1), line(`python_version >= "3.11"`, 2)}, debian); err != nil || len(got) != 1 || got[0].line != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := applicable([]Requirement{line("", 1), line("", 2)}, debian); err == nil || !strings.Contains(err.Error(), "line 2: a==1 is required twice, in line 1 as well") {
		t.Error(err)
	}
	if _, err := applicable([]Requirement{line(`os_name == "nt"`, 1)}, debian); err == nil || !strings.Contains(err.Error(), "nothing of it is for cpython 3.11.2") {
		t.Error(err)
	}
}

// FuzzInstall: whatever a wheel is, its tree lies below the folder and within the bounds.
func FuzzInstall(f *testing.F) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"p0/x.py", "p0-1.data/scripts/run", "p0-1.dist-info/entry_points.txt"} {
		w, err := z.Create(name)
		if err != nil {
			f.Fatal(err)
		}
		fmt.Fprint(w, "[console_scripts]\nx = a:b\n")
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		var b bytes.Buffer
		out := tar.NewWriter(&b)
		i := &installer{out: out, files: map[string]*[sha256.Size]byte{}, left: 1 << 20}
		if i.wheel(data) != nil || out.Close() != nil {
			return
		}
		for in := tar.NewReader(&b); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil || !filepath.IsLocal(h.Name) || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir || h.Size > 1<<20+maxScript {
				t.Fatalf("%+v, %v", h, err)
			}
		}
	})
}
