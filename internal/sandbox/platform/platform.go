// Package platform says for which systems images are made, and what a machine is: which
// of them it can run, and its memory, cores and free disk. It checks the helper binary,
// the only program of this project that runs in sandboxes.
package platform

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
)

// ErrOther is wrapped by errors about an image of another platform than is needed.
var ErrOther = errors.New("the image is for another platform")

// Platform is a system and an architecture, in Go's words, and a variant of it. The zero
// value is not known.
type Platform struct{ OS, Arch, Variant string }

// aliases are other words for architectures, which some programs write into images.
var aliases = map[string]Platform{ //nolint:gochecknoglobals // a constant
	"x86_64": {Arch: "amd64"}, "x86-64": {Arch: "amd64"}, "aarch64": {Arch: "arm64"}, "i386": {Arch: "386"}, "i686": {Arch: "386"},
	"armhf": {Arch: "arm", Variant: "v7"}, "armel": {Arch: "arm", Variant: "v6"},
}

// New returns a platform by what an image says. Without a system it is Linux.
func New(system, arch, variant string) Platform {
	if arch == "" {
		return Platform{}
	}
	p := Platform{OS: strings.ToLower(system), Arch: strings.ToLower(arch), Variant: variant}
	if p.OS == "" {
		p.OS = "linux"
	}
	if known, ok := aliases[p.Arch]; ok {
		p.Arch = known.Arch
		if p.Variant == "" {
			p.Variant = known.Variant
		}
	}
	if p.Arch == "arm64" && p.Variant == "v8" { // every one is
		p.Variant = ""
	}
	return p
}

// Here is the platform of this process.
func Here() Platform { return Platform{OS: "linux", Arch: runtime.GOARCH} }

// form is a platform as people write it.
var form = lazyregexp.New(`^linux/([a-z0-9_-]{1,32})(?:/(v[0-9]{1,2}))?$`)

// Parse reads a platform, such as linux/arm64 or linux/arm/v7.
func Parse(s string) (Platform, error) {
	m := form.FindStringSubmatch(s)
	if m == nil {
		return Platform{}, fmt.Errorf("%.80q is not a platform: write linux/ARCHITECTURE, such as linux/amd64 or linux/arm64", s)
	}
	return New("linux", m[1], m[2]), nil
}

// String returns the platform as Parse reads it.
func (p Platform) String() string {
	if p == (Platform{}) {
		return "an unknown platform"
	}
	s := p.OS + "/" + p.Arch
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// Is reports whether an image's platform is the one that is asked for, as far as both
// name a variant.
func (p Platform) Is(asked Platform) bool {
	return p.OS == asked.OS && p.Arch == asked.Arch && (p.Variant == asked.Variant || p.Variant == "" || asked.Variant == "")
}

// Machine is what runs sandboxes.
type Machine struct {
	Own Platform
	// Emulated are the architectures whose programs it runs through an emulator.
	Emulated []string
}

// ThisMachine is the one that this program runs on.
func ThisMachine() Machine { return Machine{Here(), emulated("/proc/sys/fs/binfmt_misc")} }

// Runs reports whether it runs the programs of a platform. Processors run those of
// their own 32-bit architecture as well.
func (m Machine) Runs(p Platform) bool {
	older := map[string]string{"amd64": "386", "arm64": "arm"}[m.Own.Arch]
	return p.OS == m.Own.OS && (p.Arch == m.Own.Arch || p.Arch == older || slices.Contains(m.Emulated, p.Arch))
}

// String says what it runs.
func (m Machine) String() string {
	s := m.Own.String()
	if len(m.Emulated) > 0 {
		s += ", and " + strings.Join(m.Emulated, ", ") + " through emulators"
	}
	return s
}

// Requirement says what images an engine on a machine can run.
func Requirement(m Machine) sandbox.Requirement {
	return sandbox.Requirement{Name: "images of a platform that it runs", Holds: true, Found: m.String()}
}

// Check returns an [ErrOther] that names both sides if the machine does not run an
// image's platform, or it is not the one that is asked for; "" asks for none. What an
// image does not say is not compared.
func (m Machine) Check(image Platform, asked string) error {
	if err := Asked(image, asked); err != nil {
		return err
	}
	if image != (Platform{}) && !m.Runs(image) {
		return other("it is for %s, and this machine runs %s", image, m)
	}
	return nil
}

// Asked is [Machine.Check] on any machine.
func Asked(image Platform, asked string) error {
	if asked == "" || image == (Platform{}) {
		return nil
	}
	want, err := Parse(asked)
	if err == nil && !image.Is(want) {
		return other("it is for %s, and %s is asked for", image, want)
	}
	return err
}

func other(format string, args ...any) error { return &otherError{fmt.Sprintf(format, args...)} }

type otherError struct{ text string }

func (e *otherError) Error() string { return e.text }

// Is makes it the error that callers distinguish.
func (*otherError) Is(target error) bool { return target == ErrOther }

// emulators are the words of QEMU for architectures.
var emulators = map[string]string{ //nolint:gochecknoglobals // a constant
	"qemu-x86_64": "amd64", "qemu-i386": "386", "qemu-aarch64": "arm64", "qemu-arm": "arm", "qemu-riscv64": "riscv64",
	"qemu-ppc64le": "ppc64le", "qemu-s390x": "s390x", "qemu-mips64el": "mips64le", "qemu-loongarch64": "loong64",
}

// emulated lists the architectures of emulators that the kernel starts. One counts if
// it is registered and on, and was opened when it was registered (flag F): a sandbox
// has none of its own.
func emulated(dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		arch, known := emulators[e.Name()]
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if !known || arch == runtime.GOARCH || err != nil {
			continue
		}
		on, fixed := false, false
		for line := range strings.Lines(string(text)) {
			flags, isFlags := strings.CutPrefix(strings.TrimSpace(line), "flags:")
			on = on || strings.TrimSpace(line) == "enabled"
			fixed = fixed || isFlags && strings.Contains(flags, "F")
		}
		if on && fixed {
			out = append(out, arch)
		}
	}
	slices.Sort(out)
	return out
}

// OfProgram returns the platform of a Linux program, or false for what is none.
func OfProgram(r io.ReaderAt) (Platform, bool) {
	f, err := elf.NewFile(r)
	if err != nil {
		return Platform{}, false
	}
	defer f.Close()
	arch := archOf(f.Machine)
	return Platform{OS: "linux", Arch: arch}, arch != ""
}

// archOf names a machine as Go does, or "".
func archOf(m elf.Machine) string {
	return map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm",
		elf.EM_RISCV: "riscv64", elf.EM_S390: "s390x", elf.EM_LOONGARCH: "loong64", elf.EM_PPC64: "ppc64le"}[m]
}
