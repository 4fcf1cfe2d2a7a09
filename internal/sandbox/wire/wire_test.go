package wire_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/sandbox/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// word is a message.
type word struct {
	Text string `json:"text"`
}

func (w word) Check() error {
	if w.Text == "" {
		return errors.New("it is empty")
	}
	return nil
}

// dial returns the parent's end of a connection to a handler, and what breaks it.
func dial(t *testing.T, h http.HandlerFunc) (c *wire.Conn, end net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- wire.Serve(far, far, h, 4, 4) }()
	c, err := wire.Dial(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), far.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return c, far
}

func TestAsk(t *testing.T) {
	refuses := func(err error) bool {
		var r *wire.Refusal
		return errors.As(err, &r) && r.Text == "no"
	}
	invalid := func(err error) bool { return errors.Is(err, wire.ErrInvalid) }
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want func(error) bool
	}{
		"an answer":  {func(w http.ResponseWriter, _ *http.Request) { wire.Reply(w, word{"yes"}) }, func(err error) bool { return err == nil }},
		"a refusal":  {func(w http.ResponseWriter, _ *http.Request) { wire.Answer(w, errors.New("no")) }, refuses},
		"a status":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, invalid},
		"too much":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 100)) }, invalid},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _ := dial(t, c.h)
			b, err := conn.Ask(t.Context(), http.MethodGet, "/", nil, 50)
			if !c.want(err) || err == nil && string(b) != `{"text":"yes"}` {
				t.Errorf("got %q, %v", b, err)
			}
		})
	}
}

// TestStreamEnds: the error of a request says how the stream has ended, if that says more
// than that it has.
func TestStreamEnds(t *testing.T) {
	arrived, broken := make(chan struct{}), errors.New("the helper's container ended")
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- wire.Serve(far, far, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() }), 4, 4)
	}()
	c, err := wire.Dial(named{near, broken})
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-arrived; _ = far.Close() }()
	for range 2 { // while it ends, and afterwards
		if _, err := c.Ask(t.Context(), http.MethodGet, "/", nil, 50); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	if err := errors.Join(c.Close(), <-served); err != nil {
		t.Error(err)
	}
}

// named gives the end of a stream a name.
type named struct {
	net.Conn
	end error
}

func (n named) Read(p []byte) (int, error) {
	got, err := n.Conn.Read(p)
	if err != nil {
		err = n.end
	}
	return got, err
}

func TestDecode(t *testing.T) {
	for text, ok := range map[string]bool{`{"text":"x"}`: true, `{"text":""}`: false, `{}`: false, `{"text":"x","more":1}`: false,
		`{"text":"x","text":"y"}`: false, `{"text":"x"}{}`: false, ``: false, `null`: false} {
		if _, err := wire.Decode[word]([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
