package wheels

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
)

// Python is one of an image, as far as it decides which wheels it can use.
type Python struct {
	Implementation string // cpython, or another
	Minor, Patch   int    // of Python 3
	Free           bool   // without the global lock, which has wheels of its own
	Machine        string // such as x86_64
	// Glibc is the minor version of the C library, glibc 2; -1 is musl, whose wheels are
	// others.
	Glibc int
}

// Tell is the program by which a Python says what it is; [ReadPython] reads its output.
// It needs nothing that a small Python lacks.
const Tell = `import os, sys
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "musl 0"
except (ValueError, OSError):
    libc = "musl 0"
print("python", sys.implementation.name, "%d.%d.%d" % sys.version_info[:3], "t" if "t" in getattr(sys, "abiflags", "") else "-", os.uname().machine, libc)`

var told = lazyregexp.New(`^python ([a-z]{1,20}) 3\.(\d{1,3})\.(\d{1,3}) (t|-) ([a-z0-9_]{1,20}) (?:glibc 2\.(\d{1,3})|musl 0)[0-9.]*$`)

// ReadPython reads what a Python printed at last.
func ReadPython(output string) (p Python, ok bool) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	m := told.FindStringSubmatch(strings.TrimSpace(lines[len(lines)-1]))
	if m == nil {
		return p, false
	}
	p = Python{Implementation: m[1], Free: m[4] == "t", Machine: m[5], Glibc: -1}
	p.Minor, _ = strconv.Atoi(m[2])
	p.Patch, _ = strconv.Atoi(m[3])
	if m[6] != "" {
		p.Glibc, _ = strconv.Atoi(m[6])
	}
	return p, true
}

// String describes it to people.
func (p Python) String() string {
	libc := "musl"
	if p.Glibc >= 0 {
		libc = fmt.Sprintf("glibc 2.%d", p.Glibc)
	}
	free := ""
	if p.Free {
		free = "t"
	}
	return fmt.Sprintf("%s 3.%d.%d%s on %s with %s", p.Implementation, p.Minor, p.Patch, free, p.Machine, libc)
}

// unfit is the rank of a wheel that a Python cannot use.
const unfit = math.MaxInt

// rank says how well a wheel fits by the tags of its name: the lowest is the best.
func (p Python) rank(file string) int {
	parts := strings.Split(strings.TrimSuffix(file, ".whl"), "-")
	if n := len(parts); !strings.HasSuffix(file, ".whl") || n != 5 && n != 6 {
		return unfit
	}
	tags := parts[len(parts)-3:]
	best := unfit
	for python := range strings.SplitSeq(tags[0], ".") {
		for abi := range strings.SplitSeq(tags[1], ".") {
			for platform := range strings.SplitSeq(tags[2], ".") {
				code, place := p.code(python, abi), p.place(platform)
				if code != unfit && place != unfit {
					best = min(best, code*1000+place)
				}
			}
		}
	}
	return best
}

// code ranks what a wheel is compiled for: this Python, all from a former one on, or none.
func (p Python) code(python, abi string) int {
	own := fmt.Sprintf("cp3%d", p.Minor)
	ownABI := own
	if p.Free {
		ownABI += "t"
	}
	minor, isC := strings.CutPrefix(python, "cp3")
	from, err := strconv.Atoi(minor)
	switch {
	case p.Implementation == "cpython" && python == own && abi == ownABI:
		return 0
	case p.Implementation == "cpython" && isC && abi == "abi3" && !p.Free && err == nil && from <= p.Minor:
		return 100 - from
	case p.Implementation == "cpython" && python == own && abi == "none":
		return 200
	case abi == "none" && python == "py3":
		return 400
	case abi == "none":
		minor, ok := strings.CutPrefix(python, "py3")
		if from, err := strconv.Atoi(minor); ok && err == nil && from <= p.Minor {
			return 300 + p.Minor - from
		}
	}
	return unfit
}

var (
	manylinux = lazyregexp.New(`^manylinux_2_(\d{1,3})_([a-z0-9_]+)$`)
	musllinux = lazyregexp.New(`^musllinux_1_[12]_([a-z0-9_]+)$`)
)

// place ranks the platform of a wheel: the newest that the C library serves, or any.
func (p Python) place(platform string) int {
	if platform == "any" {
		return 900
	}
	for old, now := range map[string]string{"manylinux1_": "manylinux_2_5_", "manylinux2010_": "manylinux_2_12_", "manylinux2014_": "manylinux_2_17_"} {
		if arch, ok := strings.CutPrefix(platform, old); ok {
			platform = now + arch
		}
	}
	if m := manylinux.FindStringSubmatch(platform); m != nil && m[2] == p.Machine {
		if needs, _ := strconv.Atoi(m[1]); needs <= p.Glibc {
			return 100 + p.Glibc - needs
		}
	}
	if m := musllinux.FindStringSubmatch(platform); m != nil && m[1] == p.Machine && p.Glibc < 0 {
		return 100
	}
	if platform == "linux_"+p.Machine {
		return 800
	}
	return unfit
}
