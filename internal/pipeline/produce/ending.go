package produce

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"securebench/internal/gateway/relay"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// ending is what is known of the end of an agent that init ran.
type ending struct {
	res    initproc.Result
	err    error // of running it
	why    error // it was ended; nil if it ended by itself
	endErr error // of ending its sandbox
	served error // by the gateway
	failed error // of the provider
}

// broken reports whether the sandbox's init went away, or no longer keeps to what
// was agreed: only the agent's processes can do that. Errors of the engine that
// come with it are its consequence.
func (e ending) broken(box sandbox.Outcome, boxErr error) bool {
	if boxErr != nil && !errors.Is(boxErr, initproc.ErrLost) || errors.Is(boxErr, sandbox.ErrDisturbed) {
		return false
	}
	died := boxErr == nil && box.End == sandbox.Exited && box.ExitCode != 0
	return errors.Is(e.err, initproc.ErrLost) || e.err != nil && died
}

// outcome says how the agent ended, as if it had been the first process of its
// sandbox. An error is not the agent's doing.
func (g *gate) outcome(e ending, written *output) (sandbox.Outcome, error) {
	box, boxErr := g.box.Outcome, g.box.Err
	broken := e.broken(box, boxErr)
	switch err := errors.Join(boxErr, e.endErr); {
	case g.engine != nil && !broken:
		return sandbox.Outcome{}, g.engine
	case e.failed != nil && g.engine == nil && !errors.Is(e.failed, relay.ErrRefused):
		return sandbox.Outcome{}, e.failed
	case errors.Is(err, sandbox.ErrDisturbed), boxErr != nil && !errors.Is(boxErr, initproc.ErrLost):
		return sandbox.Outcome{}, err
	case e.endErr != nil && !errors.Is(e.endErr, initproc.ErrLost):
		return sandbox.Outcome{}, e.endErr
	}
	out := sandbox.Outcome{End: sandbox.Exited, Seen: box.Seen, ExitCode: e.res.ExitCode, Duration: e.res.Duration}
	out.StdoutBytes, out.StderrBytes = written.counts()
	limit := func(end sandbox.End, code int) (sandbox.Outcome, error) {
		out.End, out.ExitCode, out.Seen = end, code, nil
		return out, nil
	}
	switch {
	case errors.Is(e.failed, relay.ErrRefused):
		return limit(Refused, sandbox.ExitKilled)
	case errors.Is(e.why, errFlood):
		return limit(sandbox.OutputLimit, sandbox.ExitKilled)
	case errors.Is(e.why, errTime) && slices.Contains(box.Seen, sandbox.PidsLimit):
		return limit(sandbox.PidsLimit, sandbox.ExitTimedOut)
	case errors.Is(e.why, errTime):
		return limit(sandbox.TimedOut, sandbox.ExitTimedOut)
	case boxErr == nil && box.End != sandbox.Exited && box.End != "":
		return limit(box.End, box.ExitCode)
	case broken, e.err == nil && e.served != nil:
		out.ExitCode = sandbox.ExitKilled
		out.End = Broken
		return out, nil
	case e.err != nil:
		return sandbox.Outcome{}, e.err
	}
	return g.exited(e.res, out, written)
}

// exited completes the outcome of an agent that ended by itself.
func (g *gate) exited(res initproc.Result, out sandbox.Outcome, written *output) (sandbox.Outcome, error) {
	if res.End == initproc.NotStarted {
		why := "not executable"
		if out.ExitCode == sandbox.ExitNotFound {
			why = "not found"
		}
		_, err := fmt.Fprintf(written.stderr, "sandbox: command %q: %s\n", g.command.Argv[0], why)
		out.StdoutBytes, out.StderrBytes = written.counts()
		return out, err
	}
	if out.ExitCode == sandbox.ExitKilled && slices.Contains(out.Seen, sandbox.OutOfMemory) {
		out.End = sandbox.OutOfMemory
	}
	return out, nil
}

// output passes an agent's streams on, up to a limit on both together.
type output struct {
	stdout, stderr *stream
	full           func()

	mu   sync.Mutex
	left int64
}

func newOutput(s sandbox.Streams, limit int64, full func()) *output {
	o := &output{full: full, left: limit}
	o.stdout, o.stderr = &stream{all: o, w: s.Stdout}, &stream{all: o, w: s.Stderr}
	return o
}

func (o *output) counts() (stdout, stderr int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stdout.n, o.stderr.n
}

// stream is one of them.
type stream struct {
	all *output
	w   io.Writer
	n   int64
}

// Write passes on what the limit leaves, and ends the agent at more.
func (s *stream) Write(p []byte) (int, error) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	n := int(min(int64(len(p)), s.all.left))
	if _, err := s.w.Write(p[:n]); err != nil {
		return 0, err
	}
	s.all.left -= int64(n)
	s.n += int64(n)
	if n < len(p) {
		s.all.full()
		return n, errFlood
	}
	return n, nil
}
