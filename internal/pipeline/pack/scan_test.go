package pack_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/pipeline/pack"
)

// Assets that would make a check slow, or that fit into no workspace, are
// refused by name before any asset is read.
func TestAssetBounds(t *testing.T) {
	const flat = " (nest folders less deeply)"
	sparse := func(name string, size int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			put(t, dir, name, "")
			if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
				t.Skipf("no sparse file of %d bytes here: %v", size, err)
			}
		}
	}
	file := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				put(t, dir, name, "")
			}
		}
	}
	level := strings.Repeat("d/", 64)
	tests := []struct {
		name, path string
		make       func(*testing.T, string)
		want       string // after the place
	}{
		{"a terabyte", "big", sparse("assets/big", 1<<40),
			`assets[0].path "big" reaches assets/big, which is a file of 1099511627776 bytes, more than the 17179869184 of all assets (remove it, or create it in the image)`},
		{"a terabyte that no row names", "a", sparse("assets/big", 1<<40),
			"the pack contains a file of 1099511627776 bytes, more than the 17179869184 of all assets (remove it, or create it in the image)"},
		{"a terabyte for evaluation", "a", sparse("hidden/big", 1<<40),
			"the pack contains a file of 1099511627776 bytes, more than the 17179869184 of all assets (remove it, or create it in the image)"},
		{"two halves", "a", func(t *testing.T, dir string) {
			sparse("assets/b", 9<<30)(t, dir)
			sparse("assets/c", 10<<30)(t, dir)
		}, `assets[0].path "a" reaches assets, which is a folder of 20401094656 bytes, more than 17179869184; the largest file is c with 10737418240 (remove it, or create it in the image)`},
		{"64 folders", "d", file("assets/" + level + "f"), ""},
		{"65 folders", "d", file("assets/" + level + "d/f"), `assets[0].path "d" reaches assets/` + level + "d, which is a folder more than 64 folders deep" + flat},
		{"10,000 folders", "d", deep(10_000), `assets[0].path "d" reaches assets/` + level + "d, which is a folder more than 64 folders deep" + flat},
		{"a long path", "d", file("assets/d/" + strings.Repeat(strings.Repeat("n", 250)+"/", 4) + strings.Repeat("n", 18)), ""},
		{"a longer path", "a", file("assets/d/" + strings.Repeat(strings.Repeat("n", 250)+"/", 4) + strings.Repeat("n", 19)),
			"the pack contains a path of 1025 bytes, more than 1024 (shorten the names, or nest folders less deeply)"},
		{"a loop of links", "d", func(t *testing.T, dir string) {
			file("assets/d/e")(t, dir)
			if err := os.Symlink("..", filepath.Join(dir, "assets/d/up")); err != nil {
				t.Fatal(err)
			}
		}, `assets[0].path "d" reaches assets/d/up, which is a symbolic link (replace it by a copy: packs hold regular files and directories only)`},
		{"a socket", "s", func(t *testing.T, dir string) {
			t.Chdir(filepath.Join(dir, "assets"))
			l, err := net.Listen("unix", "s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, `assets[0].path "s" reaches assets/s, which is a special file (replace it by a copy: packs hold regular files and directories only)`},
		{"a control character", "a", file("assets/x\ny"), "the pack contains a name with a control character or a backslash (rename it)"},
		{"not UTF-8", "a", file("assets/x\xff"), "the pack contains a name that is not valid UTF-8 (rename it)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			loc := write(t, manifest, `{"id":"x","assets":[{"path":"`+tt.path+`","mount":"m"}]}`, "assets/a", "hidden/h")
			tt.make(t, filepath.Dir(loc.Manifest))
			_, errs, _ := load(t, loc)
			if _, message, ok := strings.Cut(errs, ": "); ok {
				errs = message
			}
			if diff := cmp.Diff(tt.want, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// deep makes folders in each other that no path could name.
func deep(n int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		top := filepath.Join(dir, "assets")
		t.Cleanup(func() { // os.RemoveAll has a descriptor open for each level
			if out, err := exec.Command("rm", "-rf", filepath.Join(top, "d")).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		fd, err := syscall.Open(top, syscall.O_DIRECTORY, 0)
		for range n {
			if err == nil {
				err = syscall.Mkdirat(fd, "d", 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			var next int
			next, err = syscall.Openat(fd, "d", syscall.O_DIRECTORY, 0)
			syscall.Close(fd)
			fd = next
		}
		syscall.Close(fd)
	}
}

// A folder with too many files is read only up to the bound.
func TestTooManyAssets(t *testing.T) {
	loc := write(t, manifest, "", "assets/a/1", "assets/a/2", "assets/b/1", "assets/b/2")
	root, err := os.OpenRoot(filepath.Dir(loc.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for n, want := range map[int]string{
		6: "",
		5: "b: a folder that brings the number of files and folders above 262144\n",
		3: "a: a folder that brings the number of files and folders above 262144\n",
		1: ".: a folder that brings the number of files and folders above 262144\n",
	} {
		if got, err := pack.ScanUpTo(root, "assets", n); got != want || err != nil {
			t.Errorf("%d: got %q, %v, want %q", n, got, err, want)
		}
	}
}

// Names that some file systems treat as equal would give another pack there.
func TestAliasedAssets(t *testing.T) {
	const differ = " (rename one: they differ only by case or Unicode form)"
	const end = "the pack contains a name that ends in a dot or a space (rename it: some systems drop the end)"
	tests := []struct {
		files, want string
	}{
		{"a b", ""}, {"x/Data y/data", ""}, {".hidden ...", ""}, {"straße strasse", ""},
		{"Data data", `assets/data: the pack contains a name that is "Data" on some systems` + differ},
		{"x/Data x/data", `assets/x/data: the pack contains a name that is "Data" on some systems` + differ},
		{"D/a d/b", `assets/d: the pack contains a name that is "D" on some systems` + differ},
		{"caf\u00e9 cafe\u0301", "assets/caf\u00e9: the pack contains a name that is \"cafe\u0301\" on some systems" + differ},
		{"\u212a k", "assets/\u212a: the pack contains a name that is \"k\" on some systems" + differ},
		{"a a.", "assets/a.: " + end},
		{"a.", "assets/a.: " + end},
		{"a_", "assets/a : " + end},
	}
	for _, tt := range tests {
		loc := write(t, manifest, `{"id":"x"}`)
		for name := range strings.FieldsSeq(tt.files) {
			put(t, filepath.Dir(loc.Manifest), "assets/"+strings.ReplaceAll(name, "_", " "), "")
		}
		if _, errs, _ := load(t, loc); errs != tt.want {
			t.Errorf("%s: got %s\nwant %s", tt.files, errs, tt.want)
		}
	}
}

// The error for a path that only some systems would find gives the file's
// spelling.
func TestAssetSpelling(t *testing.T) {
	for path, want := range map[string]string{
		"data/Read.me": "", "data/read.me": `assets[0].path "data/read.me" does not exist (spell it as the file system does: "data/Read.me")`,
		"DATA": `assets[0].path "DATA" does not exist (spell it as the file system does: "data")`,
		"a.":   `assets[0].path "a." has a part that ends in a dot or a space (write a relative path with forward slashes)`,
		"a /b": `assets[0].path "a /b" has a part that ends in a dot or a space (write a relative path with forward slashes)`,
	} {
		loc := write(t, manifest, `{"id":"x","assets":[{"path":"`+path+`","mount":"m"}]}`, "assets/data/Read.me")
		_, errs, _ := load(t, loc)
		if _, message, ok := strings.Cut(errs, ": "); ok {
			errs = message
		}
		if errs != want {
			t.Errorf("%s: got %s, want %s", path, errs, want)
		}
	}
}

// A folder may not contain paths that a mount could not have.
func TestFolderOverReservedPaths(t *testing.T) {
	for _, tt := range []struct{ file, mount, want string }{
		{"d/hidden.json", "task", `tasks.jsonl:1:29: assets[0] "d" brings d/hidden.json, which lies over the reserved path task/hidden.json (rename it or choose another mount)`},
		{"d/score.json", "output", `tasks.jsonl:1:29: assets[0] "d" brings d/score.json, which lies over the reserved path output/score.json (rename it or choose another mount)`},
		{"d/hidden.json", "other", ""},
		{"d/score.json", "task", ""},
		{"d/" + strings.Repeat("n", 200), strings.Repeat("m/", 412) + "m",
			`tasks.jsonl:1:29: assets[0] "d" would have paths of 1026 bytes in the workspace, more than 1024 (shorten the mount or the names)`},
	} {
		loc := write(t, manifest, `{"id":"x","assets":[{"path":"d","mount":"`+tt.mount+`"}]}`, "assets/"+tt.file)
		if _, errs, _ := load(t, loc); errs != tt.want {
			t.Errorf("%+v: got %s", tt, errs)
		}
	}
}

// Unknown keys of an asset are errors, except for the format's hints.
func TestAssetKeys(t *testing.T) {
	for keys, want := range map[string]string{
		`"type":"file","mode":"0644"`: "",
		`"readonly":true`:             `tasks.jsonl:1:39: assets[0] contains unsupported field "readonly" (did you mean "read_only"?)`,
		`"Mount":"m"`:                 `tasks.jsonl:1:39: assets[0] has field "Mount" in the wrong case (write mount)`,
	} {
		loc := write(t, manifest, `{"id":"x","assets":[{"path":"a"      ,`+keys+`}]}`, "assets/a")
		if _, errs, _ := load(t, loc); errs != want {
			t.Errorf("%s: got %s, want %s", keys, errs, want)
		}
	}
}

// A file with several names is read once, and its digest is that of a copy.
func TestHardLinks(t *testing.T) {
	linked := write(t, manifest, `{"id":"x","assets":[{"path":"a"}]}`, "outside")
	dir := filepath.Dir(linked.Manifest)
	put(t, dir, "outside", "text")
	if err := os.Mkdir(filepath.Join(dir, "assets"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := os.Link(filepath.Join(dir, "outside"), filepath.Join(dir, "assets", name)); err != nil {
			t.Skip(err)
		}
	}
	copied := write(t, manifest, `{"id":"x","assets":[{"path":"a"}]}`)
	put(t, filepath.Dir(copied.Manifest), "assets/a", "text")
	put(t, filepath.Dir(copied.Manifest), "assets/b", "text")
	p, errs, _ := load(t, linked)
	q, more, _ := load(t, copied)
	if errs+more != "" {
		t.Fatal(errs, more)
	}
	if p.Digests.PublicAssets != q.Digests.PublicAssets || len(p.PublicFiles) != 2 {
		t.Errorf("got %+v, want %+v", p.PublicFiles, q.PublicFiles)
	}
}

// A file that grows while it is read is an error, and Ctrl-C ends a long read.
func TestReadingEnds(t *testing.T) {
	loc := write(t, manifest, `{"id":"x"}`)
	put(t, filepath.Dir(loc.Manifest), "assets/big", "")
	big := filepath.Join(filepath.Dir(loc.Manifest), "assets/big")
	if err := os.Truncate(big, 15<<30); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errStopped)
	defer cancel()
	if _, err := pack.Load(ctx, loc, nil, nil); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}

	if err := os.Truncate(big, 200<<20); err != nil {
		t.Fatal(err)
	}
	stop, begun := make(chan struct{}), make(chan struct{})
	grown := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(big, os.O_WRONLY|os.O_APPEND, 0)
		close(begun)
		for err == nil {
			select {
			case <-stop:
				grown <- f.Close()
				return
			default:
				_, err = fmt.Fprint(f, "x")
			}
		}
		grown <- err
	}()
	<-begun
	_, errs, _ := load(t, loc)
	close(stop)
	if err := <-grown; err != nil {
		t.Fatal(err)
	}
	if want := "assets: big changed while it was read"; !strings.HasSuffix(errs, want) {
		t.Errorf("got %q, want %q", errs, want)
	}
}

var errStopped = errors.New("stopped")
