package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
)

// tool is an archive of one file.
func tool(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "tool", Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(tw, content)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newKey(t *testing.T, e *docker.Engine) sandbox.OverlaySpec {
	t.Helper()
	spec := sandbox.OverlaySpec{Key: "test-" + strings.ToLower(rand.Text())}
	t.Cleanup(func() {
		if err := e.RemoveOverlay(context.Background(), spec.Key); err != nil {
			t.Error(err)
		}
	})
	return spec
}

// contents names the volumes that were made for a key.
func contents(t *testing.T, api *client.Client, key string) (names []string) {
	t.Helper()
	res, err := api.VolumeList(t.Context(), client.VolumeListOptions{Filters: client.Filters{}.Add("label", "securebench.overlay.content="+key)})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range res.Items {
		names = append(names, v.Name)
	}
	return names
}

// read prints the file of an overlay.
func read(t *testing.T, e *docker.Engine, o sandbox.Overlay) string {
	t.Helper()
	return output(t, e, sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"cat", "/opt/x/tool"},
		Mounts: []sandbox.Mount{{Overlay: o, Target: "/opt/x", ReadOnly: true}}})
}

// TestTwoFillers: two processes that fill an overlay at once get the same one,
// and the other one's volume goes. A third does not fill it.
func TestTwoFillers(t *testing.T) {
	engines := []*docker.Engine{enginetest.Docker(t), enginetest.Docker(t), enginetest.Docker(t)}
	api := engineAPI(t)
	spec := newKey(t, engines[0])
	var both, done sync.WaitGroup
	both.Add(2)
	overlays := make([]sandbox.Overlay, 3)
	fill := func(w io.Writer) error {
		both.Done()
		both.Wait() // neither is done before the other has begun
		_, err := w.Write(tool(t, "whole"))
		return err
	}
	for i, e := range engines[:2] {
		done.Go(func() {
			var err error
			if overlays[i], err = e.Overlay(t.Context(), spec, fill); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if left := contents(t, api, spec.Key); len(left) != 1 {
		t.Errorf("the volumes %v are there", left)
	}
	var err error
	overlays[2], err = engines[2].Overlay(t.Context(), spec, func(io.Writer) error { return errors.New("it is filled again") })
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range engines {
		if got := read(t, e, overlays[i]); got != "whole" {
			t.Errorf("process %d reads %q", i, got)
		}
	}
	if _, err := engines[0].Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, engines[0]), Command: []string{"true"},
		Mounts: []sandbox.Mount{{Overlay: overlays[1], Target: "/opt/x", ReadOnly: true}}}); err == nil {
		t.Error("an overlay of another engine was mounted")
	}
}

// TestOverlayFiller is a process that is killed while it fills an overlay.
func TestOverlayFiller(t *testing.T) {
	key := os.Getenv(envOrphan)
	if !strings.HasPrefix(key, "test-") {
		t.Skip("it is the child of TestKilledFiller")
	}
	_, err := enginetest.Docker(t).Overlay(t.Context(), sandbox.OverlaySpec{Key: key}, func(w io.Writer) error {
		_, _ = w.Write(tool(t, strings.Repeat("half", 1<<20))[:1<<20])
		_, _ = os.Stdout.WriteString("ready\n")
		time.Sleep(time.Hour) // until it is killed
		return nil
	})
	t.Fatal(err)
}

// TestKilledFiller: what a process had filled when it was killed is not taken for
// an overlay, and goes when the next one needs it.
func TestKilledFiller(t *testing.T) {
	e := enginetest.Docker(t)
	api, spec := engineAPI(t), newKey(t, e)
	cmd := exec.Command(os.Args[0], "-test.run=^TestOverlayFiller$")
	cmd.Env = append(os.Environ(), envOrphan+"="+spec.Key)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(awaittest.Hung, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatalf("the child filled nothing: %v", err)
	}
	half := contents(t, api, spec.Key)
	if len(half) != 1 {
		t.Fatalf("the child has the volumes %v", half)
	}
	whole := func(w io.Writer) error { _, err := w.Write(tool(t, "whole")); return err }
	if _, err := e.Overlay(t.Context(), spec, whole); err != nil { // beside the child, which is still filling
		t.Fatal(err)
	}
	if left := contents(t, api, spec.Key); len(left) != 2 {
		t.Errorf("while the child lives: %v", left)
	}
	if err := e.RemoveOverlay(t.Context(), spec.Key); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	o, err := e.Overlay(t.Context(), spec, whole)
	if err != nil {
		t.Fatal(err)
	}
	if left := contents(t, api, spec.Key); len(left) != 1 || left[0] == half[0] {
		t.Errorf("after the child: %v, of which %v is its own", left, half)
	}
	if got := read(t, e, o); got != "whole" {
		t.Errorf("got %q", got)
	}
}

