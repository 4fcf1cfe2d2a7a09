package oci

import (
	"strings"
	"testing"
)

func TestFailure(t *testing.T) {
	entry := func(msg string) string { return `{"level":"error","msg":"` + msg + `","time":"2026-01-01T00:00:00Z"}` }
	for _, c := range []struct {
		log, why string
		code     int
	}{
		{entry(`runc run failed: unable to start container process: exec: \"nope\": executable file not found in $PATH`), "nope", 127},
		{entry(`runc run failed: unable to start container process: exec: \"/usr\": permission denied`), "permission denied", 126},
		{entry(`runc run failed: unable to start container process: error mounting \"/exec\" to rootfs: no such file or directory`), "mounting", 0},
		{entry("executable file `nope` not found in $PATH: No such file or directory"), "nope", 127},
		{entry("open executable: Permission denied"), "Permission", 126},
		{entry("open executable: Operation not permitted"), "permitted", 126},
		{entry("exec container process (missing dynamic library?) `/x`: No such file or directory"), "/x", 127},
		{entry("exec container process `/x`: Exec format error"), "/x", 0},
		{entry("executable file `/no/such` not found: No such file or directory"), "/no/such", 127},
		{entry("the path `/usr` is not a regular file: Operation not permitted"), "/usr", 126},
		{entry("the path `/x` exists but it is not executable: Operation not permitted"), "/x", 126},
		{entry("open `/x/y`: Permission denied"), "/x/y", 126},
		{entry("cannot open `/x/y`: Permission denied"), "/x/y", 126},
		{entry("cannot open `/x/y`: No such file or directory"), "/x/y", 0}, // it is no command
		{entry("mount `proc` to `/proc`: Operation not permitted"), "mount", 0},
		{entry("cgroups in hybrid mode not supported"), "hybrid", 0},
		{entry(`starting sandbox: creating process: failed to load /nope: no such file or directory`), "/nope", 127},
		// Two objects on one line: the second is the reason; a warning is none.
		{entry("first") + entry("second"), "second", 0},
		{entry("the reason") + "\n" + `{"level":"warning","msg":"exec: \"x\": permission denied"}` + "\n", "the reason", 0},
		{"", "no reason", 0},
		{"plain text", "reading the runtime's log", 0},
		{entry("the reason") + "\n{", "the reason", 0},
	} {
		code, err := failure(strings.NewReader(c.log))
		if code != c.code || err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: code %d, want %d: %v", c.log, code, c.code, err)
		}
	}
}

func FuzzFailure(f *testing.F) {
	f.Add(`{"level":"error","msg":"exec: \"x\": permission denied"}`)
	f.Add("{}[]\xff")
	f.Fuzz(func(t *testing.T, log string) {
		code, err := failure(strings.NewReader(log))
		if err == nil || code != 0 && code != 126 && code != 127 {
			t.Errorf("code %d, %v", code, err)
		}
	})
}

// TestConvert has profiles that must not be taken for the one of this machine.
func TestConvert(t *testing.T) {
	const profile = `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,
		"archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86"]}],
		"syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW"}]}`
	p, err := convert(profile, "amd64")
	if err != nil || len(p.Architectures) != 2 || len(p.Syscalls) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, arch := range []string{"arm64", "mips", ""} {
		if p, err := convert(profile, arch); err == nil {
			t.Errorf("%q: %+v", arch, p)
		}
	}
	if p, err := convert(strings.Replace(profile, `"archMap"`, `"unknown"`, 1), "amd64"); err == nil {
		t.Errorf("an unknown part is dropped: %+v", p)
	}
}
