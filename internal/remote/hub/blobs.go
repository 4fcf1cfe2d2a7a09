package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/result"
	"securebench/internal/source"
	"securebench/internal/task"
)

// blobs is the HTTPS side of a hub: the content that jobs are about.
type blobs struct {
	web
	port int
}

// ticket says what its bearer may read and write.
type ticket struct {
	role remote.Role
	who  string
	job  *job // nil for what the jobs of a role have in common
}

// openBlobs serves content on the port after the queue's.
func openBlobs(ctx context.Context, h *Hub) (*blobs, error) {
	host, service, err := net.SplitHostPort(h.Options.Addr)
	if err != nil {
		return nil, fmt.Errorf("--hub: %w", err)
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, fmt.Errorf("--hub: %q is no port", service)
	}
	if port != 0 {
		port++
	}
	tls, err := h.Keys.Server()
	if err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("opening the hub's second port: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /order", h.with(h.serveOrder))
	mux.HandleFunc("GET /file/{digest}", h.with(h.serveFile))
	mux.HandleFunc("GET /request", h.with(h.serveRequest))
	mux.HandleFunc("GET /blob/{digest}", h.with(h.serveBlob))
	mux.HandleFunc("PUT /blob/{digest}", h.with(h.takeCandidate))
	mux.HandleFunc("PUT /value", h.with(h.takeValue))
	if h.Desk != nil {
		mux.Handle(distant.Prefix, h.Desk)
	}
	at, _ := ln.Addr().(*net.TCPAddr)
	return &blobs{port: at.Port, web: serve(ln, &http.Server{Handler: mux, TLSConfig: tls, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: relay.MaxHeader + distant.HeaderRoom})}, nil
}

// web is a service over HTTP.
type web struct {
	server *http.Server
	served chan struct{}
}

// serve begins a service, over TLS if the server has a configuration of it.
func serve(ln net.Listener, server *http.Server) web {
	w := web{server: server, served: make(chan struct{})}
	server.ReadHeaderTimeout, server.ErrorLog = startTime, silent()
	go func() {
		defer close(w.served)
		if server.TLSConfig != nil { // either ends when the server is closed
			_ = server.ServeTLS(ln, "", "")
		} else {
			_ = server.Serve(ln)
		}
	}()
	return w
}

// close ends the service, also of what is under way.
func (w web) close() error {
	ctx, stop := attended.WithTimeout(context.Background(), time.Second)
	defer stop()
	err := w.server.Shutdown(ctx)
	if err != nil {
		err = w.server.Close()
	}
	<-w.served
	return err
}

// with looks at the ticket of a request.
func (h *Hub) with(serve func(http.ResponseWriter, *http.Request, ticket) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		h.mu.Lock()
		t, known := h.tickets[name]
		if name, _, _ := strings.Cut(t.who, "."); known && h.invited[name] == nil { // it was revoked
			known = false
		}
		h.mu.Unlock()
		if !ok || !known {
			http.Error(w, "no such ticket", http.StatusForbidden)
			return
		}
		from, to := &counted{ReadCloser: r.Body}, &counter{ResponseWriter: w}
		r.Body, w = from, to
		defer func() {
			h.mu.Lock()
			h.tally.in, h.tally.out = h.tally.in+from.n, h.tally.out+to.n
			h.mu.Unlock()
		}()
		if err := serve(w, r, t); err != nil {
			http.Error(w, err.Error(), status(err))
		}
	}
}

// counted counts what is read, and counter what is written.
type (
	counted struct {
		io.ReadCloser
		n int64
	}
	counter struct {
		http.ResponseWriter
		n int64
	}
)

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

// Unwrap returns what it writes to, for [http.ResponseController].
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// refusal is an error of what a worker asks for.
type refusal struct {
	status int
	why    string
}

func (r refusal) Error() string { return r.why }

func status(err error) int {
	if r, ok := errors.AsType[refusal](err); ok {
		return r.status
	}
	return http.StatusInternalServerError
}

func notThere() error { return refusal{http.StatusNotFound, "the ticket has no such content"} }

