package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"securebench/internal/agent/model"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/gateway/relay"
	"securebench/internal/judge"
	"securebench/internal/judge/provider"
	"securebench/internal/pipeline/record"
	"securebench/internal/scoring"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// JudgeSettings are what the tester YAML says of a judge.
type JudgeSettings = provider.Settings

// JudgeConfig is what a judge needs to decide for a run.
type JudgeConfig struct {
	Settings *JudgeSettings
	Around   provider.Around
	Work     *workload.Workload
	// AgentModel is the model that the agents ask, "" if it is not known.
	AgentModel string
	Salt       digest.Salt
	// Journal and Accounts keep what is answered and what it took; nil keeps nothing.
	Journal  *model.Journal
	Accounts *record.Accounts
	// Used is what an earlier part of the run has used.
	Used map[string]int64
	// Former is what an earlier part of the run knew of its judge; nil for none.
	Former *record.Judging
	// Answered is the model that judged in an earlier part of the run, "" if none did.
	Answered string
	// Left reports whether an attempt at a task is left to make; nil is always.
	Left    func(task string) bool
	Workers int
	Say     func(string) // gets a line
}

// OpenJudge opens the judge for the families' verifiers, which are made afterwards, and
// tries it on the pack unless that was done. It returns what run.json says of it, nil if
// no row that is left needs a judge. The judge is refused if it cannot be trusted.
func OpenJudge(ctx context.Context, s *scoring.Scorer, c JudgeConfig) (*record.Judging, error) {
	draw := judge.Draw{Seed: c.Salt.Derive("judge canaries")}
	needed := false
	for t, err := range c.Work.Tasks(ctx, nil) {
		if err != nil {
			return nil, err
		}
		fam, v := c.Work.Families[t.Family()], t.Evaluator()
		if !fam.AsksJudge(v) {
			continue
		}
		needed = needed || c.Left == nil || c.Left(t.ID())
		if fam.Canaries == nil {
			continue
		}
		if row, ok := fam.Canaries(v); ok {
			draw.Add(row)
		}
	}
	if !needed {
		return c.Former, nil
	}
	client, err := provider.Open(ctx, c.Settings, c.Around)
	if err != nil {
		return nil, err
	}
	if c.Accounts != nil {
		client.Keep(c.Journal, c.Accounts, c.Used)
	}
	panel, about := NewPanel(c.Settings, client, c.AgentModel, c.Salt)
	if c.Former != nil {
		about.Answered, about.Canaries = c.Former.Answered, c.Former.Canaries
	}
	panel.Expect(cmp.Or(about.Answered, c.Answered))
	if !c.Settings.Unchecked && about.Canaries == nil {
		if about.Canaries, err = tryJudge(ctx, panel, draw.Rows(), c); err != nil {
			return nil, err
		}
		about.Answered = panel.Answered()
	}
	s.Judge = panel
	c.Work.Families = c.Work.Families.WithJudge(func() (verdict.Reason, string) {
		if client.Spent() {
			return verdict.Budget, "the judge's budget is spent"
		}
		return "", ""
	})
	return about, nil
}

// tryJudge tries a judge on rows, and refuses it if it cannot be trusted.
func tryJudge(ctx context.Context, p *judge.Panel, rows []judge.Specimen, c JudgeConfig) (*judge.Trial, error) {
	c.Say(fmt.Sprintf("trying the judge %s on %d rows of the pack", c.Settings.Model.Model, len(rows)))
	trial, err := p.Try(ctx, rows, c.Workers)
	if err != nil {
		return nil, untried(ctx, fmt.Errorf("%s: trying the judge: %w", c.Settings.Section.Pos, err))
	}
	if why := trial.Fault(); why != "" {
		said := fmt.Sprintf("%s: the judge %s is not trusted: %s (choose another judge; judge.canaries: off runs with this one and labels every verdict)\n%s",
			c.Settings.Section.Pos, c.Settings.Model.Model, why, trial.Table())
		return nil, fault.Errorf(fault.Problems, "%s", strings.TrimRight(said, "\n"))
	}
	c.Say("the judge " + c.Settings.Model.Model + " is trusted: " + trial.String())
	return trial, nil
}

// untried says whose fault it is that a judge could not be tried.
func untried(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fault.As(fault.Interrupted, err)
	case errors.Is(err, judge.ErrSpent):
		return fault.Errorf(fault.Config, "%w before it was tried (raise judge.budget)", err)
	case errors.Is(err, judge.ErrChanged), errors.Is(err, relay.ErrRejected):
		return fault.As(fault.Config, err)
	}
	return fault.As(fault.Infrastructure, err)
}

// NewPanel returns a judge, and what run.json says of it.
func NewPanel(s *JudgeSettings, asker judge.Asker, agentModel string, salt digest.Salt) (*judge.Panel, *record.Judging) {
	about := &record.Judging{Model: s.Model.Model, API: s.Model.API, Effort: s.Model.Effort, Server: digest.Bytes([]byte(s.Model.BaseURL)), Votes: s.Votes, Decide: s.Decide(), Prompt: judge.PromptVersion, Trusted: s.Trusted, Labels: []string{}}
	if s.Unchecked {
		about.Labels = append(about.Labels, verdict.JudgeUnchecked)
	}
	if provider.Related(s.Model.Model, agentModel) {
		about.Labels = append(about.Labels, verdict.SelfJudged)
	}
	return about.Panel(asker, salt), about
}
