package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/agent/setup"
	"securebench/internal/config"
	"securebench/internal/console"
	"securebench/internal/digest"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/judge"
	"securebench/internal/judge/agreement"
	"securebench/internal/judge/provider"
	"securebench/internal/redact"
	"securebench/internal/scoring"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// judgeFlags say which judge a command asks that is no run.
type judgeFlags struct{ model, envFile string }

func (f *judgeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.model, "judge", "", "ask this `MODEL` as the judge, instead of that of the tester YAML's judge section")
	fl.StringVar(&f.envFile, "env-file", config.DefaultEnvFile, "`FILE` of KEY=VALUE lines with the judge's key; variables that are set keep their values")
}

// settings returns the judge that the flags and a tester YAML name, nil for none.
func (f *judgeFlags) settings(t *config.Tester) (*provider.Settings, error) {
	section := config.Judge{}
	if t != nil {
		section = t.Judge
	}
	s, ps := provider.Parse(provider.WithModel(section, f.model))
	return s, fault.As(fault.Config, ps.Err())
}

// around returns what surrounds the judge.
func (f *judgeFlags) around(notice func(string)) (provider.Around, error) {
	lookup, err := loadEnv(f.envFile)
	return provider.Around{LookupEnv: lookup, Secrets: &redact.Registry{}, Notice: notice}, fault.As(fault.Config, err)
}

// newSalt returns a salt for questions that no record keeps.
func newSalt() (s digest.Salt) {
	_, _ = rand.Read(s[:]) // never fails: it ends the program instead
	return s
}

// tryJudge tries a judge on a pack, and returns it for the pack's own solutions. It is nil
// if none is configured or no row asks for one.
func (a *app) tryJudge(ctx context.Context, f judgeFlags, t *config.Tester, w *workload.Workload) (judge.Judge, error) {
	s, err := f.settings(t)
	if err != nil || s == nil || !w.AsksJudge() {
		return nil, err
	}
	s.Unchecked = false // it is tried whatever a run would do
	around, err := f.around(a.notice)
	if err != nil {
		return nil, err
	}
	var opened scoring.Scorer
	_, err = setup.OpenJudge(ctx, &opened, setup.JudgeConfig{Settings: s, Around: around, Work: w, Salt: newSalt(), Workers: judgeWorkers, Say: a.notice})
	if n := w.Judged(); err == nil && n > 0 {
		a.notice(fmt.Sprintf("asking the judge about the reference and about a meaningless word, of %s: at most %s", console.Plural(n, "row"), console.Plural(2*w.Decisions()*s.Votes, "request")))
	}
	return opened.Judge, err
}

// judgeWorkers is how many questions a judge gets at the same time.
const judgeWorkers = 8

const judgeCheckHelp = `Compare a judge with people, on labels that people gave to texts.

FILE has JSON lines. Each is about a task of PACK that asks for a judge, and has a text
and whether it passed, by people:

  {"task_id": "t1", "text": "…", "passed": true}

or two texts and which of them people prefer, 1 or 2, or 0 for neither:

  {"task_id": "t1", "texts": ["…", "…"], "preferred": 1}

The judge is asked about each as in a run; about two texts in both orders. Shown are how
often it decides as people do, with Wilson's 95 % interval, and Cohen's kappa, which
leaves out what chance would agree on; what it lets pass that people fail; whether it
follows the place or the length of a text; and what that cost. The digest can be written
into judge.trusted of the tester YAML: reports then show it beside the judge.

PACK is a folder, a manifest or a tester YAML, whose judge section says which judge.`

type judgeCheckFlags struct {
	judgeFlags
	labels string
	json   bool
}

