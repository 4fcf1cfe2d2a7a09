package initproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzMessages checks that what is accepted is within its bounds and means the
// same when it is written again.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"argv":["sh","-c","x"],"env":["A=b"],"dir":"/","uid":1,"gid":2,"stdin":true,"output":5}`,
		`{"id":7}`, `{"errno":2,"message":"no such file"}`, `{"id":1,"id":2}`, `{"id":1,"errno":2}`, `{"ID":1}`,
		`{"exit_code":3,"duration_ns":1,"user_ns":2,"system_ns":3,"max_rss":4,"stdout":{"bytes":1,"dropped":2},"stderr":{"bytes":0,"dropped":0}}`,
		`{"exit_code":-1}`, `{"exit_code":1,"signal":9}`, `{"duration_ns":1e400}`, `{} {}`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMessage[start](t, b)
		checkMessage[started](t, b)
		checkMessage[Result](t, b)
	})
}

func checkMessage[M message](t *testing.T, b []byte) {
	m, err := decode[M](b)
	if err != nil {
		return
	}
	if res, ok := message(m).(Result); ok {
		if res.ExitCode < 0 || res.ExitCode > 255 || res.Duration < 0 || res.Stdout.Bytes < 0 {
			t.Errorf("%q gives %+v", b, res)
		}
	}
	again, err := encode(m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decode[M](again)
	if err != nil || !cmp.Equal(m, back) {
		t.Errorf("%q: %v, %s", b, err, cmp.Diff(m, back))
	}
}

// FuzzStat checks the reader of the process table.
func FuzzStat(f *testing.F) {
	f.Add([]byte("5 (a) b) S 1 5 5 0 -1"))
	f.Add([]byte("5 (zombie) Z 1 5 5 0 -1"))
	f.Add([]byte("5 S"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if pr, ok := parseStat(5, b); ok && (pr.pid != 5 || bytes.HasPrefix(bytes.TrimSpace(b[bytes.LastIndexByte(b, ')')+1:]), []byte("Z "))) {
			t.Errorf("%q gives %+v", b, pr)
		}
	})
}

// hostile returns a client of an init that answers as it likes.
func hostile(t *testing.T, h http.Handler) *Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() { _ = serveConn(newStream(theirs, theirs), h) }()
	c, err := NewClient(ours)
	if err != nil {
		t.Fatal(err)
	}
	c.grace = 100 * time.Millisecond
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// FuzzHostileInit runs a command through an init that answers every request
// with bytes of its own. Run ends, keeps its bounds, and believes nothing that
// contradicts itself.
func FuzzHostileInit(f *testing.F) {
	const good = `{"exit_code":3,"duration_ns":1,"user_ns":2,"system_ns":3,"max_rss":4,"stdout":{"bytes":2,"dropped":2},"stderr":{"bytes":0,"dropped":0}}`
	f.Add(200, []byte(`{"id":1}`), []byte(good), []byte("ab"))
	f.Add(200, []byte(`{"id":1}`), []byte(good), []byte("abc"))
	f.Add(200, []byte(`{"errno":2}`), []byte(``), []byte(``))
	f.Add(400, []byte(`no`), []byte(good), []byte(``))
	f.Add(301, []byte(`no`), []byte(good), []byte(``))
	f.Fuzz(func(t *testing.T, status int, first, last, output []byte) {
		if status < 200 || status > 599 {
			return
		}
		c := hostile(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(status)
			switch {
			case r.URL.Path == "/commands":
				_, _ = w.Write(first)
			case strings.HasSuffix(r.URL.Path, "/stdout"):
				_, _ = w.Write(output)
			default:
				_, _ = w.Write(last)
			}
		}))
		var out bytes.Buffer
		cmd := shell("true")
		cmd.Stdout, cmd.Output = &out, 100
		res, err := c.Run(t.Context(), cmd)
		if out.Len() > 101 || err == nil && (res.Stdout.Bytes > 100 || res.End == "exit" && res.Stdout.Bytes != int64(out.Len())) {
			t.Errorf("%+v, %v, %d bytes", res, err, out.Len())
		}
	})
}

// FuzzHostileStream feeds the client arbitrary bytes.
func FuzzHostileStream(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))                                                     // settings
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff")) // a window
	f.Add([]byte("\xff\xff\xff\x00\x00\x00\x00\x00\x01"))                                                     // a large frame
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() { _, _ = theirs.Write(b) }()
		c, err := NewClient(ours)
		if err != nil {
			return
		}
		c.grace = 20 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if res, err := c.Run(ctx, shell("true")); err == nil {
			t.Errorf("%q gives %+v", b, res)
		}
		_ = c.Close(context.Background())
		_ = theirs.Close()
	})
}

// TestHostileInit gives the client an init that was taken over.
func TestHostileInit(t *testing.T) {
	endless := func(w http.ResponseWriter) {
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"an endless answer": func(w http.ResponseWriter, _ *http.Request) { endless(w) },
		"endless output": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/commands" {
				_, _ = io.WriteString(w, `{"id":1}`)
			} else if strings.HasSuffix(r.URL.Path, "/stdout") {
				endless(w)
			} else {
				<-r.Context().Done()
			}
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
		},
		"large headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			_, _ = io.WriteString(w, `{"id":1}`)
		},
		"a crash": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			c := hostile(t, h)
			cmd := shell("true")
			cmd.Stdout, cmd.Output = io.Discard, 1<<20
			if res, err := c.Run(t.Context(), cmd); !errors.Is(err, ErrLost) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		c := hostile(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		cmd := shell("true")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if res, err := c.Run(ctx, cmd); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", res, err)
		}
		if _, err := c.Run(t.Context(), cmd); !errors.Is(err, ErrLost) {
			t.Errorf("after that: %v", err)
		}
	})
}
