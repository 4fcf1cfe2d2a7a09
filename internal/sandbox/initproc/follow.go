package initproc

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// Bounds of following links. The kernel follows 40 links of a path, but programs
// that look up links on their own follow more.
const (
	maxFollowed = 255
	maxNames    = 1 << 14 // of one path
	maxLooks    = 1 << 24 // at all names of all paths
)

// follower says where paths of a tree lead that nothing changes meanwhile. It
// follows every link inside the tree, however a program that runs there would.
type follower struct {
	root  string
	looks int // that are left
	// The folder of the last path, and where it leads: paths come sorted.
	dir, leads string
}

// newFollower makes a Follower of the tree below root.
func newFollower(root string) *follower {
	return &follower{root: strings.TrimSuffix(root, "/"), looks: maxLooks}
}

// Destination returns where an absolute path of the tree leads: a path without
// links. Of what is not there, and of a circle of links, it is the place where that
// ends. It is one of the kernel's folders, such as /proc, for all that leads there,
// and "" for what cannot be followed to its end.
func (f *follower) Destination(p string) string {
	if !path.IsAbs(p) {
		return ""
	}
	dir, name := path.Split(path.Clean(p))
	if dir = path.Clean(dir); dir != f.dir {
		f.dir, f.leads = dir, f.follow("/", dir)
	}
	if f.leads == "" || slices.Contains(kernelFolders(), f.leads) {
		return f.leads
	}
	return f.follow(f.leads, name)
}

// follow walks from a folder without links.
func (f *follower) follow(at, rest string) string {
	left := strings.Split(rest, "/")
	slices.Reverse(left) // the next name is the last one
	seen := map[string]bool{}
	for names := 0; len(left) > 0; names++ {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		next := path.Join(at, name) // of ".." the folder above, of "." and "" the same
		switch {
		case names > maxNames || f.looks <= 0 || len(next) > maxFollowedPath:
			return ""
		case next == at || name == "..":
			at = next
			continue
		case slices.Contains(kernelFolders(), next):
			return next
		}
		f.looks--
		to, err := os.Readlink(f.root + next)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			at = next // no link
			continue
		}
		key := next + "\x00" + strings.Join(left, "\x00")
		switch {
		case err != nil || len(seen) > maxFollowed:
			return ""
		case seen[key]:
			return next
		}
		seen[key] = true
		if path.IsAbs(to) {
			at = "/"
		}
		more := strings.Split(to, "/")
		slices.Reverse(more)
		left = append(left, more...)
	}
	return at
}

// Place is where a path leads, and who could make something there.
type Place struct {
	Path    string `json:"path"` // see follower.Destination
	Missing bool   `json:"missing,omitzero"`
	Folder  bool   `json:"folder,omitzero"`
	// UID, GID and Mode (only permissions) are of what is there; if
	// nothing is, of the next folder above that is there.
	UID  int         `json:"uid,omitzero"`
	GID  int         `json:"gid,omitzero"`
	Mode fs.FileMode `json:"mode,omitzero"`
}

// Writable reports whether a user without privileges could write to the place, or
// make it.
func (p Place) Writable(uid, gid int) bool {
	bits := p.Mode & 0o002
	switch {
	case uid == p.UID:
		bits = p.Mode & 0o200
	case gid == p.GID:
		bits = p.Mode & 0o020
	}
	return bits != 0
}

// Look returns where an absolute path of the tree leads, and what is there.
func (f *follower) Look(p string) Place {
	out := Place{Path: f.Destination(p)}
	for at := out.Path; at != ""; at = path.Dir(at) {
		var st unix.Stat_t
		err := unix.Lstat(f.root+at, &st)
		if err == nil {
			out.Folder = st.Mode&unix.S_IFMT == unix.S_IFDIR
			out.UID, out.GID, out.Mode = int(st.Uid), int(st.Gid), fs.FileMode(st.Mode&0o777)
			if out.Missing && !out.Folder {
				out.Mode = 0 // nothing can be made below a file
			}
			out.Folder = out.Folder && !out.Missing
			break
		}
		if out.Missing = true; at == "/" {
			break
		}
	}
	return out
}

// maxFollowedPath is the kernel's limit of a path.
const maxFollowedPath = unix.PathMax - 1

// kernelFolders are those in which links lead to processes and devices.
func kernelFolders() []string {
	return []string{"/proc", "/sys", "/dev", path.Clean(sandbox.HelperDir)}
}
