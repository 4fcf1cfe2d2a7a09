package rootless_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/oci"
)

// runContainer runs a script in a sandbox with this machine's programs, as nobody. It
// has no control group: those of version 1 cannot be delegated, and which version a machine
// has does not matter for the rest.
func runContainer(dir string) error {
	runtime, err := oci.FindRuntime(os.Getenv, "runc")
	if err != nil {
		return err
	}
	ns, err := mountns.New(dir)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(func() error {
		call, err := bundle(dir)
		if err != nil {
			return err
		}
		cmd := runtime.Run(call)
		cmd.Args = slices.DeleteFunc(cmd.Args, func(a string) bool { return a == "--detach" })
		out, err := cmd.CombinedOutput()
		fmt.Printf("%s", out)
		return err
	})
}

// bundle makes the root and the specification.
func bundle(dir string) (oci.Call, error) {
	layer, memory, root := filepath.Join(dir, "layer"), filepath.Join(dir, "memory"), filepath.Join(dir, "root")
	upper, work := filepath.Join(memory, "u"), filepath.Join(memory, "w")
	err := errors.Join(os.Mkdir(layer, 0o755), os.Mkdir(memory, 0o755), os.Mkdir(root, 0o755),
		mountns.Tmpfs{Size: 1 << 20, Inodes: 100, Mode: 0o711}.Mount(memory), os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755),
		mountns.Overlay(root, []string{layer}, upper, work))
	box := oci.Box{Root: root, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, User: sandbox.Nobody, Limits: sandbox.Limits{}.WithDefaults(),
		Memory: 1 << 28, Cgroup: "/none", Hostname: "sandbox",
		Args:   []string{"/bin/sh", "-c", "id; touch /tmp/f && ls -n /tmp; grep -e CapBnd -e NoNewPrivs -e Seccomp: /proc/self/status; mkdir /new"},
		Mounts: []oci.Mount{{Target: "/tmp", Size: 1 << 20, Inodes: 100, Mode: os.ModeSticky | 0o777}}}
	for _, name := range []string{"bin", "lib", "lib64", "sbin", "usr"} {
		if to, link := os.Readlink("/" + name); link == nil {
			err = errors.Join(err, os.Symlink(to, filepath.Join(root, name)))
		} else if _, there := os.Stat("/" + name); there == nil {
			box.Mounts = append(box.Mounts, oci.Mount{Target: "/" + name, Source: "/" + name, ReadOnly: true})
		}
	}
	if err != nil {
		return oci.Call{}, err
	}
	spec, err := box.Spec()
	if err != nil {
		return oci.Call{}, err
	}
	spec.Linux.CgroupsPath, spec.Linux.Resources = "", nil
	config, err := oci.Encode(spec)
	if err != nil {
		return oci.Call{}, err
	}
	return oci.Call{State: filepath.Join(dir, "state"), Bundle: dir, ID: "rootless", PID: filepath.Join(dir, "pid"), Log: filepath.Join(dir, "log")},
		os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
}

// TestEnterRunsContainer runs a real container without root: its command is nobody,
// has no capabilities and cannot write to the root, which is its mapped root's.
func TestEnterRunsContainer(t *testing.T) {
	if os.Getenv("SECUREBENCH_TEST_NATIVE") == "never" {
		t.Skip("SECUREBENCH_TEST_NATIVE=never")
	}
	if _, err := oci.FindRuntime(os.Getenv, "runc"); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/tmp", "sb-rootless-dir-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	cmd := enter(t, "run", dir)
	if err := os.Chown(dir, someone, someone); err != nil {
		t.Fatal(err)
	}
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{"uid=65534 gid=65534 groups=65534\n", " 65534 65534 ", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
		"Permission denied"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %q in %s", want, out)
		}
	}
}
