// Package helperfile checks the helper binary, the only program of this project
// that runs in sandboxes.
package helperfile

import (
	"debug/elf"
	"fmt"
)

// Check refuses a binary that cannot run in an empty image on a machine of an
// architecture (GOARCH).
func Check(file, arch string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("the helper %s is not a Linux program: %w", file, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the helper %s is dynamically linked: build it with CGO_ENABLED=0", file)
		}
	}
	if got := machineArch(f.Machine); got != arch {
		return fmt.Errorf("the helper %s is for %s but the engine runs %s", file, got, arch)
	}
	return nil
}

// machineArch names a machine as Go does.
func machineArch(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return m.String()
}
