package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recorded stands for the folders of a machine on which files were recorded.
type recorded struct {
	writable []string          // everything at and below these
	files    map[string]string // by path
}

func (r recorded) Writable(name string) bool {
	return slices.ContainsFunc(r.writable, func(dir string) bool {
		return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	})
}

func (r recorded) Read(name string) string { return r.files[name] }

const everything = "cpuset cpu io memory hugetlb pids rdma\n"

func TestFind(t *testing.T) {
	const (
		user  = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"
		scope = user + "/app.slice/run-r1.scope"
		self  = "/user.slice/user-1000.slice/user@1000.service"
	)
	me := strconv.Itoa(os.Getpid()) + "\n"
	root := recorded{[]string{"/"}, map[string]string{"/sys/fs/cgroup/cgroup.controllers": everything}}
	for _, test := range []struct {
		name, recording string
		machine         recorded
		version, base   string // no version: an error
		missing         string
		trees           int
	}{
		{"hybrid, root", "hybrid", root, "1", "/", "", 10},
		{"hybrid, a user", "hybrid", recorded{}, "", "", "", 0},
		{"version 1 with systemd, root", "v1-systemd", root, "1", "/", "", 8},
		{"version 1, without the right to one", "v1-systemd",
			recorded{writable: []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/freezer"}},
			"1", "/", "pids", 8},
		{"version 1, read-only in a container", "v1-container", recorded{}, "", "", "", 0},
		{"version 1, in a container with all rights", "v1-container", root, "1", "/", "", 9},
		{"version 2, root", "v2-systemd", root, "2", "/", "", 1},
		{"version 2, root without pids", "v2-systemd",
			recorded{[]string{"/"}, map[string]string{"/sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}}, "2", "/", "pids", 1},
		{"version 2, a user's session", "v2-systemd", recorded{}, "", "", "", 0},
		{"version 2, delegated to a user", "v2-scope",
			recorded{[]string{user}, map[string]string{
				user + "/cgroup.type": "domain\n", user + "/cgroup.controllers": "cpu memory pids\n",
				user + "/app.slice/cgroup.type": "domain\n", user + "/app.slice/cgroup.controllers": "cpu memory pids\n",
			}}, "2", self, "", 1},
		{"version 2, only the scope delegated", "v2-scope",
			recorded{[]string{scope}, map[string]string{
				scope + "/cgroup.type": "domain\n", scope + "/cgroup.controllers": "cpu memory pids\n",
				scope + "/cgroup.procs": me,
			}}, "2", self + "/app.slice/run-r1.scope", "", 1},
		{"version 2, in the group with others", "v2-scope",
			recorded{[]string{scope}, map[string]string{
				scope + "/cgroup.type": "domain\n", scope + "/cgroup.controllers": "cpu memory pids\n",
				scope + "/cgroup.procs": "1\n" + me,
			}}, "2", self + "/app.slice/run-r1.scope", "memory cpu pids", 1},
		{"version 2, read-only in a container", "v2-container", recorded{}, "", "", "", 0},
		{"version 2, alone in a container", "v2-container",
			recorded{[]string{"/"}, map[string]string{
				"/sys/fs/cgroup/cgroup.type": "domain\n", "/sys/fs/cgroup/cgroup.controllers": everything, "/sys/fs/cgroup/cgroup.procs": me,
			}}, "2", "/", "", 1},
		{"version 2, mounted from outside the namespace", "v2-outside", root, "2", "/", "", 1},
		{"nothing mounted", "absent", root, "", "", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			mountinfo, _ := os.ReadFile(filepath.Join("testdata", test.recording+".mountinfo"))
			self, _ := os.ReadFile(filepath.Join("testdata", test.recording+".cgroup"))
			h, err := find(string(mountinfo), string(self), test.machine)
			if test.version == "" {
				if err == nil {
					t.Fatalf("found %+v", h)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Version() != test.version || h.base != test.base || len(h.trees) != test.trees ||
				strings.Join(h.Missing(), " ") != test.missing {
				t.Errorf("%+v; want version %s below %s in %d trees, missing %q", h, test.version, test.base, test.trees, test.missing)
			}
		})
	}
}

// TestPath shows where an OCI runtime and this package look for one group.
func TestPath(t *testing.T) {
	h := &Hierarchy{base: "/a b", trees: []tree{
		{"/sys/fs/cgroup/memory", []string{"memory"}},
		{"/sys/fs/cgroup/cpu,cpuacct", []string{"cpu", "cpuacct"}},
	}}
	g := h.Group("owner/box")
	if g.Path() != "/a b/owner/box" || g.memory != "/sys/fs/cgroup/memory/a b/owner/box" ||
		g.dirs[1] != "/sys/fs/cgroup/cpu,cpuacct/a b/owner/box" {
		t.Errorf("%+v", g)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`/a`: "/a", `/a\040b\134c\012`: "/a b\\c\n", `\`: `\`, `\04`: `\04`, `\999`: `\999`, `\1341`: `\1`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, test := range []struct{ root, group, want string }{
		{"/", "/a/b", "/a/b"}, {"/a", "/a/b", "/b"}, {"/a", "/a", "/"}, {"/a", "/ab", ""}, {"/a", "/", ""},
		{"/..", "/", ""}, {"/", "/../a", ""},
	} {
		got, ok := within(test.root, test.group)
		if ok != (test.want != "") || ok && got != test.want {
			t.Errorf("within(%q, %q) = %q, %v; want %q", test.root, test.group, got, ok, test.want)
		}
	}
}

func TestParseFlat(t *testing.T) {
	const file = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\nlow -1\nbig 9223372036854775808\n"
	for key, want := range map[string]int64{"oom_kill": 3, "under_oom": 0, "low": -1, "big": -1, "oom": -1} {
		n, ok := parseFlat(file, key)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d, %v; want %d", key, n, ok, want)
		}
	}
}

// FuzzFind shows that whatever the files say, groups are made below a mount point
// where OCI runtimes look, and never above the base.
func FuzzFind(f *testing.F) {
	names, err := filepath.Glob("testdata/*.mountinfo")
	if err != nil || len(names) == 0 {
		f.Fatal("no recordings", err)
	}
	for _, name := range names {
		mountinfo, _ := os.ReadFile(name)
		self, _ := os.ReadFile(strings.TrimSuffix(name, "mountinfo") + "cgroup")
		f.Add(string(mountinfo), string(self), "owner/box")
	}
	f.Fuzz(func(t *testing.T, mountinfo, self, name string) {
		h, err := find(mountinfo, self, recorded{writable: []string{"/"}})
		if err != nil {
			return
		}
		if hasParent(h.base) || !filepath.IsAbs(h.base) {
			t.Fatalf("the base is %q", h.base)
		}
		g := h.Group(name)
		for i, dir := range g.dirs {
			below := filepath.Join(h.trees[i].point, h.base)
			if h.trees[i].point != unified && !strings.HasPrefix(h.trees[i].point, unified+"/") ||
				!g.top && !strings.HasPrefix(dir, strings.TrimSuffix(below, "/")+"/") {
				t.Fatalf("the group %q is %q, the base %q", name, dir, below)
			}
		}
	})
}

func FuzzParsePIDs(f *testing.F) {
	f.Add("1\n22\n")
	f.Add("-1\n")
	f.Add("1 2\n")
	f.Fuzz(func(t *testing.T, file string) {
		pids, ok := parsePIDs(file)
		if !ok {
			return
		}
		var lines strings.Builder
		for _, pid := range pids {
			lines.WriteString(strconv.Itoa(pid) + "\n")
		}
		again, ok := parsePIDs(lines.String())
		if !ok || !slices.Equal(pids, again) || slices.ContainsFunc(pids, func(pid int) bool { return pid < 0 }) {
			t.Fatalf("%q: %v, then %v", file, pids, again)
		}
	})
}

func FuzzParseFlat(f *testing.F) {
	f.Add("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill")
	f.Add("max 1\nmax 2\n", "max")
	f.Fuzz(func(t *testing.T, file, key string) {
		n, ok := parseFlat(file, key)
		if !ok {
			return
		}
		if n < 0 || !strings.Contains(file, key+" ") {
			t.Fatalf("%q says that %q is %d", file, key, n)
		}
	})
}
