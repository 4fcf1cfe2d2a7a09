package initproc

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/tartest"
)

// fileOf, folderOf, linkOf and deletionOf are entries of an archive of changes.
func fileOf(name, content string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), Linkname: content}
}

func folderOf(name string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}
}

func linkOf(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}
}

func deletionOf(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, PAXRecords: map[string]string{sandbox.DeletedRecord: "1"}}
}

// ownedByMe makes entries belong to this process, which may not be root's.
func ownedByMe(headers []tar.Header) []tar.Header {
	for i := range headers {
		headers[i].Uid, headers[i].Gid = os.Getuid(), os.Getgid()
	}
	return headers
}

// listing describes what is below a folder, by lines.
func listing(t testing.TB, dir string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v", p[len(dir)+1:], info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			lines = append(lines, line+" -> "+target)
			return err
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			lines = append(lines, line+" "+string(b))
			return err
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// beforeChange is a tree with something of each kind, in which a link leads to
// a folder outside.
func beforeChange(t testing.TB) (dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "root"), filepath.Join(top, "outside")
	err := errors.Join(os.MkdirAll(dir+"/app/sub/deep", 0o755), os.Mkdir(outside, 0o755),
		os.WriteFile(outside+"/victim", []byte("safe"), 0o644), os.WriteFile(dir+"/app/file", []byte("old"), 0o644),
		os.WriteFile(dir+"/app/sub/deep/file", []byte("deep"), 0o600), os.Symlink(outside, dir+"/app/away"),
		os.Symlink(outside+"/victim", dir+"/app/victim"), os.Link(outside+"/victim", dir+"/app/hard"),
		syscall.Mkfifo(dir+"/app/pipe", 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return dir, outside
}

func TestChange(t *testing.T) {
	for name, c := range map[string]struct {
		changes []tar.Header
		want    []string // lines that appear; one that begins with "-" disappears
	}{
		"a file": {[]tar.Header{fileOf("app/file", "new", 0o640)},
			[]string{"-app/file -rw-r--r-- old", "app/file -rw-r----- new"}},
		"mode alone": {[]tar.Header{fileOf("app/file", "old", 0o755)},
			[]string{"-app/file -rw-r--r-- old", "app/file -rwxr-xr-x old"}},
		"missing parents": {[]tar.Header{fileOf("new/a/b", "x", 0o600), fileOf("new/a/c", "y", 0o600)},
			[]string{"new drwxr-xr-x", "new/a drwxr-xr-x", "new/a/b -rw------- x", "new/a/c -rw------- y"}},
		"a folder that is there": {[]tar.Header{folderOf("app/sub/", 0o700)},
			[]string{"-app/sub drwxr-xr-x", "app/sub drwx------"}},
		"a closed folder is filled": {[]tar.Header{folderOf("shut", 0o500), fileOf("shut/in", "x", 0o400)},
			[]string{"shut dr-x------", "shut/in -r-------- x"}},
		"a file in a folder's place": {[]tar.Header{fileOf("app/sub", "f", 0o644)},
			[]string{"-app/sub drwxr-xr-x", "-app/sub/deep drwxr-xr-x", "-app/sub/deep/file -rw------- deep", "app/sub -rw-r--r-- f"}},
		"a folder in a file's place": {[]tar.Header{folderOf("app/file", 0o755), fileOf("app/file/in", "x", 0o644)},
			[]string{"-app/file -rw-r--r-- old", "app/file drwxr-xr-x", "app/file/in -rw-r--r-- x"}},
		"a folder in a link's place": {[]tar.Header{folderOf("app/away", 0o755), fileOf("app/away/victim", "x", 0o644)},
			[]string{"-app/away Lrwxrwxrwx -> OUT", "app/away drwxr-xr-x", "app/away/victim -rw-r--r-- x"}},
		"a link in a folder's place": {[]tar.Header{linkOf("app/sub", "/etc")},
			[]string{"-app/sub drwxr-xr-x", "-app/sub/deep drwxr-xr-x", "-app/sub/deep/file -rw------- deep", "app/sub Lrwxrwxrwx -> /etc"}},
		"a file in a link's place": {[]tar.Header{fileOf("app/victim", "x", 0o644)},
			[]string{"-app/victim Lrwxrwxrwx -> OUT/victim", "app/victim -rw-r--r-- x"}},
		"a file with other names": {[]tar.Header{fileOf("app/hard", "x", 0o666)},
			[]string{"-app/hard -rw-r--r-- safe", "app/hard -rw-rw-rw- x"}},
		"a file in a pipe's place": {[]tar.Header{fileOf("app/pipe", "x", 0o644)},
			[]string{"-app/pipe prw-r--r--", "app/pipe -rw-r--r-- x"}},
		"deletions": {[]tar.Header{deletionOf("app/sub"), deletionOf("app/pipe"), deletionOf("app/away"), deletionOf("no/such"),
			deletionOf("app/file/x"), deletionOf("app/away/victim")},
			[]string{"-app/sub drwxr-xr-x", "-app/sub/deep drwxr-xr-x", "-app/sub/deep/file -rw------- deep", "-app/pipe prw-r--r--", "-app/away Lrwxrwxrwx -> OUT"}},
		"not beyond a link": {[]tar.Header{deletionOf("app/away/victim")}, nil},
		"in any order": {[]tar.Header{fileOf("app/sub/deep/z", "z", 0o644), deletionOf("app/sub"), fileOf("app/sub/deep/y", "y", 0o644)},
			[]string{"-app/sub/deep/file -rw------- deep", "app/sub/deep/y -rw-r--r-- y"}},
		"a name like an overlay's mark": {[]tar.Header{fileOf("app/.wh.file", "x", 0o644)},
			[]string{"app/.wh.file -rw-r--r-- x"}},
		"no set-user-ID bit": {[]tar.Header{fileOf("app/su", "x", 0o6755)}, []string{"app/su -rwxr-xr-x x"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, outside := beforeChange(t)
			want := slices.DeleteFunc(listing(t, dir), func(l string) bool {
				return slices.Contains(c.want, "-"+strings.ReplaceAll(l, outside, "OUT"))
			})
			for _, l := range c.want {
				if !strings.HasPrefix(l, "-") {
					want = append(want, l)
				}
			}
			if err := applyArchive(dir, bytes.NewReader(tartest.Pack(t, ownedByMe(c.changes)...))); err != nil {
				t.Fatal(err)
			}
			got := listing(t, dir)
			slices.Sort(want)
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("tree (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]string{"victim -rw-r--r-- safe"}, listing(t, outside)); d != "" {
				t.Errorf("outside (-want +got):\n%s", d)
			}
		})
	}
}

// TestChangeOfOwner checks owners of other users, which takes root.
func TestChangeOfOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away; the tests of init check it in a sandbox")
	}
	dir := t.TempDir()
	file, folder, link := fileOf("a/f", "x", 0o600), folderOf("b", 0o750), linkOf("b/l", "nowhere")
	file.Uid, file.Gid, folder.Uid, folder.Gid, link.Uid, link.Gid = 1, 2, 3, 4, 5, 6
	below := fileOf("b/new/deep/f", "x", 0o600) // folders that are missing belong to whom the one above belongs to
	if err := applyArchive(dir, bytes.NewReader(tartest.Pack(t, file, folder, link, below))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint32{"a": {0, 0}, "a/f": {1, 2}, "b": {3, 4}, "b/l": {5, 6}, "b/new": {3, 4}, "b/new/deep": {3, 4}} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || [2]uint32{st.Uid, st.Gid} != want {
			t.Errorf("%s belongs to %d:%d (%v), want %v", name, st.Uid, st.Gid, err, want)
		}
	}
}

