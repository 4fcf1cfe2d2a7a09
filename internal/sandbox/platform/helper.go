package platform

import (
	"cmp"
	"debug/elf"
	"fmt"
)

// CheckHelper refuses a binary that cannot run in an empty image on a machine of an
// architecture (GOARCH).
func CheckHelper(file, arch string) error {
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
	if got := cmp.Or(archOf(f.Machine), f.Machine.String()); got != arch {
		return fmt.Errorf("the helper %s is for %s but the engine runs %s", file, got, arch)
	}
	return nil
}
