package oci

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
)

// linux is what confines the command.
func (b Box) linux() (*specs.Linux, error) {
	profile, err := filter(b.Tracing, slices.Contains(b.Capabilities, sandbox.SysChroot))
	if err != nil {
		return nil, err
	}
	l := &specs.Linux{
		CgroupsPath:   b.Cgroup,
		Namespaces:    b.namespaces(),
		Resources:     b.resources(),
		Seccomp:       profile,
		Sysctl:        b.sysctl(),
		MaskedPaths:   maskedPaths(),
		ReadonlyPaths: readonlyPaths(),
	}
	if b.IDSize > 0 {
		ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(b.IDBase), Size: uint32(b.IDSize)}} //nolint:gosec // checked
		l.UIDMappings, l.GIDMappings = ids, ids
	}
	return l, nil
}

// namespaces are all private but, with a peer, that of the network. The kernel lets a
// sandbox with a user namespace use a network only of the same user namespace.
func (b Box) namespaces() []specs.LinuxNamespace {
	network, user := "", b.Users
	if b.Peer > 0 {
		network = fmt.Sprintf("/proc/%d/ns/net", b.Peer)
		user = fmt.Sprintf("/proc/%d/ns/user", b.Peer)
	}
	list := []specs.LinuxNamespace{
		{Type: specs.MountNamespace}, {Type: specs.UTSNamespace}, {Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
		{Type: specs.CgroupNamespace}, {Type: specs.NetworkNamespace, Path: network},
	}
	if b.IDSize > 0 {
		list = append(list, specs.LinuxNamespace{Type: specs.UserNamespace, Path: user})
	}
	return list
}

// cpuPeriod is the span in microseconds in which a sandbox may use its share.
const cpuPeriod = 100_000

// resources are the limits of the control group.
func (b Box) resources() *specs.LinuxResources {
	period := uint64(cpuPeriod)
	quota := max(1000, int64(b.Limits.CPUs*cpuPeriod)) // the kernel takes no less
	pids := b.Limits.Pids
	return &specs.LinuxResources{
		Memory:  &specs.LinuxMemory{Limit: &b.Memory, Swap: &b.Memory}, // memory and swap together: no swap
		CPU:     &specs.LinuxCPU{Quota: &quota, Period: &period},
		Pids:    &specs.LinuxPids{Limit: &pids},
		Devices: devices(),
	}
}

// devices are those that can be opened: what writes and reads nothing but
// constants, randomness, and a process's own terminals.
func devices() []specs.LinuxDeviceCgroup {
	list := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	for _, d := range [][2]int64{
		{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, // null, zero, full, random, urandom
		{5, 0}, {5, 2}, // tty, ptmx
	} {
		list = append(list, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &d[0], Minor: &d[1], Access: "rwm"})
	}
	return list
}

// sysctl gives a network of its own what Docker gives: every user may listen on low
// ports and send echo requests, here only to loopback.
func (b Box) sysctl() map[string]string {
	if b.Peer > 0 {
		return nil
	}
	last := 1<<31 - 1
	switch {
	case b.IDSize > 0:
		last = b.IDSize - 1
	case mountns.Rootless():
		last = 1<<16 - 1 // of a range that exists
	}
	return map[string]string{"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": fmt.Sprintf("0 %d", last)}
}

// maskedPaths are empty in a sandbox. The list is that of Docker 28.
func maskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
		"/sys/devices/virtual/powercap", "/sys/firmware",
	}
}

// readonlyPaths cannot be written in a sandbox, by root either. With version 1 of
// control groups, the folder of their mounts is a tmpfs without bounds.
func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", groupsFolder}
}

// groupsFolder is where a sandbox sees its control group.
const groupsFolder = "/sys/fs/cgroup"