// TestRefusedChanges checks what the sandbox's files do not allow, beside what
// no archive of changes holds.
func TestRefusedChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change tar.Header
		errno  syscall.Errno // 0: it is no Error
	}{
		"through a link":        {fileOf("app/away/victim", "x", 0o644), unix.ELOOP},
		"a folder below a file": {fileOf("app/file/x", "x", 0o644), unix.ENOTDIR},
		"a name too long":       {fileOf("app/"+strings.Repeat("n", 256), "x", 0o644), unix.ENAMETOOLONG},
		"the kernel's files":    {fileOf("proc/1/oom_score_adj", "x", 0o644), unix.EPERM},
		"a kernel's folder":     {folderOf("proc/1/", 0o777), unix.EPERM},
		"devices":               {fileOf("dev/null", "x", 0o644), unix.EPERM},
		"the helper":            {deletionOf(".securebench/helper"), unix.EPERM},
		"a way out":             {fileOf("app/../../outside/victim", "x", 0o644), 0},
		"absolute":              {fileOf("/app/file", "x", 0o644), 0},
		"the root":              {folderOf("./", 0o777), 0},
		"a hard link":           {tar.Header{Typeflag: tar.TypeLink, Name: "app/x", Linkname: "app/file"}, 0},
		"a device":              {tar.Header{Typeflag: tar.TypeChar, Name: "app/x"}, 0},
		"a pipe":                {tar.Header{Typeflag: tar.TypeFifo, Name: "app/x"}, 0},
		"a deletion of its own": {tar.Header{Typeflag: tar.TypeReg, Name: "app/x", PAXRecords: map[string]string{sandbox.DeletedRecord: "2"}}, 0},
		"a folder as deletion":  {tar.Header{Typeflag: tar.TypeDir, Name: "app/x", PAXRecords: map[string]string{sandbox.DeletedRecord: "1"}}, 0},
		"too deep":              {fileOf(strings.Repeat("d/", maxDepth)+"f", "x", 0o644), 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, outside := beforeChange(t)
			before := listing(t, dir)
			err := applyArchive(dir, bytes.NewReader(tartest.Pack(t, ownedByMe([]tar.Header{c.change})...)))
			var refused *ApplyError
			switch {
			case err == nil:
				t.Error("it is accepted")
			case errors.As(err, &refused) != (c.errno != 0), c.errno != 0 && (refused.Errno != c.errno || refused.Path != strings.TrimSuffix(c.change.Name, "/")):
				t.Errorf("got %v, want error %d", err, c.errno)
			}
			if d := cmp.Diff(before, listing(t, dir)); d != "" {
				t.Errorf("tree (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]string{"victim -rw-r--r-- safe"}, listing(t, outside)); d != "" {
				t.Errorf("outside (-want +got):\n%s", d)
			}
		})
	}
	whole := tartest.Pack(t, ownedByMe([]tar.Header{fileOf("app/x", strings.Repeat("x", 2000), 0o644)})...)
	var refused *ApplyError
	if err := applyArchive(t.TempDir(), bytes.NewReader(whole[:1000])); err == nil || errors.As(err, &refused) {
		t.Errorf("half an archive: got %v, want an error that is not the archive's", err)
	}
	broken := io.MultiReader(bytes.NewReader(whole[:1000]), iotest.ErrReader(unix.ENOSPC))
	if err := applyArchive(t.TempDir(), broken); !errors.Is(err, unix.ENOSPC) || errors.As(err, &refused) {
		t.Errorf("a reader without space: got %v", err)
	}
}

// TestLinksLeadNowhere lays a link that leads outside and then a file through it:
// into a tree that is written by paths, where that changes what is outside, and
// into ours.
func TestLinksLeadNowhere(t *testing.T) {
	for _, target := range []string{"../outside", "OUT"} {
		weak, outside := beforeChange(t)
		err := errors.Join(os.Symlink(strings.ReplaceAll(target, "OUT", outside), weak+"/l"), os.WriteFile(weak+"/l/victim", []byte("hit"), 0o644))
		if b, _ := os.ReadFile(outside + "/victim"); err != nil || string(b) != "hit" {
			t.Errorf("the attack fails where paths are followed: %v, %q", err, b)
		}
		dir, outside := beforeChange(t)
		archive := tartest.Pack(t, ownedByMe([]tar.Header{linkOf("l", strings.ReplaceAll(target, "OUT", outside)), fileOf("l/victim", "hit", 0o644)})...)
		var refused *ApplyError
		if err := applyArchive(dir, bytes.NewReader(archive)); !errors.As(err, &refused) {
			t.Errorf("got %v, want a refusal", err)
		}
		if b, _ := os.ReadFile(outside + "/victim"); string(b) != "safe" {
			t.Errorf("outside: %q", b)
		}
	}
}
