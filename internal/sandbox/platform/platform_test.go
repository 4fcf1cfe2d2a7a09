package platform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestCheck: what a machine does not run, or a row does not want, is refused and both
// sides are named; what an image does not say is not compared.
func TestCheck(t *testing.T) {
	t.Parallel()
	amd := Machine{Own: Platform{OS: "linux", Arch: "amd64"}}
	both := Machine{Own: amd.Own, Emulated: []string{"arm64"}}
	arm := Machine{Own: Platform{OS: "linux", Arch: "arm64"}}
	for name, c := range map[string]struct {
		machine Machine
		image   Platform
		asked   string
		want    string
	}{
		"own":                     {amd, New("linux", "amd64", ""), "", ""},
		"by another word":         {amd, New("linux", "x86_64", ""), "", ""},
		"the older one":           {amd, New("linux", "i386", ""), "", ""},
		"with a variant":          {amd, New("linux", "amd64", "v2"), "", ""},
		"nothing said":            {amd, Platform{}, "", ""},
		"nothing said, but asked": {amd, Platform{}, "linux/arm64", ""},
		"no system":               {amd, New("", "amd64", ""), "", ""},
		"another":                 {amd, New("linux", "arm64", "v8"), "", "it is for linux/arm64, and this machine runs linux/amd64"},
		"another by its word":     {amd, New("linux", "aarch64", ""), "", "it is for linux/arm64, and this machine runs linux/amd64"},
		"the other way":           {arm, New("linux", "amd64", ""), "", "it is for linux/amd64, and this machine runs linux/arm64"},
		"arm on arm64":            {arm, New("linux", "armhf", ""), "linux/arm/v7", ""},
		"another system":          {amd, New("windows", "amd64", ""), "", "it is for windows/amd64"},
		"emulated":                {both, New("linux", "arm64", ""), "", ""},
		"not emulated":            {both, New("linux", "s390x", ""), "", "it is for linux/s390x, and this machine runs linux/amd64, and arm64 through emulators"},
		"asked and there":         {both, New("linux", "arm64", ""), "linux/arm64", ""},
		"asked, another is there": {both, New("linux", "amd64", ""), "linux/arm64", "it is for linux/amd64, and linux/arm64 is asked for"},
		"asked, not run":          {amd, New("linux", "arm64", ""), "linux/arm64", "this machine runs linux/amd64"},
		"a variant that is asked": {both, New("linux", "arm", "v6"), "linux/arm/v7", "it is for linux/arm/v6, and linux/arm/v7 is asked for"},
	} {
		err := c.machine.Check(c.image, c.asked)
		if (err != nil) != (c.want != "") || err != nil && (!errors.Is(err, ErrOther) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"linux/amd64", "linux/arm64", "linux/arm/v7"} {
		if p, err := Parse(s); err != nil || p.String() != s {
			t.Errorf("%s: %v, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "amd64", "linux", "linux/", "windows/amd64", "linux/AMD64", "linux/arm/7", "linux/amd64/v1/x", "linux/a b", "linux/amd64\n"} {
		if p, err := Parse(s); err == nil {
			t.Errorf("%q is %v", s, p)
		}
	}
}

// TestEmulators: an emulator counts if sandboxes can use it.
func TestEmulators(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"register": "", "status": "enabled\n",
		"qemu-s390x":   "enabled\ninterpreter /usr/bin/qemu-s390x-static\nflags: POCF\noffset 0\n",
		"qemu-riscv64": "enabled\ninterpreter /usr/bin/qemu-riscv64\nflags: OC\noffset 0\n",
		"qemu-ppc64le": "disabled\ninterpreter /usr/bin/qemu-ppc64le\nflags: F\noffset 0\n",
		"python3.12":   "enabled\ninterpreter /usr/bin/python3.12\nflags: F\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := emulated(dir); !slices.Equal(got, []string{"s390x"}) {
		t.Errorf("got %q", got)
	}
	if got := emulated(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("without the kernel's folder: %q", got)
	}
}

// TestOfProgram: the test itself is a program of this machine; a text is none.
func TestOfProgram(t *testing.T) {
	t.Parallel()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := OfProgram(bytes.NewReader(self)); !ok || p != (Platform{OS: "linux", Arch: runtime.GOARCH}) {
		t.Errorf("this program is for %v, %t", p, ok)
	}
	if p, ok := OfProgram(strings.NewReader("#!/bin/sh\n")); ok {
		t.Errorf("a script is for %v", p)
	}
	const machine, s390 = 18, 22
	binary.LittleEndian.PutUint16(self[machine:], s390)
	if p, ok := OfProgram(bytes.NewReader(self)); !ok || p.Arch != "s390x" {
		t.Errorf("another program is for %v, %t", p, ok)
	}
}
