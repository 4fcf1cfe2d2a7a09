package run

import (
	"context"

	"securebench/internal/agent/setup"
	"securebench/internal/fault"
)

// judgedHere refuses a judge where other processes score: only this one has its key.
func (r *Run) judgedHere() error {
	var how string
	switch {
	case r.Judge == nil:
		return nil
	case r.Hub != nil:
		how = "--hub"
	case r.Prepare > 0:
		how = "--prepare"
	case r.Shard != nil:
		how = "--shard"
	default:
		return nil
	}
	return fault.Errorf(fault.Config, "%s: a judge is asked by the process that scores, and with %s others do: leave out %s, or the judge", r.Judge.Section.Pos, how, how)
}

// openJudge opens the judge if an attempt that is left needs one, and tries it first.
func (r *Run) openJudge(ctx context.Context) error {
	if r.Judge == nil {
		return nil
	}
	journal, err := r.answers.Open(r.dir)
	if err != nil {
		return classify(err)
	}
	accounts, used, err := r.answers.Accounts(r.dir, r.used)
	if err != nil {
		return classify(err)
	}
	done := r.recorded()
	c := setup.JudgeConfig{Settings: r.Judge, Work: r.work, AgentModel: r.facts().Model, Salt: r.dir.Salt(), Journal: journal, Accounts: accounts, Used: used,
		Former: r.manifest.Judge, Answered: r.judged.Answered, Left: func(task string) bool { return done[task] < r.Config.Attempts }, Workers: judgeWorkers, Say: r.Notice}
	c.Around.LookupEnv, c.Around.Secrets, c.Around.Transport, c.Around.Paces, c.Around.Notice = r.LookupEnv, &r.secrets, r.Transport, r.Paces, r.warn
	about, err := setup.OpenJudge(ctx, r.scorer, c)
	if err != nil || about == nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	r.manifest.Judge = about
	return classify(r.dir.WriteManifest(&r.manifest))
}

// judgeWorkers is how many canaries are tried at the same time.
const judgeWorkers = 8
