// Package scripts holds the shell scripts that package contract runs in
// sandboxes, and the same as programs for an engine in memory.
package scripts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"securebench/internal/sandbox/sandboxtest"
)

// The shell scripts of the suite outside its isolation part. [Programs]
// implements them for an engine in memory.
const (
	OK          = "exit 0"
	Exit3       = "exit 3"
	Both        = "echo out; echo err >&2"
	Environment = `echo "$(pwd) $GREETING"`
	Forever     = "trap '' TERM INT; echo ready; while :; do sleep 1; done"
	Flood       = "yes 0123456789"
	Tree        = "echo hello > a.txt; mkdir -p d/e; echo deep > d/e/f; ln -s /etc/passwd link; " +
		"ln a.txt hard; mkfifo fifo; echo s > secret; chmod 000 secret; ln -s d dlink"
	Closed = "mkdir -p closed/sub; echo x > closed/sub/big; chmod 000 closed/sub/big closed/sub closed"
	Shut   = "chmod 000 ."
	Links  = "ln -s .git alias"
	Sparse = "truncate -s 1T sparse"
	Fill   = "head -c 100000000 /dev/zero > big"
	Read   = "cat a.txt"
	List   = "ls -A"
	Mounts = "cat /input/data/a.txt > /workspace/copy; { echo x > /input/data/new; } 2>/dev/null && echo created; " +
		"rm -f /input/data/a.txt 2>/dev/null && echo removed; exit 0"
	Change = "echo changed > /suite/file; rm /suite/gone; mkdir /suite/new; echo new > /suite/new/file; " +
		"ln -s /etc /suite/new/link; mkfifo /suite/new/fifo; chmod 700 /suite/dir/run.sh"
	Nested = "cat /workspace/in/data/a.txt; echo x > /workspace/in/new; { echo x > /workspace/in/data/new; } 2>/dev/null; " +
		"rm -f /workspace/in/data/a.txt 2>/dev/null; exit 0"
	FillRoot = "head -c 100000000 /dev/zero > /suite/big; while :; do sleep 1; done"
	Home     = "ls -A /opt/suite/home; echo hello > /opt/suite/home/f; cat /opt/suite/home/f"
	Overlay  = "cat /opt/suite/tool/bin/tool; { echo x > /opt/suite/tool/new; } 2>/dev/null && echo created; " +
		"rm -f /opt/suite/tool/bin/tool 2>/dev/null; chmod 700 /opt/suite/tool/bin 2>/dev/null; exit 0"
	Hostile = "truncate -s 1T /suite/sparse; rm -r /suite/dir; ln -s /etc /suite/dir"
)

// folder is the one that contract.Folder names.
const folder = "/suite"

// RootFilling is how much FillRoot writes.
const RootFilling = 100_000_000

// Programs are the commands that the suite needs from a [sandboxtest.Engine].
func Programs() map[string]sandboxtest.Program {
	return map[string]sandboxtest.Program{"sh": shell, "cat": cat}
}

func cat(_ context.Context, p *sandboxtest.Process) int {
	if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
		return 1
	}
	return 0
}

// shell executes one of the scripts.
func shell(ctx context.Context, p *sandboxtest.Process) int {
	var err error
	switch p.Args[2] {
	case OK:
	case Exit3:
		return 3
	case Both:
		_, _ = io.WriteString(p.Stdout, "out\n")
		_, err = io.WriteString(p.Stderr, "err\n")
	case Environment:
		_, err = fmt.Fprintf(p.Stdout, "%s %s\n", p.Spec.Workdir, variable(p.Env, "GREETING"))
	case Forever:
		_, err = io.WriteString(p.Stdout, "ready\n")
		<-ctx.Done()
	case Flood:
		for err == nil {
			_, err = io.WriteString(p.Stdout, "0123456789\n")
		}
	case Tree:
		err = makeTree(p.Dir)
	case Shut:
		err = os.Chmod(p.Dir, 0o000)
	case Closed:
		err = makeClosed(p.Dir)
	case Links:
		err = os.Symlink(".git", filepath.Join(p.Dir, "alias"))
	case Sparse:
		err = makeSparse(filepath.Join(p.Dir, "sparse"))
	case Fill:
		err = os.WriteFile(filepath.Join(p.Dir, "big"), bytes.Repeat([]byte{0}, int(p.Spec.Limits.Disk)), 0o644)
		if err == nil {
			err = syscall.ENOSPC
		}
	case Read:
		err = copyOut(p, filepath.Join(p.Dir, "a.txt"))
	case List:
		err = list(p)
	case Mounts:
		err = useMounts(p)
	case Nested:
		err = useNested(p)
	case FillRoot:
		err = fillRoot(ctx, p)
	case Change:
		err = changeRoot(p)
	case Home:
		err = useHome(p)
	case Overlay:
		err = useOverlay(p)
	case Hostile:
		err = plant(p)
	default:
		err = fmt.Errorf("no such script: %q", p.Args[2])
	}
	if err != nil {
		_, _ = fmt.Fprintln(p.Stderr, err)
		return 1
	}
	return 0
}