// TestOverlayIsNotTheOwners: reaping leaves overlays alone, whoever made them,
// and one whose volume was removed from outside is neither mounted nor listed.
func TestOverlayIsNotTheOwners(t *testing.T) {
	e := enginetest.Docker(t)
	api, spec := engineAPI(t), newKey(t, e)
	whole := func(w io.Writer) error { _, err := w.Write(tool(t, "whole")); return err }
	o, err := e.Overlay(t.Context(), spec, whole)
	if err != nil {
		t.Fatal(err)
	}
	diffOwned(t, e)
	for _, name := range append(contents(t, api, spec.Key), "securebench-overlay-"+spec.Key) {
		v, err := api.VolumeInspect(t.Context(), name, client.VolumeInspectOptions{})
		if err != nil || v.Volume.Labels["securebench.owner"] != "" {
			t.Errorf("volume %s: %v, %v", name, v.Volume.Labels, err)
		}
	}
	names := contents(t, api, spec.Key)
	for _, name := range names {
		if _, err := api.VolumeRemove(t.Context(), name, client.VolumeRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := e.Overlays(t.Context()); err != nil || len(all) > 0 && strings.Contains(all[0].Key+all[len(all)-1].Key, spec.Key) {
		t.Errorf("got %v, %v", all, err)
	}
	b, err := e.Open(t.Context(), sandbox.Spec{Image: enginetest.Image(t, e), Command: []string{"true"},
		Mounts: []sandbox.Mount{{Overlay: o, Target: "/opt/x", ReadOnly: true}}})
	if err == nil {
		t.Errorf("an empty tree is mounted for one that is gone: %v", b.Close(t.Context()))
	}
	if _, err := api.VolumeInspect(t.Context(), names[0], client.VolumeInspectOptions{}); err == nil {
		t.Error("the engine's empty volume is left")
	}
	if o, err = e.Overlay(t.Context(), spec, whole); err != nil || read(t, e, o) != "whole" {
		t.Errorf("it is not filled again: %v", err)
	}
}

// TestForeignPause: a pause by others is a disturbance also of a box that was
// frozen before.
func TestForeignPause(t *testing.T) {
	e := enginetest.Docker(t)
	api := engineAPI(t)
	b, err := e.Open(t.Context(), sandbox.Spec{Labels: sandbox.Labels{Run: enginetest.Run(t.Name())}, Image: enginetest.Image(t, e),
		Command: []string{"sh", "-c", "echo ready; exec sleep 600"}, Limits: sandbox.Limits{Timeout: 6 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	started, ended := make(signalled, 1), make(chan error, 1)
	go func() {
		_, err := b.Run(context.Background(), sandbox.Streams{Stdout: started})
		ended <- err
	}()
	<-started
	f := b.(sandbox.Freezer)
	if err := errors.Join(f.Freeze(t.Context()), f.Thaw(t.Context())); err != nil {
		t.Error(err)
	}
	// A busy engine forgets its events soon, so there is one shortly before the end.
	for first := true; ; first = false {
		for _, id := range labelled(t, api, enginetest.Run(t.Name())) {
			_, err := api.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
			if first && (err != nil || f.Freeze(t.Context()) == nil) {
				t.Errorf("what another process has paused is frozen: %v", err)
			}
			_, _ = api.ContainerUnpause(t.Context(), id, client.ContainerUnpauseOptions{}) // it may have ended meanwhile
		}
		select {
		case err := <-ended:
			if !errors.Is(err, sandbox.ErrDisturbed) {
				t.Errorf("got %v, want ErrDisturbed", err)
			}
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
