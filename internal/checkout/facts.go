package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
)

// maxCommits is how many commits are listed.
const maxCommits = 16

// facts are what git says of a repository.
type facts struct {
	commits []string
	parents bool            // HEAD's commit names parents
	branch  string          // "refs/heads/…", "" if HEAD is detached
	head    map[string]bool // IDs of HEAD's commit, trees and files
	staged  map[string]bool // IDs of the index's files
	tracked map[string]bool // paths of HEAD and of the index
	index   []string        // entries: mode, ID, stage, tab, path
	flagged bool            // an entry of the index has flags that hide changes
	config  map[string]string
	extra   string // what else there is besides one commit, "" for nothing
}

// facts asks git about a repository.
func (pl *place) facts(ctx context.Context, g *git) (*facts, error) {
	f := &facts{head: map[string]bool{}, staged: map[string]bool{}, tracked: map[string]bool{}, config: map[string]string{}}
	for _, ask := range []func(context.Context, *git) error{askVersion, f.askHead, f.askCommits, f.askTree, f.askIndex, f.askConfig, f.askObjects} {
		if err := ask(ctx, g); err != nil {
			return nil, err
		}
	}
	if f.extra != "" {
		return f, nil
	}
	list, err := pl.headers(ctx, ".git")
	if err != nil {
		return nil, err
	}
	shallow := false
	for _, h := range list {
		shallow = shallow || h.Name == ".git/shallow"
		name := strings.TrimPrefix(strings.TrimSuffix(h.Name, "/"), ".git")
		if !h.FileInfo().IsDir() && (!h.FileInfo().Mode().IsRegular() || !f.usual(strings.TrimPrefix(name, "/"))) ||
			h.FileInfo().IsDir() && !f.usualFolder(strings.TrimPrefix(name, "/")) {
			f.extra = ".git" + name
			return f, nil
		}
	}
	if f.parents && !shallow {
		f.extra = "parents of HEAD that are missing"
	}
	return f, nil
}

// The oldest git that has all that is asked of it.
const oldestMajor, oldestMinor = 2, 6

// askVersion names a git that is too old. What does not look like a version is
// left to the commands that follow, whose output is read strictly.
func askVersion(ctx context.Context, g *git) error {
	out, _, err := g.text(ctx, "version")
	if err != nil {
		return err
	}
	version, ok := strings.CutPrefix(out, "git version ")
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); !ok || n != 2 {
		return nil
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return unusable("the image's git is version %s, and %d.%d or later is needed", clip(version), oldestMajor, oldestMinor)
	}
	return nil
}

func (f *facts) askHead(ctx context.Context, g *git) error {
	id, code, err := g.text(ctx, "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if err != nil {
		return err
	}
	if code != 0 || !validID(id) {
		return unusable("HEAD of the repository in %s is not a commit", g.dir)
	}
	f.commits = []string{id}
	name, code, err := g.text(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil || code != 0 {
		return err
	}
	if !validBranch(name) {
		return unusable("HEAD of the repository in %s is not on a branch: %q", g.dir, clip(name))
	}
	f.branch = name
	return nil
}

// validBranch reports whether a reference is a branch whose name is also a
// plain path, and needs no quoting anywhere.
func validBranch(name string) bool {
	short, ok := strings.CutPrefix(name, "refs/heads/")
	return ok && len(name) < 512 && fs.ValidPath(short) && short != "." && !strings.HasSuffix(name, ".lock") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`\~^:?*[`, r) })
}

// askCommits lists HEAD and its ancestors.
func (f *facts) askCommits(ctx context.Context, g *git) error {
	var ask strings.Builder
	for i := range maxCommits {
		fmt.Fprintf(&ask, "%s~%d\n", f.commits[0], i)
	}
	var out bytes.Buffer
	code, said, err := g.run(ctx, strings.NewReader(ask.String()), &out, maxCommits*gitText, "cat-file", "--batch")
	if err != nil {
		return err
	}
	list, err := parseCommits(out.String())
	if err != nil || len(list) == 0 || list[0].id != f.commits[0] {
		return unusable("git cat-file in %s ended with code %d, said %q and printed no list of commits: %w", g.dir, code, clip(said), err)
	}
	f.parents = len(list[0].parents) > 0
	f.head[list[0].id], f.head[list[0].tree] = true, true
	for i := 1; i < len(list) && len(list[i-1].parents) == 1 && list[i-1].parents[0] == list[i].id; i++ {
		f.commits = append(f.commits, list[i].id)
	}
	return nil
}

// askTree lists HEAD's tree.
func (f *facts) askTree(ctx context.Context, g *git) error {
	return g.records(ctx, 0, func(record string) error {
		e, err := parseTreeEntry(record)
		if err != nil {
			return err
		}
		if e.kind != "tree" {
			f.tracked[e.path] = true
		}
		if e.kind != "commit" { // of a submodule, in another repository
			f.head[e.id] = true
		}
		return nil
	}, "ls-tree", "-r", "-t", "-z", "--full-tree", f.commits[0])
}