func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func list(p *sandboxtest.Process) error {
	entries, err := os.ReadDir(p.Dir)
	for _, e := range entries {
		_, _ = fmt.Fprintln(p.Stdout, e.Name())
	}
	return err
}

// steps runs functions until one fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// makeTree is Tree.
func makeTree(dir string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	return steps(
		func() error { return os.WriteFile(at("a.txt"), []byte("hello\n"), 0o644) },
		func() error { return os.MkdirAll(at("d/e"), 0o755) },
		func() error { return os.WriteFile(at("d/e/f"), []byte("deep\n"), 0o644) },
		func() error { return os.Symlink("/etc/passwd", at("link")) },
		func() error { return os.Symlink("d", at("dlink")) },
		func() error { return os.Link(at("a.txt"), at("hard")) },
		func() error { return syscall.Mkfifo(at("fifo"), 0o644) },
		func() error { return os.WriteFile(at("secret"), []byte("s\n"), 0o000) },
	)
}

// makeClosed is Closed.
func makeClosed(dir string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	return steps(
		func() error { return os.MkdirAll(at("closed/sub"), 0o755) },
		func() error { return os.WriteFile(at("closed/sub/big"), []byte("x\n"), 0o000) },
		func() error { return os.Chmod(at("closed/sub"), 0o000) },
		func() error { return os.Chmod(at("closed"), 0o000) },
	)
}

// useMounts is Mounts.
func useMounts(p *sandboxtest.Process) error {
	from, err1 := p.Path("/input/data/a.txt", false)
	to, err2 := p.Path("/workspace/copy", true)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o644)
	}
	if err != nil {
		return err
	}
	if path, err := p.Path("/input/data/new", true); err == nil && os.WriteFile(path, []byte("x\n"), 0o644) == nil {
		_, _ = io.WriteString(p.Stdout, "created\n")
	}
	if path, err := p.Path("/input/data/a.txt", true); err == nil && os.Remove(path) == nil {
		_, _ = io.WriteString(p.Stdout, "removed\n")
	}
	return nil
}

// useNested is Nested.
func useNested(p *sandboxtest.Process) error {
	from, err1 := p.Path("/workspace/in/data/a.txt", false)
	to, err2 := p.Path("/workspace/in/new", true)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err == nil {
		_, err = p.Stdout.Write(content)
	}
	if path, refused := p.Path("/workspace/in/data/new", true); refused == nil {
		err = errors.Join(err, os.WriteFile(path, []byte("x\n"), 0o644))
	}
	return errors.Join(err, os.WriteFile(to, []byte("x\n"), 0o644))
}

// fillRoot is FillRoot.
func fillRoot(ctx context.Context, p *sandboxtest.Process) error {
	dir, err := p.Path(folder, true)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "big"), make([]byte, RootFilling), 0o644)
	}
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// changeRoot is Change.
func changeRoot(p *sandboxtest.Process) error {
	dir, err := p.Path(folder, true)
	at := func(name string) string { return filepath.Join(dir, name) }
	return steps(
		func() error { return err },
		func() error { return os.WriteFile(at("file"), []byte("changed\n"), 0o644) },
		func() error { return os.Remove(at("gone")) },
		func() error { return os.Mkdir(at("new"), 0o755) },
		func() error { return os.WriteFile(at("new/file"), []byte("new\n"), 0o644) },
		func() error { return os.Symlink("/etc", at("new/link")) },
		func() error { return syscall.Mkfifo(at("new/fifo"), 0o644) },
		func() error { return os.Chmod(at("dir/run.sh"), 0o700) },
	)
}

// useHome is Home.
func useHome(p *sandboxtest.Process) error {
	dir, err := p.Path("/opt/suite/home", true)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		_, _ = fmt.Fprintln(p.Stdout, e.Name())
	}
	return steps(
		func() error { return err },
		func() error { return os.WriteFile(filepath.Join(dir, "f"), []byte("hello\n"), 0o644) },
		func() error { return show(p, "/opt/suite/home/f") },
	)
}

// useOverlay is Overlay.
func useOverlay(p *sandboxtest.Process) error {
	if path, err := p.Path("/opt/suite/tool/new", true); err == nil && os.WriteFile(path, []byte("x\n"), 0o644) == nil {
		_, _ = io.WriteString(p.Stdout, "created\n")
	}
	return show(p, "/opt/suite/tool/bin/tool")
}

// show prints a file of the sandbox.
func show(p *sandboxtest.Process, name string) error {
	path, err := p.Path(name, false)
	if err != nil {
		return err
	}
	return copyOut(p, path)
}

// copyOut prints a file of this machine.
func copyOut(p *sandboxtest.Process, path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		_, err = p.Stdout.Write(b)
	}
	return err
}

// plant is Hostile.
func plant(p *sandboxtest.Process) error {
	dir, err := p.Path(folder, true)
	return steps(
		func() error { return err },
		func() error { return makeSparse(filepath.Join(dir, "sparse")) },
		func() error { return os.RemoveAll(filepath.Join(dir, "dir")) },
		func() error { return os.Symlink("/etc", filepath.Join(dir, "dir")) },
	)
}

func makeSparse(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := f.Truncate(1 << 40); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
