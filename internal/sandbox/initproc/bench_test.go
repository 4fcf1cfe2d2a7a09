package initproc

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/tartest"
)

// BenchmarkRun measures a command that does nothing.
func BenchmarkRun(b *testing.B) {
	run := func(b *testing.B, c *Client, cmd Command) {
		cmd.Argv = []string{"/bin/true"}
		for b.Loop() {
			if res, err := c.Run(b.Context(), cmd); err != nil || res.ExitCode != 0 {
				b.Fatalf("%+v, %v", res, err)
			}
		}
	}
	b.Run("memory", func(b *testing.B) { run(b, connect(b), shell("")) })
	for _, k := range enginetest.Kinds() {
		b.Run(k.Name, func(b *testing.B) {
			cmd := shell("")
			cmd.User = sandbox.Nobody
			run(b, openSandbox(b, k.Open(b), sandbox.Nobody, nil), cmd)
		})
	}
}

// BenchmarkStreams measures one byte to cat and back, and 16 MiB: through an
// init in a sandbox, and through the attached streams of a sandbox of its own.
func BenchmarkStreams(b *testing.B) {
	for _, k := range enginetest.Kinds() {
		b.Run(k.Name, func(b *testing.B) { benchStreamsOf(b, k.Open(b)) })
	}
}

func benchStreamsOf(b *testing.B, e sandbox.Engine) {
	b.Run("init", func(b *testing.B) {
		c := openSandbox(b, e, sandbox.Nobody, nil)
		benchStreams(b, func(in io.Reader, out io.Writer) error {
			_, err := c.Run(b.Context(), Command{Argv: []string{"/bin/cat"}, User: sandbox.Nobody, Stdin: in, Stdout: out, Output: 1 << 40})
			return err
		})
	})
	b.Run("plain", func(b *testing.B) {
		box, err := e.Open(b.Context(), sandbox.Spec{Image: enginetest.Image(b, e), User: &sandbox.Nobody, Command: []string{"cat"},
			Stdin: true, Limits: sandbox.Limits{Output: 1 << 40}})
		if err != nil {
			b.Fatal(err)
		}
		benchStreams(b, func(in io.Reader, out io.Writer) error {
			_, err := box.Run(b.Context(), sandbox.Streams{Stdin: in, Stdout: out})
			return err
		})
		if err := box.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}

func benchStreams(b *testing.B, cat func(io.Reader, io.Writer) error) {
	in, feed := io.Pipe()
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- cat(in, w) }()
	pass := func(b *testing.B, size int64) {
		sent := make(chan error, 1)
		go func() {
			_, err := io.CopyN(feed, zeros{}, size)
			sent <- err
		}()
		_, err := io.CopyN(io.Discard, out, size)
		if serr := <-sent; err != nil || serr != nil {
			b.Fatal(err, serr)
		}
	}
	pass(b, 1) // it has started
	for name, size := range map[string]int64{"byte": 1, "16MiB": 16 << 20} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				pass(b, size)
			}
		})
	}
	_ = feed.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkApply measures 12,800 files of 10 KiB: laid by init, and by the
// engine's own copy of an archive into a container.
func BenchmarkApply(b *testing.B) {
	e := enginetest.Docker(b)
	image := enginetest.Image(b, e)
	content := strings.Repeat("0123456789", 1<<10)
	headers := make([]tar.Header, 0, 12_800)
	for i := range cap(headers) {
		headers = append(headers, fileOf(fmt.Sprintf("srv/%03d/%d", i/100, i), content, 0o644))
	}
	archive := tartest.Pack(b, headers...)
	b.Run("init", func(b *testing.B) {
		b.SetBytes(int64(len(archive)))
		for b.Loop() {
			box, err := e.Open(b.Context(), sandbox.Spec{Image: image, Init: true, User: &sandbox.User{}, Capabilities: ApplyCapabilities(),
				WritableRoot: true, Limits: sandbox.Limits{Disk: 1 << 30, Output: 1 << 40}})
			if err != nil {
				b.Fatal(err)
			}
			c, err := Open(b.Context(), box)
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Apply(b.Context(), bytes.NewReader(archive)); err != nil {
				b.Fatal(err)
			}
			if err := c.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("engine", func(b *testing.B) {
		api, err := client.New(client.FromEnv)
		if err != nil {
			b.Fatal(err)
		}
		defer api.Close()
		b.SetBytes(int64(len(archive)))
		for b.Loop() {
			made, err := api.ContainerCreate(b.Context(), client.ContainerCreateOptions{
				Config: &container.Config{Image: image.ID, Entrypoint: []string{"sleep", "1000"}}, HostConfig: &container.HostConfig{NetworkMode: "none"}})
			if err != nil {
				b.Fatal(err)
			}
			_, startErr := api.ContainerStart(b.Context(), made.ID, client.ContainerStartOptions{})
			_, copyErr := api.CopyToContainer(b.Context(), made.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: bytes.NewReader(archive)})
			_, err = api.ContainerRemove(b.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
			if err := errors.Join(startErr, copyErr, err); err != nil {
				b.Fatal(err)
			}
		}
	})
}
