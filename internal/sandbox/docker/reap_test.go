package docker_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/owner"
)

// deadPID is the number of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	return cmd.Process.Pid
}

func TestReap(t *testing.T) {
	e := enginetest.Docker(t)
	img, api := enginetest.Image(t, e), engineAPI(t)
	me := owner.Current()
	if me.PIDNS == "" || me.Machine == "" {
		t.Skip("this machine cannot be identified")
	}
	with := func(change func(*owner.Owner)) string {
		o := me
		change(&o)
		return o.String()
	}
	dead := deadPID(t)
	for name, c := range map[string]struct {
		label string
		gone  bool
	}{
		"ended":           {with(func(o *owner.Owner) { o.PID = dead }), true},
		"pid used again":  {with(func(o *owner.Owner) { o.Start-- }), true},
		"before the boot": {with(func(o *owner.Owner) { o.Boot = "earlier" }), true},
		"self":            {me.String(), false},
		"other machine":   {with(func(o *owner.Owner) { o.Machine, o.Boot = "other", "other" }), false},
		"other namespace": {with(func(o *owner.Owner) { o.PIDNS, o.PID = "1", dead }), false},
		"unreadable":      {"not an owner", false},
		"unknown start":   {with(func(o *owner.Owner) { o.Start, o.PID = 0, dead }), false},
	} {
		t.Run(name, func(t *testing.T) {
			id, volume := plant(t, api, img, c.label)
			if _, err := e.Reap(t.Context()); err != nil {
				t.Fatalf("Reap: %v", err)
			}
			if gone := !onEngine(t, api, id); gone != c.gone {
				t.Errorf("container gone: %v, want %v", gone, c.gone)
			}
			_, err := api.VolumeInspect(t.Context(), volume, client.VolumeInspectOptions{})
			if gone := err != nil; gone != c.gone {
				t.Errorf("volume gone: %v, want %v", gone, c.gone)
			}
		})
	}
}

// plant makes a container and a volume of an owner.
func plant(t *testing.T, api *client.Client, img sandbox.Image, owner string) (id, volume string) {
	t.Helper()
	labels := map[string]string{"securebench.owner": owner}
	v, err := api.VolumeCreate(t.Context(), client.VolumeCreateOptions{Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: img.ID, Cmd: []string{"true"}, Labels: labels}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = api.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true})
		_, _ = api.VolumeRemove(context.Background(), v.Volume.Name, client.VolumeRemoveOptions{})
	})
	return c.ID, v.Volume.Name
}

func onEngine(t *testing.T, api *client.Client, id string) bool {
	t.Helper()
	res, err := api.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(res.Items, func(c container.Summary) bool { return c.ID == id })
}

// envOrphan makes TestOrphanMaker work, in a process that is killed.
const envOrphan = "SECUREBENCH_TEST_ORPHAN"

func TestOrphanMaker(t *testing.T) {
	if os.Getenv(envOrphan) == "" {
		t.Skip("it is the child of TestKilledRunner")
	}
	e := enginetest.Docker(t)
	w, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{Owner: sandbox.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Import(t.Context(), sandbox.Labels{Run: "orphan"}, buildContext(t, map[string]string{"file": "x"})); err != nil {
		t.Fatal(err)
	}
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Mounts: []sandbox.Mount{{Workspace: w, Target: "/w"}},
		Command: []string{"sh", "-c", "echo " + owner.Current().String() + "; sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Run(t.Context(), sandbox.Streams{Stdout: os.Stdout})
	t.Fatalf("Run: %v", err)
}

func TestKilledRunner(t *testing.T) {
	e := enginetest.Docker(t)
	enginetest.Image(t, e)
	cmd := exec.Command(os.Args[0], "-test.run=^TestOrphanMaker$")
	cmd.Env = append(os.Environ(), envOrphan+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(awaittest.Hung, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	child, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child made nothing: %v", err)
	}
	child = strings.TrimSpace(child)
	if n := owned(t, child); n < 4 {
		t.Errorf("the child made %d objects; want box, holder, volume and image", n)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	// Other tests, and runs that they kill, have objects of their own.
	if _, err = e.Reap(t.Context()); err != nil {
		t.Errorf("Reap: %v", err)
	}
	if n := owned(t, child); n != 0 {
		t.Errorf("%d objects of the child are left", n)
	}
}

// owned counts an owner's containers, volumes and images.
func owned(t *testing.T, owner string) int {
	t.Helper()
	api, of := engineAPI(t), client.Filters{}.Add("label", "securebench.owner="+owner)
	containers, err1 := api.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: of})
	volumes, err2 := api.VolumeList(t.Context(), client.VolumeListOptions{Filters: of})
	images, err3 := api.ImageList(t.Context(), client.ImageListOptions{Filters: of})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return len(containers.Items) + len(volumes.Items) + len(images.Items)
}
