package produce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/egress"
	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/relay"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// place is a sandbox in memory: a box, its init, and what serves its agent.
type place struct {
	agent func(ctx context.Context, p *place, cmd initproc.Command) (initproc.Result, error)
	out   sandbox.Outcome // of the box
	err   error
	spent bool
	fails error // of the provider
	later error // the same, once the agent has ended
	thaw  error
	stay  error // of freezing it
	serve error // of serving the gateway

	options relay.Options
	gate    *gate
	mu      sync.Mutex
	frozen  bool
	freezes int
	events  []string
	serving int
}

var (
	_ sandbox.Box     = (*place)(nil)
	_ sandbox.Freezer = (*place)(nil)
	_ agentInit       = (*inside)(nil)
	_ Provider        = (*upstream)(nil)
)

func (p *place) Close(context.Context) error { return nil }
func (p *place) Run(context.Context, sandbox.Streams) (sandbox.Outcome, error) {
	return p.out, p.err
}

func (p *place) Freeze(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen {
		return errors.New("it is frozen")
	}
	if p.stay != nil {
		return p.stay
	}
	p.frozen = true
	p.freezes++
	return nil
}

func (p *place) Thaw(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.frozen {
		return errors.New("it is not frozen")
	}
	p.frozen = false
	return p.thaw
}

// inside is the init of a place.
type inside struct {
	*place
	closed bool
}

func (i *inside) Run(ctx context.Context, cmd initproc.Command) (initproc.Result, error) {
	res, err := i.agent(ctx, i.place, cmd)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.frozen {
		return res, errors.New("a frozen agent ended")
	}
	return res, err
}

func (i *inside) Listen(_ context.Context, address string) (net.Listener, error) {
	i.events = append(i.events, "listen "+address)
	return nothing{}, nil
}

func (i *inside) Suspend() { i.note("suspend") }
func (i *inside) Resume()  { i.note("resume") }
func (i *inside) note(event string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.events = append(i.events, event)
}

// Close ends the box, which a frozen one cannot.
func (i *inside) Close(ctx context.Context) error {
	if i.closed {
		return nil
	}
	i.closed = true
	_, _ = i.gate.box.Run(ctx, sandbox.Streams{})
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.frozen {
		return errors.New("the box is frozen")
	}
	return nil
}

// nothing is a listener without connections.
type nothing struct{ net.Listener }

func (nothing) Close() error { return nil }

// upstream is a provider.
type upstream struct{ *place }

func (u *upstream) Serve(ctx context.Context, _ net.Listener) error {
	u.mu.Lock()
	u.serving++
	u.mu.Unlock()
	if u.serve != nil {
		return u.serve
	}
	<-ctx.Done()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.serving--
	u.fails = cmp.Or(u.fails, u.later)
	return nil
}
func (u *upstream) Usage() map[string]int64 { return map[string]int64{"requests": 3} }
func (u *upstream) Spent() bool             { return u.spent }
func (u *upstream) Words() (_, _ string)    { return "", "" }
func (u *upstream) Held() time.Duration     { return 2 * time.Minute }
func (u *upstream) Trace() ([]byte, []byte) { return []byte("trace\n"), []byte("step\n") }
func (u *upstream) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fails
}

func (u *upstream) Failed() <-chan struct{} {
	failed := make(chan struct{})
	if u.Err() != nil {
		close(failed)
	}
	return failed
}

// exits is an agent that ends after a while, unless it is killed.
func exits(after time.Duration, code int) func(context.Context, *place, initproc.Command) (initproc.Result, error) {
	return func(ctx context.Context, _ *place, _ initproc.Command) (initproc.Result, error) {
		select {
		case <-time.After(after):
			return initproc.Result{End: sandbox.Exited, ExitCode: code}, nil
		case <-ctx.Done():
			return initproc.Result{}, context.Cause(ctx)
		}
	}
}

// open makes the gate of a place, for an agent with a provider and a domain.
func (p *place) open() *gate {
	provider := func(_ string, _ int, o relay.Options) (Provider, error) { p.options = o; return &upstream{p}, nil }
	g := Gateway{Provider: provider, seams: seams{
		open:  func(context.Context, sandbox.Box) (agentInit, error) { return &inside{place: p}, nil },
		proxy: func(egress.Config, *ledger.Ledger) server { return &upstream{p} },
	}}
	plan := harness.Plan{Argv: []string{"agent"}, TokenEnv: "KEY", Relay: &harness.Relay{}, Domains: []string{"a.example"}, Workdir: "/w"}
	spec := sandbox.Spec{Limits: sandbox.Limits{Output: 10}}
	p.gate = g.behind(&spec, plan)
	p.gate.box = &watched{sandbox.Watched{Box: p}}
	return p.gate
}

