package docker_test

import (
	"io"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// BenchmarkBox compares a whole sandbox with the bare calls to the engine
// that make one: create, attach, start, wait, remove.
func BenchmarkBox(b *testing.B) {
	e := enginetest.Docker(b)
	img := enginetest.Image(b, e)
	api, err := client.New(client.FromEnv)
	if err != nil {
		b.Fatal(err)
	}
	defer api.Close()
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			floor(b, api, img.ID)
		}
	})
	b.Run("box", func(b *testing.B) {
		for b.Loop() {
			box, err := e.Open(b.Context(), sandbox.Spec{Image: img, Command: []string{"true"}})
			if err != nil {
				b.Fatal(err)
			}
			if out, err := box.Run(b.Context(), sandbox.Streams{}); err != nil || out.ExitCode != 0 {
				b.Fatal(out, err)
			}
			if err := box.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// floor is the bare cycle with the engine's own hardening.
func floor(b *testing.B, api *client.Client, image string) {
	pids := int64(256)
	c, err := api.ContainerCreate(b.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: image, Entrypoint: []string{"true"}, AttachStdout: true, AttachStderr: true},
		HostConfig: &container.HostConfig{NetworkMode: "none", CapDrop: []string{"ALL"}, ReadonlyRootfs: true,
			Tmpfs: map[string]string{"/tmp": ""}, SecurityOpt: []string{"no-new-privileges:true"},
			LogConfig: container.LogConfig{Type: "none"},
			Resources: container.Resources{Memory: 1 << 30, PidsLimit: &pids}}})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := api.ContainerAttach(b.Context(), c.ID, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	wait := api.ContainerWait(b.Context(), c.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := api.ContainerStart(b.Context(), c.ID, client.ContainerStartOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn.Reader); err != nil {
		b.Fatal(err)
	}
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		b.Fatal(err)
	}
	if _, err := api.ContainerRemove(b.Context(), c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWorkspace measures a workspace from making to removing, and what
// putting and getting a small file adds.
func BenchmarkWorkspace(b *testing.B) {
	e := enginetest.Docker(b)
	for b.Loop() {
		w, err := e.Workspace(b.Context(), sandbox.WorkspaceSpec{Owner: sandbox.Nobody})
		if err != nil {
			b.Fatal(err)
		}
		for range 10 {
			if err := w.Get(b.Context(), ".", 1<<20, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoundTrip measures one line through a running sandbox and back.
func BenchmarkRoundTrip(b *testing.B) {
	e := enginetest.Docker(b)
	box, err := e.Open(b.Context(), sandbox.Spec{Image: enginetest.Image(b, e), Command: []string{"cat"}, Stdin: true,
		Limits: sandbox.Limits{Output: 1 << 40}})
	if err != nil {
		b.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := box.Run(b.Context(), sandbox.Streams{Stdin: inR, Stdout: outW})
		done <- err
	}()
	line := []byte("0123456789abcdef0123456789abcde\n")
	echo := make([]byte, len(line))
	for b.Loop() {
		if _, err := inW.Write(line); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(outR, echo); err != nil {
			b.Fatal(err)
		}
	}
	_ = inW.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if err := box.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