// serveOrder serves what the jobs of a role have in common.
func (h *Hub) serveOrder(w http.ResponseWriter, _ *http.Request, t ticket) error {
	b, err := attempt.Encode(h.Orders[t.role])
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// packFile is where a file of the pack is.
type packFile struct {
	root *os.Root
	name string
}

// packFiles are the files that workers with a role may read, by digest: public ones, and
// for those who verify also the evaluation's.
func packFiles(o remote.Order, files family.Files) map[string]packFile {
	out := map[string]packFile{}
	add := func(root *os.Root, listed map[string]remote.File) {
		for name, f := range listed {
			if root != nil && validPath(name) {
				out[f.Digest] = packFile{root, name}
			}
		}
	}
	add(files.Public, o.Public)
	add(files.Eval, o.Eval)
	return out
}

// validPath reports whether a name cannot lead out of a folder.
func validPath(name string) bool {
	return path.Clean(name) == name && !path.IsAbs(name) && !strings.HasPrefix(name, "..")
}

// serveFile serves a file of the pack.
func (h *Hub) serveFile(w http.ResponseWriter, r *http.Request, t ticket) error {
	f, ok := h.files[t.role][r.PathValue("digest")]
	if !ok {
		return notThere()
	}
	in, err := source.OpenIn(f.root, f.name, os.O_RDONLY, 0)
	if err != nil {
		return refusal{http.StatusGone, "a file of the pack cannot be read any more"}
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// serveRequest serves the call of a job.
func (h *Hub) serveRequest(w http.ResponseWriter, _ *http.Request, t ticket) error {
	if t.job == nil {
		return notThere()
	}
	b, err := attempt.Encode(t.job.request) // thousands of jobs may be queued: none keeps this
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// serveBlob serves the candidate of a verification, or what an agent finds in its
// sandbox.
func (h *Hub) serveBlob(w http.ResponseWriter, r *http.Request, t ticket) error {
	if t.job != nil && t.job.kind == result.Produce {
		return h.serveTree(w, r, t.job)
	}
	return h.serveCandidate(w, r, t)
}

// serveTree serves a tree of the image that the agent of a job runs in.
func (h *Hub) serveTree(w http.ResponseWriter, r *http.Request, j *job) error {
	for _, tree := range h.Orders[remote.Produce].Trees {
		file := h.Trees[tree.Digest]
		if tree.Digest == r.PathValue("digest") && file != nil && tree.For(j.request.Produce.Image.ID) {
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(file, 0, tree.Size))
			return nil
		}
	}
	return notThere()
}

// serveCandidate serves the candidate of a verification. The worker finds out its digest;
// if that differs, it asks again, for the hub to see whether the run's copy is damaged.
func (h *Hub) serveCandidate(w http.ResponseWriter, r *http.Request, t ticket) error {
	if t.job == nil || t.job.reads == nil || t.job.reads.Digest != r.PathValue("digest") {
		return notThere()
	}
	open := t.job.reads.Unchecked
	if r.URL.Query().Has(remote.Checked) {
		open = t.job.reads.Open
	}
	in, err := open()
	if err == nil {
		w.Header().Set("Content-Length", strconv.FormatInt(t.job.reads.Size, 10)) // chunks are dearer
		_, err = io.Copy(w, in)
		err = errors.Join(err, in.Close())
	}
	if errors.Is(err, candidate.ErrDamaged) || errors.Is(err, http.ErrContentLength) { // which is the end of the run, and no worker's fault
		h.mu.Lock()
		t.job.end(ending{err: err})
		h.mu.Unlock()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // so that the worker does not take it for whole
	}
	return nil
}

// takeCandidate stores what an agent left. It has been cleaned where the agent ran, and
// is looked at again for what must not be in it.
func (h *Hub) takeCandidate(w http.ResponseWriter, r *http.Request, t ticket) error {
	if t.job == nil || t.job.kind != result.Produce && t.job.kind != result.Solve {
		return refusal{http.StatusForbidden, "the ticket stores no candidate"}
	}
	kind, want := task.CandidateKind(r.URL.Query().Get("kind")), r.PathValue("digest")
	if kind != t.job.request.Produce.View.Extraction().Kind {
		return refusal{http.StatusUnprocessableEntity, "the candidate is of another kind"}
	}
	limits := h.Orders[remote.Produce].Limits
	most := limits.Candidate
	if kind == task.Workspace {
		most = 2*limits.Disk + limits.Files*4096 // an archive has headers
	}
	c, err := h.Store.Put(kind, "", h.checked(http.MaxBytesReader(w, r.Body, most)))
	switch {
	case errors.Is(err, candidate.ErrStore):
		h.mu.Lock()
		t.job.end(ending{err: err})
		h.mu.Unlock()
		return err
	case err != nil:
		return refusal{http.StatusUnprocessableEntity, err.Error()}
	case c.Digest != want:
		return refusal{http.StatusUnprocessableEntity, "the content has another digest"}
	}
	h.mu.Lock()
	t.job.stored = &c
	h.mu.Unlock()
	return nil
}

// takeValue takes a result that is too large for a message.
func (h *Hub) takeValue(w http.ResponseWriter, r *http.Request, t ticket) error {
	if t.job == nil {
		return refusal{http.StatusForbidden, "the ticket takes no result"}
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, attempt.MaxMessage))
	if err != nil {
		return refusal{http.StatusUnprocessableEntity, err.Error()}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.job.value = b
	_, err = io.WriteString(w, digest.Bytes(b))
	return err
}
