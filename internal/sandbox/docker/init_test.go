package docker_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/owner"
)

// TestInit checks that a sandbox with [sandbox.Spec.Init] starts the helper as
// its first process, in an image whose root is read-only and as any user.
func TestInit(t *testing.T) {
	e, err := docker.New(t.Context(), docker.Config{Helper: enginetest.Helper(t), Getenv: os.Getenv})
	if err != nil {
		t.Skip(err)
	}
	img := enginetest.Image(t, e)
	for user, want := range map[sandbox.User]string{{}: "1 0 [true -x]\nhello", sandbox.Nobody: "1 65534 [true -x]\nhello"} {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Init: true, Command: []string{"true", "-x"}, User: &user})
		if err != nil {
			t.Fatal(err)
		}
		var stdout bytes.Buffer
		out, err := b.Run(t.Context(), sandbox.Streams{Stdin: strings.NewReader("hello"), Stdout: &stdout})
		if err = errors.Join(err, b.Close(t.Context())); err != nil || out.ExitCode != 0 || stdout.String() != want {
			t.Errorf("got %+v, %v, %q; want %q", out, err, stdout.String(), want)
		}
	}
	got := output(t, e, sandbox.Spec{Image: img, Init: true})
	if got != "" { // the real init, which ends with its input
		t.Errorf("without a command: got %q", got)
	}
	diffOwned(t, e)
	helperVolumes := func() int {
		res, err := engineAPI(t).VolumeList(t.Context(), client.VolumeListOptions{Filters: client.Filters{}.
			Add("label", "securebench.owner="+owner.Current().String()).Add("label", "securebench.role=helper")})
		if err != nil {
			t.Fatal(err)
		}
		return len(res.Items)
	}
	if n := helperVolumes(); n != 2 { // the helper's and an empty one: those of sandboxes went with them
		t.Errorf("%d helper volumes, want 2", n)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := helperVolumes(); n != 0 {
		t.Errorf("%d helper volumes are left after Close", n)
	}
}

// TestInitIsReadOnly: the helper is mounted read-only where everything else can be
// written. Package initproc attacks it from inside.
func TestInitIsReadOnly(t *testing.T) {
	e := enginetest.Docker(t)
	img := enginetest.Image(t, e)
	b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Init: true, User: &sandbox.User{}, WritableRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	res, err := engineAPI(t).ContainerList(t.Context(), client.ContainerListOptions{All: true,
		Filters: client.Filters{}.Add("label", "securebench.owner="+owner.Current().String())})
	if err != nil || len(res.Items) != 1 {
		t.Fatalf("%d containers, %v", len(res.Items), err)
	}
	box, err := engineAPI(t).ContainerInspect(t.Context(), res.Items[0].ID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(box.Container.HostConfig.Mounts, func(m mount.Mount) bool { return m.Target == sandbox.HelperDir })
	if i < 0 {
		t.Fatal("the helper is not mounted")
	}
	if o := box.Container.HostConfig.Mounts[i].VolumeOptions.DriverConfig.Options["o"]; !strings.HasPrefix(o, "ro,") || strings.Contains(o, "upperdir") {
		t.Errorf("the helper is mounted writable: %q", o)
	}
}