// run runs a place's agent for at most ten minutes.
func (p *place) run(ctx context.Context) (sandbox.Outcome, error) {
	return p.open().run(ctx, 10*time.Minute, sandbox.Streams{Stdout: io.Discard, Stderr: io.Discard})
}

// TestClock: an agent that the provider makes wait is not charged for that. The
// same agent without the hold is out of time.
func TestClock(t *testing.T) {
	waits := func(held time.Duration) func(context.Context, *place, initproc.Command) (initproc.Result, error) {
		return func(ctx context.Context, p *place, cmd initproc.Command) (initproc.Result, error) {
			release, err := p.options.Hold(ctx)
			if err != nil {
				return initproc.Result{}, err
			}
			again, err := p.options.Hold(ctx) // holds overlap
			if err != nil {
				return initproc.Result{}, err
			}
			time.Sleep(held)
			release()
			release()
			again()
			return exits(9*time.Minute, 0)(ctx, p, cmd)
		}
	}
	for name, tt := range map[string]struct {
		agent func(context.Context, *place, initproc.Command) (initproc.Result, error)
		end   sandbox.End
		took  time.Duration
	}{
		"held":              {waits(20 * time.Minute), sandbox.Exited, 29 * time.Minute},
		"held too long":     {waits(32 * time.Minute), sandbox.TimedOut, 40 * time.Minute},
		"waits by itself":   {exits(29*time.Minute, 0), sandbox.TimedOut, 10 * time.Minute},
		"needs no patience": {exits(9*time.Minute, 0), sandbox.Exited, 9 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, began := &place{agent: tt.agent, out: sandbox.Outcome{End: sandbox.Exited}}, time.Now()
				out, err := p.run(t.Context())
				if took := time.Since(began); err != nil || out.End != tt.end || took != tt.took {
					t.Errorf("%s after %v, %v; want %s after %v", out.End, took, err, tt.end, tt.took)
				}
				if p.frozen || p.serving != 0 {
					t.Errorf("frozen: %v, serving: %d", p.frozen, p.serving)
				}
				if held := strings.HasPrefix(name, "held"); held != (p.freezes == 1) || held && !slices.Equal(p.events[2:], []string{"suspend", "resume"}) {
					t.Errorf("frozen %d times, %v", p.freezes, p.events)
				}
			})
		})
	}
}

// TestInterruptedWhileHeld: a frozen agent is let go before it is ended, whoever
// ends it.
func TestInterruptedWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &place{agent: func(ctx context.Context, p *place, _ initproc.Command) (initproc.Result, error) {
			release, err := p.options.Hold(ctx)
			if err != nil {
				return initproc.Result{}, err
			}
			defer release()
			cancel(stopped)
			<-ctx.Done()
			synctest.Wait()
			return initproc.Result{}, context.Cause(ctx)
		}}
		if _, err := p.run(ctx); !errors.Is(err, stopped) || p.frozen {
			t.Errorf("%v, frozen: %v", err, p.frozen)
		}
		if _, err := p.gate.hold(t.Context()); !errors.Is(err, errEnded) {
			t.Errorf("an agent that has ended is held: %v", err)
		}
	})
}

// lost is an agent that takes its init away.
func lost(context.Context, *place, initproc.Command) (initproc.Result, error) {
	return initproc.Result{}, fmt.Errorf("running a command: %w", initproc.ErrLost)
}

// prints is an agent that prints a number of bytes.
func prints(n int) func(context.Context, *place, initproc.Command) (initproc.Result, error) {
	return func(_ context.Context, _ *place, cmd initproc.Command) (initproc.Result, error) {
		for range n {
			if _, err := cmd.Stdout.Write([]byte("x")); err != nil {
				return initproc.Result{}, fmt.Errorf("writing the output: %w", err)
			}
		}
		return initproc.Result{End: sandbox.Exited}, nil
	}
}

