// Package site sets up what makes the calls of a run on a worker's machine: an engine
// that is open, the families' verifiers, and the configured agent, from what the run's
// hub says of them.
package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"securebench/internal/agent"
	"securebench/internal/agent/kinds"
	"securebench/internal/agent/setup"
	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/relay/distant"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// Site makes calls of one run.
type Site struct {
	*attempt.Local
	scorer   *scoring.Scorer
	agent    setup.Agent    // nil for a worker that does not produce
	solver   *attempt.Local // runs the programs of solutions; nil for a worker that does not verify
	own      *sandbox.Image // where agents run, instead of in the rows' images; nil for those
	images   *images
	trees    *trees // of agents
	families family.Registry
	slots    int

	mu    sync.Mutex
	users map[workload.User]sandbox.User
}

var _ worker.Site = (*Site)(nil)

// Options configure sites.
type Options struct {
	Engine sandbox.Engine
	Slots  int    // calls at the same time; 0 is what the machine has room for
	Mirror string // the registry from which images are pulled, instead of their own; "" is none
	// Getenv is this machine's environment, for what is fetched; nil has none.
	Getenv func(string) string
	// Warn reports what does not stop a call, and Say what takes long.
	Warn, Say func(string)
}

// Opener returns what makes sites on an engine.
func Opener(o Options) func(context.Context, worker.Setting) (worker.Site, error) {
	return func(ctx context.Context, set worker.Setting) (worker.Site, error) {
		s, err := open(ctx, o, set)
		if err != nil {
			return nil, err
		}
		s.slots = cmp.Or(o.Slots, s.slots)
		return s, nil
	}
}

// open makes a site.
func open(ctx context.Context, o Options, set worker.Setting) (_ *Site, err error) {
	order, verifies := set.Orders[remote.Verify]
	produces, made := set.Orders[remote.Produce]
	if !verifies {
		order = produces
	}
	cfg := configuration(order)
	cfg.Getenv = o.Getenv
	public, eval := digests(order.Public), digests(order.Eval)
	s := &Site{images: newImages(o, order.Images, set.Pulled), families: families.All(), users: map[workload.User]sandbox.User{}}
	s.scorer = &scoring.Scorer{Engine: o.Engine, Images: order.Images, Image: s.images.known}
	if s.scorer.Files, err = family.OpenFiles(set.Public, set.Eval, public, eval); err != nil {
		return nil, err
	}
	s.scorer.Files.Bring = set.Bring
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	w := &workload.Workload{Loaded: &compile.Loaded{Pack: &pack.Pack{PublicFiles: public, EvalFiles: eval}}, Families: s.families, Loads: map[capacity.Load]string{}}
	for _, l := range order.Loads {
		w.Loads[l.Load] = l.Task
	}
	plan, err := s.scorer.Plan(ctx, w, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.scorer.Equip(ctx, w, cfg, o.Say); err != nil {
		return nil, err
	}
	s.slots = plan.Workers
	s.Local, s.trees = &attempt.Local{Store: set.Store}, newTrees(o.Engine, produces.Trees, set.Tree)
	s.scorer.MakeVerifiers(w.Families, order.RunID, cfg, plan.Verifications)
	if verifies {
		s.Verifiers = s.scorer.Verifiers
		if s.solver, err = s.solve(cfg, w, set.Store, o.Warn); err != nil {
			return nil, err
		}
	}
	if made && produces.Harness != nil {
		s.Agent, err = s.equip(configuration(produces), produces, w, set.Relay, o.Warn)
	}
	return s, err
}

// configuration returns the parts of a configuration that calls depend on.
func configuration(o remote.Order) *config.Tester {
	cfg := config.Default()
	cfg.RunID, cfg.Limits, cfg.Verification, cfg.Sandbox, cfg.ScoreTimeouts, cfg.Retries = o.RunID, o.Limits, o.Verification, o.Sandbox, o.ScoreTimeouts, o.Retries
	return cfg
}

// digests returns the digests of files by path.
func digests(files map[string]remote.File) map[string]string {
	out := make(map[string]string, len(files))
	for name, f := range files {
		out[name] = f.Digest
	}
	return out
}

// equip sets up the agent that the run has configured.
func (s *Site) equip(cfg *config.Tester, o remote.Order, w *workload.Workload, relayed func(record.AttemptKey) (distant.Way, bool), warn func(string)) (agent.Agent, error) {
	var err error
	if cfg.Harness, err = o.Harness.Section(); err != nil {
		return nil, err
	}
	opener, problems := kinds.Configured(cfg.Harness)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	lookup := func(name string) (string, bool) { v, ok := o.Env[name]; return v, ok }
	provider := func(task string, number int, o relay.Options) (produce.Provider, error) {
		way, ok := relayed(record.AttemptKey{Task: task, Attempt: number})
		if !ok {
			return nil, errors.New("the run has no way to a provider for its agents")
		}
		return way.Open(o), nil
	}
	outside := setup.Outside{LookupEnv: lookup, Provider: provider, Tree: s.trees.of, Model: o.Harness.Model, Release: o.Harness.Release}
	s.agent, err = opener(setup.Around{Outside: outside, Config: cfg, Families: w.Families, Secrets: &redact.Registry{}, Warn: warn, Notice: warn})
	if err != nil {
		return nil, err
	}
	made, err := s.agent.Agent(setup.Ground{Scorer: s.scorer, Work: w, Workers: s.slots})
	if err != nil {
		return nil, err
	}
	h, ok := made.(*agent.Harness)
	if !ok {
		return nil, fmt.Errorf("the agent %s does not run on a worker", o.Harness.Type)
	}
	h.Users = s.user
	s.own, h.Image = h.Image, nil // it is put into each request, when it is here
	return h, nil
}

// solve returns what runs the programs of rows' own solutions.
func (s *Site) solve(cfg *config.Tester, w *workload.Workload, store attempt.Store, warn func(string)) (*attempt.Local, error) {
	opener, err := kinds.BuiltIn(agent.OracleName, "")
	if err != nil {
		return nil, err
	}
	none := setup.Outside{LookupEnv: func(string) (string, bool) { return "", false }}
	set, err := opener(setup.Around{Outside: none, Config: cfg, Families: w.Families, Secrets: &redact.Registry{}, Warn: warn, Notice: warn})
	if err != nil {
		return nil, err
	}
	made, err := set.Agent(setup.Ground{Scorer: s.scorer, Work: w})
	if oracle, ok := made.(*agent.Oracle); ok && oracle.Runner != nil {
		oracle.Runner.Users = s.user
	}
	return &attempt.Local{Agent: made, Store: store}, err
}

// user returns a user that was looked up.
func (s *Site) user(image, name string) (sandbox.User, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.users[workload.User{Image: image, Name: name}]
	return u, ok
}

// Slots is how many calls the machine has room for.
func (s *Site) Slots() int { return s.slots }

// Produce runs an agent, in an image that the engine has then.
func (s *Site) Produce(ctx context.Context, req agent.Request) (attempt.Produced, error) {
	by := s.Local
	if req.Solution != nil {
		by = s.solver
	}
	if by == nil || by.Agent == nil {
		return attempt.Produced{}, attempt.Failed(errors.New("this worker has no agent"), verdict.PhasePrepare)
	}
	want := req.Image
	if s.own != nil && req.Solution == nil {
		want = *s.own
	}
	image, err := s.images.get(ctx, want)
	if name := req.View.Environment().User; err == nil && name != "" {
		err = s.know(ctx, image, name)
	}
	if err == nil && req.Solution == nil {
		err = s.trees.bring(ctx, record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt}, req.Image)
	}
	if err != nil {
		return attempt.Produced{}, attempt.Failed(err, verdict.PhasePrepare)
	}
	req.Image = image
	return by.Produce(ctx, req)
}

