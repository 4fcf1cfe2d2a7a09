package relay

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// MaxHeader bounds the headers of an agent's request.
const MaxHeader = 64 << 10

// Handler answers an agent's requests until it is told to end.
type Handler struct {
	serve http.HandlerFunc

	mu     sync.Mutex
	ended  bool
	active sync.WaitGroup
}

// NewHandler returns a handler that answers each request with serve.
func NewHandler(serve http.HandlerFunc) *Handler { return &Handler{serve: serve} }

// Serve answers on the listener until ctx ends, and returns when every request
// is done with.
func (h *Handler) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{ //nolint:gosec // see below for its timeouts
		Handler: h,
		// There is no limit to how long a connection is idle or a request takes: the
		// agent may be frozen for long, and all of its connections end with it. The
		// timer of a limit would outlive its connection.
		MaxHeaderBytes:               MaxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(ln)
	_ = server.Close() // of connections, which were not closed if the listener failed
	h.End()
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ServeHTTP answers a request, unless no more are answered.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	h.active.Add(1)
	h.mu.Unlock()
	defer h.active.Done()
	h.serve(w, r)
}

// End answers no more requests, and returns when every one is done with.
func (h *Handler) End() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.active.Wait()
}

// Ended reports whether the handler was told to end.
func (h *Handler) Ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}
