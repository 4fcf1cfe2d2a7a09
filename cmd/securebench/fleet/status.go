package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/remote"
)

const statusHelp = `Show the workers of a run with --hub, what they have, and what is queued.

Jobs that workers have come first that are the oldest; "straggler" means that a job has
taken three times as long as most with its role. A queue that nobody can take says why.
The run is asked with a key in this user's hub, so give the command where the run is, or
anywhere the hub's folder is.`

// maxCell bounds a name in a table, in characters.
const maxCell = 60

func (g group) statusCommand() *cobra.Command {
	var hub string
	var asJSON bool
	c := &cobra.Command{
		Use: "status --hub ADDRESS:PORT", Short: "Show workers, stragglers and what is queued", Args: cobra.NoArgs, Long: statusHelp,
		Example: "  securebench hub status --hub 127.0.0.1:4222",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := ask(c.Context(), hub, remote.Question{})
			switch {
			case err != nil:
				return err
			case asJSON:
				return g.PrintJSON(s)
			}
			return g.status(s)
		},
	}
	c.Flags().StringVar(&hub, "hub", "", "`ADDRESS:PORT` of the run")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of tables")
	return c
}

func (g group) drainCommand() *cobra.Command {
	var hub string
	c := &cobra.Command{
		Use: "drain --hub ADDRESS:PORT NAME", Short: "Let workers finish what they have and leave", Args: subcommand.Need("NAME"),
		Long: `Let workers finish what they have and leave. They take no more jobs, and end with exit
code 143 when they have none, or when their --grace is over.

NAME is that of a credential, for all workers that have joined with it, or that of one
worker in securebench hub status. Workers that start later are let in: to keep them out,
use securebench hub revoke.`,
		Example: "  securebench hub drain --hub 127.0.0.1:4222 agents",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := ask(c.Context(), hub, remote.Question{Drain: args[0]})
			switch {
			case err != nil:
				return err
			case len(s.Drained) == 0:
				return fault.Errorf(fault.Refused, "the run has no worker %s: see securebench hub status", redact.Quote(args[0]))
			}
			for _, id := range s.Drained {
				g.Say("told %s to leave", redact.Quote(id))
			}
			return nil
		},
	}
	c.Flags().StringVar(&hub, "hub", "", "`ADDRESS:PORT` of the run")
	return c
}

// ask asks a run.
func ask(ctx context.Context, addr string, q remote.Question) (remote.Status, error) {
	if addr == "" {
		return remote.Status{}, subcommand.UsageError(errors.New("give --hub ADDRESS:PORT"))
	}
	keys, err := remote.DefaultKeys()
	if err != nil {
		return remote.Status{}, fault.As(fault.Config, err)
	}
	s, err := keys.Ask(ctx, addr, q)
	if errors.Is(err, remote.ErrNoRun) {
		return s, fault.As(fault.Refused, err)
	}
	return s, fault.As(fault.Config, err)
}

// status prints how a run is.
func (g group) status(s remote.Status) error {
	t := console.NewTable(g.Stdout)
	t.Line("run %s", redact.Quote(s.RunID))
	t.Line("")
	if len(s.Workers) == 0 {
		t.Line("no worker has joined")
	} else {
		t.Line("worker\troles\tstate\tjobs\toldest\tgiven\tlast seen")
	}
	for _, w := range s.Workers {
		t.Line("%s\t%s\t%s\t%d\t%s\t%d\t%s ago", console.Cell(w.Worker, maxCell), join(w.Roles), w.State, w.Jobs, short(w.Oldest, w.Jobs > 0), w.Given, short(w.Seen, true))
	}
	t.More(s.WorkersLeftOut)
	for _, r := range s.Refused {
		t.Line("refused %s %d times: %s", console.Cell(r.Name, maxCell), r.Times, redact.EscapeShort(r.Why, 1000))
	}
	t.Line("")
	t.Line("queue\tqueued\toldest\tended\ttypical time")
	for _, q := range s.Queues {
		t.Line("%s\t%d\t%s\t%d\t%s", q.Role, q.Queued, short(q.Oldest, q.Queued > 0), q.Ended, short(q.Typical, q.Typical > 0))
	}
	for _, q := range s.Queues {
		if q.Nobody != "" {
			t.Line("nobody can take the %d jobs of %s: %s", q.Queued, q.Role, redact.EscapeShort(q.Nobody, 1000))
		}
	}
	if len(s.Jobs) > 0 {
		t.Line("")
		t.Line("task\tattempt\trole\tworker\tage\t")
	}
	for _, j := range s.Jobs {
		straggler := ""
		if j.Straggler {
			straggler = "straggler"
		}
		t.Line("%s\t%d\t%s\t%s\t%s\t%s", console.Cell(j.TaskID, maxCell), j.Attempt, j.Role, console.Cell(j.Worker, maxCell), short(j.Age, true), straggler)
	}
	t.More(s.JobsLeftOut)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	return nil
}

// short shows milliseconds in a few letters, and "-" if there are none to show.
func short(ms int64, known bool) string {
	if !known {
		return "-"
	}
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
