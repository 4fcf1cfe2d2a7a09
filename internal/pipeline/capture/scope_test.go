package capture

import (
	"testing"

	"securebench/internal/task"
)

// TestLinks (W09): a link leads to what the agent could see, by its own words.
// What it must not reach is there only when the checker runs.
func TestLinks(t *testing.T) {
	s := newScope("/srv/app", task.Captured{}, "")
	for name, tt := range map[string]struct {
		link, target string
		want         bool
	}{
		"a neighbour":             {"/srv/app/l", "answer.txt", true},
		"a path of the image":     {"/srv/app/l", "/usr/bin/python3", true},
		"up and down":             {"/srv/app/a/b/l", "../../c/d", true},
		"up by way of dots":       {"/srv/app/a/l", "./../b", true},
		"nowhere":                 {"/srv/app/l", "missing/file", true},
		"a name with dots":        {"/srv/app/l", "..x/...", true},
		"like a kernel's":         {"/srv/app/l", "/process", true},
		"the expected answer":     {"/srv/app/l", "/opt/securebench/evaluator/expected.txt", false},
		"the answer, relatively":  {"/srv/app/l", "../../opt/securebench/evaluator/expected.txt", false},
		"too far up":              {"/srv/app/l", "../../../../../opt/securebench/x", false},
		"the answer's folder":     {"/srv/app/l", "/opt/securebench", false},
		"above it":                {"/srv/app/l", "/opt", false},
		"above it, with slashes":  {"/srv/app/l", "//opt//", false},
		"the root":                {"/srv/app/l", "/", false},
		"the root, relatively":    {"/srv/app/l", "../..", false},
		"the evaluation's inputs": {"/srv/app/l", "securebench/evaluation_inputs/x", false},
		"above the inputs":        {"/srv/app/l", "securebench", false},
		"the workspace":           {"/srv/app/a/l", "..", false},
		"itself":                  {"/srv/app/l", ".", false},
		"a process":               {"/srv/app/l", "/proc/self/fd/3", false},
		"a device":                {"/srv/app/l", "/dev/zero", false},
		"the kernel":              {"/srv/app/l", "/sys/x", false},
		"another folder of ours":  {"/srv/app/l", "/.securebench/init", false},
		"up behind a name":        {"/srv/app/l", "dir/../../../opt/securebench/x", false},
		"up behind a link":        {"/srv/app/l", "image-link/..", false},
		"nothing":                 {"/srv/app/l", "", false},
	} {
		if got := s.follows(tt.link, tt.target); got != tt.want {
			t.Errorf("%s: %s -> %s: %v", name, tt.link, tt.target, got)
		}
	}
}

// TestFilesystem: of the whole file system, all is taken but what the kernel,
// securebench and the checker's programs use.
func TestFilesystem(t *testing.T) {
	s := newScope("/srv/app", task.Captured{Filesystem: true, Exclude: []string{"/var/cache"}}, "")
	for p, want := range map[string]bool{
		"/": false, "/srv": true, "/srv/app/x": true, "/var/lib/x": true, "/root/.bashrc": true, "/home/u": true, "/opt/tool": true, "/library": false, "/data": true,
		"/var/cache": false, "/var/cache/x": false, "/var/cached": true,
		"/proc/1": false, "/sys": false, "/dev/null": false, "/opt/securebench/x": false, "/.securebench": false,
		"/usr/bin/python3": false, "/usr/local/lib/x": false, "/bin": false, "/sbin/x": false, "/lib": false, "/lib64/ld.so": false, "/tmp/x": false, "/run/lock/x": false, "/run/x": true,
		"/etc": false, "/etc/passwd": true, "/etc/passwd-": true, "/etc/passwd.x": false, "/etc/cron.d/x": true, "/etc/crontab": true, "/etc/nginx/sites/a": true,
		"/etc/ld.so.preload": false, "/etc/ld.so.conf.d/x": false, "/etc/python3.11/sitecustomize.py": false, "/etc/alternatives/python": false, "/etc/profile.d/x.sh": false,
		"/etc/bash.bashrc": false, "/etc/environment": false, "/etc/resolv.conf": false, "/etc/ssl/certs/x": false, "/etc/gitconfig": false, "/etc/pip.conf": false,
		"/etc/ssh": false, "/etc/ssh/sshd_config": true, "/etc/ssh/ssh_config": false, "/etc/ssh/ssh_host_rsa_key": true, "/etc/systemd/system/a.service": true, "/etc/systemd/system.conf": false,
		"/etc/php/8.2/fpm/php.ini": true, "/etc/php/8.2/cli/php.ini": false,
	} {
		if got := s.takes(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
	for p, want := range map[string]bool{"/opt": false, "/opt/tool": true, "/var": false, "/var/lib": true, "/run": false, "/etc/nginx": true, "/srv": true} {
		if got := s.whole(p); got != want {
			t.Errorf("all of %s: %v", p, got)
		}
	}
}

// TestRoots: a task that names its roots gets these alone, system folders too,
// but never the kernel's or securebench's own.
func TestRoots(t *testing.T) {
	s := newScope("/srv/app", task.Captured{Roots: []string{"/usr/local/bin", "/opt", "/usr/local/bin/x", "/srv/app/out"}, Exclude: []string{"/opt/cache"}}, "")
	for p, want := range map[string]bool{"/usr/local/bin": true, "/usr/local": false, "/opt/x": true, "/opt/cache/x": false, "/opt/securebench/x": false,
		"/srv/app": false, "/srv/app/out": true, "/srv/app/output": false} {
		if got := s.takes(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
	if len(s.roots) != 3 {
		t.Errorf("roots %q", s.roots)
	}
	parts, skip := s.folders()
	if len(parts) != 1 || parts[0] != "out" || len(skip) != 0 {
		t.Errorf("folders %q without %q", parts, skip)
	}
	above := newScope("/srv/app", task.Captured{Roots: []string{"/srv"}, Exclude: []string{"/srv/app/cache", "/srv/app"}}, "")
	if parts, skip := above.folders(); len(parts) != 1 || parts[0] != "." || len(skip) != 1 || skip[0] != "cache" {
		t.Errorf("folders %q without %q", parts, skip)
	}
}
