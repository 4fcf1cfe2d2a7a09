package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// elsewhere makes calls with errors as another process returns them.
type elsewhere struct{ *attempt.Local }

func (e elsewhere) Produce(ctx context.Context, req agent.Request) (attempt.Produced, error) {
	p, err := e.Local.Produce(ctx, req)
	return p, carried(err)
}

func (e elsewhere) Verify(ctx context.Context, req attempt.Verification) (family.Verdict, error) {
	v, err := e.Local.Verify(ctx, req)
	return v, carried(err)
}

// carried returns an error as it arrives: without what only this process knows.
func carried(err error) error {
	if err == nil {
		return nil
	}
	failed, ok := errors.AsType[*attempt.Error](err)
	if !ok {
		return fmt.Errorf("the error of a call is a %T", err)
	}
	b, err := attempt.Encode(failed)
	if err != nil {
		return err
	}
	var arrived attempt.Error
	if err := attempt.Decode(b, &arrived); err != nil {
		return err
	}
	return &arrived
}

// TestErrorsOfElsewhere: an error that comes from another process has the same
// consequences as one of this process: the same records, repetitions and end.
func TestErrorsOfElsewhere(t *testing.T) {
	for name, failed := range map[string]error{
		"busy":     errors.New("the engine is busy"),
		"waited":   fmt.Errorf("busy: %w", produce.ErrWaited),
		"form":     fmt.Errorf("asking: %w", agent.ErrForm),
		"row":      sandbox.Unusable(errors.New("the image has a file at /app")),
		"pack":     fmt.Errorf("reading a file: %w", workspace.ErrChanged),
		"spent":    fmt.Errorf("asking: %w", produce.ErrSpent),
		"rejected": fmt.Errorf("%w: status 401", produce.ErrRejected),
		"damaged":  fmt.Errorf("reading it: %w", candidate.ErrDamaged),
		"full":     fmt.Errorf("%w: %w", commit.ErrOutput, candidate.ErrStore),
		"unsalted": fmt.Errorf("%w: the salt is gone", record.ErrIntegrity),
	} {
		for _, tt := range []struct {
			call string
			set  func(*bench)
		}{
			{"produce", func(b *bench) { b.cfg.Agent = &paid{failRun: []error{failed, failed}} }},
			{"verify", func(b *bench) {
				b.cfg.Agent = &paid{}
				b.cfg.Verifiers = map[string]family.Verifier{"short_answer": refusing{b.cfg.Verifiers["short_answer"], failed}}
			}},
		} {
			t.Run(name+" "+tt.call, func(t *testing.T) {
				t.Parallel()
				do := func(away bool) (lines []map[string]any, retries int, class attempt.Class, output bool, message string) {
					b := newBench(t, answers)
					b.cfg.Workers, b.cfg.Retries = 1, 1
					tt.set(b)
					if away {
						b.cfg.Worker = elsewhere{&attempt.Local{Agent: b.cfg.Agent, Verifiers: b.cfg.Verifiers, Store: b.cfg.Store}}
					}
					_, err := b.run(t.Context(), []task.Task{question(t, "q", "4", `"4"`), question(t, "r", "5", `"5"`)}...)
					if err != nil {
						class, output, message = attempt.ClassOf(err), errors.Is(err, pipeline.ErrOutput), err.Error()
					}
					lines = b.lines()
					dropTimes(lines)
					for _, l := range lines {
						delete(l, "digests") // the salts differ
						delete(l, "restricted")
					}
					return lines, b.events.count("retry"), class, output, message
				}
				here, hereTried, hereClass, hereOutput, hereMessage := do(false)
				there, thereTried, thereClass, thereOutput, thereMessage := do(true)
				if d := cmp.Diff(here, there); d != "" {
					t.Errorf("records (-here +elsewhere):\n%s", d)
				}
				if hereTried != thereTried || hereClass != thereClass || hereOutput != thereOutput || hereMessage != thereMessage {
					t.Errorf("here %d, %q %q; elsewhere %d, %q %q", hereTried, hereClass, hereMessage, thereTried, thereClass, thereMessage)
				}
				if hereOutput != (name == "full" || name == "damaged" && tt.call == "verify") {
					t.Errorf("the run ends with the output directory's fault: %v", hereOutput)
				}
				if (name == "rejected") != (hereClass == attempt.Rejected) || (name == "busy" || name == "damaged" && tt.call == "produce") != (hereTried > 0) {
					t.Errorf("%d retries, the run's error is %q: %s", hereTried, hereClass, hereMessage)
				}
			})
		}
	}
}

// refusing is a verifier that fails.
type refusing struct {
	family.Verifier
	err error
}

func (r refusing) Open(ctx context.Context, c family.Case) family.Session {
	return refused{r.Verifier.Open(ctx, c), r.err}
}

type refused struct {
	family.Session
	err error
}

func (r refused) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	return family.Verdict{}, r.err
}
