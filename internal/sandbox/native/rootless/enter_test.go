package rootless_test

import (
	"bufio"
	"bytes"
	"context"
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
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/rootless"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/sandbox/upper"
)

// The user that tests become, and the users that it may map.
const (
	someone = 54321
	first   = 600_000
	count   = 65536
)

// stage is the variable that makes the test binary the program that enters.
const stage = "SECUREBENCH_TEST_ROOTLESS"

func TestMain(m *testing.M) {
	program := rootless.Program{Args: os.Args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := program.Continue(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(90)
	}
	if os.Getenv(stage) == "" {
		os.Exit(m.Run())
	}
	if !mountns.Rootless() {
		ids := rootless.Range{Start: first, Count: count}
		code, err := program.Enter(rootless.Ranges{Users: ids, Groups: ids})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 91
		}
		os.Exit(code)
	}
	os.Exit(inside(os.Getenv(stage)))
}

// inside is what the program does in its namespaces.
func inside(what string) int {
	var err error
	switch what {
	case "mount":
		err = mount(os.Args[1])
	case "run":
		err = runContainer(os.Args[1])
	case "wait":
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
	case "signal":
		err = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 92
	}
	return 7
}

// mount mounts what a sandbox is mounted from, with an upper folder that replaces
// a lower one, and files of two users.
func mount(dir string) error {
	ns, err := mountns.New(dir)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(func() error {
		var dirs []string
		for _, name := range []string{"0", "1", "u", "w", "root"} {
			dirs = append(dirs, filepath.Join(dir, name))
			err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
		below := filepath.Join(dir, "0", "folder")
		err = errors.Join(err, os.Mkdir(below, 0o755), os.WriteFile(filepath.Join(below, "f"), nil, 0o644),
			os.WriteFile(filepath.Join(dir, "0", "deleted"), nil, 0o644), unix.Mknod(filepath.Join(dir, "1", "deleted"), unix.S_IFCHR, 0),
			os.Chown(below, 65534, 65534),
			mountns.Overlay(dirs[4], dirs[:2], dirs[2], dirs[3]))
		if err != nil {
			return err
		}
		root := dirs[4]
		if _, err := os.Stat(filepath.Join(root, "deleted")); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("a deleted file is there: %w", err)
		}
		err = errors.Join(os.RemoveAll(filepath.Join(root, "folder")), os.Mkdir(filepath.Join(root, "folder"), 0o755))
		if entries, list := os.ReadDir(filepath.Join(root, "folder")); len(entries) > 0 {
			return fmt.Errorf("a folder that was made anew has %v, %w", entries, list)
		}
		return errors.Join(err, changes(dirs[2], dirs[:2]))
	})
}

// changes checks what is read from the upper folder of mount: that the folder was made
// anew, so that the file in it is gone.
func changes(top string, below []string) (err error) {
	var l upper.Layer
	if l.Upper, err = os.OpenRoot(top); err != nil {
		return err
	}
	for _, dir := range below {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		l.Lower = append(l.Lower, root)
	}
	all, err := l.Changes(context.Background(), 10)
	if err == nil && !slices.Contains(all, sandbox.Change{Path: "/folder/f", Kind: sandbox.Deleted}) {
		err = fmt.Errorf("the changes are %v", all)
	}
	return err
}

// enter starts the test binary as another user, who has programs that map users as
// newuidmap and newgidmap do: through this process, which is root.
func enter(t *testing.T, what string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	dir, err := os.MkdirTemp("/tmp", "sb-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.ReadFile("/proc/self/exe")
	err = errors.Join(err, os.Chmod(dir, 0o755), //nolint:gosec // another user's program is there
		sandboxtest.WriteProgram(filepath.Join(dir, "test"), self))
	for _, kind := range []string{"uid", "gid"} {
		question, answer := filepath.Join(dir, kind+"-question"), filepath.Join(dir, kind+"-answer")
		script := fmt.Sprintf("#!/bin/sh\necho \"$@\" > %s\nread -r ok < %s && test \"$ok\" = ok\n", question, answer)
		err = errors.Join(err, sandboxtest.WriteProgram(filepath.Join(dir, "new"+kind+"map"), []byte(script)))
		go answerMap(t, kind, fifo(t, question), fifo(t, answer))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), args...) //nolint:gosec // the test itself
	cmd.Env = append(os.Environ(), stage+"="+what, "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: someone}}
	return cmd
}

// answerMap maps the users of one process as it is told to.
func answerMap(t *testing.T, kind string, question, answer *os.File) {
	text, err := bufio.NewReader(question).ReadString('\n')
	if err != nil {
		return // the test has ended
	}
	pid, mapping, _ := strings.Cut(strings.TrimSpace(text), " ")
	fields := strings.Fields(mapping)
	if len(fields) != 6 {
		t.Errorf("new%smap got %q", kind, text)
		return
	}
	lines := strings.Join(fields[:3], " ") + "\n" + strings.Join(fields[3:], " ") + "\n"
	reply := "ok\n"
	if err := os.WriteFile("/proc/"+pid+"/"+kind+"_map", []byte(lines), 0o600); err != nil {
		t.Errorf("mapping: %v", err)
		reply = "no\n"
	}
	if _, err := answer.WriteString(reply); err != nil {
		t.Errorf("answering: %v", err)
	}
}

// fifo makes a pipe with a name, and opens it for both directions, so that neither end waits.
func fifo(t *testing.T, path string) *os.File {
	t.Helper()
	if err := errors.Join(unix.Mkfifo(path, 0o600), os.Chown(path, someone, someone)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestEnterMounts(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "sb-rootless-dir-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	cmd := enter(t, "mount", dir)
	if err := os.Chown(dir, someone, someone); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v: %s", err, out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the host sees %v, %v", entries, err)
	}
}

func TestEnterPassesSignals(t *testing.T) {
	out, err := enter(t, "signal").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+int(unix.SIGKILL) {
		t.Errorf("%v: %s", err, out)
	}
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT} {
		cmd, stdin := waiting(t)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(s) {
			t.Errorf("%v: %v", s, err)
		}
		_ = stdin.Close()
	}
}

// waiting is a program that has entered and waits for the end of its input.
func waiting(t *testing.T) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := enter(t, "wait")
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(stdout, line); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return cmd, stdin
}

// TestEnterEndsTogether kills the program that waits: the one in the namespaces ends too.
func TestEnterEndsTogether(t *testing.T) {
	cmd, stdin := waiting(t)
	defer stdin.Close()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	children := strings.Fields(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(children) == 0 { // another thread started it
		text, _ := exec.Command("sh", "-c", fmt.Sprintf("cat /proc/%d/task/*/children", cmd.Process.Pid)).Output()
		children = strings.Fields(string(text))
	}
	if len(children) != 1 {
		t.Fatalf("the program has the children %q", children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	handle, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, -1) //nolint:gosec // a descriptor
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}

func TestEnterWithoutMapping(t *testing.T) {
	cmd := enter(t, "mount", "/nowhere")
	dir := filepath.Dir(cmd.Path)
	script := []byte("#!/bin/sh\necho not yours >&2\nexit 1\n")
	if err := sandboxtest.WriteProgram(filepath.Join(dir, "newuidmap"), script); err != nil {
		t.Fatal(err)
	}
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 91 || !strings.Contains(string(out), "not yours") {
		t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
