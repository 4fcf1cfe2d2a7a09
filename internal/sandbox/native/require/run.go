package require

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/attended"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/process"
	"securebench/internal/sandbox/oci"
)

// confinement is what the kernel says of the first process of a sandbox.
type confinement struct {
	status map[string]string // /proc/PID/status
	shared []string          // namespaces that it has in common with this process
	limits map[string]string // see [limits]
}

// runPatience is how long a runtime may take, on a machine that does much else.
const runPatience = time.Minute

// run starts a sandbox in which the helper waits for input, looks at it from outside
// and ends it.
func (c *checker) run(ctx context.Context) (found string, err error) {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	// The first process of a sandbox becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return "", fmt.Errorf("adopting orphaned processes: %w", err)
	}
	var call oci.Call
	if err := c.ns.Do(func() error { call, err = c.bundle(); return err }); err != nil {
		return "", err
	}
	input, end, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("making a pipe: %w", err)
	}
	defer end.Close()
	said, err := os.CreateTemp("", "securebench-check-")
	if err != nil {
		return "", fmt.Errorf("making a file for the sandbox's output: %w", err)
	}
	defer said.Close()
	if err := os.Remove(said.Name()); err != nil { // nobody reads it, and a killed process leaves nothing
		return "", fmt.Errorf("removing the name of the sandbox's output: %w", err)
	}
	cmd := c.runtime.Run(call)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, said, said // not the host's null device: see [oci.Runtime.Chowns]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to find what it leaves behind
	if err := errors.Join(c.ns.Start(cmd), input.Close()); err != nil {
		return "", fmt.Errorf("starting %s: %w", c.runtime.Name, err)
	}
	began := time.Now()
	pid, err := c.started(ctx, cmd, call)
	took := time.Since(began)
	if err == nil {
		err = c.awaitCommand(ctx, pid)
	}
	if err == nil {
		c.seen, err = look(pid)
	}
	if err := errors.Join(err, end.Close(), c.stop(context.WithoutCancel(ctx), cmd, pid)); err != nil {
		return "", err
	}
	return fmt.Sprintf("started in %d ms", took.Milliseconds()), nil
}

// bundle makes what the runtime needs: a root, the helper in it, the specification.
func (c *checker) bundle() (call oci.Call, err error) {
	if c.runtime, err = c.runtime.Prepare(filepath.Join(c.dir, "runtime")); err != nil {
		return call, err
	}
	dir := filepath.Join(c.dir, "box")
	memory, root, layer, helper := filepath.Join(dir, "memory"), filepath.Join(dir, "root"), filepath.Join(dir, "layer"), filepath.Join(dir, "helper")
	err = errors.Join(os.Mkdir(dir, 0o711), os.Mkdir(layer, 0o755), copyFile(c.cfg.Helper, helper)) //nolint:gosec // passable
	if err != nil {
		return call, err
	}
	// The holder confines itself no further, as init does: what is seen of it is the
	// runtime's doing.
	box := oci.Box{Root: root, Args: []string{sandbox.HelperPath, "sandbox-holder", "/"}, Dir: "/", Env: []string{"PATH=/"},
		Limits: sandbox.Limits{Pids: pidsLimit, CPUs: 1}, Memory: memoryLimit, Cgroup: c.group.Path(), Hostname: "sandbox",
		Mounts: []oci.Mount{{Target: sandbox.HelperPath, Source: helper, ReadOnly: true}}}
	if c.ids != nil {
		box.IDBase, box.IDSize = c.ids.Base, c.ids.Size
	}
	if err := makeMemory(memory, root, box.IDBase); err != nil {
		return call, err
	}
	if err := mountns.Overlay(root, []string{layer}, filepath.Join(memory, "u"), filepath.Join(memory, "w")); err != nil {
		return call, err
	}
	spec, err := c.runtime.Spec(box)
	if err != nil {
		return call, err
	}
	config, err := oci.Encode(spec)
	if err != nil {
		return call, err
	}
	return oci.Call{State: filepath.Join(dir, "state"), Bundle: dir, ID: c.id(), PID: filepath.Join(dir, "pid"), Log: filepath.Join(dir, "log")},
		os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
}

