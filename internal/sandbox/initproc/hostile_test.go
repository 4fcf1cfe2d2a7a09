package initproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/sandbox/wire"
)

// FuzzMessages checks that what is accepted is within its bounds and means the
// same when it is written again.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"argv":["sh","-c","x"],"env":["A=b"],"dir":"/","uid":1,"gid":2,"stdin":true,"output":5}`,
		`{"id":7}`, `{"errno":2,"message":"no such file"}`, `{"id":1,"id":2}`, `{"id":1,"errno":2}`, `{"ID":1}`,
		`{"exit_code":3,"duration_ns":1,"user_ns":2,"system_ns":3,"max_rss":4,"stdout":{"bytes":1,"dropped":2},"stderr":{"bytes":0,"dropped":0}}`,
		`{"exit_code":-1}`, `{"exit_code":1,"signal":9}`, `{"duration_ns":1e400}`, `{} {}`, `null`,
		`{"path":"a/b","errno":28}`, `{"path":"a"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMessage[start](t, b)
		checkMessage[started](t, b)
		checkMessage[Result](t, b)
		checkMessage[applied](t, b)
	})
}

func checkMessage[M wire.Message](t *testing.T, b []byte) {
	m, err := wire.Decode[M](b)
	if err != nil {
		return
	}
	if res, ok := wire.Message(m).(Result); ok {
		if res.ExitCode < 0 || res.ExitCode > 255 || res.Duration < 0 || res.Stdout.Bytes < 0 {
			t.Errorf("%q gives %+v", b, res)
		}
	}
	again, err := wire.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := wire.Decode[M](again)
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
	go func() { _ = ServeRequests(theirs, theirs, h) }()
	c, err := newClient(ours)
	if err != nil {
		t.Fatal(err)
	}
	c.grace = 100 * time.Millisecond
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestAnswersToApply checks what is believed of an init that may have been taken
// over, and that it need not read what it is sent.
func TestAnswersToApply(t *testing.T) {
	full := &ApplyError{Path: "a/b", Errno: syscall.ENOSPC}
	for answer, check := range map[string]func(error) bool{
		`{}`:                        func(err error) bool { return err == nil },
		`{"path":"a/b","errno":28}`: func(err error) bool { var e *ApplyError; return errors.As(err, &e) && *e == *full },
		`{"errno":28}`:              func(err error) bool { return errors.Is(err, ErrLost) },
		`{"path":"a"}`:              func(err error) bool { return errors.Is(err, ErrLost) },
		`{"path":"a","errno":1e9}`:  func(err error) bool { return errors.Is(err, ErrLost) },
		``:                          func(err error) bool { return errors.Is(err, ErrLost) },
		`{}` + strings.Repeat(" ", wire.MaxReply): func(err error) bool { return errors.Is(err, ErrLost) },
	} {
		c := hostile(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		if err := c.Apply(t.Context(), io.LimitReader(zeros{}, 10<<20)); !check(err) {
			t.Errorf("after %.40q: got %v", answer, err)
		}
	}
	c := hostile(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { wire.Answer(w, errors.New("it is too late")) }))
	if err := c.Apply(t.Context(), zeros{}); err == nil || errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "too late") {
		t.Errorf("after a refusal: got %v", err)
	}
}

// TestAnswersToDestinations checks that an init that may have been taken over
// answers for every path.
func TestAnswersToDestinations(t *testing.T) {
	for answer, ok := range map[string]bool{
		`{"places":[{"path":"/x"},{"path":"/y","missing":true,"mode":511}]}`: true, `{"places":[{"path":"/x"}]}`: false, ``: false,
		`{"places":[{"path":"/x"},{"path":"/y"},{"path":"/z"}]}`: false, `{"places":[],"more":1}`: false,
		`{"places":[{"path":"/x"},{"path":"` + strings.Repeat("y", maxList) + `"}]}`: false,
	} {
		c := hostile(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		if got, err := c.Destinations(t.Context(), []string{"/a", "/b"}); (err == nil) != ok || !ok && !errors.Is(err, ErrLost) {
			t.Errorf("after %.40q: got %v, %v", answer, got, err)
		}
	}
}

// TestNoReport: an init that refuses to report the end of a command that it
// started was taken over: it is lost, which is known to be the commands' doing.
func TestNoReport(t *testing.T) {
	c := hostile(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"id":1}`)
			return
		}
		wire.Answer(w, errors.New("no such command"))
	}))
	if _, err := c.Run(t.Context(), Command{Argv: []string{"x"}}); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
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
		c, err := newClient(ours)
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

// FuzzHostileConnections lets an init answer requests for connections with bytes
// of its own: they are the content of a connection, or an error.
func FuzzHostileConnections(f *testing.F) {
	f.Add(200, 200, []byte("hello"))
	f.Add(200, 400, []byte("no"))
	f.Add(200, 302, []byte{})
	f.Add(400, 200, bytes.Repeat([]byte("x"), 1<<17))
	f.Fuzz(func(t *testing.T, first, status int, content []byte) {
		if min(first, status) < 200 || max(first, status) > 599 {
			return
		}
		c := hostile(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(first)
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write(content)
		}))
		ln, err := c.Listen(t.Context(), "127.0.0.1:1")
		if (err == nil) != (first == 200) {
			t.Fatalf("listening after status %d: %v", first, err)
		}
		if err != nil {
			return
		}
		conn, err := ln.Accept()
		if (err == nil) != (status == 200) {
			t.Fatalf("a connection after status %d: %v", status, err)
		}
		if err != nil {
			return
		}
		if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d of %d bytes, %v", len(got), len(content), err)
		}
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
