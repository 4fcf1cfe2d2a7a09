package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"securebench/internal/source"
)

// maxScript bounds a script's file.
const maxScript = 4 << 20

// Load reads a script from a file.
func Load(file string) (*Script, error) {
	data, err := source.ReadFile(file, maxScript)
	if err != nil {
		return nil, err
	}
	return Parse(file, data)
}

// Run serves a script on an address of this machine until ctx ends. It writes
// the server's base URL, and a line of JSON for each request: everything but
// bodies and values of headers. A port of 0 is any free one.
func Run(ctx context.Context, s *Script, address string, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", ln.Addr())
	return Serve(ctx, ln, New(s, func(r Request) { fmt.Fprintln(out, r.line()) }))
}

// Serve answers on a listener until ctx ends.
func Serve(ctx context.Context, ln net.Listener, s *Server) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// line describes a request without its secrets.
func (r Request) line() string {
	names, tools := []string{}, []string{}
	for name := range r.Header {
		names = append(names, name)
	}
	for _, t := range r.Tools {
		tools = append(tools, t.String())
	}
	slices.Sort(names)
	return object(map[string]any{"at": r.At.UTC().Format(time.RFC3339Nano), "method": r.Method, "path": r.Path, "query": r.Query,
		"headers": names, "credentials": len(r.Credentials), "bytes": len(r.Body), "model": r.Model, "stream": r.Stream, "tools": tools,
		"conversation": r.Conversation, "turn": r.Turn, "try": r.Try, "status": r.Status, "refused": r.Refused})
}

// String names the tool and its type.
func (t Tool) String() string {
	name := t.Type
	if t.Name != "" {
		name += ":" + t.Name
	}
	if t.Namespace != "" {
		name = t.Namespace + "/" + name
	}
	return name
}
