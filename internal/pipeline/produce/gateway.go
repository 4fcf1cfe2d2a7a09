package produce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/attended"
	"securebench/internal/gateway/egress"
	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/relay"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// The ends of an agent that are not ends of a sandbox.
const (
	// OverBudget: a request was refused because the attempt's budget is spent.
	OverBudget sandbox.End = "budget"
	// Broken: the agent took its sandbox's init away, so that nothing is known
	// of its end.
	Broken sandbox.End = "agent_failed"
	// Refused: the provider rejects what this agent asks for, and nothing else.
	Refused sandbox.End = "provider_refused"
)

// ErrRejected is wrapped by the error of [Session.Run] when the provider rejects
// the key or the model: no attempt of the run can succeed.
var ErrRejected = relay.ErrRejected

// ErrWaited is wrapped by the error of [Session.Run] when the attempt has waited
// for its provider for as long as it may.
var ErrWaited = relay.ErrWaited

// ErrSpent is wrapped by the error of [Session.Run] when all attempts of the run
// together have used what they may of their provider.
var ErrSpent = relay.ErrSpent

// The labels of what an agent could reach beyond its sandbox.
const (
	NetworkEnabled = "network_enabled" // domains
	PrivateNetwork = "private_network" // domains with addresses of private networks
	ExternalTools  = "external_tools"  // tools that its provider runs
)

// Ablated labels the records of agents that had none of their rows' files.
const Ablated = "ablated"

// OldLayout labels the records of agents that had securebench's own files in a
// workspace that was the candidate.
const OldLayout = "old_layout"

// Gateway is what agents reach from their sandboxes, and where their programs
// come from. The zero value serves plans that need none of that.
type Gateway struct {
	// Relay leads to the provider of the plans' model.
	Relay *relay.Relay
	// Provider opens an attempt's way to the provider in the relay's place; nil does not.
	Provider func(task string, attempt int, o relay.Options) (Provider, error)
	// Proxy configures the way to the domains; those are the plan's.
	Proxy egress.Config
	// Overlay returns a program as it runs in an image.
	Overlay func(harness.Overlay, sandbox.Image) (sandbox.Overlay, error)
	// Accounts keep what attempts use of their provider; nil keeps nothing.
	Accounts Accounts

	seams seams
}

// Accounts keep what attempts use of their provider, so that a run that is killed and
// resumed counts it.
type Accounts interface {
	// Begin begins a try of an attempt. It returns what the attempt had used at most
	// before the run was resumed, and what is told all that the try has used at most,
	// with that.
	Begin(task string, attempt int) (former map[string]int64, note func(map[string]int64) error)
}

// seams replaces parts in tests.
type seams struct {
	open  func(context.Context, sandbox.Box) (agentInit, error)
	proxy func(egress.Config, *ledger.Ledger) server
}

// agentInit is the init of an agent's sandbox; it is an [initproc.Client]. Its
// methods belong to one connection.
type agentInit interface { //nolint:interfacebloat // see above
	Run(ctx context.Context, cmd initproc.Command) (initproc.Result, error)
	Listen(ctx context.Context, address string) (net.Listener, error)
	Suspend()
	Resume()
	Close(ctx context.Context) error
}

// server answers the agent's connections.
type server interface {
	Serve(ctx context.Context, ln net.Listener) error
}

// Provider is an attempt's way to its provider: a [relay.Attempt], or what leads to one
// that another process has.
type Provider interface { //nolint:interfacebloat // a relay.Attempt both serves and counts
	server
	Provided
	Spent() bool
	Err() error
	Failed() <-chan struct{}
}

// The times of a sandbox behind an init.
const (
	// grace is how much longer than the agent its sandbox may live: to start, to
	// be ended, and while the engine is busy.
	grace = 5 * time.Minute
	// endTime bounds the end of the sandbox.
	endTime = time.Minute
)

// carried is how many bytes may cross the streams of a sandbox's init: the
// agent's output and requests have bounds of their own.
const carried = 1 << 44

