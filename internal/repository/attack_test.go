package repository_test

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/repository"
	"securebench/internal/sandbox/holder"
	"securebench/internal/verdict"
)

// TestAttacks: trees that an agent leaves in order to write elsewhere or to hide
// something. Without Refuse, the patch of such a tree brings it to where the
// candidate is verified; with it, the tree is refused by name, and an honest
// twin is not.
func TestAttacks(t *testing.T) {
	t.Parallel()
	requireGit(t)
	base := files{"src/app.py": {repository.Regular, "x = 1\n"}, "tests/test_a.py": {repository.Regular, "assert False\n"},
		"data": {repository.Symlink, "src"}}
	for id, c := range map[string]struct{ attack, twin files }{
		"R14/a link to the tests":      {files{"src/helper.py": {repository.Symlink, "../tests/test_a.py"}}, files{"src/helper.py": {repository.Regular, "../tests/test_a.py"}}},
		"R14/a link out of the tree":   {files{"etc": {repository.Symlink, "/etc/passwd"}}, files{"etc": {repository.Executable, ""}}},
		"R15/a folder that leads out":  {files{"src/d": {repository.Symlink, "/tmp/x"}}, files{"src/d/owned": {repository.Regular, "x"}}},
		"R15/a link is led elsewhere":  {files{"data": {repository.Symlink, "/tmp"}}, files{"data": {repository.Regular, "x"}}},
		"R36/letter case":              {files{"Tests/test_a.py": {repository.Regular, "pass\n"}}, files{"Test/a.py": {repository.Regular, "pass\n"}}},
		"R36/Unicode forms":            {files{"\u00e9.py": {repository.Regular, "1"}, "e\u0301.py": {repository.Regular, "2"}}, files{"\u00e9.py": {repository.Regular, "1"}, "e.py": {repository.Regular, "2"}}},
		"R36/a trailing dot":           {files{"tests./test_a.py": {repository.Regular, "pass\n"}}, files{"tests.d/test_a.py": {repository.Regular, "pass\n"}}},
		"R36/an invisible character":   {files{"te\u200bsts\u200d/x": {repository.Regular, "pass\n"}}, files{"tests/x": {repository.Regular, "pass\n"}}},
		"R36/a backslash for a folder": {files{`tests\test_b.py`: {repository.Regular, "pass\n"}}, files{"tests/test_b.py": {repository.Regular, "pass\n"}}},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			attack, twin := base.with(c.attack), base.with(c.twin)
			if got := applied(t, base, patch(t, base, attack)); !cmp.Equal(got, attack, cmp.AllowUnexported(file{})) {
				t.Error("the attack does not work without Refuse: the test shows nothing")
			}
			wantRejection(t, repository.Refuse(base.tree(t), attack.tree(t)), verdict.CandidateNotRegular, "")
			if err := repository.Refuse(base.tree(t), twin.tree(t)); err != nil {
				t.Errorf("the honest twin is refused: %v", err)
			}
		})
	}
}

// with returns the files with others over them.
func (f files) with(others files) files {
	all := files{}
	for name, x := range f {
		all[name] = x
	}
	for name, x := range others {
		all[name] = x
	}
	return all
}

// TestHostileRepository: nothing of a .git is read, whatever lies there, and
// another one below it is no part of the tree.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	contents := map[string]string{"app.py": "x = 1\n"}
	honest := pack(t, []tar.Header{regular("app.py", contents["app.py"])}, contents)
	want, err := repository.Read(bytes.NewReader(honest), roomy, nil)
	if err != nil {
		t.Fatal(err)
	}
	hook := entry(".git/hooks/pre-commit", tar.TypeSymlink)
	hook.Linkname = "/etc/passwd"
	for name, items := range map[string][]tar.Header{
		"a folder": {entry(".git/", tar.TypeDir), entry(".git/../x", tar.TypeReg), hook, entry(".git/pipe", tar.TypeFifo), entry(".git/x", tar.TypeReg, holder.RecordLinks, "2")},
		"a file":   {entry(".git", tar.TypeReg)},
		"a link":   {{Name: ".git", Typeflag: tar.TypeSymlink, Linkname: "/elsewhere"}},
	} {
		got, err := repository.Read(bytes.NewReader(pack(t, append(items, regular("app.py", contents["app.py"])), contents)), repository.Bounds{Bytes: 6, Files: 1}, nil)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: another tree, %v: %v", name, got, err)
		}
	}
	for _, name := range []string{"vendor/.git", "vendor/.GIT", "vendor/git~1", ".Git", ".git ", "a/.g\u200cit"} {
		items := []tar.Header{entry(name+"/", tar.TypeDir), entry(name+"/config", tar.TypeReg), regular("app.py", contents["app.py"])}
		got, err := repository.Read(bytes.NewReader(pack(t, items, contents)), roomy, nil)
		if err != nil || !cmp.Equal(got.Entries, want.Entries) {
			t.Errorf("%q: another tree, %v: %v", name, got, err)
			continue
		}
		wantRejection(t, repository.Refuse(want, got), verdict.CandidateNotRegular, "is a nested repository")
		if err := repository.Refuse(got, got); err != nil {
			t.Errorf("%q is refused, though the base has it: %v", name, err)
		}
	}
}
