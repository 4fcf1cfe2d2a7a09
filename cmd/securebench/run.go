package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/remote"
	"securebench/internal/remote/service"
	"securebench/internal/run"
)

// runFlags are the flags of run; they override the tester YAML.
type runFlags struct {
	config, envFile, agent, outputDir string
	replayMap                         string
	failOn, allow                     []string
	conditions                        *failConditions // of failOn
	progress                          string
	limit, workers, attempts, retries int
	resume                            string
	choice                            choiceFlags
	preview                           previewFlags
	force, quiet, strict, keepGoing   bool
	blind                             bool // agents get no files
	showCommands, showAgent           bool
	harness, model                    string
	baseURL, api, judge               string
	effort, systemPrompt, answerBy    string
	maxTokens, fewShot                int
	temperature                       float64
	prepare, shard                    int
	hub, metrics                      string
	inflight                          int
	lease                             time.Duration
}

const runHelp = `Run an agent on a benchmark pack and score its candidates.

PACK is a folder with manifest.yaml and tasks.jsonl, a manifest, or a tester
YAML. A tester YAML configures the harness that runs the agent; without one,
--harness names an agent of "securebench agent list" and --model its model, --model
by itself a model to ask, or --agent a built-in agent:

  oracle       submits each row's reference solution (must score 100%)
  null         submits nothing (must score 0)
  replay:FILE  submits candidates from a JSONL file of {"task_id",
               "text"|"patch"}, or the answers in a file of
               lm-evaluation-harness (--log_samples), Inspect (JSON),
               simple-evals or a data set, or lines of an id, a tab and a
               text; --replay-map names columns

--resume continues an interrupted run. A record is kept if it is intact, was
written by this run, has its candidate in the store, and was made from the same
pack, configuration, images and build. All other attempts are run again; if only
the verification failed, only the verification is repeated. If an input changed,
--resume stops and names it; --resume=rerun-changed keeps the records that the
change does not affect.

If the agents of the first 5 attempts all end with an error and leave no candidate,
the run stops, unsigned, with exit code 130. So does a shorter run if all its agents
do. With --keep-going it continues; a resume of such a run repeats these attempts.

--prepare N plans a run in N shards and runs nothing; the same command with --shard I
in its place runs shard I of it, from 0 to N-1, on any machine that has the output
directory. A shard writes to OUTPUT/shards and signs nothing, and continues what an
earlier start of it left. When all have ended, "securebench merge OUTPUT" joins them.

Records are written to OUTPUT/candidates.jsonl, one line per task and attempt.
OUTPUT is run.output_dir of the tester YAML, or runs/FOLDER, where FOLDER is the
name of the pack's folder. The summary is the last line on standard output;
everything else goes to standard error.`

const runExamples = `  # Check a pack with its reference solutions: every task must pass.
  securebench run packs/demo --agent oracle

  # Run the agent that a tester YAML describes, four tasks at a time.
  securebench run --config tester.yaml --workers 4

  # Ask a model; the key is OPENAI_API_KEY, in the environment or in .env.
  securebench run packs/gsm8k-sample --model gpt-5.5

  # Run an agent by its name; its program comes from the registry.
  securebench run packs/quixbugs --harness opencode --model gpt-5.5 --limit 1

  # Ask a model on a server of this machine, such as Ollama.
  securebench run packs/gsm8k-sample --model llama3.2 --base-url http://127.0.0.1:11434

  # Resume an interrupted run.
  securebench run --config tester.yaml --workers 4 --resume

  # What would run, with what, and about how long?
  securebench run --config tester.yaml --sample 50 --dry-run

  # Run it in 8 parts, also on other machines, and join them.
  securebench run packs/demo --agent oracle -o runs/demo --prepare 8
  securebench run packs/demo --agent oracle -o runs/demo --shard 0
  securebench merge runs/demo

  # Score answers that a model has already given.
  securebench run packs/gsm8k-sample --agent replay:answers.jsonl -o runs/replay

  # Score the samples that lm-evaluation-harness wrote of the same rows.
  securebench run packs/gsm8k --agent replay:samples_gsm8k.jsonl --replay-map 'id=GSM8K/{doc_id}'`

