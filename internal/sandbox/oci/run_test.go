package oci_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/oci"
)

// place is where a test runs containers: a mount namespace with a root that has this
// machine's programs.
type place struct {
	t       *testing.T
	runtime oci.Runtime
	ns      *mountns.Namespace
	dir     string
	made    int
}

// withEach runs a test with every runtime that the engine may take.
func withEach(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	some := false
	for _, name := range []string{"crun", "runc"} {
		_, err := oci.FindRuntime(os.Getenv, name)
		if err != nil && !errors.Is(err, oci.ErrNoRuntime) {
			t.Error(err)
		}
		if err == nil {
			some = true
			t.Run(name, func(t *testing.T) { test(t, newPlace(t, name)) })
		}
	}
	if !some {
		newPlace(t, "") // says so
	}
}

func newPlace(t *testing.T, name string) *place {
	t.Helper()
	mode := os.Getenv("SECUREBENCH_TEST_NATIVE")
	if mode == "never" {
		t.Skip("SECUREBENCH_TEST_NATIVE=never")
	}
	missing := t.Skipf
	if mode == "require" {
		missing = t.Fatalf
	}
	r, err := oci.FindRuntime(os.Getenv, name)
	if err != nil {
		missing("%v", err)
	}
	if os.Getuid() != 0 {
		missing("running containers takes root")
	}
	dir, err := os.MkdirTemp("/tmp", "sb-oci-") // every folder above is passable for mapped users
	if err != nil {
		t.Fatal(err)
	}
	ns, err := mountns.New(dir)
	if err != nil {
		missing("%v", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(ns.Close(), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := ns.Do(func() (err error) { r, err = r.Prepare(filepath.Join(dir, "runtime")); return err }); err != nil {
		t.Fatal(err)
	}
	return &place{t: t, runtime: r, ns: ns, dir: dir}
}

// box is a box with this machine's programs, read-only.
func (p *place) box(args ...string) oci.Box {
	p.t.Helper()
	p.made++
	b := oci.Box{
		Root: filepath.Join(p.dir, strconv.Itoa(p.made), "root"), ReadOnly: true, Args: args, Dir: "/", User: sandbox.Nobody,
		Env: []string{"PATH=/usr/bin:/bin"}, Limits: sandbox.Limits{}.WithDefaults(), Memory: 256 << 20, Hostname: "sandbox",
		Cgroup: fmt.Sprintf("/securebench-test/oci-%d-%d", os.Getpid(), p.made),
	}
	err := p.ns.Do(func() error {
		if err := os.MkdirAll(b.Root, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"bin", "lib", "lib64", "sbin", "usr"} {
			if to, err := os.Readlink("/" + name); err == nil {
				if err := os.Symlink(to, filepath.Join(b.Root, name)); err != nil {
					return err
				}
				continue
			}
			if _, err := os.Stat("/" + name); err == nil {
				b.Mounts = append(b.Mounts, oci.Mount{Target: "/" + name, Source: "/" + name, ReadOnly: true})
			}
		}
		return (*mountns.IDs)(nil).Bind(b.Root, b.Root, false) // a mount of its own
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// mapped gives a box a user namespace. Its root is its mapped root's.
func (p *place) mapped(b oci.Box) oci.Box {
	p.t.Helper()
	b.IDBase, b.IDSize = 1_000_000, 65536
	if err := p.ns.Do(func() error { return os.Chown(b.Root, b.IDBase, b.IDBase) }); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// container is one that runs, or that could not be started.
type container struct {
	pid            int
	stdin          *os.File
	stdout, stderr bytes.Buffer
	copied         chan error
	failed         error // of the runtime
	call           oci.Call
}

// start starts a container as the engine does, unless it is weakened, and removes what it
// leaves.
func (p *place) start(b oci.Box, weaken ...func(*specs.Spec)) *container {
	p.t.Helper()
	c := p.startUnseen(b, weaken...)
	if c.failed == nil && len(weaken) == 0 {
		if err := p.look(b, c); err != nil {
			p.t.Error(err)
		}
	}
	return c
}

// look looks at how a container was started.
func (p *place) look(b oci.Box, c *container) error {
	return p.ns.Do(func() error { return p.runtime.Started(b, c.call) })
}

// startUnseen starts a container at which nobody has looked.
func (p *place) startUnseen(b oci.Box, weaken ...func(*specs.Spec)) *container {
	p.t.Helper()
	spec, err := p.runtime.Spec(b)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range weaken {
		f(spec)
	}
	config, err := oci.Encode(spec)
	if err != nil {
		p.t.Fatal(err)
	}
	bundle := filepath.Dir(b.Root)
	call := oci.Call{State: filepath.Join(p.dir, "state"), Bundle: bundle, ID: strings.ReplaceAll(b.Cgroup[1:], "/", "-"),
		PID: filepath.Join(bundle, "pid"), Log: filepath.Join(bundle, "log")}
	if err := p.ns.Do(func() error { return os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600) }); err != nil {
		p.t.Fatal(err)
	}
	c := &container{call: call, copied: make(chan error, 2)}
	p.t.Cleanup(func() { removeGroups(b.Cgroup) })
	p.launch(c, p.runtime.Run(call))
	_ = p.ns.Do(func() error {
		text, err := os.ReadFile(call.PID)
		if err == nil {
			c.pid, err = strconv.Atoi(string(text))
		}
		return err
	})
	return c
}

// launch runs the runtime with pipes as the container's streams.
func (p *place) launch(c *container, cmd *exec.Cmd) {
	p.t.Helper()
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	errR, errW, err3 := os.Pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		p.t.Fatal(err)
	}
	c.stdin = inW
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	if err := p.ns.Start(cmd); err != nil {
		p.t.Fatal(err)
	}
	_, _, _ = inR.Close(), outW.Close(), errW.Close()
	go func() { _, err := c.stdout.ReadFrom(outR); c.copied <- errors.Join(err, outR.Close()) }()
	go func() { _, err := c.stderr.ReadFrom(errR); c.copied <- errors.Join(err, errR.Close()) }()
	c.failed = cmd.Wait()
}

// removeGroups removes a control group from all hierarchies.
func removeGroups(name string) {
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		groups, _ := filepath.Glob(pattern + name)
		for _, g := range groups {
			for range 1000 {
				if err := unix.Rmdir(g); !errors.Is(err, unix.EBUSY) {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		parents, _ := filepath.Glob(pattern + filepath.Dir(name))
		for _, dir := range parents {
			_ = unix.Rmdir(dir) // other tests' groups may be there
		}
	}
}

// end waits for the command's end and returns its exit status.
func (c *container) end(t *testing.T) unix.WaitStatus {
	t.Helper()
	var status unix.WaitStatus
	if c.pid == 0 {
		t.Fatalf("the container did not start: %v; %s", c.failed, c.stderr.String())
	}
	if _, err := c.stdin.WriteString("\n"); err != nil && !errors.Is(err, unix.EPIPE) {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // crun's last process, the parent at first, may be about to end
		_, err := unix.Wait4(c.pid, &status, 0, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ECHILD) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	c.join(t)
	return status
}

// join waits until all that was written has been read.
func (c *container) join(t *testing.T) {
	t.Helper()
	if err := errors.Join(c.stdin.Close(), <-c.copied, <-c.copied); err != nil {
		t.Fatal(err)
	}
}

func shell(script string) *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }

// run runs a command in a box to its end and returns what it wrote.
func (p *place) run(b oci.Box, weaken ...func(*specs.Spec)) (string, unix.WaitStatus) {
	p.t.Helper()
	c := p.start(b, weaken...)
	if c.failed != nil {
		log, _ := p.read(c.call.Log)
		p.t.Fatalf("%v: %s %s", c.failed, log, c.stderr.String())
	}
	status := c.end(p.t)
	return c.stdout.String() + c.stderr.String(), status
}

func (p *place) read(file string) (text []byte, err error) {
	err = p.ns.Do(func() error { text, err = os.ReadFile(file); return err })
	return text, err
}
