package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/produce"
	"securebench/internal/task"
)

// spender is an agent whose budget of the run is spent at one task, while another that
// needs no more is under way.
type spender struct {
	paid
	works, spent chan struct{} // closed when the former has begun and the latter was left

	mu    sync.Mutex
	over  bool
	after []string // tasks that began when the budget was spent
}

func (s *spender) Prepare(ctx context.Context, req agent.Request, out agent.Output) (agent.Production, error) {
	p, err := s.paid.Prepare(ctx, req, out)
	return &spending{p, s, req.View.ID()}, err
}

type spending struct {
	agent.Production
	*spender
	task string
}

func (s *spending) Run(ctx context.Context) (produce.Result, error) {
	s.mu.Lock()
	if s.over {
		s.after = append(s.after, s.task)
	}
	s.mu.Unlock()
	switch s.task {
	case "works":
		close(s.works)
		<-s.spent
	case "spent":
		<-s.works
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		return produce.Result{}, fmt.Errorf("asking: %w", produce.ErrSpent)
	}
	return s.Production.Run(ctx)
}

func (s *spending) Close(ctx context.Context) error {
	if s.task == "spent" {
		close(s.spent)
	}
	return s.Production.Close(ctx)
}

// TestSpent: when the budget of the run is spent, attempts that are under way and need
// nothing more are recorded, the one that does has no record, and no other begins.
func TestSpent(t *testing.T) {
	b := newBench(t, answers)
	s := &spender{works: make(chan struct{}), spent: make(chan struct{})}
	b.cfg.Agent, b.cfg.Workers = s, 2
	var tasks []task.Task
	for _, id := range []string{"works", "spent", "a", "b", "c", "d"} {
		tasks = append(tasks, question(t, id, "4", `"4"`))
	}
	_, err := b.run(t.Context(), tasks...)
	if !errors.As(err, new(*pipeline.SpentError)) || !errors.Is(err, produce.ErrSpent) {
		t.Errorf("the run ends with %v", err)
	}
	var recorded []string
	for _, e := range b.entries() {
		recorded = append(recorded, e.TaskID)
	}
	if !slices.Contains(recorded, "works") || slices.Contains(recorded, "spent") || s.after != nil {
		t.Errorf("records of %q; agents that began afterwards: %q", recorded, s.after)
	}
}