func (a *app) runCommand(f *runFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "run {PACK | --config TESTER.yaml}", Short: "Run an agent on a pack and score it",
		Long: runHelp + "\n" + choiceHelp, Example: runExamples, Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.options(c, args)
			if err != nil {
				return err
			}
			o.OpenEngine, o.Proxy, o.Config.Getenv = a.engine(), a.proxy, a.around().Getenv
			if f.preview.dryRun {
				return a.preview(c.Context(), f, o)
			}
			return a.executeRun(c.Context(), f, o)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.config, "config", "c", "", "tester YAML `FILE`")
	fl.StringVar(&f.agent, "agent", "", "`AGENT`: oracle, null or replay:FILE instead of the harness")
	fl.StringVar(&f.replayMap, "replay-map", "", "with --agent replay:FILE: the `COLUMNS` of answers, such as id=COLUMN,text=COLUMN (also attempt, stop_reason)")
	fl.StringVar(&f.harness, "harness", "", "run this agent, `NAME[@VERSION]` of securebench agent list, with --model")
	fl.StringVar(&f.model, "model", "", "the agent's `MODEL`; without an agent, ask it (text families, code_completion)")
	fl.StringVar(&f.baseURL, "base-url", "", "with --model: the `URL` of its provider (default the vendor's)")
	fl.StringVar(&f.api, "api", "", "with --model: `API` is responses, chat, messages or gemini (default responses, or chat with --base-url; an agent's first)")
	fl.IntVar(&f.maxTokens, "max-tokens", 0, "with --model: at most `N` tokens in an answer (default the provider's)")
	fl.Float64Var(&f.temperature, "temperature", 0, "with --model: `T` from 0 to 2 (default the provider's)")
	fl.StringVar(&f.effort, "reasoning-effort", "", "with --model: `EFFORT` of its reasoning: none, minimal, low, medium, high, xhigh or max")
	fl.StringVar(&f.systemPrompt, "system-prompt", "", "with --model: `FILE` with the system prompt")
	fl.IntVar(&f.fewShot, "few-shot", 0, "with --model: show `N` rows of each family with their solutions before each question, and leave them out")
	fl.StringVar(&f.answerBy, "answer-by", "", "with --model: choose by `HOW` likely it holds each choice: loglikelihood (their sums) or loglikelihood_norm (per character)")
	fl.StringVar(&f.judge, "judge", "", "let this `MODEL` decide rubrics in words, instead of that of the tester YAML's judge section")
	fl.BoolVar(&f.blind, "without-assets", false, "give agents none of their rows' files, and label the records ablated")
	fl.StringVar(&f.envFile, "env-file", config.DefaultEnvFile, "`FILE` of KEY=VALUE lines; variables that are set keep their values")
	fl.IntVar(&f.limit, "limit", -1, "run only the first `N` of the rows")
	f.choice.add(c)
	f.preview.add(c)
	fl.StringVarP(&f.outputDir, "output-dir", "o", "", "output `DIR`, relative to the current one")
	fl.IntVarP(&f.workers, "workers", "w", 0, "run `N` tasks concurrently (default what the machine holds, at most min(cores, 4))")
	fl.IntVar(&f.attempts, "attempts", 0, "`N` independent attempts at each task (default 1)")
	fl.IntVar(&f.retries, "retries", -1, "`N` retries of an attempt after an infrastructure error (default 2)")
	fl.StringVar(&f.resume, "resume", "", "resume the run in the output directory; the `HOW` rerun-changed resumes it even if inputs changed")
	fl.Lookup("resume").NoOptDefVal = string(run.Resume)
	fl.BoolVar(&f.force, "force", false, "move an existing run in the output directory to history/")
	fl.IntVar(&f.prepare, "prepare", 0, "plan a run in `N` shards, and run nothing")
	fl.IntVar(&f.shard, "shard", 0, "run shard `I` of a run that was prepared, from 0")
	fl.BoolVar(&f.strict, "strict", false, "refuse a pack that has warnings")
	fl.BoolVar(&f.keepGoing, "keep-going", false, "continue, and sign, although the agents of the first 5 attempts, or of all, fail")
	fl.StringArrayVar(&f.failOn, "fail-on", nil, "exit with code 20 on `WHAT`: failed, pending, any, 'rate<0.8', 'judged-rate<0.8', 'truncated>1%', 'empty>1%', 'refused>1%' or regression:RUN (repeatable)")
	fl.StringSliceVar(&f.allow, "allow", nil, "with --fail-on regression:RUN: compare although `WHAT` differs: verifier, images, limits, judge")
	fl.StringVar(&f.progress, "progress", "auto", "`MODE`: auto, plain, json or none")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; the same as --progress none")
	fl.BoolVar(&f.showCommands, "show-command-output", false, "show the output of the agent's commands")
	fl.Lookup("limit").DefValue, fl.Lookup("retries").DefValue = "0", "0" // not shown: the help text names the defaults
	fl.BoolVar(&f.showAgent, "show-agent-output", false, "show the agent's output, at most 64 KiB per task, and write agent-trace.log")
	fl.StringVar(&f.hub, "hub", "", "let workers run the sandboxes, which connect to `ADDRESS:PORT` and the next port (see securebench worker)")
	fl.IntVar(&f.inflight, "inflight", 0, fmt.Sprintf("with --hub: `N` attempts are queued or on workers (default %d)", service.DefaultInflight))
	fl.StringVar(&f.metrics, "metrics", "", "with --hub: serve metrics for Prometheus at `ADDRESS:PORT` of this machine")
	fl.DurationVar(&f.lease, "lease", 0, fmt.Sprintf("with --hub: after `TIME` without a sign of life, a worker's tasks go to others (default %s)", remote.DefaultLease))
	a.addEngineFlag(c)
	a.addLogFlag(c)
	return c
}

