package contract

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
	scriptOK          = "exit 0"
	scriptExit3       = "exit 3"
	scriptBoth        = "echo out; echo err >&2"
	scriptEnvironment = `echo "$(pwd) $GREETING"`
	scriptForever     = "trap '' TERM INT; echo ready; while :; do sleep 1; done"
	scriptFlood       = "yes 0123456789"
	scriptTree        = "echo hello > a.txt; mkdir -p d/e; echo deep > d/e/f; ln -s /etc/passwd link; " +
		"ln a.txt hard; mkfifo fifo; echo s > secret; chmod 000 secret; ln -s d dlink"
	scriptClosed = "mkdir -p closed/sub; echo x > closed/sub/big; chmod 000 closed/sub/big closed/sub closed"
	scriptShut   = "chmod 000 ."
	scriptLinks  = "ln -s .git alias"
	scriptSparse = "truncate -s 1T sparse"
	scriptFill   = "head -c 100000000 /dev/zero > big"
	scriptRead   = "cat a.txt"
	scriptList   = "ls -A"
	scriptMounts = "cat /input/data/a.txt > /workspace/copy; { echo x > /input/data/new; } 2>/dev/null && echo created; " +
		"rm -f /input/data/a.txt 2>/dev/null && echo removed; exit 0"
	scriptChange = "echo changed > /suite/file; rm /suite/gone; mkdir /suite/new; echo new > /suite/new/file; " +
		"ln -s /etc /suite/new/link; mkfifo /suite/new/fifo; chmod 700 /suite/dir/run.sh; rm -r /suite/anew; mkdir /suite/anew"
	scriptNested = "cat /workspace/in/data/a.txt; echo x > /workspace/in/new; { echo x > /workspace/in/data/new; } 2>/dev/null; " +
		"rm -f /workspace/in/data/a.txt 2>/dev/null; exit 0"
	scriptFillRoot = "head -c 100000000 /dev/zero > /suite/big; while :; do sleep 1; done"
	scriptHome     = "ls -A /opt/suite/home; echo hello > /opt/suite/home/f; cat /opt/suite/home/f"
	scriptOverlay  = "cat /opt/suite/tool/bin/tool; { echo x > /opt/suite/tool/new; } 2>/dev/null && echo created; " +
		"rm -f /opt/suite/tool/bin/tool 2>/dev/null; chmod 700 /opt/suite/tool/bin 2>/dev/null; exit 0"
	scriptHostile = "truncate -s 1T /suite/sparse; rm -r /suite/dir; ln -s /etc /suite/dir"
)

// rootFilling is how much FillRoot writes.
const rootFilling = 100_000_000

// Programs are the commands that the suite needs from a [sandboxtest.Engine].
func Programs() map[string]sandboxtest.Program {
	return map[string]sandboxtest.Program{"sh": runScript, "cat": cat}
}

func cat(_ context.Context, p *sandboxtest.Process) int {
	if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
		return 1
	}
	return 0
}

// runScript executes one of the scripts.
func runScript(ctx context.Context, p *sandboxtest.Process) int {
	var err error
	switch p.Args[2] {
	case scriptOK:
	case scriptExit3:
		return 3
	case scriptBoth:
		_, _ = io.WriteString(p.Stdout, "out\n")
		_, err = io.WriteString(p.Stderr, "err\n")
	case scriptEnvironment:
		_, err = fmt.Fprintf(p.Stdout, "%s %s\n", p.Spec.Workdir, variable(p.Env, "GREETING"))
	case scriptForever:
		_, err = io.WriteString(p.Stdout, "ready\n")
		<-ctx.Done()
	case scriptFlood:
		for err == nil {
			_, err = io.WriteString(p.Stdout, "0123456789\n")
		}
	case scriptTree:
		err = makeTree(p.Dir)
	case scriptShut:
		err = os.Chmod(p.Dir, 0o000)
	case scriptClosed:
		err = makeClosed(p.Dir)
	case scriptLinks:
		err = os.Symlink(".git", filepath.Join(p.Dir, "alias"))
	case scriptSparse:
		err = makeSparse(filepath.Join(p.Dir, "sparse"))
	case scriptFill:
		err = os.WriteFile(filepath.Join(p.Dir, "big"), bytes.Repeat([]byte{0}, int(p.Spec.Limits.Disk)), 0o644)
		if err == nil {
			err = syscall.ENOSPC
		}
	case scriptRead:
		err = copyOut(p, filepath.Join(p.Dir, "a.txt"))
	case scriptList:
		err = list(p)
	case scriptMounts:
		err = useMounts(p)
	case scriptNested:
		err = useNested(p)
	case scriptFillRoot:
		err = fillRoot(ctx, p)
	case scriptChange:
		err = changeRoot(p)
	case scriptHome:
		err = useHome(p)
	case scriptOverlay:
		err = useOverlay(p)
	case scriptHostile:
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
		err = os.WriteFile(filepath.Join(dir, "big"), make([]byte, rootFilling), 0o644)
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
		func() error { return os.RemoveAll(at("anew")) },
		func() error { return os.Mkdir(at("anew"), 0o755) },
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