func (a *app) judgeCommand() *cobra.Command {
	c := &cobra.Command{Use: "judge", Short: "Compare a judge with people", Long: "Find out how far a judge, a model that decides on candidates, can be trusted.",
		Args: cobra.NoArgs, RunE: subcommand.Missing, Example: "  securebench judge check tester.yaml --labels labels.jsonl"}
	var f judgeCheckFlags
	check := &cobra.Command{
		Use: "check PACK --labels FILE", Short: "Compare a judge with people, on labels that people gave to texts",
		Long: judgeCheckHelp, Args: subcommand.Need("PACK"),
		Example: "  securebench judge check tester.yaml --labels labels.jsonl\n  securebench judge check packs/demo --judge gpt-5.5 --labels labels.jsonl --json",
		RunE: func(c *cobra.Command, args []string) error {
			if f.labels == "" {
				return usageError(errors.New("give --labels FILE"))
			}
			return a.judgeCheck(c.Context(), args[0], f)
		},
	}
	f.add(check)
	check.Flags().StringVar(&f.labels, "labels", "", "`FILE` of JSON lines with people's decisions")
	check.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of a table")
	c.AddCommand(check)
	return c
}

func (a *app) judgeCheck(ctx context.Context, arg string, f judgeCheckFlags) error {
	loc, tester, err := subcommand.Locate(arg)
	if err != nil {
		return err
	}
	s, err := f.settings(tester)
	if err == nil && s == nil {
		err = usageError(errors.New("no judge given: give --judge MODEL, or a tester YAML with a judge section"))
	}
	if err != nil {
		return err
	}
	labels, err := agreement.ReadLabels(f.labels)
	if err != nil {
		return fault.As(fault.Usage, err)
	}
	w, err := workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{})
	if err != nil {
		return err
	}
	questions, err := judgeQuestions(ctx, w)
	if err != nil {
		return err
	}
	around, err := f.around(a.notice)
	if err != nil {
		return err
	}
	client, err := provider.Open(ctx, s, around)
	if err != nil {
		return err
	}
	panel, about := setup.NewPanel(s, client, "", newSalt())
	r := &agreement.Result{Pack: w.Manifest.ID, Model: about.Model, API: about.API, Votes: about.Votes, Decide: about.Decide, Prompt: about.Prompt}
	ask := func(task string) (judge.Question, bool) {
		q, ok := questions[task]
		return q, ok
	}
	if err := r.Check(ctx, panel, labels, ask, judgeWorkers); err != nil {
		return a.judgeError(ctx, f.labels, err)
	}
	r.Answer = panel.Answered()
	if f.json {
		sum, err := r.Digest()
		if err != nil {
			return err
		}
		return console.WriteJSON(a.stdout, "the comparison", struct {
			Digest string            `json:"digest"`
			Result *agreement.Result `json:"result"`
		}{sum, r})
	}
	return r.WriteTable(a.stdout)
}

// judgeError says what kept a judge from being compared.
func (a *app) judgeError(ctx context.Context, labels string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fault.Errorf(fault.Interrupted, "interrupted: nothing is known of the judge")
	case errors.Is(err, judge.ErrSpent):
		return fault.Errorf(fault.Refused, "%w before every label was compared (raise judge.budget, or give fewer labels)", err)
	case errors.Is(err, agreement.ErrUnknownTask):
		return fault.As(fault.Usage, fmt.Errorf("%s: %w", redact.Quote(labels), err))
	}
	return fault.As(fault.Infrastructure, err)
}

// judgeQuestions returns what a judge is asked about each task that asks for one.
func judgeQuestions(ctx context.Context, w *workload.Workload) (map[string]judge.Question, error) {
	out := map[string]judge.Question{}
	for t, err := range w.Tasks(ctx, nil) {
		if err != nil {
			return nil, err
		}
		fam, v := w.Families[t.Family()], t.Evaluator()
		if fam.Basis(v) != verdict.Judged || fam.Canaries == nil || fam.Decisions > 1 { // or it is a pair itself
			continue
		}
		if row, _ := fam.Canaries(v); row.Task != "" {
			out[t.ID()] = row.Question
		}
	}
	return out, nil
}
