package initproc

import (
	"bytes"
	"io"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
)

// BenchmarkRun measures a command that does nothing and one that passes 16 MiB
// on, through an init in a sandbox, and the same bytes through a sandbox's own
// attached streams.
func BenchmarkRun(b *testing.B) {
	const size = 16 << 20
	b.Run("memory/true", func(b *testing.B) { benchTrue(b, connect(b), shell("true")) })
	b.Run("memory/cat", func(b *testing.B) { benchCat(b, connect(b), shell("cat"), size) })
	e := dockertest.Docker(b)
	c := openSandbox(b, e, sandbox.Nobody, nil)
	cmd := shell("true")
	cmd.User, cmd.Argv = sandbox.Nobody, []string{"/bin/true"}
	b.Run("sandbox/true", func(b *testing.B) { benchTrue(b, c, cmd) })
	cmd.Argv = []string{"/bin/cat"}
	b.Run("sandbox/cat", func(b *testing.B) { benchCat(b, c, cmd, size) })
	b.Run("plain/cat", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			b.StopTimer()
			box, err := e.Open(b.Context(), sandbox.Spec{Image: dockertest.Image(b, e), Command: []string{"cat"}, Stdin: true,
				Limits: sandbox.Limits{Output: 1 << 40}})
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			out, err := box.Run(b.Context(), sandbox.Streams{Stdin: io.LimitReader(zeros{}, size), Stdout: io.Discard})
			b.StopTimer()
			if err != nil || out.StdoutBytes != size {
				b.Fatalf("%+v, %v", out, err)
			}
			if err := box.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

func benchTrue(b *testing.B, c *Client, cmd Command) {
	for b.Loop() {
		if res, err := c.Run(b.Context(), cmd); err != nil || res.ExitCode != 0 {
			b.Fatalf("%+v, %v", res, err)
		}
	}
}

func benchCat(b *testing.B, c *Client, cmd Command, size int64) {
	b.SetBytes(size)
	for b.Loop() {
		cmd.Stdin, cmd.Stdout, cmd.Output = io.LimitReader(zeros{}, size), io.Discard, size
		if res, err := c.Run(b.Context(), cmd); err != nil || res.Stdout.Bytes != size {
			b.Fatalf("%+v, %v", res, err)
		}
	}
}

// BenchmarkRoundTrip measures a byte to a command that runs and back.
func BenchmarkRoundTrip(b *testing.B) {
	c := openSandbox(b, dockertest.Docker(b), sandbox.Nobody, nil)
	in, feed := io.Pipe()
	out, w := io.Pipe()
	cmd := shell("cat")
	cmd.User, cmd.Stdin, cmd.Stdout, cmd.Timeout, cmd.Output = sandbox.Nobody, in, w, 0, 1<<40
	done := make(chan error, 1)
	go func() { _, err := c.Run(b.Context(), cmd); done <- err }()
	buf := make([]byte, 1)
	for b.Loop() {
		if _, err := feed.Write([]byte("x")); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(out, buf); err != nil || !bytes.Equal(buf, []byte("x")) {
			b.Fatal(err)
		}
	}
	_ = feed.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
