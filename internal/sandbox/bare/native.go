package bare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"securebench/internal/bounded"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/oci"
	"securebench/internal/sandbox/owner"
)

// target is where sandboxes have the workspace.
const target = "/workspace"

// Native makes sandboxes with an OCI runtime called by hand, from the specification
// that the native engine writes, in a private mount namespace with an image's layers. It is safe for
// concurrent use.
type Native struct {
	runtime oci.Runtime
	dir     string
	ns      *mountns.Namespace
	ids     *mountns.IDs // nil where the kernel allows none
	layers  []string     // in the namespace
	env     []string
}

// NewNative mounts the layers, the first of which is the lowest. env is that of the
// image.
func NewNative(r oci.Runtime, layers, env []string) (_ *Native, err error) {
	f := &Native{runtime: r, env: append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, env...)}
	if f.dir, err = owner.MakeFolder("floor"); err != nil {
		return nil, fmt.Errorf("making a folder for the bare runtime: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.ns, err = mountns.New(f.dir); err != nil {
		return nil, err
	}
	if r.Maps {
		f.ids, _ = mountns.NewIDs(mountns.IDBase, mountns.IDSize) // without it sandboxes have no user namespace, as with the engine
	}
	err = f.ns.Do(func() (err error) {
		for i, layer := range layers {
			at := filepath.Join(f.dir, "l"+strconv.Itoa(i))
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
			if err := f.ids.Bind(layer, at, true); err != nil {
				return err
			}
			f.layers = append(f.layers, at)
		}
		f.runtime, err = r.Prepare(filepath.Join(f.dir, "runtime"))
		return err
	})
	for range 2 {
		if err == nil && !f.runtime.Knows(oci.Box{}) {
			_ = f.learn() // an image may lack the program: then it has learnt nothing
		}
	}
	return f, err
}

// learn runs containers until the runtime knows what an engine's learns from the first
// two.
func (f *Native) learn() error {
	ctx, cancel := context.WithTimeout(context.Background(), learnPatience)
	defer cancel()
	input, end := io.Pipe()
	defer end.Close()
	stop := context.AfterFunc(ctx, func() { _ = end.Close() }) // never fails
	defer stop()
	return f.start(ctx, "", input, func(b oci.Box, c oci.Call) {
		for ctx.Err() == nil && f.ns.Do(func() error { return f.runtime.Started(b, c) }) != nil {
			time.Sleep(time.Millisecond)
		}
		_ = end.Close() // never fails
	}, "cat")
}

// learnPatience bounds the wait for one of the first containers.
const learnPatience = 2 * time.Second

// Name says what the floor is.
func (f *Native) Name() string {
	return f.runtime.Name + " " + f.runtime.Version + " by hand, same specification"
}

