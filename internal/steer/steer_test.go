package steer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/steer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder is the directory of a run, with a name that is longer than that of a socket.
func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.MkdirAll(filepath.Join(dir, "restricted"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func obey(o steer.Order) (steer.State, error) {
	if o.Act == "dance" {
		return steer.State{}, fmt.Errorf("%q is no order", o.Act)
	}
	return steer.State{Workers: o.Workers, Paused: o.Act == steer.Pause}, nil
}

// TestOrders: orders are answered, refused ones say why, the socket is its user's alone
// and gone after the run, and one that a killed run left is replaced.
func TestOrders(t *testing.T) {
	dir := folder(t)
	ctx := t.Context()
	if _, err := steer.Ask(ctx, dir, steer.Order{Act: steer.Look}); !errors.Is(err, steer.ErrNobody) {
		t.Error(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: short(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	s, err := steer.Listen(dir, obey)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "restricted", "control.sock")
	if info, err := os.Lstat(name); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	for range 3 {
		if got, err := steer.Ask(ctx, dir, steer.Order{Act: steer.Workers, Workers: 7}); err != nil || got.Workers != 7 {
			t.Error(got, err)
		}
	}
	if _, err := steer.Ask(ctx, dir, steer.Order{Act: "dance"}); err == nil || err.Error() != `"dance" is no order` {
		t.Error(err)
	}
	for _, nonsense := range []string{"", "{", `{"act":"pause","also":1}`, strings.Repeat(" ", 10_000)} {
		conn, err := net.Dial("unix", short(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(nonsense)) // it may have hung up
		_ = conn.(*net.UnixConn).CloseWrite()
		conn.Close()
	}
	if got, err := steer.Ask(ctx, dir, steer.Order{Act: steer.Pause}); err != nil || !got.Paused {
		t.Error("after nonsense:", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the socket is left:", err)
	}
}

// short is the socket of a folder by a name that is short enough.
func short(t *testing.T, dir string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "l")
	if err := os.Symlink(filepath.Join(dir, "restricted"), link); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(link, "control.sock")
}

// TestStrangeSockets: in a directory of others, no socket is asked that others can open,
// none behind a link, and no folder behind one.
func TestStrangeSockets(t *testing.T) {
	s, err := steer.Listen(folder(t), obey)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, prepare := range map[string]func(dir, socket string) error{
		"open to others": func(_, socket string) error { return os.Chmod(socket, 0o666) },
		"a link": func(_, socket string) error {
			return errors.Join(os.Rename(socket, socket+".other"), os.Symlink(socket+".other", socket))
		},
		"a link to the folder": func(dir, _ string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "restricted"), filepath.Join(dir, "other")), os.Symlink("other", filepath.Join(dir, "restricted")))
		},
		"honest": func(string, string) error { return nil },
	} {
		dir := folder(t)
		asked := false
		s, err := steer.Listen(dir, func(steer.Order) (steer.State, error) { asked = true; return steer.State{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := prepare(dir, filepath.Join(dir, "restricted", "control.sock")); err != nil {
			t.Fatal(err)
		}
		_, err = steer.Ask(context.Background(), dir, steer.Order{Act: steer.Stop})
		if honest := name == "honest"; asked != honest || (err == nil) != honest {
			t.Errorf("%s: asked %t, %v", name, asked, err)
		}
		_ = s.Close() // the socket may be elsewhere
	}
}
