package results

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

const verifyHelp = `Check that a run is complete, unchanged and signed, without network, engine or pack.

RUN is the output directory of a run, a published copy of one, or a bundle.
Everything is checked: records and their hash chain, the run manifest, the signed
statement, the candidates, the operator's restricted folder if present, and
missing or extra files. Each problem is one line on standard output, with file
and line.
` + subcommand.TrustHelp + `

A signature does not prove that the operator was honest. If that matters, derive
the verdicts again with "securebench reverify".

A run that was interrupted, whose agents all failed, or that is still running, has
no statement yet. It is reported as "not finished" ("finished": false with --json),
with the number of attempts that have a record; what is there is still checked.

The exit code is 13 if anything is wrong, the run is not finished, or the signer
is unknown.`

func (g group) verifyCommand() *cobra.Command {
	var trust subcommand.Trust
	var asJSON bool
	c := &cobra.Command{
		Use: "verify RUN", Short: "Check that a run is complete, unchanged and signed",
		Long: verifyHelp, Args: subcommand.Need("RUN"),
		Example: "  securebench verify runs/demo\n  securebench verify demo.zip --key lab.pem\n  securebench verify runs/demo --any-signer --json",
		RunE: func(c *cobra.Command, args []string) error {
			return g.verify(c.Context(), args[0], trust, asJSON)
		},
	}
	trust.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of lines")
	return c
}

func (g group) verify(ctx context.Context, arg string, f subcommand.Trust, asJSON bool) (err error) {
	go func() { _, _ = record.ThisBuild() }() // it takes as long as to read a thousand records
	run, res, signer, err := subcommand.OpenVerified(ctx, arg, f, evidence.Options{Explain: true})
	if err != nil {
		return err
	}
	if err := run.Close(); err != nil {
		return err
	}
	if asJSON {
		return errors.Join(g.verifyJSON(res, signer), subcommand.Judge(signer, res))
	}
	if res.Unfinished && res.Manifest.RunID != "" {
		if err := g.headline(res); err != nil {
			return err
		}
	}
	for _, p := range res.Problems {
		fmt.Fprintln(g.Stdout, p)
	}
	if res.More > 0 {
		fmt.Fprintf(g.Stdout, "and %s more\n", console.Plural(res.More, "problem"))
	}
	if err := subcommand.Judge(signer, res); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "verified: %s of run %s, signed by %s\n", console.Plural(int(res.Records), "record"), redact.Quote(res.Manifest.RunID), signer)
	return g.remarks(res)
}

// headline says how far an unfinished run came, and what can be said of it.
func (g group) headline(res *evidence.Result) error {
	fmt.Fprintf(g.Stdout, "not finished: %s attempts of run %s have a record\n", res.Progress(), redact.Quote(res.Manifest.RunID))
	if len(res.Problems) > 0 {
		fmt.Fprintln(g.Stdout, "these problems were also found:")
		return nil
	}
	why := "it was interrupted, is still running, or its end was removed"
	if res.Manifest.AgentsFailed {
		why = "its agents all failed, so it was not signed"
	}
	fmt.Fprintln(g.Stdout, "nothing else is wrong with it: "+why)
	return g.remarks(res)
}

func (g group) remarks(res *evidence.Result) error {
	for _, note := range res.Remarks(families.All()) {
		fmt.Fprintln(g.Stdout, note)
	}
	other, err := evidence.OtherBuild(res.Manifest)
	if other != "" {
		fmt.Fprintln(g.Stdout, other)
	}
	return err
}

// introduce says on standard error what a run is of.
func (g group) introduce(m record.Manifest) {
	for _, f := range evidence.About(m) {
		g.Say("the run's %s: %s", f.Name, f.Value)
	}
}

func (g group) verifyJSON(res *evidence.Result, s evidence.Signer) error {
	problems := make([]evidence.Problem, len(res.Problems))
	for i, p := range res.Problems { // file names can contain any character
		problems[i] = evidence.Problem{File: redact.Escape(p.File), Line: p.Line, What: redact.Escape(p.What)}
	}
	m := res.Manifest
	other, err := evidence.OtherBuild(m)
	if err != nil {
		return err
	}
	return g.PrintJSON(struct {
		OK        bool               `json:"ok"`
		RunID     string             `json:"run_id"`
		Finished  bool               `json:"finished"`
		Records   int64              `json:"records"`
		Planned   int64              `json:"planned"`
		Sealed    bool               `json:"sealed"`
		Signer    string             `json:"signer"`
		Trusted   bool               `json:"trusted"`
		Published bool               `json:"published_copy"`
		LeftOut   int                `json:"left_out,omitzero"`
		Agent     string             `json:"agent,omitzero"`
		Note      string             `json:"agent_note,omitzero"`
		Model     string             `json:"model,omitzero"`
		Programs  []record.Program   `json:"programs,omitzero"`
		Engine    string             `json:"engine,omitzero"`
		Version   string             `json:"version,omitzero"`
		Verifier  string             `json:"verifier,omitzero"`
		SameBuild bool               `json:"same_build"`
		Problems  []evidence.Problem `json:"problems"`
		More      int                `json:"more_problems"`
	}{subcommand.Judge(s, res) == nil, res.Manifest.RunID, !res.Unfinished, res.Records, res.Planned(), res.Sealed, s.Entry.Key.ID, s.Known, res.Published, m.Planned.LeftOut,
		m.Agent, evidence.AgentWords(m.Agent), m.Model, m.Programs, evidence.Engine(m), m.Version, m.Digests.Verifier, other == "" && m.Digests.Verifier != "", problems, res.More})
}
