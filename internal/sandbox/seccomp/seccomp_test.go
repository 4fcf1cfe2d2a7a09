package seccomp

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestProfile(t *testing.T) {
	allowed := func(tracing, chroot bool) (map[string]bool, string) {
		text, sum, err := Profile(tracing, chroot)
		if err != nil {
			t.Fatal(err)
		}
		var profile struct {
			DefaultAction string `json:"defaultAction"`
			Syscalls      []rule `json:"syscalls"`
		}
		if err := json.Unmarshal([]byte(text), &profile); err != nil || profile.DefaultAction != "SCMP_ACT_ERRNO" {
			t.Fatalf("default action %q, %v", profile.DefaultAction, err)
		}
		if strings.Contains(text, "SCMP_ARCH_X32") || !strings.Contains(text, `"SCMP_ARCH_X86"`) {
			t.Error("the profile has calls of x32, or none of 32-bit x86")
		}
		calls := map[string]bool{}
		for _, r := range profile.Syscalls {
			for _, name := range r.Names {
				calls[name] = calls[name] || r.Action == "SCMP_ACT_ALLOW"
			}
		}
		return calls, sum
	}
	plain, plainSum := allowed(false, false)
	tracing, tracingSum := allowed(true, false)
	if !strings.HasPrefix(plainSum, "sha256:") || plainSum == tracingSum {
		t.Errorf("digests %q and %q", plainSum, tracingSum)
	}
	for _, name := range strings.Fields(tracingCalls) {
		if plain[name] || !tracing[name] {
			t.Errorf("%s: allowed %v, with tracing %v", name, plain[name], tracing[name])
		}
		delete(tracing, name)
	}
	if len(tracing) != len(plain) {
		t.Errorf("tracing allows %d other calls, want %d", len(tracing), len(plain))
	}
	for _, name := range []string{"mount", "umount2", "unshare", "setns", "pivot_root", "bpf", "io_uring_setup", "io_uring_enter",
		"open_by_handle_at", "fanotify_init", "memfd_secret", "keyctl", "add_key", "pidfd_getfd", "kcmp", "userfaultfd",
		"perf_event_open", "process_madvise", "init_module", "kexec_load", "clone3", "ptrace"} {
		if plain[name] {
			t.Errorf("%s is allowed", name)
		}
	}
	chroot, _ := allowed(false, true)
	if plain["chroot"] || !chroot["chroot"] || len(chroot) != len(plain)+1 {
		t.Errorf("chroot: allowed %v, with the capability %v, and %d other calls", plain["chroot"], chroot["chroot"], len(chroot)-len(plain)-1)
	}
	for _, name := range []string{"read", "execve", "clone", "socket"} {
		if !plain[name] {
			t.Errorf("%s is refused", name)
		}
	}
}