// check rejects invalid flag values.
func (f *runFlags) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	switch {
	case changed("resume") && f.resume != string(run.Resume) && f.resume != string(run.ResumeChanged):
		return usageError(fmt.Errorf("--resume is %q, want nothing or %s", f.resume, run.ResumeChanged))
	case changed("resume") && f.force:
		return usageError(errors.New("give either --resume to continue the existing run or --force to move it to history/, not both"))
	case changed("limit") && f.limit < 1:
		return usageError(errors.New("--limit must be 1 or more: without it all rows are run"))
	case changed("workers") && f.workers < 1, changed("attempts") && f.attempts < 1:
		return usageError(errors.New("--workers and --attempts must be 1 or more"))
	case changed("retries") && f.retries < 0:
		return usageError(errors.New("--retries must be 0 or more"))
	}
	if err := f.checkShards(changed); err != nil {
		return usageError(err)
	}
	if err := f.checkHub(changed); err != nil {
		return err
	}
	var err error
	if f.conditions, err = parseFailOn(f.failOn); err != nil {
		return err
	}
	if err := f.conditions.Allow(f.allow); err != nil {
		return err
	}
	if err := f.preview.check(); err != nil {
		return err
	}
	if err := f.choice.check(); err != nil {
		return err
	}
	if _, err := progress.ParseMode(f.progress); err != nil {
		return usageError(fmt.Errorf("--progress: %w", err))
	}
	return nil
}

// checkShards rejects flags that do not go with a part of a run.
func (f *runFlags) checkShards(changed func(string) bool) error {
	which := "--prepare"
	switch {
	case changed("prepare") && changed("shard"):
		return errors.New("give --prepare to plan shards or --shard to run one, not both")
	case changed("prepare") && (f.prepare < 1 || f.prepare > record.MaxShards):
		return fmt.Errorf("--prepare must be 1 to %d", record.MaxShards)
	case changed("shard") && f.shard < 0:
		return errors.New("--shard must be 0 or more")
	case changed("shard") && (changed("resume") || f.force):
		return errors.New("--shard continues what earlier starts of it left: leave out --resume and --force")
	case changed("shard"):
		which = "--shard"
	case !changed("prepare"):
		return nil
	}
	if len(f.failOn) > 0 || f.preview.dryRun {
		return fmt.Errorf("--fail-on and --dry-run are about a whole run: leave them out with %s", which)
	}
	return nil
}

// checkHub rejects flags that do not go together with --hub.
func (f *runFlags) checkHub(changed func(string) bool) error {
	switch {
	case f.hub == "" && (changed("inflight") || changed("lease") || changed("metrics")):
		return usageError(errors.New("--inflight, --lease and --metrics are for --hub"))
	case f.hub == "":
		return nil
	case changed("prepare") || changed("shard"):
		return usageError(errors.New("give --hub, or --prepare and --shard, not both: a run has workers or shards"))
	case changed("inflight") && f.inflight < 1:
		return usageError(errors.New("--inflight must be 1 or more"))
	case changed("lease") && f.lease < time.Second:
		return usageError(errors.New("--lease must be 1s or more"))
	case changed("metrics") && remote.CheckLoopback(f.metrics) != nil:
		return usageError(remote.CheckLoopback(f.metrics))
	case f.showAgent:
		return usageError(errors.New("--show-agent-output is for agents on this machine: with --hub, their output is in the records"))
	}
	return nil
}
