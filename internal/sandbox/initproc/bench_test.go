package initproc

import (
	"io"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
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
	b.Run("sandbox", func(b *testing.B) {
		cmd := shell("")
		cmd.User = sandbox.Nobody
		run(b, openSandbox(b, dockertest.Docker(b), sandbox.Nobody, nil), cmd)
	})
}

// BenchmarkStreams measures one byte to cat and back, and 16 MiB: through an
// init in a sandbox, and through the attached streams of a sandbox of its own.
func BenchmarkStreams(b *testing.B) {
	e := dockertest.Docker(b)
	b.Run("init", func(b *testing.B) {
		c := openSandbox(b, e, sandbox.Nobody, nil)
		benchStreams(b, func(in io.Reader, out io.Writer) error {
			_, err := c.Run(b.Context(), Command{Argv: []string{"/bin/cat"}, User: sandbox.Nobody, Stdin: in, Stdout: out, Output: 1 << 40})
			return err
		})
	})
	b.Run("plain", func(b *testing.B) {
		box, err := e.Open(b.Context(), sandbox.Spec{Image: dockertest.Image(b, e), User: &sandbox.Nobody, Command: []string{"cat"},
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