// gated reports whether a plan needs a gateway.
func gated(plan harness.Plan) bool { return plan.Relay != nil || len(plan.Domains) > 0 }

// gate is the gateway of one attempt, and the init through which its agent runs.
type gate struct {
	Gateway
	plan     harness.Plan
	labels   sandbox.Labels
	box      *watched
	command  initproc.Command
	output   int64            // limit on both streams
	external bool             // tools of the provider are allowed
	used     map[string]int64 // of the attempt's budget, in other sandboxes

	answer Provider // in the relay's place; nil is none
	client agentInit
	ledger ledger.Ledger
	relay  Provider // nil without a provider
	clock  *clock

	mu     sync.Mutex
	holds  int
	ended  bool
	fail   func(error) // ends the agent
	engine error       // why the agent could not go on
}

// watched leaves the removal of a box to the session: its root may be read before.
type watched struct{ sandbox.Watched }

// Close does nothing.
func (w *watched) Close(context.Context) error { return nil }

// behind makes the agent of a sandbox a command of its init, and returns the
// gateway that it reaches.
func (g Gateway) behind(spec *sandbox.Spec, plan harness.Plan) *gate {
	user := spec.Image.User
	if spec.User != nil {
		user = *spec.User
	}
	own := &gate{Gateway: g, plan: plan, labels: spec.Labels, output: spec.Limits.Output, command: initproc.Command{Argv: withFiles(plan), Env: spec.Env,
		Inherit: true, Dir: plan.Workdir, User: user, Output: spec.Limits.Output + 1}} // which shows that there is more
	spec.Init, spec.Command, spec.Env = true, nil, nil
	spec.Limits.Output = carried
	spec.Limits.Timeout += grace
	if plan.Relay != nil {
		spec.Limits.Timeout += relay.MaxHold
		own.external = plan.Relay.AllowExternalTools
	}
	if user.UID == 0 && len(spec.Capabilities) > 0 { // only root's processes keep any
		own.command.Capabilities, spec.Grants = spec.Capabilities, spec.Capabilities
		for _, c := range sandbox.Supervisor() {
			if !slices.Contains(spec.Grants, c) {
				spec.Capabilities = append(slices.Clip(spec.Capabilities), c)
			}
		}
	}
	return own
}

// writeFiles writes files, of each of which it gets the path and the text, until --, and
// becomes the command behind that.
const writeFiles = `while [ "$1" != -- ]; do mkdir -p "${1%/*}" && printf %s "$2" > "$1" || exit 126; shift 2; done; shift; exec "$@"`

// withFiles returns the command of a plan, which first writes the plan's files.
func withFiles(plan harness.Plan) []string {
	if len(plan.Files) == 0 {
		return plan.Argv
	}
	argv := []string{"/bin/sh", "-c", writeFiles, "sh"}
	for _, f := range plan.Files {
		argv = append(argv, f.Path, f.Text)
	}
	return append(append(argv, "--"), plan.Argv...)
}

// overlays returns the mounts of a plan's programs.
func (g Gateway) overlays(plan harness.Plan, image sandbox.Image) (out []sandbox.Mount, err error) {
	for _, o := range plan.Overlays {
		if g.Overlay == nil {
			return nil, fmt.Errorf("the program %s was not prepared", o.Program)
		}
		tree, err := g.Overlay(o, image)
		if err != nil {
			return nil, err
		}
		out = append(out, sandbox.Mount{Overlay: tree, Target: o.Target, ReadOnly: true})
	}
	return out, nil
}

// defaultPath is where programs are looked up in images that say nothing else.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// WithPath puts the programs of a plan before those of the image.
func WithPath(env []string, plan harness.Plan, image sandbox.Image) []string {
	if len(plan.Overlays) == 0 {
		return env
	}
	rest := image.Path
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		p, ok := strings.CutPrefix(v, "PATH=")
		if ok {
			rest = p
		}
		return ok
	})
	if rest == "" {
		rest = defaultPath
	}
	var dirs []string
	for _, o := range plan.Overlays {
		if !o.Hidden {
			dirs = append(dirs, path.Join(o.Target, "bin"))
		}
	}
	return append(env, "PATH="+strings.Join(append(dirs, rest), ":"))
}

