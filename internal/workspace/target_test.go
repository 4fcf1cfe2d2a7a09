package workspace_test

import (
	"strings"
	"testing"

	"securebench/internal/workspace"
)

// TestTargetFault: any folder can be the workspace but those that a sandbox
// needs for itself, and those above them.
func TestTargetFault(t *testing.T) {
	for dir, want := range map[string]string{
		"/workspace": "", "/app": "", "/app/": "", "/root": "", "/home/me/x": "", "/srv/git": "", "/opt/tool": "", "/library": "", "/tmpx": "",
		"/": "root", "//": "root", "/proc": "/proc", "/sys/fs": "/sys", "/dev/shm": "/dev", "/usr/local/src": "/usr", "/bin": "/bin", "/sbin": "/sbin",
		"/lib64": "/lib64", "/lib/x": "/lib", "/etc/cron.d": "/etc", "/run/x": "/run", "/tmp": "/tmp", "/tmp/x": "/tmp",
		"/.securebench": "securebench", "/opt/securebench/evaluator": "/opt/securebench", "/opt": "contains /opt/securebench",
		"app": "absolute", "": "absolute", "/app/../etc": "..", "/a:b": "colon", "/a,b": "comma", `/a\b`: "backslash", "/app/./../usr": "..",
	} {
		if got := workspace.TargetFault(dir); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}
