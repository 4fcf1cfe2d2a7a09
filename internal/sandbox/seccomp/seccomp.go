// Package seccomp makes the seccomp profiles of sandboxes, in the format that
// container engines take.
package seccomp

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/digest"
)

// allowedCalls are the system calls that a process in a sandbox may make: what
// the engines' own default profile allows without capabilities, less what
// widens the kernel's surface and no benchmark needs (io_uring and aio, whose
// operations no filter sees; file handles; fanotify; secret memory). The
// profile is sent whole so that it does not depend on the engine's version:
// engine 20.10 still lets io_uring through. Names that an architecture does
// not have are skipped by the engine.
const allowedCalls = `
accept accept4 access adjtimex alarm arch_prctl arm_sync_file_range bind breakpoint brk cacheflush
capget capset chdir chmod chown chown32 clock_getres clock_getres_time64 clock_gettime clock_gettime64
clock_nanosleep clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
eventfd2 execve execveat exit exit_group faccessat faccessat2 fallocate fchdir fchmod
fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr
fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_time64 futex_waitv
futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32
getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom
getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday
getuid getuid32 getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
ioctl ioprio_get ioprio_set kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen
listxattr llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 membarrier memfd_create
mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap msgctl msgget msgrcv
msgsnd msync munlock munlockall munmap nanosleep newfstatat _newselect open openat openat2 pause pidfd_open
pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv
prlimit64 process_mrelease pselect6 pselect6_time64 pwrite64
pwritev read readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg
remap_file_pages removexattr rename renameat renameat2 restart_syscall riscv_flush_icache rmdir rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr
sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64
send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address set_tls
setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority
setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt
setuid setuid32 setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn
splice stat stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range
sync_file_range2 syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime
timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime
timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat utime utimensat
utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev`

// tracingCalls reach into another process. A process may use them on its own
// user's, which is why only sandboxes that ask for it have them. Others of the
// kind (pidfd_getfd, kcmp, userfaultfd, perf_event_open, process_madvise) are
// allowed nowhere.
const tracingCalls = "process_vm_readv process_vm_writev ptrace"

// Numbers of Linux that the profile's conditions name.
const (
	errnoPERM           = 1
	errnoINVAL          = 22
	errnoNOSYS          = 38
	errnoPROTONOSUPPORT = 93
	errnoOPNOTSUPP      = 95
	errnoAFNOSUPPORT    = 97
	namespaceFlags      = 0x7e020000 // CLONE_NEW*: no new namespaces
	personaUnchange     = 0xffffffff
)

// What is done with a call.
const (
	allow  = "SCMP_ACT_ALLOW"
	refuse = "SCMP_ACT_ERRNO"
)

// rule is an entry of a seccomp profile in the engines' format.
type rule struct {
	Names    []string    `json:"names"`
	Action   string      `json:"action"`
	ErrnoRet *uint       `json:"errnoRet,omitzero"`
	Args     []condition `json:"args,omitzero"`
}

type condition struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

type architectures struct {
	Arch string   `json:"architecture"`
	Sub  []string `json:"subArchitectures"`
}

// Profile returns the profile of a sandbox and its digest for the run
// manifest. With tracing, processes may debug one another;
// with chroot, they may change their root directory if they have the capability.
func Profile(tracing, chroot bool) (profile, sum string, err error) {
	perm, nosys := uint(errnoPERM), uint(errnoNOSYS)
	rules := []rule{
		{Names: strings.Fields(allowedCalls), Action: allow},
		{Names: strings.Fields(muxCalls), Action: refuse, ErrnoRet: &nosys},
		{Names: []string{"clone"}, Action: allow, Args: []condition{{Value: namespaceFlags, Op: "SCMP_CMP_MASKED_EQ"}}},
		// A filter cannot see the flags of clone3; libraries fall back to
		// clone when it does not exist.
		{Names: []string{"clone3"}, Action: refuse, ErrnoRet: &nosys},
		// Besides, the kernel has one number of these for the whole machine (fs.aio-max-nr),
		// and one process can take all. Databases do without where there are none.
		{Names: []string{"io_setup"}, Action: refuse, ErrnoRet: &nosys},
	}
	rules = append(rules, socketRules()...)
	rules = append(rules, pageCacheRules()...)
	if tracing {
		rules = append(rules, rule{Names: strings.Fields(tracingCalls), Action: allow})
	}
	if chroot { // the engines' own profile allows it to holders of SYS_CHROOT
		rules = append(rules, rule{Names: []string{"chroot"}, Action: allow})
	}
	for _, persona := range []uint64{0, 0x8, 0x20000, 0x20008, personaUnchange} {
		rules = append(rules, rule{Names: []string{"personality"}, Action: allow,
			Args: []condition{{Value: persona, Op: "SCMP_CMP_EQ"}}})
	}
	b, err := json.Marshal(struct {
		DefaultAction   string          `json:"defaultAction"`
		DefaultErrnoRet *uint           `json:"defaultErrnoRet"`
		ArchMap         []architectures `json:"archMap"`
		Syscalls        []rule          `json:"syscalls"`
	}{refuse, &perm, []architectures{ // without x32, which nothing uses and each start would pay for
		{"SCMP_ARCH_X86_64", []string{"SCMP_ARCH_X86"}},
		{"SCMP_ARCH_AARCH64", []string{"SCMP_ARCH_ARM"}},
		{"SCMP_ARCH_RISCV64", nil},
	}, rules})
	if err != nil {
		return "", "", fmt.Errorf("encoding the seccomp profile: %w", err)
	}
	return string(b), digest.Bytes(b), nil
}
