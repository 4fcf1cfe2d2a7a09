package bench

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"securebench/internal/redact"
)

// describe describes the machine. What cannot be found out is left empty.
func describe() Machine {
	m := Machine{CPU: field("/proc/cpuinfo", "model name", ":"), Cores: runtime.NumCPU(), OS: strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`),
		Arch: runtime.GOARCH, Go: runtime.Version(), LoadBefore: load()}
	kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal", ":"), " kB"), 10, 64)
	if err == nil {
		m.Memory = kib << 10
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = redact.Escape(unix.ByteSliceToString(u.Release[:]))
	}
	return m
}

// field returns the value of the first line of a file that has the given name.
func field(file, name, separator string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), separator); ok && strings.TrimSpace(key) == name {
			return redact.Escape(strings.TrimSpace(value))
		}
	}
	return ""
}

// load returns the load averages.
func load() (out [3]float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return out
	}
	for i, word := range strings.Fields(string(text)) {
		if i >= len(out) {
			break
		}
		if out[i], err = strconv.ParseFloat(word, 64); err != nil {
			return out
		}
	}
	return out
}