// TestOutcome: an agent behind an init ends as one that is its sandbox's first
// process. What the engine does is no outcome.
func TestOutcome(t *testing.T) {
	seen := func(ends ...sandbox.End) sandbox.Outcome { return sandbox.Outcome{End: sandbox.Exited, Seen: ends} }
	broke := fmt.Errorf("running a sandbox: %w", initproc.ErrLost)
	disturbed := fmt.Errorf("%w: %w", initproc.ErrLost, sandbox.ErrDisturbed)
	gone := errors.New("the engine is gone")
	for name, tt := range map[string]struct {
		place *place
		end   sandbox.End
		code  int
		err   error
	}{
		"exits":                  {&place{agent: exits(1, 3), out: seen(sandbox.PidsLimit)}, sandbox.Exited, 3, nil},
		"out of memory":          {&place{agent: exits(1, 137), out: seen(sandbox.OutOfMemory)}, sandbox.OutOfMemory, 137, nil},
		"a child out of memory":  {&place{agent: exits(1, 1), out: seen(sandbox.OutOfMemory)}, sandbox.Exited, 1, nil},
		"killed by itself":       {&place{agent: exits(1, 137)}, sandbox.Exited, 137, nil},
		"out of time":            {&place{agent: exits(time.Hour, 0)}, sandbox.TimedOut, 124, nil},
		"out of time by forks":   {&place{agent: exits(time.Hour, 0), out: seen(sandbox.PidsLimit)}, sandbox.PidsLimit, 124, nil},
		"prints what it may":     {&place{agent: prints(10)}, sandbox.Exited, 0, nil},
		"prints too much":        {&place{agent: prints(11)}, sandbox.OutputLimit, 137, nil},
		"fills the disk":         {&place{agent: lost, out: sandbox.Outcome{End: sandbox.DiskLimit, ExitCode: 137}}, sandbox.DiskLimit, 137, nil},
		"takes init away":        {&place{agent: lost}, Broken, 137, nil},
		"keeps init from ending": {&place{agent: lost, err: broke}, Broken, 137, nil},
		"its sandbox is stopped": {&place{agent: lost, err: disturbed}, "", 0, sandbox.ErrDisturbed},
		"the engine goes away":   {&place{agent: lost, err: gone}, "", 0, gone},
		"its output is not taken": {&place{agent: func(context.Context, *place, initproc.Command) (initproc.Result, error) {
			return initproc.Result{}, gone
		}}, "", 0, gone},
		"the provider fails":       {&place{agent: exits(time.Hour, 1), fails: gone}, "", 0, gone},
		"the provider fails later": {&place{agent: exits(1, 0), later: gone}, sandbox.Exited, 0, nil},
		"ends as its time is up":   {&place{agent: late}, sandbox.TimedOut, 124, nil},
		"not let go on":            {&place{agent: holds, thaw: gone}, "", 0, gone},
		"not held":                 {&place{agent: holds, stay: gone}, "", 0, gone},
		// What the agent itself can bring about is no reason to run it again.
		"dies as it is held":          {&place{agent: holds, stay: gone, out: sandbox.Outcome{End: sandbox.Exited, ExitCode: 137}}, Broken, 137, nil},
		"lost as it is held":          {&place{agent: breaks(holds), stay: gone}, Broken, 137, nil},
		"its gateway is taken away":   {&place{agent: exits(time.Hour, 0), serve: gone}, sandbox.TimedOut, 124, nil},
		"the same, and it ends":       {&place{agent: exits(1, 0), serve: gone}, Broken, 137, nil},
		"refused by the provider":     {&place{agent: exits(time.Hour, 0), fails: fmt.Errorf("%w: 403", relay.ErrRefused)}, Refused, 137, nil},
		"refused, and ends by itself": {&place{agent: exits(0, 0), fails: fmt.Errorf("%w: 403", relay.ErrRefused)}, Refused, 137, nil},
		"refused, and breaks init":    {&place{agent: lost, fails: fmt.Errorf("%w: 403", relay.ErrRefused)}, Refused, 137, nil},
		"init ends late":              {&place{agent: exits(1, 0), err: broke}, sandbox.Exited, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := tt.place
				if p.out.End == "" {
					p.out.End = sandbox.Exited
				}
				out, err := p.run(t.Context())
				if !errors.Is(err, tt.err) || out.End != tt.end || out.ExitCode != tt.code {
					t.Errorf("%+v, %v; want %s, %d, %v", out, err, tt.end, tt.code, tt.err)
				}
			})
		})
	}
}

// late is an agent that ends by itself before it can be killed.
func late(ctx context.Context, _ *place, _ initproc.Command) (initproc.Result, error) {
	<-ctx.Done()
	return initproc.Result{End: sandbox.Exited}, nil
}

// breaks is an agent that takes its init away at its end.
func breaks(agent func(context.Context, *place, initproc.Command) (initproc.Result, error)) func(context.Context, *place, initproc.Command) (initproc.Result, error) {
	return func(ctx context.Context, p *place, cmd initproc.Command) (initproc.Result, error) {
		_, _ = agent(ctx, p, cmd)
		return lost(ctx, p, cmd)
	}
}

// holds is an agent whose provider makes it wait.
func holds(ctx context.Context, p *place, cmd initproc.Command) (initproc.Result, error) {
	release, err := p.options.Hold(ctx)
	if err != nil {
		return initproc.Result{}, err
	}
	time.Sleep(time.Minute)
	release()
	return exits(time.Minute, 0)(ctx, p, cmd)
}

