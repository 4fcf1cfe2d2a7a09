package viewer

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/loopback"
	"securebench/internal/redact"
	"securebench/internal/steer"
)

//go:embed page
var page embed.FS

// Server shows the runs of a library on a page that only this machine can open.
type Server struct {
	Library *Library
	Version string // of this build

	listener net.Listener
	token    string
	streams  atomic.Int64 // of news
}

// Listen opens the address of a server, which must be one of this machine's loopback.
func (s *Server) Listen(ctx context.Context, address string) (err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !loopback.IsHost(host) {
		return fmt.Errorf("%s is no address of this machine alone: give 127.0.0.1 and a port, such as 127.0.0.1:8080", redact.Quote(address))
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if a, ok := s.listener.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("%s is no address of this machine alone", redact.Quote(address)), s.listener.Close())
	}
	s.token = rand.Text()
	return nil
}

// Address is where the page is. It holds the token.
func (s *Server) Address() string {
	return "http://" + s.listener.Addr().String() + "/" + s.token + "/"
}

// Serve serves until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.Library.Check(ctx)
	server := &http.Server{
		Handler:           &guard{token: s.token, hosts: hosts(s.listener.Addr()), next: s.routes()},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// routes are the addresses of a server, below the token.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.shell)
	mux.HandleFunc("GET /{file}", s.asset)
	for path, answer := range map[string]func(*http.Request) (any, error){
		"list": s.list, "run": s.run, "attempts": s.attempts, "attempt": s.attempt,
		"compare": s.compare,
	} {
		mux.HandleFunc("GET /api/"+path, func(w http.ResponseWriter, r *http.Request) {
			value, err := answer(r)
			reply(w, value, err)
		})
	}
	mux.HandleFunc("GET /api/news", s.news)
	mux.HandleFunc("POST /api/steer", func(w http.ResponseWriter, r *http.Request) {
		value, err := s.steer(r)
		reply(w, value, err)
	})
	return mux
}

// shell serves the page itself, which has no word of a run.
func (s *Server) shell(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := writeShell(&b, shell{Version: s.Version, Served: true}); err != nil {
		reply(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

// asset serves a script or the style of the page.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	kind := map[bool]string{true: "text/javascript; charset=utf-8", false: "text/css; charset=utf-8"}[strings.HasSuffix(name, ".js")]
	text, err := page.ReadFile("page/" + name)
	if err != nil || strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text)
}

// reply answers with a value as JSON.
func reply(w http.ResponseWriter, value any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		if errors.Is(err, errUnknown) {
			status = http.StatusNotFound
		}
		value = map[string]string{"error": redact.EscapeShort(err.Error(), maxError)}
	}
	text, err := encode(value)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// maxError bounds what is said of an error, in characters.
const maxError = 600

// encode is JSON in ASCII without a character that ends a script or begins markup.
func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return redact.ASCII(text), nil
}

func (s *Server) list(*http.Request) (any, error) { return s.Library.List(), nil }

// RunPage is what the page of a run has.
type RunPage struct {
	Summary Summary `json:"summary"`
	// Steered is how a run that goes on is set.
	Steered *steer.State `json:"steered,omitzero"`
	Page
}

func (s *Server) run(r *http.Request) (any, error) {
	run, summary, err := s.Library.Get(r.Context(), r.FormValue("run"))
	if err != nil {
		return nil, err
	}
	return RunPage{summary, s.steered(r, summary), run.Page}, nil
}

func (s *Server) attempts(r *http.Request) (any, error) {
	run, _, err := s.Library.Get(r.Context(), r.FormValue("run"))
	if err != nil {
		return nil, err
	}
	return run.Query(r.Form), nil
}

func (s *Server) compare(r *http.Request) (any, error) {
	return s.Library.Compare(r.Context(), r.URL.Query())
}

func (s *Server) attempt(r *http.Request) (any, error) {
	run, _, err := s.Library.Get(r.Context(), r.FormValue("run"))
	if err != nil {
		return nil, err
	}
	return run.Whole(r.FormValue("key"))
}
