package initproc

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// probeBinary builds this test as a static program.
var probeBinary = sync.OnceValues(func() (string, error) { return enginetest.Built("initproc-probe", "test", "-c", ".") })

// setup is a container in which init runs without the engine's seccomp
// profile, so that what holds is init's own doing.
type setup struct {
	name         string
	user         sandbox.User
	capabilities []string
	weak         []string // steps of the hardening that are left out
	grants       []string // what commands can be given
	signals      int64    // that its user can have pending; 0 is what the engine gives
}

const helper = "/helper"

var (
	sameUser  = setup{name: "same user", user: sandbox.Nobody}
	plainRoot = setup{name: "root"}
	// applyingRoot is made to change files.
	applyingRoot = setup{name: "root that changes files", capabilities: capabilityNames(ApplyCapabilities())}
	capableRoot  = setup{name: "root with capabilities", capabilities: []string{"SETUID", "SETGID", "KILL", "SETPCAP"}}
)

func capabilityNames(all []sandbox.Capability) (names []string) {
	for _, c := range all {
		names = append(names, string(c))
	}
	return names
}

func (s setup) granting(names ...string) setup {
	s.capabilities, s.grants = append(slices.Clone(s.capabilities), names...), names
	return s
}

func (s setup) without(steps ...string) setup {
	s.weak = steps
	return s
}

// open starts an init in a container of its own.
func (s setup) open(t testing.TB) *Client {
	t.Helper()
	c, err := s.try(t)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s setup) try(t testing.TB) (*Client, error) {
	t.Helper()
	img := enginetest.Image(t, enginetest.Docker(t))
	program, err := probeBinary()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	args := s.weak
	if len(s.grants) > 0 {
		args = append([]string{"--grant=" + strings.Join(s.grants, ",")}, args...)
	}
	pids := int64(64)
	var limits []*container.Ulimit
	if s.signals != 0 {
		limits = []*container.Ulimit{{Name: "sigpending", Soft: s.signals, Hard: s.signals}}
	}
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: img.ID, User: fmt.Sprintf("%d:%d", s.user.UID, s.user.GID), WorkingDir: "/",
			Entrypoint: append([]string{helper, "sandbox-init"}, args...),
			OpenStdin:  true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true},
		HostConfig: &container.HostConfig{NetworkMode: "none", Tmpfs: map[string]string{"/small": "size=1m,nr_inodes=10"}, CapDrop: []string{"ALL"}, CapAdd: s.capabilities,
			SecurityOpt: []string{"seccomp=unconfined"}, Resources: container.Resources{PidsLimit: &pids, Memory: 512 << 20, Ulimits: limits}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := api.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil {
			t.Error(err)
		}
	})
	_, err = api.CopyToContainer(t.Context(), made.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: archived(t, program)})
	if err != nil {
		t.Fatal(err)
	}
	at, err := api.ContainerAttach(t.Context(), made.ID, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.Close)
	if _, err := api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	said := &bounded.Head{Max: stderrLimit}
	go copyUntilEnd(at, theirs)
	go func() {
		_, _ = stdcopy.StdCopy(untilClosed{theirs}, said, at.Reader)
		if b := said.String(); b != "" {
			t.Logf("init of %s said: %.300s", s.name, b)
		}
		_ = theirs.Close()
	}()
	c, err := newClient(ours)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, nil
}

func copyUntilEnd(at client.ContainerAttachResult, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if _, werr := at.Conn.Write(buf[:n]); err != nil || werr != nil {
			_ = at.CloseWrite()
			return
		}
	}
}

func archived(t testing.TB, program string) *bytes.Buffer {
	t.Helper()
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err = errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: helper[1:], Mode: 0o755, Size: int64(len(b))}))
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return &buf
}

func probe(name string, user sandbox.User) Command {
	return Command{Argv: []string{helper, "probe", name}, User: user, Env: []string{"PATH=/usr/bin:/bin"}, Timeout: hung}
}

// attack runs a probe and reports whether it succeeded, and its words.
func attack(t testing.TB, c *Client, cmd Command) (fired bool, words string) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// Two streams must not share a writer; one of them is silent.
	cmd.Stderr = nil
	res, err := c.Run(t.Context(), cmd)
	if errors.Is(err, ErrLost) {
		return true, err.Error()
	}
	if err != nil || res.End != sandbox.Exited || res.ExitCode > 1 {
		t.Fatalf("%q: %+v, %v", cmd.Argv, res, err)
	}
	return res.ExitCode == 0, out.String()
}

