package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/progress"
	"securebench/internal/redact"
)

// runFlags are the flags of run; they win over the tester YAML.
type runFlags struct {
	config, envFile, agent, outputDir string
	failOn, progress                  string
	limit, workers, attempts, retries int
	resume                            string
	force, quiet, strict              bool
	showCommands, showAgent           bool
}

const runHelp = `Run an agent over a benchmark pack and score what it hands in.

PACK is a folder with manifest.yaml and tasks.jsonl, a manifest, or a tester
YAML. A tester YAML says which harness runs the agent; without one, --agent
names an agent that needs none:

  oracle       the rows' own reference solutions (must score 100%)
  null         nothing (must score 0)
  replay:FILE  candidates from a JSONL file of {"task_id", "text"|"patch"}

A run that was cut short goes on with --resume. It keeps every record that can
be checked: whole, written by this run, with its candidate in the store, and
made of the pack, configuration, images and build that are there now. All else
is run again. If an input changed, --resume is refused and says which one;
--resume=rerun-changed keeps what the change does not touch.

Records go to OUTPUT/candidates.jsonl, one line per task and attempt; OUTPUT
is run.output_dir of the tester YAML, or without one runs/FOLDER, after the
pack's folder. The last line on standard output is the summary; everything else
is on standard error.`

const runExamples = `  # A pack's reference solutions: every task must pass.
  securebench run packs/demo --agent oracle

  # The agent that a tester YAML describes, four tasks at a time.
  securebench run --config tester.yaml --workers 4

  # Go on where a former run was interrupted.
  securebench run --config tester.yaml --workers 4 --resume

  # Score answers that a model gave elsewhere.
  securebench run packs/gsm8k-sample --agent replay:answers.jsonl -o runs/replay`

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run {PACK | --config TESTER.yaml}", Short: "Run an agent over a pack and score it",
		Long: runHelp, Example: runExamples, Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := a.newRunner(c, f, args)
			if err != nil {
				return err
			}
			return r.run(c.Context())
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.config, "config", "c", "", "tester YAML")
	fl.StringVar(&f.agent, "agent", "", "oracle, null or replay:FILE instead of the harness")
	fl.StringVar(&f.envFile, "env-file", config.DefaultEnvFile, "file of KEY=VALUE lines; variables that are set already win")
	fl.IntVar(&f.limit, "limit", -1, "run only the first N rows")
	fl.StringVarP(&f.outputDir, "output-dir", "o", "", "output directory, relative to the current one")
	fl.IntVarP(&f.workers, "workers", "w", 0, "tasks that run at the same time (default min(cores, 4))")
	fl.IntVar(&f.attempts, "attempts", 0, "independent attempts at every task (default 1)")
	fl.IntVar(&f.retries, "retries", -1, "retries of an attempt after an infrastructure error (default 2)")
	fl.StringVar(&f.resume, "resume", "", "go on with the run in the output directory; with =rerun-changed also if inputs changed")
	fl.Lookup("resume").NoOptDefVal = resumeStrict
	fl.BoolVar(&f.force, "force", false, "move a run that is in the output directory to history/")
	fl.BoolVar(&f.strict, "strict", false, "refuse a pack that there is a warning about")
	fl.StringVar(&f.failOn, "fail-on", "", "exit with code 20 when a task failed, is pending, or either: failed, pending, any")
	fl.StringVar(&f.progress, "progress", "auto", "auto, plain, json or none")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; the same as --progress none")
	fl.BoolVar(&f.showCommands, "show-command-output", false, "show the output of the agent's commands")
	fl.Lookup("limit").DefValue, fl.Lookup("retries").DefValue = "0", "0" // hides them: the text says what holds
	fl.BoolVar(&f.showAgent, "show-agent-output", false, "show the agent's output, 64 KiB a task at most, and write agent-trace.log")
	a.addLogFlag(c)
	return c
}

// resumeCommand is what the operator types to go on with this run.
func (a *app) resumeCommand() string {
	words := []string{"securebench"}
	for i, arg := range a.args {
		if arg == "--force" || arg == "--resume" || strings.HasPrefix(arg, "--force=") || strings.HasPrefix(arg, "--resume=") {
			continue
		}
		words = append(words, quote(arg))
		if i == 0 { // behind "run", since what follows a -- is no flag
			words = append(words, "--resume")
		}
	}
	return strings.Join(words, " ")
}

// quote makes a word that a shell takes as it is. What a terminal would not
// show is written out in the quotes of bash and its kin, byte by byte.
func quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%") == "" {
		return word
	}
	if redact.Escape(word) == word {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(word) {
		if c > ' ' && c < 0x7f && c != '\'' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return "$'" + b.String() + "'"
}

// check refuses flag values that no run can have.
func (f *runFlags) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	switch {
	case changed("resume") && f.resume != resumeStrict && f.resume != resumeChanged:
		return coded(exitUsage, fmt.Errorf("--resume is %q, want nothing or %s", f.resume, resumeChanged))
	case changed("resume") && f.force:
		return coded(exitUsage, errors.New("give --resume to go on with the former run or --force to move it away, not both"))
	case changed("limit") && f.limit < 0:
		return coded(exitUsage, errors.New("--limit must be 0 or more"))
	case changed("workers") && f.workers < 1, changed("attempts") && f.attempts < 1:
		return coded(exitUsage, errors.New("--workers and --attempts must be 1 or more"))
	case changed("retries") && f.retries < 0:
		return coded(exitUsage, errors.New("--retries must be 0 or more"))
	}
	switch f.failOn {
	case "", "failed", "pending", "any":
	default:
		return coded(exitUsage, fmt.Errorf("--fail-on is %q, want failed, pending or any", f.failOn))
	}
	if _, err := progress.ParseMode(f.progress); err != nil {
		return coded(exitUsage, fmt.Errorf("--progress: %w", err))
	}
	return nil
}
