// Package service lets the attempts of a run be made by workers on other machines: it
// refuses what they cannot make, says what their jobs have in common, and opens the hub.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"securebench/internal/agent"
	"securebench/internal/agent/setup"
	"securebench/internal/candidate"
	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/remote"
	"securebench/internal/remote/hub"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/workload"
)

// DefaultInflight is how many attempts are queued or under way, unless the operator says
// so.
const DefaultInflight = 2048

// Hub is where a run serves workers.
type Hub struct {
	Addr     string
	Keys     remote.Keys
	Inflight int           // attempts that are queued or under way; 0 is the default
	Lease    time.Duration // how long a worker may be silent; 0 is the default
	// Metrics is an address of this machine for programs that watch the run; "" is none.
	Metrics string
	// Serving is called with the addresses of the hub and of its metrics when the hub is
	// open; nil is not.
	Serving func(addr, metrics string)
}

// Check returns an error if no run can serve workers there. It opens no port.
func (h *Hub) Check() error {
	if _, service, err := net.SplitHostPort(h.Addr); err != nil {
		return fault.Errorf(fault.Refused, "--hub: %w (write ADDRESS:PORT)", err)
	} else if _, err := strconv.ParseUint(service, 10, 16); err != nil {
		return fault.Errorf(fault.Refused, "--hub: %q is no port", service)
	}
	_, err := h.Keys.Server()
	if err == nil {
		_, err = h.Keys.Workers()
	}
	return fault.As(hubFault(err), err)
}

// Plan says how many attempts take place at the same time: what bounds them are the
// workers, but agents that need no sandbox run in this process.
func (h *Hub) Plan(cfg *config.Tester, f setup.Facts) *capacity.Plan {
	n, why := cmp.Or(h.Inflight, DefaultInflight), "queued or on workers"
	if !f.Sandboxed && f.Workers > 0 {
		n, why = cmp.Or(cfg.MaxWorkers, f.Workers), f.WorkersWhy
	}
	return &capacity.Plan{Workers: n, Verifications: n, Why: why}
}

// Refuse returns an error for a run that workers cannot make.
func Refuse(s *scoring.Scorer, f setup.Facts) error {
	if f.Sandboxed {
		return nil
	}
	if names := s.Unresolved(); len(names) > 0 {
		return fault.Errorf(fault.Refused, "who the user in image %s is, only the image's files say, and this machine does not have it: get it (securebench image pull, docker pull)", names[0])
	}
	return nil
}

// Run is what a run has for its hub.
type Run struct {
	Config    *config.Tester
	Build     string // digest of this program
	Work      *workload.Workload
	Scorer    *scoring.Scorer // which has no verifiers
	Facts     setup.Facts     // of the agent
	Dir       *record.Dir
	Store     *candidate.Store
	Secrets   *redact.Registry
	LookupEnv func(string) (string, bool)
	Images    map[string]string // names in run.json, by reference
	Warn      func(string)
	// Met is called for each worker before it is let in. Its error keeps the worker out.
	Met func(record.Worker) error
	// Seen is called now and then with what workers were given in all parts of the run.
	Seen     func([]record.Worker) error
	Progress progress.Reporter
}

// Open begins to serve workers, and lets the pipeline make its calls by them.
func Open(ctx context.Context, at Hub, r Run, config *pipeline.Config) (*hub.Hub, error) {
	orders, trees, err := r.orders()
	if err != nil {
		return nil, err
	}
	journal, err := r.Dir.Grants()
	if err != nil {
		return nil, errors.Join(err, closeAll(trees))
	}
	o := hub.Options{Addr: at.Addr, Keys: at.Keys, Lease: at.Lease, RunID: r.Config.RunID, Salt: r.Dir.Salt(), Build: r.Build,
		Orders: orders, Files: r.Scorer.Files, Trees: trees, Store: &commit.Committer{Store: r.Store}, Secrets: r.Secrets, Journal: journal, Warn: r.Warn,
		Met: func(w hub.Worker) error { return r.Met(w.Record()) }, Counted: func(workers []record.Worker) {
			if err := r.Seen(workers); err != nil {
				r.Warn(err.Error())
			}
		}}
	report(r.Progress, &o)
	watched := &seen{Reporter: r.Progress, planned: config.Total, recorded: len(config.Kept)}
	o.Metrics, o.Attempts, o.Pools = at.Metrics, watched.attempts, remote.Pools(len(r.Scorer.Images))
	if r.Scorer.Engine != nil {
		info := r.Scorer.Engine.Info()
		o.Engine = &info
	}
	if config.Agent != nil && !config.Agent.Sandboxed() {
		o.Here = &attempt.Local{Agent: config.Agent, Store: o.Store, Observe: config.Observe, Starts: func(req agent.Request, _ agent.Command) {
			o.Starts(remote.Produce, record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt}, "")
		}}
	}
	if h, ok := config.Agent.(*agent.Harness); ok && h.Producer.Gateway.Relay != nil {
		o.Desk, o.Accounts = distant.NewDesk(h.Producer.Gateway.Relay), h.Producer.Gateway.Accounts
	}
	h, err := hub.Open(ctx, o)
	if err != nil {
		return nil, fault.As(hubFault(err), err)
	}
	config.Worker, config.Plan, config.Probe, config.Verifiers = h, nil, nil, r.away(h)
	watched.hub, config.Progress = h, watched
	return h, nil
}

