// Package cgroup finds this machine's control groups, version 1 or 2, and watches
// and ends the groups of sandboxes. The OCI runtime makes a group and sets its
// limits; what happened in it is read here before it is removed.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"securebench/internal/pathname"
)

// unified is where OCI runtimes look for version 2; they know no other place.
const unified = "/sys/fs/cgroup"

// needed are the controllers without which a sandbox has no limits or cannot be
// stopped. In version 2, the freezer is part of every group.
func needed() []string { return []string{"memory", "cpu", "pids", "freezer"} }

// Hierarchy is where this machine's control groups are.
type Hierarchy struct {
	v2    bool
	trees []tree // of version 1, one for each mount; of version 2, one
	base  string // the group in which groups are made, below every mount point
	own   string // of version 2, the group that this process is in
	lacks []string
}

// tree is a mounted hierarchy.
type tree struct {
	point       string
	controllers []string
}

// Find looks for the control groups that this process can make groups in. The
// error says what is missing.
func Find() (*Hierarchy, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	return find(string(mountinfo), string(self), machine{})
}

// files is what find asks about control groups.
type files interface {
	// Writable reports whether this process may write to a file, or make
	// groups in a folder.
	Writable(name string) bool
	// Read returns what a file says, or "" if it cannot be read.
	Read(name string) string
}

type machine struct{}

func (machine) Writable(name string) bool {
	return unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS) == nil
}

func (machine) Read(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}

func find(mountinfo, self string, f files) (*Hierarchy, error) {
	groups := parseMemberships(self)
	mounts := visible(parseMounts(mountinfo, groups))
	for _, m := range mounts {
		if m.v2 && m.point == unified {
			return findV2(m, groups, f)
		}
	}
	if !slices.ContainsFunc(mounts, func(m mount) bool { return !m.v2 }) {
		return nil, errors.New("control groups: none are mounted at " + unified)
	}
	return findV1(mounts, groups, f)
}

// visible leaves out mounts that later ones hide, mounts where OCI runtimes do
// not look, and second mounts of a hierarchy: what is done in one is seen in the
// other.
func visible(mounts []mount) []mount {
	var out []mount
	for i, m := range mounts {
		hidden := slices.ContainsFunc(mounts[i+1:], func(later mount) bool {
			return pathname.Within(m.point, later.point)
		})
		again := slices.ContainsFunc(out, func(o mount) bool {
			return o.v2 == m.v2 && slices.Equal(o.controllers, m.controllers)
		})
		below := pathname.Within(m.point, unified)
		if !hidden && !again && below {
			out = append(out, m)
		}
	}
	return out
}

// findV1 chooses the topmost group that this process may use and that has the
// same path in every hierarchy: an OCI runtime takes one path for all. The
// topmost, since what a killed process left must be found by the next one, which
// may be in another group.
func findV1(mounts []mount, groups memberships, f files) (*Hierarchy, error) {
	h := &Hierarchy{}
	used := map[string]mount{} // by the controller that is needed
	for _, m := range mounts {
		h.trees = append(h.trees, tree{m.point, m.controllers})
		for _, name := range m.controllers {
			used[name] = m
		}
	}
	for i, base := range commonGroups(used, groups) {
		lacks := slices.DeleteFunc(needed(), func(name string) bool {
			m, mounted := used[name]
			dir := filepath.Join(m.point, base)
			return mounted && f.Writable(dir) && f.Writable(filepath.Join(dir, "cgroup.procs"))
		})
		if i == 0 || len(lacks) < len(h.lacks) {
			h.base, h.lacks = base, lacks
		}
	}
	if len(h.lacks) == len(needed()) {
		return nil, errors.New("control groups: this process may not make groups, which takes root with version 1")
	}
	return h, nil
}

// commonGroups lists, from the top down, the groups on the way to this process's
// own that have the same path below every mount point. The top is always one.
func commonGroups(used map[string]mount, groups memberships) []string {
	var common []string
	for _, name := range needed() {
		m, mounted := used[name]
		if !mounted {
			continue
		}
		way := ancestors(ownGroup(m.root, groups[name]))
		if common == nil {
			common = way
		}
		common = slices.DeleteFunc(common, func(group string) bool { return !slices.Contains(way, group) })
	}
	return common
}

// ownGroup is the path of this process's group below a mount point. A group that
// the mount does not show leaves only the top.
func ownGroup(root, group string) string {
	if below, ok := within(root, group); ok && group != "" {
		return below
	}
	return "/"
}

