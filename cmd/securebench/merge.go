package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/merge"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/run"
)

const mergeHelp = `Join the shards of a run, and sign it if it is complete.

RUN is the output directory of a run that was prepared with "securebench run
--prepare". All shards in it are joined, and those in SHARD, which are folders of
shards that were copied from elsewhere.

A shard of another run or with other inputs is refused, and one that is still
running; shards whose engines differ in more than the kernel are refused. Each
record is checked as "run --resume" does, and those that are not good are dropped,
with a reason. If a shard ran more than once, the record of its last start counts,
whatever the records say. The folders of shards go to history/, and run.json lists
them.

A merge that was killed can be repeated. If attempts have no record, nothing is
signed, the shards that lack them are named, and the exit code is 130: run these
shards again, the rest of the run here with --resume, or plan new shards with
--prepare.`

func (a *app) mergeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "merge RUN [SHARD...]", Short: "Join the shards of a run and sign it",
		Long: mergeHelp, Args: cobra.MinimumNArgs(1),
		Example: "  securebench merge runs/demo\n  securebench merge runs/demo /mnt/other/runs/demo/shards/*",
		RunE: func(c *cobra.Command, args []string) error {
			return a.merge(c.Context(), args[0], args[1:])
		},
	}
}

func (a *app) merge(ctx context.Context, dir string, shards []string) error {
	var o run.Options
	if err := new(runFlags).openKeyring(&o); err != nil {
		return err
	}
	res, err := merge.Run(ctx, merge.Options{Dir: dir, Shards: shards, Keyring: o.Keyring, Notice: a.notice})
	if err != nil {
		return err
	}
	for _, p := range res.Parts {
		for reason, n := range p.Dropped {
			a.say("warning: shard %s: not kept: %s: %s", p.Shard(), run.DropReason(reason), console.Plural(n, "record"))
		}
	}
	if res.Complete() && res.Broken == nil && res.Summary.Infrastructure == 0 {
		end := progress.New(progress.Plain, a.stderr, progress.Options{})
		end.Event(a.ending(dir, res.Attempts, res.Summary))
		_ = end.Close() // the stream remembers write errors
	}
	a.summaryLine(res.Summary, res.Records, res.LeftOut)
	switch sum := res.Summary; {
	case !res.Complete():
		return fault.Errorf(fault.Interrupted, "%d of %d attempts have a record, and the run is not signed; %s", sum.Total, sum.Planned.All, missing(res))
	case res.Broken != nil:
		return fault.Errorf(fault.Interrupted, "not signed: %s; correct the agent or its settings and run it with --resume (or also with --keep-going to score it as it is)", firstLine(res.Broken))
	default:
		return unsettled(sum, res.Records, fmt.Sprintf("run it with --resume and -o %s", redact.Quote(dir)))
	}
}

// maxMissing is how many shards are named.
const maxMissing = 100

// missing says what to run again.
func missing(res *merge.Result) string {
	if len(res.Missing) == 0 {
		return "what is missing is no shard's: run it with --resume"
	}
	var names []string
	for _, s := range res.Missing[:min(len(res.Missing), maxMissing)] {
		names = append(names, strconv.Itoa(s))
	}
	if n := len(res.Missing) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("shards to run again: %s (or run the rest here with --resume, or plan new shards with --prepare)", strings.Join(names, ", "))
}
