package validate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/owner"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// reference is the probe of a row's own solution. One that is a program runs
// as the oracle agent would run it, again after an infrastructure error.
func (cfg Config) reference(ctx context.Context, t task.Task, sol family.Solution, has bool) (probe, error) {
	p := probe{name: CheckReference, pass: true}
	switch {
	case !has:
		p.none = Check{Outcome: verdict.NoCandidate, Reason: verdict.CandidateMissing, Message: "the row has no reference solution"}
		return p, nil
	case sol.Command == nil && sol.Files == nil && sol.Candidate.Kind == t.Extraction().Kind:
		p.cand = &sol.Candidate
		return p, nil
	}
	err := cfg.runProgram(ctx, t, sol, &p)
	for try := 1; err != nil && !agent.Unusable(err) && try <= cfg.Retries && ctx.Err() == nil; try++ {
		err = cfg.runProgram(ctx, t, sol, &p)
	}
	return p, err
}

// runProgram runs a solution that is a program and notes what it left.
func (cfg Config) runProgram(ctx context.Context, t task.Task, sol family.Solution, p *probe) (err error) {
	w := &attempt.Local{Agent: &agent.Oracle{Runner: cfg.Runner}, Store: cfg.Store}
	defer func() {
		err = errors.Join(err, w.Release(context.WithoutCancel(ctx), record.AttemptKey{Task: t.ID(), Attempt: 1}))
	}()
	submitted, err := attempt.Solution(sol)
	if err != nil {
		return err
	}
	out, err := w.Produce(ctx, agent.Request{View: t.Agent(), Attempt: 1, Dir: "reference", Image: cfg.Images[t.Environment().Image], Captured: t.Captured(),
		Solution: submitted})
	if err != nil {
		return fmt.Errorf("running the reference solution: %w", err)
	}
	p.said = solutionSaid(out)
	switch {
	case out.Limit != "":
		p.none = Check{Outcome: verdict.Limit, Reason: commit.LimitReason(out.Limit), Message: "the reference solution ran into a limit: " + string(out.Limit)}
		if out.Limit == sandbox.TimedOut {
			p.none.Outcome = verdict.AgentTimeout
		}
	case out.Rejection != nil:
		p.none = Check{Outcome: verdict.NoCandidate, Reason: out.Rejection.Reason, Message: "the reference solution: " + out.Rejection.Message}
	default:
		p.cand = out.Candidate
	}
	return nil
}

// trial makes a candidate of a word; "" is the empty candidate. A tree has one
// file of that name and content in the workspace.
func (cfg Config) trial(t task.Task, word string) (*candidate.Candidate, error) {
	kind, env := t.Extraction().Kind, t.Environment()
	if kind != task.Workspace {
		c := candidate.New(kind, candidate.Given, []byte(word))
		return &c, nil
	}
	var archive bytes.Buffer
	w := candidate.NewTreeWriter(&archive, candidate.Bounds{Bytes: 1 << 10, Files: 1})
	if word != "" {
		owner := cfg.Users.Owner(t.Agent(), cfg.Images[env.Image])
		e := candidate.Entry{Path: path.Join(workspace.TargetOf(env), word)[1:], Mode: 0o644, UID: owner.UID, GID: owner.GID, Size: int64(len(word))}
		if err := w.Add(e, strings.NewReader(word)); err != nil {
			return nil, err
		}
	}
	if _, err := w.Close(); err != nil {
		return nil, err
	}
	c, err := cfg.Store.Put(kind, candidate.Given, &archive)
	return &c, err
}

// scratch is a candidate store in a temporary folder, which is made for the
// first candidate.
type scratch struct {
	mu    sync.Mutex
	dir   string
	store *candidate.Store
}

func (s *scratch) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	store, err := s.open()
	if err != nil {
		return candidate.Candidate{}, fmt.Errorf("making a temporary folder for candidates: %w", err)
	}
	return store.Put(kind, origin, content)
}

// Find returns a stored candidate.
func (s *scratch) Find(c candidate.Candidate) (candidate.Candidate, error) {
	store, err := s.open()
	if err != nil {
		return c, err
	}
	return store.Find(c)
}

func (s *scratch) open() (_ *candidate.Store, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		if s.dir, err = owner.MakeFolder("validate"); err != nil {
			return nil, err
		}
	}
	if s.store == nil {
		s.store, err = candidate.OpenStore(s.dir)
	}
	return s.store, err
}

// Close removes the folder.
func (s *scratch) Close() error {
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