// ancestors lists a group and those above it, from the top down.
func ancestors(group string) []string {
	list := []string{group}
	for group != "/" {
		group = path.Dir(group)
		list = append(list, group)
	}
	slices.Reverse(list)
	return list
}

// findV2 chooses the topmost group that this process may use: the root of all,
// or what systemd or a container's engine has delegated to its user.
func findV2(m mount, groups memberships, f files) (*Hierarchy, error) {
	h := &Hierarchy{v2: true, trees: []tree{{point: m.point}}, own: ownGroup(m.root, groups[""])}
	for _, base := range ancestors(h.own) {
		dir := filepath.Join(m.point, base)
		if !slices.ContainsFunc([]string{"", "cgroup.procs", "cgroup.subtree_control"}, func(name string) bool {
			return !f.Writable(filepath.Join(dir, name))
		}) {
			lacks := lackingV2(f, dir)
			if h.base == "" || len(lacks) < len(h.lacks) {
				h.base, h.lacks = base, lacks
			}
		}
	}
	if h.base == "" {
		return nil, errors.New("control groups: this process may not make groups in its own group or above;" +
			" start it with systemd-run --user --scope --property=Delegate=yes")
	}
	return h, nil
}

// lackingV2 names the controllers that groups in a group cannot have. A group
// other than the root hands controllers on only while no process is in it; this
// process itself can leave (Prepare).
func lackingV2(f files, dir string) []string {
	offered := strings.Fields(f.Read(filepath.Join(dir, "cgroup.controllers")))
	on := strings.Fields(f.Read(filepath.Join(dir, "cgroup.subtree_control")))
	if f.Read(filepath.Join(dir, "cgroup.type")) != "" { // the root has none
		pids, ok := parsePIDs(f.Read(filepath.Join(dir, "cgroup.procs")))
		others := slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
		if !ok || len(others) > 0 {
			offered = nil
		}
	}
	return slices.DeleteFunc(needed(), func(name string) bool {
		return name == "freezer" || slices.Contains(offered, name) || slices.Contains(on, name)
	})
}

// Version is "1" or "2".
func (h *Hierarchy) Version() string {
	if h.v2 {
		return "2"
	}
	return "1"
}

// Missing names the controllers among memory, cpu, pids and freezer that cannot be used.
func (h *Hierarchy) Missing() []string { return slices.Clone(h.lacks) }

// Prepare makes the place in which groups are made ready. With version 2 it lets
// that place hand its controllers on. A group with processes cannot do so: where
// this process is in that very group, as the first process of a container is, it
// moves itself to one below. With version 1 it does nothing.
func (h *Hierarchy) Prepare() error {
	if !h.v2 {
		return nil
	}
	dir := filepath.Join(h.trees[0].point, h.base)
	if h.own == h.base && (machine{}).Read(filepath.Join(dir, "cgroup.type")) != "" { // the root has none
		// The name is no sandbox's: those have the name of their owner above them.
		leaf := filepath.Join(dir, "securebench-parent")
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("control groups: %w", err)
		}
		if err := write(filepath.Join(leaf, "cgroup.procs"), "0"); err != nil {
			return fmt.Errorf("control groups: leaving a group that is to hand on its controllers: %w", err)
		}
		h.own = path.Join(h.base, "securebench-parent")
	}
	for _, name := range needed() {
		if name == "freezer" || slices.Contains(h.lacks, name) {
			continue
		}
		if err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+name); err != nil {
			return fmt.Errorf("control groups: handing on %s: %w", name, err)
		}
	}
	return nil
}

// Group returns the group of a name, whose parts are separated by slashes. It
// makes nothing.
func (h *Hierarchy) Group(name string) *Group {
	clean := path.Clean("/" + name)
	g := &Group{v2: h.v2, path: path.Join(h.base, clean), top: clean == "/"}
	for _, t := range h.trees {
		dir := filepath.Join(t.point, g.path)
		g.dirs = append(g.dirs, dir)
		for _, controller := range t.controllers {
			switch controller {
			case "memory":
				g.memory = dir
			case "pids":
				g.pids = dir
			case "freezer":
				g.freezer = dir
			}
		}
	}
	if h.v2 {
		g.memory, g.pids, g.freezer = g.dirs[0], g.dirs[0], g.dirs[0]
		g.kill = filepath.Join(g.dirs[0], "cgroup.kill")
	}
	return g
}

// List returns the names of the groups directly below the group of a name.
func (h *Hierarchy) List(name string) ([]string, error) {
	var names []string
	for _, dir := range h.Group(name).dirs {
		below, err := subgroups(dir)
		if err != nil {
			return nil, err
		}
		names = append(names, below...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
