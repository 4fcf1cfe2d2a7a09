package oci

import (
	"fmt"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/opencontainers/runtime-spec/specs-go"

	"securebench/internal/sandbox/seccomp"
)

// filter is a sandbox's seccomp profile (package seccomp) as runtimes take it: for
// this machine's architecture. Runtimes skip names of calls that they don't know,
// which are refused then.
func filter(tracing, chroot bool) (*specs.LinuxSeccomp, error) {
	text, _, err := seccomp.Profile(tracing, chroot)
	if err != nil {
		return nil, err
	}
	return convert(text, runtime.GOARCH)
}

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