// Close releases the namespace, and with it every mount.
func (f *Native) Close() error {
	var errs []error
	if f.ids != nil {
		errs = append(errs, f.ids.Close())
	}
	if f.ns != nil {
		errs = append(errs, f.ns.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// Cycle makes, runs and removes one sandbox whose command is "true".
func (f *Native) Cycle(ctx context.Context) error { return f.run(ctx, "", "true") }

// Task makes a bounded workspace and one sandbox after another for the commands.
// The first one mounts the workspace.
func (f *Native) Task(ctx context.Context, commands ...[]string) (err error) {
	l, at := sandbox.Limits{}.WithDefaults(), filepath.Join(f.dir, "w"+rand.Text())
	err = f.ns.Do(func() error {
		if err := os.Mkdir(at, 0o711); err != nil {
			return err
		}
		return mountns.Tmpfs{Size: l.Disk, Inodes: l.Files, Mode: 0o755}.Mount(at)
	})
	if err != nil {
		return fmt.Errorf("making the floor's workspace: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.ns.Do(func() error { return errors.Join(mountns.Unmount(at), os.Remove(at)) }))
	}()
	for i, argv := range commands {
		workspace := at
		if i > 0 {
			workspace = ""
		}
		if err := f.run(ctx, workspace, argv...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command in a container of its own.
func (f *Native) run(ctx context.Context, workspace string, argv ...string) error {
	return f.start(ctx, workspace, strings.NewReader(""), nil, argv...)
}

// start starts a container, calls a function while it runs, and waits for its end.
func (f *Native) start(ctx context.Context, workspace string, input io.Reader, during func(oci.Box, oci.Call), argv ...string) (err error) {
	id := fmt.Sprintf("securebench-floor-%d-%s", os.Getpid(), rand.Text())
	b := bundle{dir: filepath.Join(f.dir, id), workspace: workspace}
	box := oci.Box{}
	if err := f.ns.Do(func() (err error) { box, err = f.make(id, &b, argv); return err }); err != nil {
		return errors.Join(fmt.Errorf("making the floor's container: %w", err), f.ns.Do(b.remove))
	}
	defer func() { err = errors.Join(err, f.ns.Do(b.remove)) }()
	c, said := f.command("run", "--bundle", b.dir, id), &bounded.Head{Max: maxSaid}
	c.Stdin, c.Stdout, c.Stderr = input, io.Discard, said // pipes, of which a runtime may change the owner
	if err := f.ns.Start(c); err != nil {
		return fmt.Errorf("running the floor's container: %w", err)
	}
	// The runtime itself is never killed: what it has begun to make would stay.
	ended, killed := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(killed); f.kill(id, ended) })
	if during != nil {
		during(box, oci.Call{State: f.state(), ID: id})
	}
	err = c.Wait()
	if close(ended); !stop() {
		<-killed // it is not to outlive the namespace
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("running the floor's container: %w: %s", err, redact.Escape(said.String()))
	}
	return nil
}

// kill kills a container as soon as there is one.
func (f *Native) kill(id string, ended <-chan struct{}) {
	for {
		c := f.command("kill", id, "KILL")
		if f.ns.Start(c) == nil {
			_ = c.Wait() // there may be no container yet
		}
		select {
		case <-ended:
			return
		case <-time.After(killPause):
		}
	}
}

// killPause is the time between attempts to kill a container.
const killPause = 20 * time.Millisecond

// maxSaid bounds what is repeated of a container that fails.
const maxSaid = 4 << 10

// command is a call of the runtime.
func (f *Native) command(args ...string) *exec.Cmd {
	c := exec.Command(f.runtime.Path, append([]string{"--root", f.state()}, args...)...) //nolint:gosec,noctx // the operator's own program, which ends by itself
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for this process
	return c
}

// state is the runtime's own folder.
func (f *Native) state() string { return filepath.Join(f.dir, "state") }

// bundle is the folder of a container.
type bundle struct {
	dir, workspace string
	mounts         []string // in the order in which they were made
}

// make mounts the root and writes the specification.
func (f *Native) make(id string, b *bundle, argv []string) (box oci.Box, err error) {
	l := sandbox.Limits{}.WithDefaults()
	box = oci.Box{Root: filepath.Join(b.dir, "r"), ReadOnly: true, Args: argv, Env: f.env, Dir: "/", Limits: l, Memory: l.Memory + l.Disk,
		Cgroup: "/" + id, Hostname: "sandbox", Mounts: []oci.Mount{{Target: "/tmp", Size: l.Disk, Inodes: l.Files, Mode: os.ModeSticky | 0o777}}}
	owner := 0
	if f.ids != nil {
		box.IDBase, box.IDSize, owner = mountns.IDBase, mountns.IDSize, mountns.IDBase
	}
	for _, dir := range []string{"", "u", "w", "r", "m"} {
		at := filepath.Join(b.dir, dir)
		if err := errors.Join(os.Mkdir(at, 0o711), os.Lchown(at, owner, owner)); err != nil {
			return box, err
		}
	}
	if err := mountns.Overlay(box.Root, f.layers, filepath.Join(b.dir, "u"), filepath.Join(b.dir, "w")); err != nil {
		return box, err
	}
	b.mounts = append(b.mounts, box.Root)
	if b.workspace != "" {
		at := filepath.Join(b.dir, "m")
		if err := f.ids.Bind(b.workspace, at, false); err != nil {
			return box, err
		}
		b.mounts = append(b.mounts, at)
		box.Dir, box.Mounts = target, append(box.Mounts, oci.Mount{Target: target, Source: at})
	}
	spec, err := f.runtime.Spec(box)
	if err != nil {
		return box, err
	}
	text, err := oci.Encode(spec)
	if err != nil {
		return box, err
	}
	return box, os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o600)
}

// remove undoes make.
func (b *bundle) remove() error {
	var errs []error
	for _, at := range slices.Backward(b.mounts) {
		errs = append(errs, mountns.Unmount(at))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}
