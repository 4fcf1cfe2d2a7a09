package workspace

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestSystemPath: what decides which programs and libraries run is told from the
// settings of services.
func TestSystemPath(t *testing.T) {
	for p, want := range map[string]bool{
		"/usr": true, "/usr/local/bin": true, "/bin/ls": true, "/sbin": true, "/lib": true, "/lib64/x": true, "/libx32": true,
		"/etc": true, "/etc/alternatives/python": true, "/etc/ld.so.preload": true, "/etc/python3/sitecustomize.py": true,
		"/etc/profile.d/x.sh": true, "/etc/resolv.conf": true, "/etc/environment": true, "/etc/ssh": true, "/etc/ssh/ssh_config": true,
		"/etc/php/8": true, "/etc/cronx": true,
		"/etc/passwd": false, "/etc/cron.d/x": false, "/etc/nginx/conf.d/a.conf": false, "/etc/systemd/system/x.service": false,
		"/etc/ssh/sshd_config": false, "/etc/php/8/fpm/x": false, "/etc/rc5.d": false,
		"/app": false, "/user": false, "/binary": false, "/opt/x": false, "/var/lib": false, "/root": false, "/": false,
	} {
		if got := SystemPath(p); got != want {
			t.Errorf("%s: %t", p, got)
		}
	}
}

// TestChangeable: of the whole file system, a task may change what neither the
// kernel, securebench nor the programs of a checker use.
func TestChangeable(t *testing.T) {
	for p, want := range map[string]bool{
		"/": false, "/proc/1": false, "/sys": false, "/dev/null": false, "/opt/securebench/x": false, "/.securebench": false,
		"/conftest.py": false, "/node_modules/x/index.js": false, "/srv/conftest.py": true, "/conftest.py2": true,
		"/usr/local": false, "/library": false, "/etc/environment": false, "/tmp": false, "/tmp/x": false, "/run/lock/x": false,
		"/run": true, "/run/locked": true, "/tmpfiles": true, "/opt": true, "/opt/securebench2": true, "/devices": true,
		"/etc/passwd": true, "/srv/../etc/passwd": true, "/srv/../usr": false, "/root/.bashrc": true,
	} {
		if got := Changeable(p); got != want {
			t.Errorf("%s: %t", p, got)
		}
	}
}

// TestFoldersAreDocumented: the patterns are well formed, and authors of packs
// read in docs/trees.md what of the file system counts.
func TestFoldersAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/trees.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(Reserved(), Temporary(), programFolders(), settings(), rootSettings()) {
		if _, err := path.Match(p, ""); err != nil || path.Clean(p) != p {
			t.Errorf("%q: %v", p, err)
		}
		if !strings.Contains(string(doc), "`"+p+"`") {
			t.Errorf("%q is not in docs/trees.md", p)
		}
	}
}
