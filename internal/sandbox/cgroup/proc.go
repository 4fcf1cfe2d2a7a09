package cgroup

import (
	"path"
	"strconv"
	"strings"
)

// mount is a mounted hierarchy of control groups.
type mount struct {
	root        string   // the group that is mounted
	point       string   // where
	v2          bool     // it is a hierarchy of version 2
	controllers []string // of version 1; "name=systemd" and the like are among them
}

// parseMounts returns the control group mounts of a mountinfo file, in its
// order. Lines of another form are not such mounts. The controllers of version 1
// are among a mount's options; groups says which options those are.
func parseMounts(mountinfo string, groups memberships) []mount {
	var mounts []mount
	for line := range strings.Lines(mountinfo) {
		if m, ok := parseMount(strings.TrimSuffix(line, "\n"), groups); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// parseMount reads "36 35 98:0 /root /point options [tags] - type source options".
func parseMount(line string, groups memberships) (mount, bool) {
	left, right, ok := strings.Cut(line, " - ")
	if !ok {
		return mount{}, false
	}
	where, what := strings.Split(left, " "), strings.Split(right, " ")
	if len(where) < 6 || len(what) < 3 {
		return mount{}, false
	}
	m := mount{root: unescape(where[3]), point: unescape(where[4])}
	if !path.IsAbs(m.root) || !path.IsAbs(m.point) {
		return mount{}, false
	}
	if what[0] == "cgroup2" {
		m.v2 = true
		return m, true
	}
	for option := range strings.SplitSeq(what[2], ",") {
		if _, known := groups[option]; known && option != "" {
			m.controllers = append(m.controllers, option)
		}
	}
	return m, what[0] == "cgroup" && len(m.controllers) > 0
}

// unescape undoes the kernel's "\040" for a space and the like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// memberships is in which group a process is, by controller; that of version 2
// has the name "".
type memberships map[string]string

// parseMemberships reads lines of the form "4:memory,cpu:/group" from a
// process's cgroup file. Other lines are left out.
func parseMemberships(file string) memberships {
	groups := memberships{}
	for line := range strings.Lines(file) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !path.IsAbs(fields[2]) {
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			groups[name] = fields[2]
		}
	}
	return groups
}

// within is a group's path below a mount of the group root. It is not there if
// the group is not shown by the mount.
func within(root, group string) (string, bool) {
	if hasParent(root) || hasParent(group) {
		return "", false // outside this process's cgroup namespace
	}
	root, group = path.Clean(root), path.Clean(group)
	if root == "/" {
		return group, true
	}
	if group == root {
		return "/", true
	}
	rest, ok := strings.CutPrefix(group, root+"/")
	return "/" + rest, ok
}

func hasParent(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// parseFlat returns the value of a key in a file of lines of the form "key value".
func parseFlat(file, key string) (int64, bool) {
	for line := range strings.Lines(file) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name != key {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}

// parsePIDs returns the process IDs of a cgroup.procs file. Zero means a
// process of a pid namespace that this one cannot see.
func parsePIDs(file string) (pids []int, ok bool) {
	for line := range strings.Lines(file) {
		pid, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 32)
		if err != nil || pid < 0 {
			return nil, false
		}
		pids = append(pids, int(pid))
	}
	return pids, true
}
