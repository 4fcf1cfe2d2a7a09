package produce_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"securebench/internal/sandbox"
)

// ticks is an agent that notices how long it stood still while it asks. The answer can be
// there before the thread that looks has had its turn again: the last look is another's.
const ticks = client + `
import threading, time
gap, last, stop = 0, time.monotonic(), False
def look():
    global gap, last
    now = time.monotonic()
    gap, last = max(gap, now - last), now
def tick():
    while not stop:
        look()
        time.sleep(0.01)
t = threading.Thread(target=tick)
t.start()
assert b"response.completed" in ask()
stop = True
t.join()
look()
assert gap > 1.5, gap
print("done")
`

// rude is an agent that signals its init, and floods what init carries, before it
// asks as an honest one does.
const rude = client + `
import signal, threading
for s in range(1, 65):
    try:
        os.kill(1, s)
    except OSError:
        pass
def flood():
    for i in range(100):
        for port in (61080, 61081):
            try:
                s = socket.create_connection(("127.0.0.1", port))
                s.sendall(b"x" * 99)
                s.close()
            except OSError:
                pass
all = [threading.Thread(target=flood) for _ in range(8)]
[t.start() for t in all]
[t.join() for t in all]
assert b"response.completed" in ask()
print("done")
`

// TestFrozenOnDocker: an agent whose provider is busy stands still, each process
// of it. One that signals and floods its init, as root or not, gains nothing.
func TestFrozenOnDocker(t *testing.T) {
	g := newGated(t, 3)
	other := &sandbox.User{UID: 1234, GID: 1234}
	for i, agent := range []struct {
		script string
		user   *sandbox.User
	}{{ticks, nil}, {rude, nil}, {rude, other}} { // the provider is busy once
		res, err := g.run(agent.script, i, agent.user)
		if err != nil || res.Outcome.End != sandbox.Exited || res.Outcome.ExitCode != 0 || string(res.Stdout) != "done\n" {
			t.Errorf("agent %d: %+v, %v\n%s%s", i, res.Outcome, err, res.Stdout, res.Stderr)
		}
	}
}

// TestInterruptedOnDocker: an attempt that is interrupted while its agent stands
// still ends at once, without an error of the engine.
func TestInterruptedOnDocker(t *testing.T) {
	g := newGated(t, 600)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(g.ctx)
	g.ctx, g.engine = ctx, freezing{g.engine, func() { cancel(stopped) }}
	began := time.Now()
	_, err := g.run(ticks, 1, nil)
	t.Logf("it took %v", time.Since(began))
	if !errors.Is(err, stopped) || err.Error() != "running the agent: stopped" {
		t.Errorf("it ended with %v", err)
	}
}

// freezing is an engine that calls a function once a box is frozen.
type freezing struct {
	sandbox.Engine
	call func()
}

// Open makes a box.
func (e freezing) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := e.Engine.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return freezingBox{b, b.(sandbox.Freezer), e.call}, nil
}

type freezingBox struct {
	sandbox.Box
	sandbox.Freezer
	call func()
}

// Freeze freezes the box.
func (b freezingBox) Freeze(ctx context.Context) error {
	defer b.call()
	return b.Freezer.Freeze(ctx)
}
