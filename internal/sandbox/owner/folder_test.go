package owner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

// dead is the owner of a process that has ended: one with this process's number
// that started at another time.
func dead() Owner {
	o := Current()
	o.Start++
	return o
}

func folderOf(t *testing.T, dir, what string, o Owner) string {
	t.Helper()
	path := filepath.Join(dir, prefix+what+"_"+strings.ReplaceAll(o.String(), "/", "_")+"_1")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLeft: only folders of dead processes are listed, and only these can be
// removed: none of a living process, of another machine, or of another name.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	mine, err := MakeFolder("validate")
	if err != nil {
		t.Fatal(err)
	}
	gone := folderOf(t, dir, "validate", dead())
	if err := os.WriteFile(filepath.Join(gone, "f"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := Current()
	elsewhere.Machine, elsewhere.Boot = "another", "another"
	others := []string{mine, folderOf(t, dir, "validate", elsewhere), filepath.Join(dir, "securebench-validate-123")}
	if err := os.Mkdir(others[2], 0o700); err != nil {
		t.Fatal(err)
	}
	target := t.TempDir()
	link := filepath.Join(dir, strings.TrimSuffix(filepath.Base(gone), "1")+"2")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	found, err := LeftFolders(dir)
	if err != nil || len(found) != 1 || found[0].Name != gone || found[0].Size != 1000 {
		t.Errorf("found %+v, %v", found, err)
	}
	for _, path := range append(others, link, "/") {
		if err := RemoveFolder(sandbox.Leftover{Name: path}); err == nil {
			t.Errorf("%s was removed", path)
		}
	}
	for range 2 { // what is gone is no error
		if err := RemoveFolder(found[0]); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]bool{gone: false, mine: true, target: true, others[2]: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
