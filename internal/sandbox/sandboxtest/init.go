package sandboxtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// machine is the init of a box, and the box's loopback. Its commands are programs
// of the engine.
type machine struct {
	box      *box
	ctx      context.Context // ends with the box
	loopback initproc.Loopback

	mu        sync.Mutex
	last      uint64
	commands  map[uint64]*command
	listeners map[string]*listener
	running   sync.WaitGroup
}

// init is the program that is the first process of a box with an init.
func (b *box) init(ctx context.Context, p *Process) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &machine{box: b, ctx: ctx, commands: map[uint64]*command{}, listeners: map[string]*listener{}}
	m.loopback.Listen = m.listen
	b.machine.Store(m)
	mux := http.NewServeMux()
	m.loopback.Handle(mux)
	m.handle(mux)
	err := initproc.ServeRequests(p.Stdin, p.Stdout, mux)
	m.loopback.Close()
	cancel()
	m.running.Wait()
	if err != nil {
		return 1
	}
	return 0
}

// command is a program that init runs.
type command struct {
	uid    int
	cancel context.CancelCauseFunc
	stdin  *io.PipeWriter // nil without one
	output map[string]*output

	ended  chan struct{}
	result initproc.Result // read it after ended
}

var errKilled = errors.New("killed")

// output is an output stream of a command; r is nil if it is not wanted.
type output struct {
	r     *io.PipeReader
	limit int64
	count initproc.Output
	done  chan struct{}
}

// start and started are the messages of package initproc.
type (
	start struct {
		Argv                  []string
		Env                   []string
		Inherit               bool
		Dir                   string
		UID, GID              int
		Capabilities          []string
		Stdin, Stdout, Stderr bool
		Output                int64
	}
	started struct {
		ID      uint64 `json:"id,omitzero"`
		Errno   int    `json:"errno,omitzero"`
		Message string `json:"message,omitzero"`
	}
)

func reply(w http.ResponseWriter, message any) {
	_ = json.MarshalWrite(w, message, jsonv1.FormatDurationAsNano(true)) // the connection has ended if this fails
}

func (m *machine) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /alive", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /commands", func(w http.ResponseWriter, r *http.Request) {
		var s start
		if err := json.UnmarshalRead(r.Body, &s, json.MatchCaseInsensitiveNames(true)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, m.start(s))
	})
	on := func(pattern string, f func(*command, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id, _ := strconv.ParseUint(r.PathValue("id"), 10, 64)
			m.mu.Lock()
			c := m.commands[id]
			m.mu.Unlock()
			if c == nil {
				http.Error(w, "no such command", http.StatusBadRequest)
				return
			}
			f(c, w, r)
		})
	}
	on("PUT /commands/{id}/stdin", func(c *command, _ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(c.stdin, r.Body) // the command reads no more if this fails
		_ = c.stdin.Close()
	})
	on("GET /commands/{id}/{stream}", func(c *command, w http.ResponseWriter, r *http.Request) { c.output[r.PathValue("stream")].send(w) })
	on("GET /commands/{id}", func(c *command, w http.ResponseWriter, r *http.Request) {
		for _, done := range []chan struct{}{c.ended, c.output["stdout"].done, c.output["stderr"].done} {
			select {
			case <-done:
			case <-r.Context().Done():
				return
			}
		}
		c.result.Stdout, c.result.Stderr = c.output["stdout"].count, c.output["stderr"].count
		reply(w, c.result)
	})
	mux.HandleFunc("GET /processes", func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		running := 0
		for _, c := range m.commands {
			select {
			case <-c.ended:
			default:
				running++
			}
		}
		reply(w, map[string]int{"count": running})
	})
	on("DELETE /commands/{id}", func(c *command, _ http.ResponseWriter, _ *http.Request) { c.cancel(errKilled) })
	mux.HandleFunc("DELETE /users/{uid}", func(_ http.ResponseWriter, r *http.Request) {
		uid, err := strconv.Atoi(r.PathValue("uid"))
		m.kill(func(c *command) bool { return err == nil && c.uid == uid })
	})
	mux.HandleFunc("DELETE /processes", func(http.ResponseWriter, *http.Request) { m.kill(func(*command) bool { return true }) })
}

