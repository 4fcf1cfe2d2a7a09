package platform

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"securebench/internal/sandbox"
)

// Free returns how many bytes a user without privileges can still write at a
// path, or where it will be: the nearest folder above it that exists counts.
func Free(name string) (int64, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return 0, fmt.Errorf("measuring the free space: %w", err)
	}
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(name, &st)
		above := filepath.Dir(name)
		switch {
		case err == nil:
			return product(st.Bavail, st.Bsize), nil
		case !errors.Is(err, fs.ErrNotExist) || above == name:
			return 0, fmt.Errorf("measuring the free space at %q: %w", name, err)
		}
		name = above
	}
}

// product multiplies blocks by their size; file systems without a bound report
// huge numbers.
func product(blocks uint64, size int64) int64 {
	if size <= 0 || blocks > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(blocks) * size
}

// Device identifies the file system of a path, or where it will be; two paths with
// the same one share their space.
func Device(name string) (uint64, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return 0, fmt.Errorf("looking for a file system: %w", err)
	}
	for {
		var st syscall.Stat_t
		err := syscall.Stat(name, &st)
		above := filepath.Dir(name)
		switch {
		case err == nil:
			return uint64(st.Dev), nil //nolint:unconvert // the type differs between platforms
		case !errors.Is(err, fs.ErrNotExist) || above == name:
			return 0, fmt.Errorf("looking for the file system of %q: %w", name, err)
		}
		name = above
	}
}

// Size measures the processors and the memory that this process may use: those
// of the machine, or less where a control group bounds them.
func Size() (sandbox.Size, error) { return size("/") }

func size(root string) (sandbox.Size, error) {
	total, err := totalMemory(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return sandbox.Size{}, err
	}
	for _, limit := range groupLimits(root) {
		total = min(total, limit)
	}
	return sandbox.Size{CPUs: float64(runtime.GOMAXPROCS(0)), Memory: total}, nil
}

func totalMemory(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("measuring the memory: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("measuring the memory: %w", err)
			}
			return n << 10, nil
		}
	}
	return 0, errors.New("measuring the memory: the kernel does not report MemTotal")
}

// groupLimits returns the bounds on memory of the control groups that this
// process is in, version 1 and 2. A group that cannot be read bounds nothing.
func groupLimits(root string) (limits []int64) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		switch {
		case f[1] == "memory":
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case f[1] != "":
			continue
		}
		for group := path.Clean("/" + f[2]); ; group = path.Dir(group) {
			if n, ok := readLimit(filepath.Join(root, dir, group, file)); ok {
				limits = append(limits, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limits
}

func readLimit(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
	return n, err == nil && n > 0
}
