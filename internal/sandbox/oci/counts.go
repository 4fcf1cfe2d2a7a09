package oci

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// What one sandbox may have of what the kernel counts by user. Where sandboxes share a
// user namespace the count is one for all of them, and for the user of this program:
// one must not take all that there is.
const (
	queueBytes     = 200 << 10
	pendingSignals = 4096
)

// LiftLimits lifts the limits of this process on what the kernel counts by user, as far
// as it may: the kernel copies them into a user namespace, for all that is in it.
func LiftLimits() {
	for _, resource := range []int{unix.RLIMIT_SIGPENDING, unix.RLIMIT_MSGQUEUE, unix.RLIMIT_MEMLOCK, unix.RLIMIT_NPROC} {
		if unix.Setrlimit(resource, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}) == nil {
			continue
		}
		var own unix.Rlimit
		if unix.Getrlimit(resource, &own) == nil {
			own.Cur = own.Max
			_ = unix.Setrlimit(resource, &own) // a limit can always become its maximum
		}
	}
}

// LowLimits returns an error if a limit of this process, once lifted, leaves a sandbox
// less than it may have.
func LowLimits() error {
	for _, l := range []struct {
		what, option string
		resource     int
		need         uint64
	}{
		{"signals that can be pending", "-i", unix.RLIMIT_SIGPENDING, pendingSignals},
		{"bytes in message queues", "-q", unix.RLIMIT_MSGQUEUE, queueBytes},
	} {
		var own unix.Rlimit
		if err := unix.Getrlimit(l.resource, &own); err != nil {
			return fmt.Errorf("reading the limit on %s: %w", l.what, err)
		}
		if own.Max < l.need {
			return fmt.Errorf("the limit of this shell on %s (ulimit %s) is %d, and a single sandbox may take %d", l.what, l.option, own.Max, l.need)
		}
	}
	return nil
}
