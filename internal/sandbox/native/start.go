package native

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attended"
	"securebench/internal/sandbox/native/process"
	"securebench/internal/sandbox/oci"
)

// startTimeout bounds the time that a runtime takes to start a container.
const startTimeout = 2 * time.Minute

var errSlowStart = errors.New("the runtime takes too long to start a sandbox")

// notStarted is the error of a command that cannot be executed.
type notStarted struct{ code int }

func (e notStarted) Error() string { return "exit code " + strconv.Itoa(e.code) }

// holdPeer keeps the ID of the peer's first process, by which the runtime finds the
// network that is shared: the process could end, and its ID become that of one in
// the host's network.
func (b *box) holdPeer() (pid int, release func(), err error) {
	if b.peer == nil {
		return 0, func() {}, nil
	}
	if p, err := b.peer.started(); err == nil {
		if release, ok := p.Hold(); ok {
			return p.PID, release, nil
		}
	}
	return 0, nil, errors.New("the peer does not run")
}

// writeSpec writes config.json. peer is a process of the peer, if there is one.
func (b *box) writeSpec(peer int) error {
	box := b.oci
	box.Peer = peer
	spec, err := b.engine.runtime.Spec(box)
	if err != nil {
		return err
	}
	text, err := oci.Encode(spec)
	if err != nil {
		return err
	}
	return b.files.WriteFile("config.json", text, 0o600)
}

// start starts the container. Its streams are read from when start has returned:
// before, the runtime uses them as well.
func (b *box) start(ctx context.Context, s *pipes) (_ *process.Process, err error) {
	ended := process.Starting()
	defer func() { ended(err != nil) }()
	peer, release, err := b.holdPeer()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := b.writeSpec(peer); err != nil {
		return nil, err
	}
	if n := b.engine.info.Sockets; n > 0 {
		if err := b.group.LimitSockets(n); err != nil {
			return nil, err
		}
	}
	call := oci.Call{State: b.path("s"), Bundle: b.path(), ID: b.runtimeID(), PID: b.path("pid"), Log: b.path("log")}
	cmd := b.engine.runtime.Run(call)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Theirs[0], s.Theirs[1], s.Theirs[2]
	// An interrupt at the terminal is only for this process. A runtime that outlived
	// this process could start a sandbox after the next one has looked for it; the
	// thread that starts it lives as long as the engine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := b.engine.ns.Start(cmd); err != nil {
		return nil, fmt.Errorf("starting the runtime: %w", err)
	}
	for _, f := range s.Theirs {
		_ = f.Close() // the children have them
	}
	if !b.engine.runtime.Leaves {
		return process.Foreground(cmd), nil
	}
	ctx, cancel := attended.WithTimeoutCause(ctx, startTimeout, errSlowStart)
	defer cancel()
	err = b.awaitRuntime(ctx, cmd)
	p := (*process.Process)(nil)
	if err == nil {
		p, err = b.adopt()
	}
	if err != nil {
		return nil, errors.Join(err, b.abandon(ctx, cmd.Process.Pid))
	}
	process.ReapMakers()
	if err := b.engine.ns.Do(func() error { return b.engine.runtime.Started(b.oci, call) }); err != nil {
		err = errors.Join(err, (&run{box: b, process: p}).kill(ctx))
		process.ReapOrphans()
		return nil, err
	}
	return p, nil
}

// awaitRuntime waits until the runtime has started the container.
func (b *box) awaitRuntime(ctx context.Context, cmd *exec.Cmd) error {
	failed, err := process.Await(ctx, b.closing, cmd)
	if failed != nil && err == nil {
		err = b.failure(failed)
	}
	return err
}

// failure is why the runtime failed.
func (b *box) failure(ended error) error {
	code, why := 0, error(nil)
	err := b.engine.ns.Do(func() error {
		code, why = oci.Failure(b.path("log"))
		return nil
	})
	switch {
	case err != nil:
		return err
	case code != 0 && !b.spec.Init:
		return notStarted{code}
	}
	return fmt.Errorf("the runtime failed (%w): %w", ended, why)
}

// adopt takes over the container's first process.
func (b *box) adopt() (*process.Process, error) {
	text, err := b.files.ReadFile("pid")
	if err != nil {
		return nil, fmt.Errorf("reading what the runtime started: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return nil, fmt.Errorf("the runtime says that it started process %.20q", text)
	}
	return process.Adopt(pid, b.spec.Init)
}

// runtimeID is what the runtime knows the container by. It names the owner, for whoever
// finds a runtime that has outlived its parent. The owner's name can begin with a dot,
// which the kernel refuses for the keyring that crun calls by this name.
func (b *box) runtimeID() string { return b.id + idSeparator + path.Base(b.engine.groups) }

// idSeparator is in no owner's and no engine's name.
const idSeparator = "_"

// abandon ends what a runtime that failed or was killed may have left and started.
func (b *box) abandon(ctx context.Context, runtime int) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	return process.Clear(ctx, b.runtimeID(), runtime, b.group, b.known)
}

// known lists the processes that a runtime has named.
func (b *box) known() (pids []int) {
	for _, name := range []string{"pid", "s/" + b.runtimeID() + "/state.json"} {
		text, err := b.files.ReadFile(name)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			var state struct {
				PID int `json:"init_process_pid"`
			}
			_ = json.Unmarshal(text, &state) // a file that was not finished names none
			pid = state.PID
		}
		if pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}
