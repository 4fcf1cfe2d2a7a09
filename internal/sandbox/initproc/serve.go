package initproc

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/privilege"
	"securebench/internal/sandbox/wire"
)

// Serve makes this process the init of its sandbox and answers requests on its
// standard input and output until they end; then every other process of the
// sandbox is dead. Commands can be given what is in grants. It must be called
// before anything is started, in a program without cgo. The error is what kept
// it from being safe.
func Serve(grants []string) error {
	var all []sandbox.Capability
	for _, name := range grants {
		all = append(all, sandbox.Capability(name))
	}
	set, err := privilege.Of(all...)
	if err != nil {
		return fmt.Errorf("starting the sandbox's first process: %w", err)
	}
	return serve(set, hardenings(set))
}

func serve(grants privilege.Set, steps []hardening) error {
	if err := takeRights(grants, steps); err != nil {
		return fmt.Errorf("starting the sandbox's first process: %w", err)
	}
	in, out, err := takeStreams()
	if err == nil {
		err = take(steps, false)
	}
	if err != nil {
		return fmt.Errorf("starting the sandbox's first process: %w", err)
	}
	permitted, err := privilege.Permitted()
	if err != nil {
		return fmt.Errorf("starting the sandbox's first process: %w", err)
	}
	p := newProcesses()
	p.switches, p.grants, p.changes = permitted.Has(switching), grants, permitted.Has(switching|applying)
	// The only thread that executes programs has nothing that it could leave to them.
	if err := p.starter.do(func() error { return privilege.Keep(permitted & (switching | grants)) }); err != nil {
		return fmt.Errorf("starting the sandbox's first process: %w", err)
	}
	if groups, err := os.Getgroups(); err != nil || !p.switches && len(groups) > 0 && (len(groups) > 1 || groups[0] != os.Getgid()) {
		return errors.Join(fmt.Errorf("starting the sandbox's first process: it has supplementary groups %v and cannot drop them", groups), err)
	}
	go p.reap()
	err = ServeRequests(in, out, p.handler())
	return errors.Join(err, p.killAll())
}

// ServeRequests answers the requests of a client that arrive on in until that
// ends. Tests that stand in for init give a handler of their own.
func ServeRequests(in io.Reader, out io.Writer, h http.Handler) error {
	return wire.Serve(in, out, h, maxStreams, maxCommands+maxConnections)
}

// handler answers the requests of the package documentation.
func (p *processes) handler() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, f func(*command, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
			if c := p.find(id); err == nil && c != nil {
				f(c, w, r)
				return
			}
			wire.Answer(w, fmt.Errorf("no such command: %q", r.PathValue("id")))
		})
	}
	mux.HandleFunc("PUT /files", p.handleApply)
	mux.HandleFunc("POST /destinations", p.handleDestinations)
	mux.HandleFunc("POST /commands", p.handleStart)
	on("GET /commands/{id}", p.handleReport)
	on("PUT /commands/{id}/stdin", func(c *command, _ http.ResponseWriter, r *http.Request) { c.receive(r.Body) })
	on("GET /commands/{id}/stdout", func(c *command, w http.ResponseWriter, _ *http.Request) { c.stdout.send(w) })
	on("GET /commands/{id}/stderr", func(c *command, w http.ResponseWriter, _ *http.Request) { c.stderr.send(w) })
	on("DELETE /commands/{id}", func(c *command, w http.ResponseWriter, _ *http.Request) { wire.Answer(w, p.kill(c)) })
	mux.HandleFunc("DELETE /users/{uid}", func(w http.ResponseWriter, r *http.Request) {
		uid, err := strconv.ParseUint(r.PathValue("uid"), 10, 32)
		if err == nil {
			err = p.killUser(int(uid))
		}
		wire.Answer(w, err)
	})
	mux.HandleFunc("GET /processes", p.handleCensus)
	mux.HandleFunc("DELETE /processes", func(w http.ResponseWriter, _ *http.Request) { wire.Answer(w, p.killAll()) })
	mux.HandleFunc("GET /alive", func(http.ResponseWriter, *http.Request) {})
	p.loopback.Handle(mux)
	return mux
}

func (p *processes) handleStart(w http.ResponseWriter, r *http.Request) {
	var s start
	var id uint64
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStart))
	if err == nil {
		s, err = wire.Decode[start](b)
	}
	if err == nil {
		id, err = p.start(s)
	}
	var errno unix.Errno
	switch {
	case errors.As(err, &errno):
		wire.Reply(w, started{Errno: int(errno), Message: bounded.Text(err.Error(), wire.MaxText/8)})
	case err != nil:
		wire.Answer(w, err)
	default:
		wire.Reply(w, started{ID: id})
	}
}

func (p *processes) handleReport(c *command, w http.ResponseWriter, r *http.Request) {
	for _, done := range []<-chan struct{}{c.ended, c.stdout.done, c.stderr.done} {
		select {
		case <-done:
		case <-r.Context().Done():
			return
		}
	}
	p.forget(c)
	c.result.Stdout, c.result.Stderr = c.stdout.count, c.stderr.count
	wire.Reply(w, c.result)
}

// census counts processes.
type census struct {
	Count int `json:"count"`
}

// handleCensus counts the processes but init.
func (p *processes) handleCensus(w http.ResponseWriter, _ *http.Request) {
	all, err := listProcesses()
	if err != nil {
		wire.Answer(w, err)
		return
	}
	wire.Reply(w, census{len(all) - 1})
}