// TestAttacksOnInit runs every attack on init from inside its sandbox. Each
// succeeds against an init that lacks the one step that stops it.
func TestAttacksOnInit(t *testing.T) {
	const (
		dumpable     = "becoming non-dumpable"
		capabilities = "dropping capabilities"
		signals      = "ignoring signals"
		group        = "setting the real group"
		descriptors  = "closing descriptors on exec"
	)
	tracing := []string{"ptrace", "mem", "maps", "environ", "exe", "cwd", "fd", "process_vm_readv", "pidfd_getfd", "forge"}
	for _, tt := range []struct {
		strong  setup
		weak    []string // steps
		attacks []string
	}{
		{sameUser, []string{dumpable}, tracing},
		{plainRoot, []string{dumpable}, tracing},
		// Against an init with more capabilities than its commands tracing
		// fails in any case, so the weak one lets them have all.
		{capableRoot, []string{dumpable, capabilities, group}, append(tracing, "capabilities", "prlimit")},
		{capableRoot, []string{group}, []string{"prlimit"}},
		{sameUser.without("leak"), []string{"leak", descriptors}, []string{"descriptors"}},
		{sameUser, []string{signals}, []string{"signals"}},
		{plainRoot, []string{signals}, []string{"signals"}},
		{capableRoot, []string{signals}, []string{"signals"}},
	} {
		t.Run(tt.strong.name+"/"+strings.Join(tt.weak, ","), func(t *testing.T) {
			strong := tt.strong.open(t)
			for _, name := range tt.attacks {
				if name != "signals" {
					if fired, words := attack(t, strong, probe(name, tt.strong.user)); fired {
						t.Errorf("%s succeeds: %s", name, words)
					}
				} else if _, words := attack(t, strong, probe(name, tt.strong.user)); words != "" {
					t.Errorf("%s: %s", name, words)
				}
			}
			weak := tt.strong.without(tt.weak...).open(t)
			for _, name := range tt.attacks {
				if fired, _ := attack(t, weak, probe(name, tt.strong.user)); !fired {
					t.Errorf("%s fails against an init without the step %q", name, tt.weak)
				}
			}
			if slices.Contains(tt.attacks, "signals") || slices.Contains(tt.attacks, "forge") {
				if _, err := weak.Run(t.Context(), probe("descriptors", tt.strong.user)); !errors.Is(err, ErrLost) {
					t.Errorf("the weak init survives: %v", err)
				}
			}
			if res, err := strong.Run(t.Context(), Command{Argv: []string{"true"}, Env: []string{"PATH=/bin:/usr/bin"}, User: tt.strong.user}); err != nil || res.ExitCode != 0 {
				t.Errorf("after the attacks: %+v, %v", res, err)
			}
		})
	}
}

// TestInitNeedsNoSignal starts inits beside a process that has used up what its user
// can have pending: for the kernel that is a limit that is lower than the count. A
// program that changes the rights of all its threads, as Go does, hangs there.
func TestInitNeedsNoSignal(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{sameUser, plainRoot, capableRoot, applyingRoot, capableRoot.granting("CHOWN")} {
		t.Run(s.name+strings.Join(s.grants, ","), func(t *testing.T) {
			t.Parallel()
			cmd := probe("all threads", s.user)
			if fired, words := attack(t, s.open(t), cmd); !fired {
				t.Fatalf("where signals can be queued: %s", words)
			}
			s.signals = 1 // one that is blocked and pending uses it up
			c := s.open(t)
			cmd.Timeout = time.Second // hung
			res, err := c.Run(t.Context(), cmd)
			if err != nil || res.End != sandbox.TimedOut {
				t.Errorf("a program that needs signals: %+v, %v; want it to hang", res, err)
			}
			if res, err := c.Run(t.Context(), Command{Argv: []string{helper, "probe", "none"}, User: s.user, Timeout: hung}); err != nil || res.ExitCode != 0 {
				t.Errorf("an honest command: %+v, %v", res, err)
			}
		})
	}
}

