// Package steer changes a run while it goes on: the run listens at a socket in its
// restricted folder, which only its user can open, and takes one order at a time.
package steer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// Act is what an order asks for.
type Act string

// The acts.
const (
	Look    Act = "look" // changes nothing
	Pause   Act = "pause"
	Resume  Act = "resume"
	Drain   Act = "drain"
	Stop    Act = "stop"
	Workers Act = "workers"
)

// Order is one order.
type Order struct {
	Act     Act `json:"act"`
	Workers int `json:"workers,omitzero"`
}

// State is how a run is set.
type State struct {
	Paused   bool `json:"paused"`
	Draining bool `json:"draining"`
	Workers  int  `json:"workers"`
	Most     int  `json:"most"`    // workers that there can be
	Running  int  `json:"running"` // attempts
}

// answer is what a run says to an order.
type answer struct {
	State State  `json:"state"`
	Error string `json:"error,omitzero"`
}

// The bounds of an order and of its answer, in bytes and in time.
const (
	maxMessage = 4 << 10
	patience   = 10 * time.Second
)

// Server takes the orders of a run.
type Server struct {
	listener net.Listener
	folder   *os.File
	obey     func(Order) (State, error)
	taking   sync.WaitGroup
}

// Listen takes orders at the socket of the run in a directory, until the server is closed.
// A socket that a killed run left is replaced.
func Listen(dir string, obey func(Order) (State, error)) (*Server, error) {
	folder, name, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the socket of the run: %w", err)
	}
	s := &Server{folder: folder, obey: obey}
	if info, err := os.Lstat(name); err == nil && info.Mode().Type() == fs.ModeSocket {
		err = os.Remove(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("replacing the socket of a run that is gone: %w", err), folder.Close())
		}
	}
	if s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the socket of the run: %w", err), folder.Close())
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing the socket of the run to others: %w", err), s.listener.Close(), folder.Close())
	}
	s.taking.Go(s.take)
	return s, nil
}

// open opens the folder of a run's socket, and names the socket by it: the names of
// sockets are short, and those of folders are not.
func open(dir string) (folder *os.File, name string, err error) {
	folder, err = os.OpenFile(filepath.Join(dir, record.RestrictedName), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, "", err
	}
	return folder, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(record.ControlName)), nil
}

// take takes one order after the other.
func (s *Server) take() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // it is closed
		}
		s.answer(conn)
	}
}

// answer answers an order.
func (s *Server) answer(conn net.Conn) {
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(patience)) != nil {
		return
	}
	var o Order
	err := read(conn, &o)
	var a answer
	if err == nil {
		a.State, err = s.obey(o)
	}
	if err != nil {
		a.Error = err.Error()
	}
	_ = write(conn, a)
}

// Close takes no further order, and removes the socket.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	err := s.listener.Close() // which removes the socket
	s.taking.Wait()
	return errors.Join(err, s.folder.Close())
}

// ErrNobody says that no run listens.
var ErrNobody = errors.New("no run of this user listens there")

// Ask gives an order to the run in a directory. Only a socket that this user alone can
// open is asked: the directory may be anybody's.
func Ask(ctx context.Context, dir string, o Order) (State, error) {
	folder, name, err := open(dir)
	if err != nil {
		return State{}, ErrNobody
	}
	defer folder.Close()
	info, err := os.Lstat(name)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		return State{}, ErrNobody
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int64(stat.Uid) != int64(os.Geteuid()) {
		return State{}, ErrNobody
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", name)
	if err != nil {
		return State{}, ErrNobody
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return State{}, fmt.Errorf("asking the run: %w", err)
	}
	var a answer
	if err := errors.Join(write(conn, o), read(conn, &a)); err != nil {
		return State{}, fmt.Errorf("asking the run: %w", err)
	}
	if a.Error != "" {
		return a.State, errors.New(redact.EscapeShort(a.Error, maxMessage))
	}
	return a.State, nil
}

// write sends a message, and says that there is no other.
func write(conn net.Conn, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = conn.Write(text)
	}
	if half, ok := conn.(*net.UnixConn); ok && err == nil {
		err = half.CloseWrite()
	}
	return err
}

// read reads the message of the other side.
func read(conn net.Conn, v any) error {
	text, err := io.ReadAll(io.LimitReader(conn, maxMessage+1))
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return errors.New("it says too much")
	}
	if err := json.Unmarshal(text, v, json.RejectUnknownMembers(true)); err != nil {
		return errors.New("it says what nobody understands")
	}
	return nil
}
