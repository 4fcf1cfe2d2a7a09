package testrunner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
)

// sandboxed is the sandbox in which the tests of this package start Python. They
// share one, because each of their commands takes less time than a sandbox does.
type sandboxed struct {
	mu     sync.Mutex
	engine interface{ Close() error }
	client *initproc.Client
	users  int
	probed sync.Map // what a probe prints, by command and base
}

// one is closed by TestMain.
var one sandboxed

func TestMain(m *testing.M) {
	code := m.Run()
	if err := one.close(); err != nil {
		fmt.Fprintln(os.Stderr, "closing the sandbox of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func (s *sandboxed) close() error {
	if s.client == nil {
		return nil
	}
	return errors.Join(s.client.Close(context.Background()), s.engine.Close())
}

// open returns a client of the sandbox, which the first test makes.
func (s *sandboxed) open(t testing.TB) *initproc.Client {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client
	}
	e := enginetest.Connect(t)
	var err error
	defer func() {
		if s.client == nil {
			_ = e.Close() // the test ends anyway
		}
	}()
	// All of it outlives the test. Root, because init switches users then.
	box, err := e.Open(context.Background(), sandbox.Spec{Image: enginetest.GitImage(t, e), User: &sandbox.User{}, Init: true,
		Labels:       sandbox.Labels{Run: "test", Role: "verifier"},
		Capabilities: []sandbox.Capability{sandbox.SetUID, sandbox.SetGID, sandbox.Kill, sandbox.SetPCap},
		Limits:       sandbox.Limits{Memory: 4 << 30, CPUs: 64, Pids: 4096, Disk: 1 << 30, Output: 1 << 40, Timeout: 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := initproc.Open(context.Background(), box)
	if err != nil {
		t.Fatal(errors.Join(err, box.Close(context.Background())))
	}
	s.engine, s.client = e, client
	return client
}

// user returns a user id that no other test has.
func (s *sandboxed) user() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	return 20000 + s.users
}

// machine runs commands in the sandbox of the tests, as a user of its own.
type machine struct {
	t      testing.TB
	env    []string // on top of the image's
	client *initproc.Client
	user   int
	rooms  *int // folders that it has made
}

// python is a machine for tests that start Python many times.
func python(t testing.TB) machine {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this starts Python many times")
	}
	return machine{env: []string{"HOME=/nonexistent", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"}, client: one.open(t)}.of(t)
}

// of returns a machine like m for a test within m's.
func (m machine) of(t testing.TB) machine {
	t.Helper()
	m.t, m.user, m.rooms = t, one.user(), new(int)
	t.Cleanup(func() {
		m := m // the test's own context has ended
		res, err := m.client.Run(context.Background(), m.command("/", "rm", "-rf", m.home()))
		if err != nil || res.ExitCode != 0 {
			t.Errorf("removing the files of a test: %+v, %v", res, err)
		}
	})
	return m
}

// home is the folder of all that the machine's user writes.
func (m machine) home() string { return "/tmp/" + strconv.Itoa(m.user) }

func (m machine) command(dir string, argv ...string) initproc.Command {
	return initproc.Command{Argv: argv, Env: m.env, Inherit: true, Dir: dir, User: sandbox.User{UID: m.user, GID: m.user}}
}

// run runs a command, and ends what it leaves behind.
func (m machine) run(c Command) Ran {
	m.t.Helper()
	var out, errs bytes.Buffer
	cmd := m.command(c.Dir, c.Argv...)
	cmd.Env = slices.Concat(m.env, c.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), &out, &errs
	res, err := m.client.Run(m.t.Context(), cmd)
	if err == nil {
		err = m.client.KillUser(m.t.Context(), m.user)
	}
	if err != nil || res.End != sandbox.Exited {
		m.t.Fatalf("%.200q: %+v, %v", c.Argv, res, err)
	}
	return Ran{End: res.End, ExitCode: res.ExitCode, Stdout: out.Bytes(), Stderr: errs.Bytes()}
}

// must runs a command of the test's own.
func (m machine) must(c Command) {
	m.t.Helper()
	if ran := m.run(c); ran.ExitCode != 0 {
		m.t.Fatalf("%.200q: exit code %d: %s", c.Argv, ran.ExitCode, ran.Stderr)
	}
}

// room lays a base into a new folder. It is as old as an image's checkout.
func (m machine) room(base map[string]string) (dir string) {
	m.t.Helper()
	*m.rooms++
	dir = m.home() + "/" + strconv.Itoa(*m.rooms)
	m.must(Command{Argv: []string{"mkdir", "-p", dir}, Dir: "/"})
	m.unpack(dir, base, "-xf")
	return dir
}

// write lays files into a folder. They are new.
func (m machine) write(dir string, files map[string]string) {
	m.t.Helper()
	m.unpack(dir, files, "-xmf")
}

func (m machine) unpack(dir string, files map[string]string, flags string) {
	m.t.Helper()
	if len(files) == 0 {
		return
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name])),
			ModTime: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err == nil {
			_, err = w.Write([]byte(files[name]))
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.must(Command{Argv: []string{"tar", flags, "-", "-C", dir}, Dir: "/", Stdin: b.Bytes()})
}

// texts are a plan's files as a machine writes them.
func texts(p *Plan) map[string]string {
	out := map[string]string{}
	for name, text := range p.Files {
		out[name] = string(text)
	}
	return out
}

// String is the grade without its restricted files.
func (g Grade) String() string {
	return fmt.Sprintf("%s/%s: %s %v", g.Outcome, g.Reason, g.Message, g.Metadata)
}

// plan plans a run over a checkout of a base, as yet unchanged. It probes once
// for all checkouts of the same files.
func (m machine) plan(tests Tests, base map[string]string, seed [32]byte) *Plan {
	m.t.Helper()
	key := fmt.Sprintf("%q %q %q %q", tests.Command, tests.Runner, m.env, base)
	found, known := one.probed.Load(key)
	if c, ok := Probe(tests); ok && !known {
		ran := m.run(c)
		if ran.ExitCode != 0 {
			m.t.Fatalf("probe: exit code %d: %s", ran.ExitCode, ran.Stderr)
		}
		found = ran.Stdout
		one.probed.Store(key, found)
	}
	text, _ := found.([]byte)
	p, err := New(tests, text, seed)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// grade runs tests over a base and what a candidate changes in it.
func (m machine) grade(tests Tests, base, candidate map[string]string) Grade {
	m.t.Helper()
	tests.Dir = m.room(base)
	p := m.plan(tests, base, [32]byte{1})
	m.write(tests.Dir, candidate)
	m.write(tests.Dir, texts(p))
	ran := m.run(p.Command)
	g := p.Grade(ran)
	if testing.Verbose() {
		m.t.Logf("exit code %d\n%s\n%s\n%s", ran.ExitCode, ran.Stderr, ran.Stdout, g.Restricted["test-results.json"])
	}
	return g
}
