package oci

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/opencontainers/runtime-spec/specs-go"

	"securebench/internal/sandbox/seccomp"
)

// filter is a sandbox's seccomp profile (package seccomp) as runtimes take it: for
// this machine's architecture. Runtimes skip names of calls that they don't know,
// which are refused then.
func filter(tracing, chroot bool) (*specs.LinuxSeccomp, error) {
	converted.mu.Lock()
	defer converted.mu.Unlock()
	p, ok := converted.profiles[profile{tracing, chroot}]
	if !ok {
		text, _, err := seccomp.Profile(tracing, chroot)
		if err != nil {
			return nil, err
		}
		if p, err = convert(text, runtime.GOARCH); err != nil {
			return nil, err
		}
		converted.profiles[profile{tracing, chroot}] = p
	}
	own := *p
	return &own, nil
}

// converted are the profiles as runtimes take them. They are constants.
//
//nolint:gochecknoglobals // see above
var converted = struct {
	mu       sync.Mutex
	profiles map[profile]*specs.LinuxSeccomp
}{profiles: map[profile]*specs.LinuxSeccomp{}}

// convert reads a profile in the engines' format, in which architectures are a
// table.
func convert(profile, arch string) (*specs.LinuxSeccomp, error) {
	var p struct {
		DefaultAction   specs.LinuxSeccompAction `json:"defaultAction"`
		DefaultErrnoRet *uint                    `json:"defaultErrnoRet"`
		ArchMap         []struct {
			Arch specs.Arch   `json:"architecture"`
			Sub  []specs.Arch `json:"subArchitectures"`
		} `json:"archMap"`
		Syscalls []specs.LinuxSyscall `json:"syscalls"`
	}
	if err := json.Unmarshal([]byte(profile), &p, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("converting the seccomp profile: %w", err)
	}
	native, ok := map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64, "riscv64": specs.ArchRISCV64}[arch]
	for _, entry := range p.ArchMap {
		if ok && entry.Arch == native {
			return &specs.LinuxSeccomp{DefaultAction: p.DefaultAction, DefaultErrnoRet: p.DefaultErrnoRet,
				Architectures: append([]specs.Arch{entry.Arch}, entry.Sub...), Syscalls: p.Syscalls}, nil
		}
	}
	return nil, fmt.Errorf("there is no seccomp profile for %s", arch)
}