// copyFile copies a program to where every user can start it.
func copyFile(from, to string) error {
	in, err := os.Open(from) //nolint:gosec // the operator's own program
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755) //nolint:gosec // see above
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// started waits until the sandbox runs and returns the number of its first process.
func (c *checker) started(ctx context.Context, cmd *exec.Cmd, call oci.Call) (pid int, err error) {
	if c.runtime.Leaves {
		failed, cut := process.Await(ctx, nil, cmd)
		if err := errors.Join(cut, failed); err != nil {
			return 0, c.failure(err, call)
		}
	}
	for {
		err := c.ns.Do(func() error {
			text, err := os.ReadFile(call.PID)
			if err == nil {
				pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			return err
		})
		if err == nil || c.runtime.Leaves {
			return pid, err
		}
		if err := attended.Pause(ctx, time.Millisecond); err != nil {
			_ = cmd.Process.Kill() // it may have ended
			return 0, c.failure(errors.Join(err, cmd.Wait()), call)
		}
	}
}

// awaitCommand waits until the first process of a sandbox is the command: crun ends a
// moment before the process that it has made has confined itself. A process that has
// ended has neither arguments nor a program.
func (c *checker) awaitCommand(ctx context.Context, pid int) error {
	if c.sandboxed() {
		return nil
	}
	proc := "/proc/" + strconv.Itoa(pid)
	for {
		text, err := os.ReadFile(proc + "/cmdline") //nolint:gosec // the kernel's
		if err != nil || strings.HasPrefix(string(text), sandbox.HelperPath+"\x00") {
			return err
		}
		if _, err := os.Readlink(proc + "/exe"); len(text) == 0 && errors.Is(err, fs.ErrNotExist) {
			return errors.New("the sandbox's command ended at once")
		}
		if err := attended.Pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("the sandbox does not start its command: %w", err)
		}
	}
}

// failure is why the runtime failed.
func (c *checker) failure(ended error, call oci.Call) error {
	var why error
	if err := c.ns.Do(func() error { _, why = oci.Failure(call.Log); return nil }); err != nil {
		why = err
	}
	return fmt.Errorf("%s: %w (%w)", c.runtime.Name, why, ended)
}

// stop ends what is left of the sandbox and of the runtime.
func (c *checker) stop(ctx context.Context, cmd *exec.Cmd, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, runPatience)
	defer cancel()
	err := process.Clear(ctx, c.id(), cmd.Process.Pid, c.group, func() []int {
		if pid > 0 {
			return []int{pid}
		}
		return nil
	})
	if !c.runtime.Leaves {
		_ = cmd.Wait() // it is reaped
	}
	return err
}

// id is what the runtime knows the sandbox by: no other one has it.
func (c *checker) id() string { return "check_" + filepath.Base(c.cfg.Group) }

// look reads what the kernel says of a process.
func look(pid int) (confinement, error) {
	seen := confinement{status: map[string]string{}}
	proc := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(proc + "/status") //nolint:gosec // the kernel's
	if err != nil {
		return seen, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		seen.status[name] = strings.TrimSpace(value)
	}
	if seen.limits, err = limits(pid); err != nil {
		return seen, err
	}
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return seen, err
		}
		theirs, err := os.Readlink(proc + "/ns/" + kind)
		if err != nil {
			return seen, err
		}
		if own == theirs {
			seen.shared = append(seen.shared, kind)
		}
	}
	return seen, nil
}

// sandboxed says that a runtime has a kernel of its own in each sandbox: what the
// host's kernel sees says little about the processes there.
func (c *checker) sandboxed() bool { return c.runtime.Name == "runsc" }

func (c *checker) filter(context.Context) (string, error) {
	if c.sandboxed() {
		return "inside, and the runtime's own outside", nil
	}
	if mode := c.seen.status["Seccomp"]; mode != "2" {
		return "", fmt.Errorf("the first process of a sandbox has none (mode %q)", mode)
	}
	return "in place", nil
}

func (c *checker) privileges(context.Context) (string, error) {
	if c.sandboxed() {
		return "a kernel of its own", nil
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(c.seen.status[set], "0") != "" || c.seen.status[set] == "" {
			return "", fmt.Errorf("the first process of a sandbox has capabilities (%s %q)", set, c.seen.status[set])
		}
	}
	if c.seen.status["NoNewPrivs"] != "1" {
		return "", errors.New("the first process of a sandbox can gain privileges")
	}
	return "no capabilities, and no way to gain any", nil
}

func (c *checker) namespaces(context.Context) (string, error) {
	shared := slices.DeleteFunc(slices.Clone(c.seen.shared), func(kind string) bool {
		return kind == "user" && c.ids == nil || c.sandboxed() && kind != "mnt" && kind != "net"
	})
	if len(shared) > 0 {
		return "", fmt.Errorf("a sandbox shares the host's: %s", strings.Join(shared, ", "))
	}
	return "all", nil
}