func (m *machine) kill(which func(*command) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.commands {
		if which(c) {
			c.cancel(errKilled)
		}
	}
}

// helper is the helper binary, as far as it looks for commands: the programs.
func (m *machine) helper(_ context.Context, p *Process) int {
	word := "absent"
	if len(p.Args) != 3 || p.Args[1] != "sandbox-lookup" {
		return 2
	}
	if _, ok := m.box.engine.cfg.Programs[p.Args[2]]; ok {
		word = "there"
	}
	_, _ = io.WriteString(p.Stdout, word+"\n") // the connection has ended if this fails
	return 0
}

// start starts a command.
func (m *machine) start(s start) started {
	program := m.box.engine.cfg.Programs[s.Argv[0]]
	if program == nil && s.Argv[0] == sandbox.HelperPath {
		program = m.helper
	}
	if program == nil {
		return started{Errno: int(syscall.ENOENT), Message: "no such program: " + s.Argv[0]}
	}
	env := s.Env
	if s.Inherit {
		env = append(m.box.spec.Env[:len(m.box.spec.Env):len(m.box.spec.Env)], s.Env...)
	}
	ctx, cancel := context.WithCancelCause(m.ctx)
	c := &command{uid: s.UID, cancel: cancel, ended: make(chan struct{}), output: map[string]*output{}}
	p := m.box.process(s.Argv, env)
	p.Workdir = s.Dir
	stdin, feed := io.Pipe()
	c.stdin, p.Stdin = feed, stdin
	if !s.Stdin {
		_ = feed.Close()
	}
	var ends []*io.PipeWriter
	open := func(name string, wanted bool) io.Writer {
		o := &output{limit: s.Output, done: make(chan struct{})}
		c.output[name] = o
		if !wanted {
			close(o.done)
			return io.Discard
		}
		r, w := io.Pipe()
		o.r, ends = r, append(ends, w)
		return w
	}
	p.Stdout, p.Stderr = open("stdout", s.Stdout), open("stderr", s.Stderr)
	m.running.Go(func() {
		stop := context.AfterFunc(ctx, func() { // no program waits for a stream that was given up
			_ = stdin.CloseWithError(context.Cause(ctx))
			for _, w := range ends {
				_ = w.CloseWithError(nil)
			}
		})
		defer stop()
		c.run(ctx, program, p)
		_ = stdin.CloseWithError(io.ErrClosedPipe)
		for _, w := range ends {
			_ = w.Close()
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.commands[m.last] = c
	return started{ID: m.last}
}

// run calls the program.
func (c *command) run(ctx context.Context, program Program, p *Process) {
	defer close(c.ended)
	began := time.Now()
	c.result.ExitCode = program(ctx, p)
	if ctx.Err() != nil {
		c.result.Signal, c.result.ExitCode = int(syscall.SIGKILL), sandbox.ExitKilled
	}
	c.result.Duration = time.Since(began)
}

// send answers a request with the output, up to its limit.
func (o *output) send(w http.ResponseWriter) {
	defer close(o.done)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := o.r.Read(buf)
		passed := min(int64(n), o.limit-o.count.Bytes)
		if _, failed := w.Write(buf[:passed]); failed != nil {
			_ = o.r.CloseWithError(failed)
			return
		}
		_ = flush()
		o.count.Bytes += passed
		o.count.Dropped += int64(n) - passed
		if err != nil {
			return
		}
	}
}

// listener is one on the box's loopback.
type listener struct {
	machine *machine
	address string
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (m *machine) listen(address string) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &listener{machine: m, address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	m.listeners[address] = l
	return l, nil
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() {
		l.machine.mu.Lock()
		delete(l.machine.listeners, l.address)
		l.machine.mu.Unlock()
		close(l.closed)
	})
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.address} }

// Dial connects to an address of the box's loopback, at which the parent listens
// through [initproc.Client.Listen]. It fits into [http.Transport.DialContext].
func (p *Process) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	var l *listener
	if m := p.box.machine.Load(); m != nil {
		m.mu.Lock()
		l = m.listeners[address]
		m.mu.Unlock()
	}
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	here, there := initproc.Pipe(address)
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