// open connects to the init of a box.
func (g *gate) open(ctx context.Context) (agentInit, error) {
	if g.seams.open != nil {
		return g.seams.open(ctx, g.box)
	}
	return initproc.Open(ctx, g.box)
}

// The causes of an agent's early end.
var (
	errTime  = errors.New("the agent's time is up")
	errFlood = errors.New("the agent's output exceeds its limit")
	errEnded = errors.New("the agent has ended")
	// errFailed: the provider failed, so the agent gets no further.
	errFailed = errors.New("the agent's provider failed")
)

// run runs the agent, and serves it until it ends.
func (g *gate) run(ctx context.Context, limit time.Duration, s sandbox.Streams) (sandbox.Outcome, error) {
	var err error
	if g.client, err = g.open(ctx); err != nil {
		return sandbox.Outcome{}, err
	}
	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(errEnded)
	g.fail = cancel
	serving, err := g.serve(actx, cancel)
	if err != nil {
		cancel(err)
		return sandbox.Outcome{}, errors.Join(err, g.end(ctx), serving.wait())
	}
	out := newOutput(s, g.output, func() { cancel(errFlood) })
	g.command.Stdout, g.command.Stderr = out.stdout, out.stderr
	g.startClock(limit, func() { cancel(errTime) })
	stop := context.AfterFunc(actx, func() { g.stopHolding(actx) }) // what is frozen cannot be killed
	defer stop()
	res, err := g.client.Run(actx, g.command)
	// An agent that ends at its limit may do so before it can be killed. A provider
	// that fails after the agent's end is of no concern to it.
	why, failed := context.Cause(actx), g.failure()
	cancel(errEnded)
	endErr := g.end(ctx)
	served := serving.wait()
	if ctx.Err() != nil {
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	return g.outcome(ending{res, err, why, endErr, served, failed}, out)
}

// failure returns why the provider failed the attempt so far, if it did.
func (g *gate) failure() error {
	if g.relay == nil {
		return nil
	}
	return g.relay.Err()
}

// startClock starts the production's clock. Requests can come before: no agent
// does.
func (g *gate) startClock(limit time.Duration, expire func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clock = startClock(limit, relay.MaxHold, expire)
}

// end ends every process of the sandbox.
func (g *gate) end(ctx context.Context) error {
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	g.stopHolding(ctx)
	return g.client.Close(ctx)
}

// stopHolding stops the clock for good and lets a held agent go on. It is
// idempotent.
func (g *gate) stopHolding(ctx context.Context) {
	ctx, stop := attended.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.ended = true
	if g.clock != nil {
		g.clock.stop()
	}
	if g.holds > 0 {
		_ = g.thaw(ctx) // which takes note of its error
	}
}

// serving is what runs beside the agent.
type serving struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

// wait returns when all has ended, with what went wrong.
func (s *serving) wait() error {
	s.wg.Wait()
	return errors.Join(s.errs...)
}

// serve opens the gateway's doors in the sandbox, until ctx ends. cancel ends the
// agent early.
func (g *gate) serve(ctx context.Context, cancel context.CancelCauseFunc) (*serving, error) {
	all := &serving{}
	open := func(address string, s server) error {
		ln, err := g.client.Listen(ctx, address)
		if err != nil {
			return fmt.Errorf("opening the gateway at %s: %w", address, err)
		}
		all.wg.Go(func() {
			err := s.Serve(ctx, ln)
			_ = ln.Close() // the sandbox ends with it
			if ctx.Err() == nil && err != nil {
				all.mu.Lock()
				defer all.mu.Unlock()
				all.errs = append(all.errs, fmt.Errorf("serving the gateway at %s: %w", address, err))
			}
		})
		return nil
	}
	if g.plan.Relay != nil {
		if err := g.openRelay(); err != nil {
			return all, err
		}
		if err := open(harness.RelayAddress, g.relay); err != nil {
			return all, err
		}
		all.wg.Go(func() {
			select {
			case <-g.relay.Failed():
				cancel(errFailed)
			case <-ctx.Done():
			}
		})
	}
	if len(g.plan.Domains) > 0 {
		return all, open(harness.ProxyAddress, g.proxy())
	}
	return all, nil
}

// openRelay opens the attempt's way to the provider, and gives the agent the
// token for it.
func (g *gate) openRelay() error {
	token := rand.Text()
	o := relay.Options{Ledger: &g.ledger, Hold: g.hold, Token: token, Used: g.used}
	if g.Accounts != nil {
		o.Former, o.Note = g.Accounts.Begin(g.labels.Task, g.labels.Attempt)
	}
	var err error
	switch {
	case g.answer != nil:
		g.relay = g.answer
	case g.Provider != nil:
		if g.relay, err = g.Provider(g.labels.Task, g.labels.Attempt, o); err != nil {
			return err
		}
	case g.Relay != nil:
		g.relay = g.Relay.Open(o)
	default:
		return errors.New("the way to the agent's provider was not prepared")
	}
	if name := g.plan.TokenEnv; name != "" {
		g.command.Env = append(slices.Clip(g.command.Env), name+"="+token)
	}
	return nil
}

func (g *gate) proxy() server {
	cfg := g.Proxy
	cfg.Domains, cfg.Private = g.plan.Domains, g.plan.Private
	if g.seams.proxy != nil {
		return g.seams.proxy(cfg, &g.ledger)
	}
	return egress.New(cfg, &g.ledger)
}

// hold stops the agent and its clock until release. Holds may overlap.
func (g *gate) hold(ctx context.Context) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.clock == nil {
		return nil, errEnded
	}
	if g.holds == 0 {
		if err := g.freeze(ctx); err != nil {
			return nil, err
		}
		g.clock.hold()
	}
	g.holds++
	return sync.OnceFunc(g.release), nil
}