// TestCommandsRunAsTheirUsers checks users, groups, environment and signals (32
// and 34 are ignored), and that no user reaches another's processes.
func TestCommandsRunAsTheirUsers(t *testing.T) {
	c := capableRoot.open(t)
	for _, user := range []sandbox.User{{}, {UID: 1000, GID: 1001}, sandbox.Nobody} {
		var out bytes.Buffer
		cmd := shell("id -u; id -g; id -G; pwd; echo $X; grep -c . /proc/self/uid_map; grep -E '^(Groups|SigBlk|SigIgn)' /proc/self/status")
		cmd.User, cmd.Stdout, cmd.Dir, cmd.Env = user, &out, "/usr", append(cmd.Env, "X=y z")
		res, err := c.Run(t.Context(), cmd)
		want := fmt.Sprintf("%d\n%d\n%d\n/usr\ny z\n1\nGroups:\t \nSigBlk:\t%016x\nSigIgn:\t%016x\n", user.UID, user.GID, user.GID, 0, 1<<31|1<<33)
		if err != nil || res.ExitCode != 0 || out.String() != want {
			t.Errorf("as %v: %+v, %v, got %q, want %q", user, res, err, &out, want)
		}
		if fired, words := attack(t, c, probe("capabilities", user)); fired {
			t.Errorf("as %v a command has %s", user, words)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	victim := make(chan error, 1)
	sleep := shell("echo ready; exec sleep 1000")
	started, stdout := io.Pipe()
	sleep.User, sleep.Timeout, sleep.Stdout = sandbox.User{UID: 1000, GID: 1000}, 0, stdout
	go func() {
		res, err := c.Run(ctx, sleep)
		stdout.Close()
		victim <- fmt.Errorf("%+v, %w", res, err)
	}()
	// Until its program starts, a command is still a process of user 0.
	if _, err := bufio.NewReader(started).ReadString('\n'); err != nil {
		t.Fatalf("another user's command has not started: %v", err)
	}
	for _, uid := range []int{0, 1001} {
		cmd := shell("kill -9 -1; true")
		cmd.User = sandbox.User{UID: uid, GID: uid}
		if _, err := c.Run(t.Context(), cmd); err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-victim:
		t.Errorf("another user's command was reached: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
}

// TestKillReachesAll checks what each way to kill reaches.
func TestKillReachesAll(t *testing.T) {
	c := capableRoot.open(t)
	user, other := sandbox.User{UID: 1000, GID: 1000}, sandbox.User{UID: 1001, GID: 1001}
	alive := func(pid string) bool {
		cmd := shell("grep -q '^State:.[^Z]' /proc/" + pid + "/status")
		res, err := c.Run(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return res.ExitCode == 0
	}
	// A signal is sent at once; the process dies when it is scheduled next.
	dies := func(pid string) bool {
		for end := time.Now().Add(hung); alive(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				return false
			}
		}
		return true
	}
	started := func(u sandbox.User) string {
		fired, pid := attack(t, c, probe("escape", u))
		if !fired || !alive(strings.TrimSpace(pid)) {
			t.Fatalf("no escapee: %q", pid)
		}
		return strings.TrimSpace(pid)
	}
	// A command that is killed takes along what is below it, sessions of their
	// own included, but not those of others.
	bystander := started(user)
	var out bytes.Buffer
	cmd := shell("setsid sh -c 'echo $$; sleep 1000 & sleep 1000' & sleep 1000")
	cmd.User, cmd.Stdout, cmd.Timeout = user, &out, 5*time.Second // the descendant must be there by then
	res, err := c.Run(t.Context(), cmd)
	if err != nil || res.End != sandbox.TimedOut {
		t.Fatalf("%+v, %v", res, err)
	}
	if pid := strings.TrimSpace(out.String()); pid == "" || !dies(pid) {
		t.Errorf("descendant %q survives its command", pid)
	}
	others := started(other)
	if !alive(bystander) {
		t.Error("a bystander was killed")
	}
	if err := c.KillUser(t.Context(), user.UID); err != nil {
		t.Error(err)
	}
	if !dies(bystander) {
		t.Error("an escapee survives the end of its user")
	}
	if !alive(others) {
		t.Error("another user's process does not")
	}
	if err := c.KillAll(t.Context()); err != nil {
		t.Error(err)
	}
	if !dies(others) {
		t.Error("an escapee survives the end of all")
	}
}

// TestForkBomb fills the process table. Init reports that it can start nothing
// more as data, does all else that it is asked, and ends the bomb. One that
// needs new threads for that is ended by the runtime.
func TestForkBomb(t *testing.T) {
	for _, s := range []setup{sameUser, capableRoot} {
		t.Run(s.name, func(t *testing.T) {
			c := s.open(t)
			done := explode(t, c, s.user)
			for range 10 {
				if err := crowd(t, c, s.user); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.KillAll(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if res, err := c.Run(t.Context(), Command{Argv: []string{"/bin/true"}, User: s.user}); err != nil || res.ExitCode != 0 || res.End != sandbox.Exited {
				t.Errorf("after the bomb: %+v, %v", res, err)
			}
		})
	}
	t.Run("weak", func(t *testing.T) {
		weak := sameUser.without("starting threads").open(t)
		done := explode(t, weak, sameUser.user)
		for range 200 {
			if err := crowd(t, weak, sameUser.user); err != nil {
				if !errors.Is(err, ErrLost) || !errors.Is(<-done, ErrLost) {
					t.Errorf("not the end of init: %v", err)
				}
				return
			}
		}
		t.Error("the weak init survives")
	})
}

// explode starts a bomb and waits until the process table is full.
func explode(t *testing.T, c *Client, user sandbox.User) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), probe("forkbomb", user))
		done <- err
	}()
	for {
		select {
		case err := <-done: // it lasts a minute
			t.Fatalf("the process table was never full: the bomb ended with %v", err)
		case <-time.After(300 * time.Millisecond): // a busy init would have started threads
		}
		res, err := c.Run(t.Context(), Command{Argv: []string{"/bin/true"}, User: user, Timeout: hung})
		if err != nil || res.End == NotStarted {
			return done
		}
	}
}

// crowd asks for many things at once.
func crowd(t *testing.T, c *Client, user sandbox.User) error {
	t.Helper()
	const stranger = 4242
	errs := make(chan error)
	for range maxCommands {
		go func() {
			cmd := Command{Argv: []string{"/bin/true"}, User: user, Timeout: hung, Stdin: strings.NewReader("x"), Stdout: io.Discard, Stderr: io.Discard}
			_, err := c.Run(t.Context(), cmd)
			errs <- errors.Join(err, c.KillUser(t.Context(), stranger))
		}()
	}
	var all error
	for range maxCommands {
		all = errors.Join(all, <-errs)
	}
	return all
}

// TestOrphansAreReaped leaves many behind.
func TestOrphansAreReaped(t *testing.T) {
	c := sameUser.open(t)
	for i := range 300 { // more than the process table holds
		cmd := shell("sleep 0 & sleep 0 & exit 0")
		cmd.User = sandbox.Nobody
		if res, err := c.Run(t.Context(), cmd); err != nil || res.ExitCode != 0 {
			t.Fatalf("command %d: %+v, %v", i, res, err)
		}
	}
}

// TestLimitsOfInitAreData shows what a process of init's own user can do, and
// that it counts as the sandbox's doing.
func TestLimitsOfInitAreData(t *testing.T) {
	c := sameUser.open(t)
	if fired, words := attack(t, c, probe("prlimit", sandbox.Nobody)); !fired {
		t.Fatalf("the kernel refuses what the documentation says it allows: %s", words)
	}
	cmd := shell("true")
	cmd.User, cmd.Stdout = sandbox.Nobody, &bytes.Buffer{}
	if res, err := c.Run(t.Context(), cmd); err != nil || res.End != NotStarted {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestStopsOfInitEnd shows that init can be held up by its own user's processes,
// which stop each command while it starts, and that the caller is not.
func TestStopsOfInitEnd(t *testing.T) {
	c := sameUser.open(t)
	c.grace = 2 * time.Second
	calm := make(chan struct{})
	go func() {
		defer close(calm)
		_, _ = c.Run(t.Context(), probe("stopstorm", sandbox.Nobody))
	}()
	lost, over := false, false
	for !lost && !over {
		select {
		case <-calm: // or init was lost
			over = true
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := c.Run(ctx, probe("capabilities", sandbox.Nobody)) // stopped for ever, if it waits for init
		cancel()
		lost = errors.Is(err, ErrLost)
	}
	if !lost {
		t.Error("init outlives the storm: the documentation says too much")
	}
}

// TestInitInASandbox runs init as the engine starts it.
func TestInitInASandbox(t *testing.T) { enginetest.Each(t, initInASandbox) }

func initInASandbox(t *testing.T, e enginetest.Engine) {
	for _, s := range []struct {
		user         sandbox.User
		capabilities []sandbox.Capability
	}{
		{user: sandbox.Nobody},
		{capabilities: []sandbox.Capability{sandbox.SetUID, sandbox.SetGID, sandbox.Kill, sandbox.SetPCap}},
	} {
		c := openSandbox(t, e, s.user, s.capabilities)
		var out bytes.Buffer
		cmd := shell("id -u; cat")
		cmd.User, cmd.Stdin, cmd.Stdout = sandbox.Nobody, strings.NewReader("hello"), &out
		res, err := c.Run(t.Context(), cmd)
		if err != nil || out.String() != strconv.Itoa(sandbox.Nobody.UID)+"\nhello" {
			t.Errorf("%+v, %v, %q", res, err, &out)
		}
		cat := shell("cat")
		cat.User = sandbox.Nobody
		checkWhole(t, c, cat)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Run(t.Context(), cmd); !errors.Is(err, ErrLost) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func openSandbox(t testing.TB, e sandbox.Engine, user sandbox.User, capabilities []sandbox.Capability) *Client {
	t.Helper()
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Init: true, User: &user, Capabilities: capabilities,
		Limits: sandbox.Limits{Output: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}