// askIndex lists the index.
func (f *facts) askIndex(ctx context.Context, g *git) error {
	return g.records(ctx, 0, func(record string) error {
		tag, entry, ok := strings.Cut(record, " ")
		e, err := parseIndexEntry(entry)
		if err != nil || !ok {
			return errors.Join(unusable("git ls-files printed %q", clip(record)), err)
		}
		f.flagged = f.flagged || tag == "S" || strings.ToUpper(tag) != tag
		f.tracked[e.path] = true
		f.index = append(f.index, entry)
		if e.mode != gitlink {
			f.staged[e.id] = true
		}
		return nil
	}, "ls-files", "-s", "-v", "-z")
}

func (f *facts) askConfig(ctx context.Context, g *git) error {
	return g.records(ctx, 0, func(record string) error {
		name, value, _ := strings.Cut(record, "\n")
		f.config[name] = value
		return nil
	}, "config", "--file", g.repo+"/config", "--no-includes", "-z", "--list")
}

// askObjects looks for the first thing that is not part of HEAD's commit or of
// the index.
func (f *facts) askObjects(ctx context.Context, g *git) error {
	switch {
	case f.flagged:
		f.extra = "flags in the index"
		return nil
	case len(f.commits) > 1:
		f.extra = "commit " + f.commits[1]
		return nil
	}
	for name, value := range f.config {
		if !usualSetting(name, value) {
			f.extra = "the setting " + clip(name)
			return nil
		}
	}
	err := g.records(ctx, '\n', func(id string) error {
		switch {
		case !validID(id):
			return unusable("git cat-file printed %q where an object must be", clip(id))
		case !f.head[id] && !f.staged[id]:
			f.extra = "object " + id
			return errEnough
		}
		return nil
	}, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// Settings of a repository that decide how files are compared. They are the
// only ones that a repository which was cut down takes over.
var compared = map[string]bool{ //nolint:gochecknoglobals // a table
	"core.filemode": true, "core.ignorecase": true, "core.symlinks": true, "core.autocrlf": true, "core.eol": true,
	"core.safecrlf": true, "core.precomposeunicode": true}

// usualSetting reports whether a setting is one that any new repository has,
// or one that compares files.
func usualSetting(name, value string) bool {
	switch name {
	case "core.bare":
		return value == "false"
	case "core.repositoryformatversion", "core.logallrefupdates", "extensions.objectformat":
		return true
	}
	return compared[name] && plainWord(value)
}

// plainWord reports whether a value is what those settings can have.
func plainWord(s string) bool {
	return len(s) < 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// usual reports whether a file is one that a repository of one commit has,
// without the objects whose names git has listed.
func (f *facts) usual(name string) bool {
	dir, base := path.Split(name)
	switch {
	case name == "HEAD", name == "config", name == "description", name == "index", name == "shallow", name == "info/exclude",
		name == "objects/info/packs", f.branch != "" && name == f.branch:
		return true
	case dir == "hooks/":
		return strings.HasSuffix(base, ".sample")
	case dir == "objects/pack/":
		id, found := strings.CutPrefix(strings.TrimSuffix(base, path.Ext(base)), "pack-")
		ext := path.Ext(base)
		return found && validID(id) && (ext == ".pack" || ext == ".idx" || ext == ".rev")
	}
	fan, ok := strings.CutPrefix(dir, "objects/")
	id := strings.TrimSuffix(fan, "/") + base
	return ok && validID(id) && (f.head[id] || f.staged[id])
}

// usualFolder is the same for folders, which hold nothing by themselves.
func (f *facts) usualFolder(name string) bool {
	fan, ok := strings.CutPrefix(name, "objects/")
	switch name {
	case "", "branches", "hooks", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags":
		return true
	}
	return ok && len(fan) == 2 && strings.Trim(fan, hexDigits) == "" || strings.HasPrefix(f.branch, name+"/")
}

// same reports whether another repository has the same commit, branch and
// index.
func (f *facts) same(other *facts) error {
	switch {
	case f.commits[0] != other.commits[0]:
		return fmt.Errorf("HEAD became %s", other.commits[0])
	case f.branch != other.branch:
		return fmt.Errorf("the branch became %q", clip(other.branch))
	case !maps.Equal(f.tracked, other.tracked), strings.Join(f.index, "\x00") != strings.Join(other.index, "\x00"):
		return errors.New("the index became another")
	}
	return nil
}

// stage is a number of the index that says what an entry is for.
func stage(s string) bool { n, err := strconv.Atoi(s); return err == nil && n >= 0 && n <= 3 }