// release ends a hold.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds--
	if g.holds > 0 || g.ended {
		return
	}
	ctx, stop := attended.WithTimeout(context.Background(), endTime)
	defer stop()
	if err := g.thaw(ctx); err != nil {
		g.fail(err)
	}
	g.clock.resume()
}

// freeze stops the processes of the sandbox, if the engine can do that.
func (g *gate) freeze(ctx context.Context) error {
	f, ok := g.box.Box.(sandbox.Freezer)
	if !ok {
		return nil
	}
	g.client.Suspend()
	if err := f.Freeze(ctx); err != nil {
		g.client.Resume()
		g.engine = fmt.Errorf("holding the agent: %w", err)
		return g.engine
	}
	return nil
}

func (g *gate) thaw(ctx context.Context) error {
	f, ok := g.box.Box.(sandbox.Freezer)
	if !ok {
		return nil
	}
	defer g.client.Resume()
	if err := f.Thaw(ctx); err != nil {
		g.engine = fmt.Errorf("resuming the agent: %w", err)
	}
	return g.engine
}

// report adds what the agent asked of the gateway to a result.
func (g *gate) report(res *Result) {
	known := Reached{Lines: g.ledger.Lines(), Counts: g.ledger.Counts()}
	if g.relay != nil {
		known.Provider = g.relay
	}
	res.Raw = map[string][]byte{}
	res.Usage = known.Add(res.Metadata, res.Raw, res.Usage)
	if len(g.plan.Domains) > 0 {
		res.Labels = append(res.Labels, NetworkEnabled)
	}
	if len(g.plan.Private) > 0 {
		res.Labels = append(res.Labels, PrivateNetwork)
	}
	if g.relay == nil {
		return
	}
	if g.external {
		res.Labels = append(res.Labels, ExternalTools)
	}
	if g.relay.Spent() && res.Outcome.End == sandbox.Exited {
		res.Outcome.End = OverBudget
	}
}