// hubFault says whose fault it is that there is no hub.
func hubFault(err error) fault.Kind {
	if errors.Is(err, remote.ErrNoHub) {
		return fault.Config
	}
	return fault.Refused
}

// away returns verifiers whose work is made by workers.
func (r Run) away(h *hub.Hub) map[string]family.Verifier {
	out := map[string]family.Verifier{}
	for name, f := range r.Work.Families {
		if f.NewVerifier == nil {
			continue
		}
		out[name] = absent{}
		if _, ok := f.NewVerifier(family.Resources{RunID: r.Config.RunID}).(family.Completer); ok {
			out[name] = completer{hub: h}
		}
	}
	return out
}

// absent is a verifier on other machines: it says that there is one.
type absent struct{}

func (absent) Open(context.Context, family.Case) family.Session { return absent{} }

func (absent) Close(context.Context) error { return nil }

func (absent) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	return family.Verdict{}, errors.New("candidates are verified by workers")
}

// completer is an absent verifier whose references workers complete.
type completer struct {
	absent
	hub *hub.Hub
}

// Complete returns a row's reference as a complete candidate.
func (c completer) Complete(ctx context.Context, what family.Case) (candidate.Candidate, bool, error) {
	return c.hub.Complete(ctx, what)
}

// orders are what jobs have in common. Those who produce get no evaluation file, and no
// image that only evaluation names.
func (r Run) orders() (_ map[remote.Role]remote.Order, trees map[string]*os.File, err error) {
	cfg := r.Config
	base := remote.Order{RunID: cfg.RunID, Limits: cfg.Limits, Verification: cfg.Verification, Sandbox: cfg.Sandbox, ScoreTimeouts: cfg.ScoreTimeouts, Retries: cfg.Retries}
	for load, id := range r.Work.Loads {
		base.Loads = append(base.Loads, remote.Load{Load: load, Task: id})
	}
	slices.SortFunc(base.Loads, func(a, b remote.Load) int { return cmp.Compare(a.Task, b.Task) })
	if base.Public, err = listed(r.Scorer.Files.Public, r.Scorer.Files.PublicDigests); err != nil {
		return nil, nil, err
	}
	verify, produce := base, base
	verify.Images = r.Scorer.Images
	if verify.Eval, err = listed(r.Scorer.Files.Eval, r.Scorer.Files.EvalDigests); err != nil {
		return nil, nil, err
	}
	produce.Images = map[string]sandbox.Image{}

	for ref, img := range r.Scorer.Images {
		if r.Images[ref] == ref {
			produce.Images[ref] = img
		}
	}
	if r.Facts.Sandboxed {
		produce.Harness = remote.Of(cfg.Harness)
		produce.Harness.Model = r.Facts.Model
		for _, p := range r.Facts.Programs {
			if p.Name == r.Facts.Name {
				produce.Harness.Release = p.Version
			}
		}
		produce.Env = map[string]string{}
		for _, name := range r.Facts.Env { // of which none has a provider's key
			if value, ok := r.LookupEnv(name); ok {
				produce.Env[name] = value
			}
		}
		if produce.Trees, trees, err = archived(r.Facts.Trees); err != nil {
			return nil, nil, err
		}
	}
	for _, o := range []*remote.Order{&produce, &verify} {
		if o.Inputs, err = inputs(*o, r.Facts); err != nil {
			return nil, nil, errors.Join(err, closeAll(trees))
		}
	}
	return map[remote.Role]remote.Order{remote.Produce: produce, remote.Verify: verify}, trees, nil
}

// inputs returns a digest of what results depend on in an order. A larger budget, other
// retries and other rows beside these change nothing about them.
func inputs(o remote.Order, f setup.Facts) (string, error) {
	o.Retries, o.Loads = 0, nil
	if o.Harness != nil {
		h := *o.Harness
		b, err := digest.Canonical(f.Settings)
		if err != nil {
			return "", err
		}
		h.Config, o.Harness = b, &h
	}
	b, err := attempt.Encode(o)
	return digest.Bytes(b), err
}

// listed describes files of the pack.
func listed(root *os.Root, digests map[string]string) (map[string]remote.File, error) {
	out := map[string]remote.File{}
	for name, sum := range digests {
		info, err := root.Lstat(name)
		if err != nil {
			return nil, fault.As(fault.Pack, fmt.Errorf("reading the pack's files: %w", err))
		}
		out[name] = remote.File{Digest: sum, Size: info.Size(), Executable: info.Mode()&0o111 != 0}
	}
	return out, nil
}
