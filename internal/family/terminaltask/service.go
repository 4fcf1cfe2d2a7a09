package terminaltask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"securebench/internal/attended"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// The variables of a service are the image's and the row's: it runs what the
// candidate holds, so there is nothing in it to protect.
func (s *scorer) serviceCommand(argv []string, stdout, stderr *bytes.Buffer) initproc.Command {
	return initproc.Command{Argv: argv, Env: withHome(s.row.env, s.c.Image, s.serviceHome), Inherit: true, Dir: s.row.workdir, User: s.user,
		Capabilities: s.row.capabilities, Stdout: stdout, Stderr: stderr, Output: s.site.Limits.Output}
}

// running is a service that was started.
type running struct {
	stop           context.CancelFunc
	ended          chan struct{} // closed when its first process has ended
	result         initproc.Result
	err            error
	stdout, stderr bytes.Buffer
}

// serve starts the service and waits until it is ready.
func (s *scorer) serve(ctx context.Context) error {
	rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{stop: stop, ended: make(chan struct{})}
	s.running = r
	client := s.site.service.Client
	go func() {
		defer close(r.ended)
		r.result, r.err = client.Run(rctx, s.serviceCommand(s.row.start.argv, &r.stdout, &r.stderr))
	}()
	wait := attended.NewTimer(s.row.start.timeout)
	defer wait.Stop()
	for {
		dead, err := s.died(ctx, r)
		ok := false
		if err == nil {
			ok, err = s.isReady(ctx, s.row.start.timeout-wait.Spent())
		}
		switch {
		case err != nil || ok:
			return err
		case dead:
			return &family.Failure{Reason: verdict.ServiceNotReady, Message: "the row's service ended before it was ready, and left no process"}
		case wait.Spent() >= s.row.start.timeout:
			return &family.Failure{Reason: verdict.ServiceNotReady, Message: fmt.Sprintf("the row's service was not ready within %v", s.row.start.timeout)}
		}
		if err := attended.Pause(ctx, readyPause); err != nil {
			return err
		}
	}
}

// died reports whether a service has ended and left no process that could still become
// ready.
func (s *scorer) died(ctx context.Context, r *running) (bool, error) {
	select {
	case <-r.ended:
	default:
		return false, nil
	}
	n, err := s.site.service.Client.Processes(ctx)
	return err == nil && n == 0, err
}

const (
	// readyPause lies between two looks at a service.
	readyPause = 200 * time.Millisecond
	// lookTime bounds a look of ours, which tries again and again: a service that has
	// died is noticed between two. A single answer may take five seconds.
	lookTime = 6 * time.Second
)

// isReady looks once whether the service is ready. It looks from the service's
// own sandbox: no process that looks is ever in the checker's.
func (s *scorer) isReady(ctx context.Context, left time.Duration) (bool, error) {
	start := s.row.start
	var said, complaint bytes.Buffer
	cmd := s.serviceCommand(start.ready, &said, &complaint)
	if start.ready == nil {
		argv := []string{sandbox.HelperPath, "sandbox-probe", "tcp", "127.0.0.1:" + strconv.Itoa(start.port)}
		if start.url != "" {
			argv = []string{sandbox.HelperPath, "sandbox-probe", "http", start.url}
		}
		cmd = initproc.Command{Argv: argv, User: sandbox.Nobody, Stdout: &said, Stderr: &complaint}
		left = min(left, lookTime)
	}
	cmd.Output, cmd.Timeout = saidLimit, max(left, readyPause)
	res, err := s.site.service.Client.Run(ctx, cmd)
	if err != nil {
		return false, err
	}
	s.restricted["ready-stdout.txt"], s.restricted["ready-stderr.txt"] = said.Bytes(), complaint.Bytes()
	return res.End == sandbox.Exited && res.ExitCode == 0, nil
}

// endService ends the service, notes what became of it, and judges the end of the
// steps by that. That the service died is its own affair: the checker has seen it. That
// its sandbox's init was lost is not a failure of the candidate, unless it ran into a limit. An error
// of the end comes from the engine, or from outside.
func (s *scorer) endService(ctx context.Context, err error) error {
	if s.site.service == nil {
		return err
	}
	lost := s.serviceLost()
	limits, endErr := s.site.service.End(ctx)
	if r := s.running; r != nil { // its connection is closed now
		r.stop()
		<-r.ended
		s.restricted["service-stdout.txt"], s.restricted["service-stderr.txt"] = r.stdout.Bytes(), r.stderr.Bytes()
	}
	if len(limits) > 0 {
		s.metadata["service_limits"] = limits
	}
	switch {
	case endErr != nil:
		return endErr
	case lost == nil:
		return err
	case len(limits) == 0:
		return fmt.Errorf("contact with the sandbox of the row's service was lost: %w", lost)
	case errors.Is(err, initproc.ErrLost):
		return &family.Failure{Reason: verdict.ServiceNotReady, Message: "the sandbox of the row's service ended"}
	}
	return err
}

// serviceLost notes how the service ended, if it has, and returns the error of one
// whose sandbox's init is lost.
func (s *scorer) serviceLost() error {
	if s.running == nil {
		return nil
	}
	select {
	case <-s.running.ended:
	default:
		return nil
	}
	if s.running.err == nil {
		s.metadata["service_exit_code"] = s.running.result.ExitCode
	}
	return s.running.err
}
