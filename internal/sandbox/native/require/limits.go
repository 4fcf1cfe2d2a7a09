package require

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/sandbox/oci"
)

// The limits of the sandbox that is tried.
const (
	memoryLimit = 256 << 20
	pidsLimit   = 256
	cpuShare    = "100000 100000" // of one core: quota and period in microseconds
)

// limits reads what bounds the control group of a process: the memory, memory and
// swap, the number of processes, and the share of a processor. What is not limited
// or cannot be read is "".
func limits(pid int) (map[string]string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup") //nolint:gosec // the kernel's
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // "4:memory:/a/group", or "0::/a/group" in version 2
		if len(parts) != 3 {
			continue
		}
		for name, files := range limitFiles(parts[1]) {
			if value := readAll(filepath.Join("/sys/fs/cgroup", parts[1], parts[2]), files); value != "" {
				found[name] = value
			}
		}
	}
	return found, nil
}

// limitFiles are the files of a hierarchy with these controllers, "" in version 2.
func limitFiles(controllers string) map[string][]string {
	if controllers == "" {
		return map[string][]string{"memory": {"memory.max"}, "swap": {"memory.swap.max"}, "pids": {"pids.max"}, "cpu": {"cpu.max"}}
	}
	all := map[string][]string{}
	has := strings.Split(controllers, ",")
	if slices.Contains(has, "memory") {
		all["memory"], all["memory and swap"] = []string{"memory.limit_in_bytes"}, []string{"memory.memsw.limit_in_bytes"}
	}
	if slices.Contains(has, "pids") {
		all["pids"] = []string{"pids.max"}
	}
	if slices.Contains(has, "cpu") {
		all["cpu"] = []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	}
	return all
}

// readAll returns what files say, with a space between them.
func readAll(dir string, files []string) string {
	var values []string
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the kernel's
		if err != nil {
			return ""
		}
		values = append(values, strings.TrimSpace(string(text)))
	}
	return strings.Join(values, " ")
}

// limits says whether the runtime set them. Where it is not root it sets what it can
// and is silent about the rest.
func (c *checker) limits(context.Context) (string, error) {
	want := map[string]string{"memory": strconv.Itoa(memoryLimit), "pids": strconv.Itoa(pidsLimit), "cpu": cpuShare}
	for _, name := range []string{"memory", "pids", "cpu"} {
		if got := c.seen.limits[name]; got != want[name] {
			return "", fmt.Errorf("the limit of a sandbox (%s) should be %s and is %q", name, want[name], got)
		}
	}
	return "memory, processes, processors", nil
}

// counts says whether each sandbox has its share of what the kernel counts by user.
func (c *checker) counts(context.Context) (string, error) {
	oci.LiftLimits()
	return "pending signals, message queues", oci.LowLimits()
}

// swap says whether a sandbox can use none, beyond its memory.
func (c *checker) swap(context.Context) (string, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(info), "SwapTotal:")
	if fields := strings.Fields(after); len(fields) > 0 && fields[0] == "0" {
		return "this machine has none", nil
	}
	if c.seen.limits["swap"] == "0" || c.seen.limits["memory and swap"] == strconv.Itoa(memoryLimit) {
		return "none for sandboxes", nil
	}
	return "", fmt.Errorf("what a sandbox may use is not limited: %q", c.seen.limits)
}
