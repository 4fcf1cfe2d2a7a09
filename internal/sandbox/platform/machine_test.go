package platform

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestSize: the smallest bound of the machine and of the groups that this
// process is in counts, of either version.
func TestSize(t *testing.T) {
	meminfo := map[string]string{"proc/meminfo": "MemFree:  1 kB\nMemTotal:       4096 kB\nBuffers: 2 kB\n"}
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no group":  {nil, 4096 << 10},
		"unbounded": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 4096 << 10},
		"version 2": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max": "1000\n"}, 1000},
		"version 1": {map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/y\n0::/\n",
			"sys/fs/cgroup/memory/y/memory.limit_in_bytes": "2000\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 2000},
		"a hostile name": {map[string]string{"proc/self/cgroup": "0::/../../..\n", "sys/fs/cgroup/memory.max": "3000\n"}, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, files := range []map[string]string{meminfo, c.files} {
				for file, text := range files {
					file = filepath.Join(root, file)
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := size(root)
			if err != nil || got.Memory != c.want || got.CPUs < 1 {
				t.Errorf("got %+v, %v; want %d bytes of memory", got, err, c.want)
			}
		})
	}
	if _, err := size(t.TempDir()); err == nil {
		t.Error("no error without the kernel's report")
	}
}

// TestFree: a path that does not exist yet has the space of the folder above it.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b")
	for _, name := range []string{dir, deep} {
		if n, err := Free(name); err != nil || n <= 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	above, err1 := Device(dir)
	below, err2 := Device(deep)
	if err1 != nil || err2 != nil || above != below {
		t.Errorf("devices %d and %d, %v, %v", above, below, err1, err2)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Free(filepath.Join(file, "x")); err == nil {
		t.Error("a path below a file has space")
	}
}

func TestProduct(t *testing.T) {
	for _, c := range []struct {
		blocks uint64
		size   int64
		want   int64
	}{{3, 4096, 12288}, {math.MaxUint64, 4096, math.MaxInt64}, {1, 0, math.MaxInt64}} {
		if got := product(c.blocks, c.size); got != c.want {
			t.Errorf("%d × %d: got %d, want %d", c.blocks, c.size, got, c.want)
		}
	}
}