// Release removes the sandboxes of an attempt.
func (s *Site) Release(ctx context.Context, key record.AttemptKey) error {
	err := s.Local.Release(ctx, key)
	if s.solver != nil {
		err = errors.Join(err, s.solver.Release(ctx, key))
	}
	return err
}

// equipped returns a case with the images that its verification needs, which are here.
func (s *Site) equipped(ctx context.Context, c family.Case) (_ family.Case, err error) {
	if c.Image, err = s.images.get(ctx, c.Image); err != nil {
		return c, err
	}
	if f := s.families[c.Sandbox.Family()]; f.Images != nil {
		for _, ref := range f.Images(c.Sandbox) {
			if img, ok := s.scorer.Images[ref]; ok {
				if _, err := s.images.get(ctx, img); err != nil {
					s.images.say(err.Error())
					return c, unnamed(err)
				}
			}
		}
	}
	return c, nil
}

// unnamed returns an error without the name of an image, which no record may have.
func unnamed(err error) error {
	without := errors.New("this worker cannot get an image that the row's evaluation names (the worker's output says which one and why)")
	if errors.Is(err, sandbox.ErrUnusable) {
		return sandbox.Unusable(without)
	}
	return without
}

// know looks a user up, once.
func (s *Site) know(ctx context.Context, image sandbox.Image, name string) error {
	if _, ok := s.user(image.Ref, name); ok {
		return nil
	}
	u, err := s.scorer.Engine.User(ctx, image, name)
	if err != nil {
		return fmt.Errorf("looking up the row's user: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[workload.User{Image: image.Ref, Name: name}] = u
	return nil
}

// Verify scores a candidate, in images that the engine has then.
func (s *Site) Verify(ctx context.Context, req attempt.Verification) (family.Verdict, error) {
	var err error
	if s.Verifiers[req.Case.Sandbox.Family()] == nil {
		err = errors.New("this worker does not verify candidates of that family")
	} else {
		req.Case, err = s.equipped(ctx, req.Case)
	}
	if err != nil {
		return family.Verdict{}, attempt.Failed(err, verdict.PhaseVerify)
	}
	return s.Local.Verify(ctx, req)
}

// Complete returns a row's whole reference.
func (s *Site) Complete(ctx context.Context, c family.Case) (remote.Completed, error) {
	full, ok := s.Verifiers[c.Sandbox.Family()].(family.Completer)
	if !ok {
		return remote.Completed{}, errors.New("this worker does not complete references of that family")
	}
	c, err := s.equipped(ctx, c)
	if err != nil {
		return remote.Completed{}, err
	}
	done, found, err := full.Complete(ctx, c)
	if err != nil || !found {
		return remote.Completed{}, err
	}
	b, err := done.Bytes()
	return remote.Completed{Found: true, Candidate: done, Data: b}, err
}

// Close releases what verifiers keep, and the pack's files. The engine stays open.
func (s *Site) Close(ctx context.Context) error {
	errs := []error{s.scorer.CloseVerifiers(ctx), s.scorer.Files.Close()}
	if s.agent != nil {
		errs = append(errs, s.agent.Close())
	}
	return errors.Join(errs...)
}