// TestNotStarted: a program that is not there is reported as an engine does.
func TestNotStarted(t *testing.T) {
	for code, want := range map[int]string{127: "sandbox: command \"agent\": not found\n", 126: "sandbox: command \"agent\": not executable\n"} {
		p := &place{out: sandbox.Outcome{End: sandbox.Exited}, agent: func(context.Context, *place, initproc.Command) (initproc.Result, error) {
			return initproc.Result{End: initproc.NotStarted, ExitCode: code}, nil
		}}
		var said strings.Builder
		g := p.open()
		g.output = 100
		out, err := g.run(t.Context(), time.Minute, sandbox.Streams{Stdout: io.Discard, Stderr: &said})
		if err != nil || out.End != sandbox.Exited || out.ExitCode != code || said.String() != want || out.StderrBytes != int64(len(want)) {
			t.Errorf("%+v, %v, %q", out, err, said.String())
		}
	}
}

// TestReport: what the agent asked for is in the result, as counts and files.
func TestReport(t *testing.T) {
	p := &place{out: sandbox.Outcome{End: sandbox.Exited}, spent: true, agent: func(_ context.Context, p *place, cmd initproc.Command) (initproc.Result, error) {
		if p.options.Token == "" || !slices.Contains(cmd.Env, "KEY="+p.options.Token) || cmd.Stdin != nil || !cmd.Inherit {
			t.Errorf("the agent is run as %+v", cmd)
		}
		p.options.Ledger.Add(ledger.Entry{Gate: ledger.Relay, Method: "POST", Target: "/v1/responses", Allowed: true})
		return initproc.Result{End: sandbox.Exited}, nil
	}}
	g := p.open()
	g.external = true
	out, err := g.run(t.Context(), time.Minute, sandbox.Streams{Stdout: io.Discard, Stderr: io.Discard})
	res := Result{Outcome: out, Metadata: verdict.Metadata{}}
	g.report(&res)
	if err != nil || res.Outcome.End != OverBudget || !slices.Equal(res.Labels, []string{NetworkEnabled, ExternalTools}) || res.Usage["requests"] != 3 {
		t.Errorf("%+v, %v", res, err)
	}
	if string(res.Metadata["network"]) != `{"relay_allowed":1}` || string(res.Metadata["held_seconds"]) != "120" {
		t.Errorf("metadata %v", res.Metadata)
	}
	if !strings.Contains(string(res.Raw["network.jsonl"]), "/v1/responses") || string(res.Raw["exchanges.jsonl"]) != "trace\n" || string(res.Raw["steps.jsonl"]) != "step\n" {
		t.Errorf("files %q", res.Raw)
	}
	first := p.options.Token
	if _, err := p.run(t.Context()); err != nil || p.options.Token == first {
		t.Errorf("two attempts have one token, or %v", err)
	}
}

// TestBehind: the sandbox of an agent behind an init has the agent's user, and
// nothing of its command. Root's capabilities are granted to the agent alone.
func TestBehind(t *testing.T) {
	plan := harness.Plan{Argv: []string{"agent", "secret prompt"}, Workdir: "/w", Relay: &harness.Relay{},
		Overlays: []harness.Overlay{{Program: "codex", Target: "/opt/codex"}}}
	for name, tt := range map[string]struct {
		user  *sandbox.User
		grant []sandbox.Capability
	}{
		"root":        {nil, []sandbox.Capability{sandbox.Chown}},
		"other user":  {&sandbox.User{UID: 7, GID: 8}, nil},
		"nothing set": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sandbox.Spec{Image: sandbox.Image{ID: "i"}, Command: plan.Argv, User: tt.user, Capabilities: []sandbox.Capability{sandbox.Chown},
				Env: WithPath([]string{"PATH=/row", "A=b"}, plan, sandbox.Image{Path: "/image"}), Limits: sandbox.Limits{Output: 5, Timeout: time.Minute}}
			if name == "nothing set" {
				spec.Capabilities = nil
			}
			g := Gateway{}.behind(&spec, plan)
			if err := spec.Check(); err != nil || !spec.Init || spec.Command != nil || spec.Env != nil || spec.Limits.Timeout < relay.MaxHold+time.Minute {
				t.Errorf("spec %+v, %v", spec, err)
			}
			if !slices.Equal(g.command.Env, []string{"A=b", "PATH=/opt/codex/bin:/row"}) || !slices.Equal(spec.Grants, tt.grant) || !slices.Equal(g.command.Capabilities, tt.grant) {
				t.Errorf("command %+v, grants %v", g.command, spec.Grants)
			}
			if tt.user != nil && g.command.User != *tt.user {
				t.Errorf("the agent runs as %+v", g.command.User)
			}
		})
	}
}
