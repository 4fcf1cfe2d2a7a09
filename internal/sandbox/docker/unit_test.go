package docker

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/sandbox"
)

func TestResolveHost(t *testing.T) {
	cfg := func(s string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) {
			if s == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(s), nil
		}
	}
	for _, c := range []struct {
		name, host, env, ctx, config string
		want, err                    string
	}{
		{name: "nothing"},
		{name: "configured", host: "unix:///x", env: "tcp://y:1", want: "unix:///x"},
		{name: "environment", env: "tcp://y:1", ctx: "remote", want: "tcp://y:1"},
		{name: "ssh", env: "ssh://u@h", err: `"ssh://u@h" is not supported`},
		{name: "no scheme", host: "/var/run/docker.sock", err: "is not supported"},
		{name: "context variable", ctx: "remote", err: `Docker context "remote" is not supported`},
		{name: "default context", ctx: "default", config: `{"currentContext":"remote"}`},
		{name: "context file", config: `{"auths":{},"currentContext":"colima"}`, err: `"colima"`},
		{name: "no context in file", config: `{"auths":{}}`},
		{name: "broken file", config: `{`},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"DOCKER_HOST": c.env, "DOCKER_CONTEXT": c.ctx, "HOME": "/home/u"}
			got, err := resolveHost(c.host, func(k string) string { return env[k] }, cfg(c.config))
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestOlderAPI(t *testing.T) {
	for v, want := range map[string]bool{"1.40": true, "1.41": false, "1.9": true, "1.100": false, "2.0": false,
		"": true, "1": true, "x.y": true, "1.4x": true} {
		if got := olderAPI(v, minAPI); got != want {
			t.Errorf("olderAPI(%q) = %v", v, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	for in, want := range map[string]uint64{"12 (name)" + rest: 4711, "12 (a) b) 1 2" + ")" + rest: 4711} {
		if got, ok := parseStat(in); !ok || got != want {
			t.Errorf("parseStat(%q) = %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "12 (x", "12 (x) S 1 2", "12 (x)" + strings.Replace(rest, "4711", "-1", 1)} {
		if got, ok := parseStat(in); ok {
			t.Errorf("parseStat(%q) = %d", in, got)
		}
	}
}

func FuzzParseOwner(f *testing.F) {
	f.Add(CurrentOwner().String())
	f.Add("a/b/c/1/2")
	f.Add("a/b/c/01/2")
	f.Add("a/b/c/-1/2")
	f.Fuzz(func(t *testing.T, s string) {
		o, ok := parseOwner(s)
		if ok && (o.String() != s || o.PID <= 0) {
			t.Errorf("parseOwner(%q) = %+v", s, o)
		}
	})
}

// TestProvesDead states the rule the other way round: whoever is proven dead
// is neither running here nor possibly running elsewhere.
func TestProvesDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"", "a", "b"})
		num := rapid.IntRange(0, 2)
		gen := func(name string) Owner {
			return Owner{word.Draw(t, name+" machine"), word.Draw(t, name+" boot"), word.Draw(t, name+" ns"),
				num.Draw(t, name+" pid") + 1, uint64(num.Draw(t, name+" start"))}
		}
		o, me := gen("o"), gen("me")
		running := map[int]uint64{num.Draw(t, "running pid") + 1: uint64(num.Draw(t, "running start"))}
		dead := o.provesDead(me, func(pid int, start uint64) bool { s, ok := running[pid]; return !ok || s != start })
		rebooted := o.Boot != "" && me.Boot != "" && o.Boot != me.Boot && o.Machine != "" && o.Machine == me.Machine
		visible := o.Boot != "" && o.Boot == me.Boot && o.PIDNS != "" && o.PIDNS == me.PIDNS && o.Start != 0
		start, alive := running[o.PID]
		alive = alive && start == o.Start
		if want := rebooted || visible && !alive; dead != want {
			t.Fatalf("%+v is dead for %+v: %v, want %v", o, me, dead, want)
		}
	})
}

// TestEnded: only the kernel's word that there is no such process, or another
// one by that number, proves a death. Under hidepid another user's living
// runner has no files in /proc, and may not be signalled.
func TestEnded(t *testing.T) {
	stat := func(start string) string {
		return "7 (name) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " + start + " 20"
	}
	for name, c := range map[string]struct {
		signal, err error
		stat        string
		want        bool
	}{
		"there is none":                 {signal: syscall.ESRCH, err: fs.ErrNotExist, want: true},
		"runs":                          {stat: stat("4711")},
		"another by its number":         {stat: stat("4712"), want: true},
		"another user's":                {signal: syscall.EPERM, stat: stat("4711")},
		"another user's by its number":  {signal: syscall.EPERM, stat: stat("4712"), want: true},
		"another user's, hidden":        {signal: syscall.EPERM, err: fs.ErrNotExist},
		"another user's, closed":        {signal: syscall.EPERM, err: fs.ErrPermission},
		"no /proc":                      {err: fs.ErrNotExist},
		"a broken line":                 {stat: "7 (name) S"},
		"a look that fails in some way": {signal: syscall.EIO, err: syscall.EIO},
	} {
		p := processes{func(pid int, s syscall.Signal) error {
			if pid != 7 || s != 0 {
				t.Errorf("%s: process %d is sent signal %d", name, pid, s)
			}
			return c.signal
		}, func(int) (string, error) { return c.stat, c.err }}
		if got := p.ended(7, 4711); got != c.want {
			t.Errorf("%s: ended: %v", name, got)
		}
	}
}

func TestLookupUser(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\n\nagent:x:1000:1001::/home/agent:/bin/sh\n" +
		"agent:x:7:7::/:/bin/sh\nshort:x:5\nhuge:x:99999999999:1::/:\n1234:x:55:56::/:/bin/sh\nneg:x:-1:1::/:"
	const group = "root:x:0:\nwheel:x:10:root,agent\nbad:x\nworse:x:q:\n"
	for in, want := range map[string]sandbox.User{
		"root": {}, "agent": {UID: 1000, GID: 1001}, "1000": {UID: 1000, GID: 1001}, "42": {UID: 42},
		"agent:wheel": {UID: 1000, GID: 10}, "agent:10": {UID: 1000, GID: 10}, "agent:77": {UID: 1000, GID: 77},
		"agent:": {UID: 1000, GID: 1001}, "1234": {UID: 55, GID: 56}, "42:wheel": {UID: 42, GID: 10},
	} {
		if got, err := lookupUser(in, []byte(passwd), []byte(group)); err != nil || got != want {
			t.Errorf("lookupUser(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"nobody", "short", "huge", "neg", "broken", "", ":", "agent:none", "agent:bad", "agent:worse", "-1", "2147483648"} {
		if got, err := lookupUser(in, []byte(passwd), []byte(group)); err == nil {
			t.Errorf("lookupUser(%q) = %v", in, got)
		}
	}
}

func FuzzLookupUser(f *testing.F) {
	f.Add("agent:wheel", []byte("agent:x:1000:1001::/home:/bin/sh\n"), []byte("wheel:x:10:\n"))
	f.Fuzz(func(t *testing.T, name string, passwd, group []byte) {
		u, err := lookupUser(name, passwd, group)
		if err == nil && (u.UID < 0 || u.GID < 0 || u.UID > 1<<31-1 || u.GID > 1<<31-1) {
			t.Errorf("lookupUser(%q) = %v", name, u)
		}
	})
}

// frame is one frame of the engine's stream.
func frame(stream byte, payload string) string {
	h := make([]byte, 8)
	h[0] = stream
	binary.BigEndian.PutUint32(h[4:], uint32(len(payload)))
	return string(h) + payload
}

func TestDemux(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, out, errs strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			payload := rapid.StringN(0, 50, 200).Draw(t, "payload")
			if rapid.Bool().Draw(t, "stderr") {
				in.WriteString(frame(streamStderr, payload))
				errs.WriteString(payload)
			} else {
				in.WriteString(frame(streamStdout, payload))
				out.WriteString(payload)
			}
		}
		gotOut, gotErr, err := split(iotest.HalfReader(strings.NewReader(in.String())))
		if err != nil || gotOut != out.String() || gotErr != errs.String() {
			t.Fatalf("got %q, %q, %v; want %q, %q", gotOut, gotErr, err, out.String(), errs.String())
		}
	})
	for name, in := range map[string]string{
		"cut header": frame(1, "x")[:5], "cut payload": frame(1, "hello")[:10], "bad stream": frame(4, "x"),
		"stdin": frame(0, "x"), "padding": "\x01\x01\x00\x00\x00\x00\x00\x01x", "engine error": frame(3, "driver broke"),
	} {
		if _, _, err := split(strings.NewReader(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func split(r io.Reader) (stdout, stderr string, err error) {
	d, buf := demux{r: r}, make([]byte, 16)
	for {
		s, n, err := d.read(buf)
		switch s {
		case streamStdout:
			stdout += string(buf[:n])
		case streamStderr:
			stderr += string(buf[:n])
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return stdout, stderr, nil
		}
		if err != nil {
			return stdout, stderr, err
		}
	}
}

func FuzzDemux(f *testing.F) {
	f.Add([]byte(frame(1, "out") + frame(2, "err")))
	f.Add([]byte(frame(3, "broken")))
	f.Fuzz(func(t *testing.T, in []byte) {
		stdout, stderr, err := split(bytes.NewReader(in))
		if len(stdout)+len(stderr) > len(in) {
			t.Error("more came out than went in")
		}
		if err == nil && (len(in)-len(stdout)-len(stderr))%8 != 0 {
			t.Error("bytes were lost")
		}
	})
}

func TestPump(t *testing.T) {
	long := frame(streamStdout, "12345") + frame(streamStderr, "678") + frame(streamStdout, "90")
	for _, c := range []struct {
		limit       int64
		out, err    string
		overflowing bool
	}{{10, "1234590", "678", false}, {11, "1234590", "678", false}, {9, "123459", "678", true}, {6, "12345", "6", true}, {0, "", "", true}} {
		var out, errs strings.Builder
		p := newPump(strings.NewReader(long), sandbox.Streams{Stdout: &out, Stderr: &errs}, c.limit)
		p.copy()
		if out.String() != c.out || errs.String() != c.err || len(p.overflow) == 1 != c.overflowing || len(p.failed) > 0 ||
			p.stdoutBytes != int64(out.Len()) || p.stderrBytes != int64(errs.Len()) {
			t.Errorf("limit %d: got %q and %q", c.limit, out.String(), errs.String())
		}
	}
	p := newPump(iotest.ErrReader(io.ErrClosedPipe), sandbox.Streams{}, 10)
	p.copy()
	if err := <-p.failed; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOnlyFile(t *testing.T) {
	reg := tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Size: 10}
	b, err := onlyFile(bytes.NewReader(tarOf(t, reg)), 10)
	if err != nil || len(b) != 10 {
		t.Errorf("got %q, %v", b, err)
	}
	for name, in := range map[string][]byte{
		"link":      tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "passwd", Linkname: "/etc/shadow"}),
		"directory": tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "passwd/"}),
		"two":       tarOf(t, reg, reg), "large": tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "p", Size: 11}),
		"none": tarOf(t), "cut": tarOf(t, reg)[:515],
	} {
		if b, err := onlyFile(bytes.NewReader(in), 10); err == nil {
			t.Errorf("%s: got %q", name, b)
		}
	}
}

func FuzzOnlyFile(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "passwd", Size: 10}))
	f.Fuzz(func(t *testing.T, in []byte) {
		if b, err := onlyFile(bytes.NewReader(in), 64); err == nil && len(b) > 64 {
			t.Errorf("got %d bytes", len(b))
		}
	})
}

func TestLabelValue(t *testing.T) {
	for in, want := range map[string]string{"task/1": "task/1", "a\x00\n\"b\x1b": `a\x00\n\"b\x1b`, "ü": `\u00fc`,
		strings.Repeat("x", 5000): strings.Repeat("x", 256)} {
		if d := cmp.Diff(want, labelValue(in)); d != "" {
			t.Errorf("labelValue(%.20q) (-want +got):\n%s", in, d)
		}
	}
}
