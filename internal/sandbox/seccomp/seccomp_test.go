package seccomp

import (
	"slices"
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
		"perf_event_open", "process_madvise", "socketcall", "ipc", "io_setup", "init_module", "kexec_load", "clone3", "ptrace"} {
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

// TestOthers: each number that is not listed is in one block, however its upper half
// is written, and no listed one is in any.
func TestOthers(t *testing.T) {
	for _, values := range [][]uint32{{}, {0}, {127}, {1, 2, 10, 16}, {12, 20, 21}} {
		blocks := others(0, 7, values...)
		for n := range uint64(300) {
			for _, above := range []uint64{0, 1 << 32, 1 << 63} {
				holds := 0
				for _, c := range blocks {
					if (n|above)&c.Value == c.ValueTwo {
						holds++
					}
				}
				if want := n < 128 && !slices.Contains(values, uint32(n)); want != (holds == 1) || holds > 1 {
					t.Errorf("others(%d): %d blocks have %#x", values, holds, n|above)
				}
			}
		}
	}
}
