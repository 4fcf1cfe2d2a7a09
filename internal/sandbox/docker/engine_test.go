package docker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/sandboxtest/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	e := enginetest.Docker(t)
	t.Cleanup(func() { diffOwned(t, e) })
	contract.Suite(t, e, contract.Caps{Image: suiteImage(t, e), Isolation: true})
}

// diffOwned checks that nothing of this process is on the engine.
func diffOwned(t *testing.T, e *docker.Engine) {
	t.Helper()
	left, err := e.Owned(context.WithoutCancel(t.Context()))
	if err != nil || len(left) > 0 {
		t.Errorf("left on the engine: %v, %v", left, err)
	}
}

// engineAPI is the engine without this package around it.
func engineAPI(t *testing.T) *client.Client {
	t.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

// volumesOf lists the volumes that the containers of a run have.
func volumesOf(t *testing.T, api *client.Client, run string) (names []string) {
	t.Helper()
	for _, id := range labelled(t, api, run) {
		res, err := api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range res.Container.Mounts {
			if m.Type == mount.TypeVolume {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

func TestImageConfigurationIsIgnored(t *testing.T) {
	e := enginetest.Docker(t)
	base, api := enginetest.Image(t, e), engineAPI(t)
	img := enginetest.Derive(t, e, base, nil, `ENTRYPOINT ["/bin/false"]`, `CMD ["nothing"]`, `USER daemon`,
		`VOLUME ["/var/data","/tmp","/workspace"]`, `WORKDIR /usr`, `ENV COLOUR=blue`,
		`HEALTHCHECK --interval=1s CMD touch /tmp/checked`)

	want := sandbox.Image{Ref: img.ID, ID: img.ID, User: sandbox.User{UID: 1, GID: 1}, Env: []string{"COLOUR"}, Path: base.Path, OS: base.OS, Arch: base.Arch}
	if d := cmp.Diff(want, img); d != "" {
		t.Errorf("image (-want +got):\n%s", d)
	}
	box, err := e.Open(t.Context(), sandbox.Spec{Labels: sandbox.Labels{Run: enginetest.Run(t.Name())}, Image: img, Command: []string{"sh", "-c",
		"id -u; pwd; echo $COLOUR; sleep 1.5; ls -A /tmp; touch /var/data/x && grep -c -E '^tmpfs (/var/data|/tmp|/workspace) ' /proc/mounts"}})
	if err != nil {
		t.Fatal(err)
	}
	if names := volumesOf(t, api, enginetest.Run(t.Name())); len(names) > 0 {
		t.Errorf("the image gives the sandbox volumes: %v", names)
	}
	if got, want := ran(t, box), "1\n/\nblue\n3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	diffOwned(t, e)
}

// output runs a command that has to succeed.
func output(t *testing.T, e sandbox.Engine, spec sandbox.Spec) string {
	t.Helper()
	b, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return ran(t, b)
}

// ran runs a sandbox whose command has to succeed, and closes it.
func ran(t *testing.T, b sandbox.Box) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	out, err := b.Run(t.Context(), sandbox.Streams{Stdout: &stdout, Stderr: &stderr})
	if err = errors.Join(err, b.Close(t.Context())); err != nil || out.ExitCode != 0 {
		t.Fatalf("got %+v, %v, %q", out, err, stderr.String())
	}
	return stdout.String()
}

func TestUser(t *testing.T) {
	e := enginetest.Docker(t)
	img := enginetest.Image(t, e)
	for name, want := range map[string]sandbox.User{
		"": {}, "root": {}, "12:34": {UID: 12, GID: 34}, "daemon": {UID: 1, GID: 1}, "1": {UID: 1, GID: 1},
		"4242": {UID: 4242}, "daemon:tty": {UID: 1, GID: 5}, "daemon:7": {UID: 1, GID: 7}, "nobody:nogroup": sandbox.Nobody,
	} {
		got, err := e.User(t.Context(), img, name)
		if err != nil || got != want {
			t.Errorf("User(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"nosuchuser", "daemon:nosuchgroup", "-1", "-1:-1", ":", "99999999999:1"} {
		if got, err := e.User(t.Context(), img, name); err == nil {
			t.Errorf("User(%q) = %v", name, got)
		}
	}
	diffOwned(t, e)
}

func TestCommandThatCannotStart(t *testing.T) {
	e := enginetest.Docker(t)
	img := enginetest.Image(t, e)
	for command, want := range map[string]int{"/etc/passwd": 126, "/etc": 126, "/no/such": 127, "nosuch": 127} {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{command}})
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		out, err := b.Run(t.Context(), sandbox.Streams{Stderr: &stderr})
		if err != nil || out.End != sandbox.Exited || out.ExitCode != want || out.StderrBytes != int64(stderr.Len()) {
			t.Errorf("%s: got %+v, %v; want exit code %d", command, out, err, want)
		}
		if !strings.HasPrefix(stderr.String(), "sandbox: command ") {
			t.Errorf("%s: said %q", command, stderr.String())
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestRootThatCannotBeMeasured: a path that is too long for the engine does not
// free a command from the limit on its root.
func TestRootThatCannotBeMeasured(t *testing.T) {
	e := enginetest.Docker(t)
	const script = "import os, time\nopen('/srv/big', 'wb').write(b'x' * (64 << 20))\nos.chdir('/srv')\n" +
		"for _ in range(20): os.mkdir('n' * 250); os.chdir('n' * 250)\ntime.sleep(600)"
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"python3", "-c", script}, User: &sandbox.User{}, WritableRoot: true,
		Limits: sandbox.Limits{Disk: 16 << 20, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Run(t.Context(), sandbox.Streams{})
	if err = errors.Join(err, b.Close(t.Context())); err != nil || e.Info().DiskSampled && out.End != sandbox.DiskLimit {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestBoxWaitsLong(t *testing.T) {
	e := enginetest.Docker(t)
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"sh", "-c", "echo ready; exec cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ready := make(signalled, 1)
	go func() {
		<-ready
		time.Sleep(3 * time.Second)
		_, _ = w.WriteString("late")
		_ = w.Close()
	}()
	var stdout strings.Builder
	out, err := b.Run(t.Context(), sandbox.Streams{Stdin: r, Stdout: io.MultiWriter(&stdout, ready)})
	if err = errors.Join(err, b.Close(t.Context())); err != nil || stdout.String() != "ready\nlate" || out.Duration < 2500*time.Millisecond {
		t.Errorf("got %+v, %q, %v", out, stdout.String(), err)
	}
}

func TestInfo(t *testing.T) {
	e := enginetest.Docker(t)
	info := e.Info()
	if info.Name != "docker" || info.Version == "" || info.APIVersion < "1.41" || info.Runtime == "" ||
		info.CgroupVersion == "" || info.OS != "linux" || info.Arch == "" || info.Kernel == "" || len(info.SecurityOptions) == 0 {
		t.Errorf("got %+v", info)
	}
}

func TestNewRefuses(t *testing.T) {
	enginetest.Docker(t) // there is an engine at all
	text := t.TempDir() + "/text"
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for want, cfg := range map[string]docker.Config{
		"is not supported":       {Host: "ssh://somewhere"},
		"connecting to":          {Host: "unix:///nonexistent.sock"},
		"has no runtime":         {Runtime: "nosuchruntime"},
		"is not a Linux program": {Helper: text},
		"dynamically linked":     {Helper: sh},
		"use a unix:// or tcp:/": {Host: "localhost:2375"},
	} {
		e, err := docker.New(t.Context(), cfg)
		if err == nil {
			_ = e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v): got %v, want %q", cfg, err, want)
		}
	}
}

func TestWorkspaceWithoutHelper(t *testing.T) {
	enginetest.Docker(t)
	e, err := docker.New(t.Context(), docker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{}); err == nil || !strings.Contains(err.Error(), "without a helper") {
		t.Errorf("got %v", err)
	}
}

// TestOpenRefuses needs no image: the checks come before the engine is asked.
func TestOpenRefuses(t *testing.T) {
	e := enginetest.Docker(t)
	good := sandbox.Spec{Image: sandbox.Image{ID: "sha256:x"}, Command: []string{"true"}}
	for name, change := range map[string]func(*sandbox.Spec){
		"no image":       func(s *sandbox.Spec) { s.Image.ID = "" },
		"no command":     func(s *sandbox.Spec) { s.Command = nil },
		"empty command":  func(s *sandbox.Spec) { s.Command = []string{""} },
		"NUL in command": func(s *sandbox.Spec) { s.Command = []string{"a\x00b"} },
		"variable":       func(s *sandbox.Spec) { s.Env = []string{"NOVALUE"} },
		"nameless":       func(s *sandbox.Spec) { s.Env = []string{"=x"} },
		"negative user":  func(s *sandbox.Spec) { s.User = &sandbox.User{UID: -1} },
		"foreign workspace": func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Workspace: struct{ sandbox.Workspace }{}, Target: "/w"}}
		},
	} {
		spec := good
		change(&spec)
		if b, err := e.Open(t.Context(), spec); err == nil {
			t.Errorf("%s: accepted", name)
			_ = b.Close(t.Context())
		}
	}
	diffOwned(t, e)
}
