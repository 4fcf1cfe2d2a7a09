package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/agent/catalogue"
	"securebench/internal/agentcheck"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

const checkHelp = `Run an agent over one small row of code_completion, as a run does, in a sandbox and
through the relay, against a provider of this program that plays a script. It needs no
key and asks no model. NAME is one of securebench agent list, or the file of a
description, such as ./mine.yaml, which need not be in the folder of your agents.

What is checked, in this order: its program can be had, it starts in the image, it asks
its provider in the API of its description, its model's tools run, what it prints can be
read, it ends by itself, it leaves a candidate, and that passes.

The exit code is 14 if one of these fails; 10, 12 or 21 if there was no run, because the
description is wrong or the program does not start, there is no engine or image, or the
registry does not answer.`

// checkFlags are those of agent check.
type checkFlags struct {
	options agentcheck.Options
	json    bool
}

func (g agentGroup) checkCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use: "check NAME[@VERSION]", Short: "Run an agent over one row, without a key", Long: checkHelp, Args: subcommand.Need("NAME[@VERSION]"),
		Example: "  securebench agent check opencode\n  securebench agent check ./mine.yaml --api chat",
		RunE:    func(c *cobra.Command, args []string) error { return g.check(c.Context(), args[0], f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.options.API, "api", "", "`API` that it speaks: responses, chat, messages or gemini (default its first)")
	fl.BoolVar(&f.options.ACP, "acp", false, "speak to it with the agent client protocol, as protocol: acp does")
	fl.StringVar(&f.options.Model, "model", "", "`MODEL` that it asks for (default its own, or one that nobody has)")
	fl.StringVar(&f.options.Image, "image", agentcheck.DefaultImage, "`IMAGE` of the row, with Python")
	fl.StringVarP(&f.options.Dir, "output-dir", "o", "", "keep the run in `DIR`, for securebench show (default it is not kept)")
	fl.BoolVar(&f.json, "json", false, "print one JSON object instead of a table")
	g.AddEngineFlag(c)
	g.AddLogFlag(c)
	return c
}

func (g agentGroup) check(ctx context.Context, name string, f checkFlags) (err error) {
	o := f.options
	if o.Agent, o.Version, err = g.named(name); err != nil {
		return err
	}
	o.OpenEngine, o.Getenv, o.Notice, o.Build = g.Engine(), g.Getenv, g.Notice, g.Version
	report, err := agentcheck.Check(ctx, o)
	if err != nil {
		return err
	}
	if f.json {
		err = g.PrintJSON(report)
	} else {
		err = g.findings(report)
	}
	if err == nil && !report.Works() {
		err = fault.Errorf(fault.Problems, "%s does not work", redact.Escape(report.Agent))
	}
	return err
}

// maxDescription bounds the file of a description.
const maxDescription = 256 << 10

// named returns the agent that an argument names, and its version.
func (g agentGroup) named(arg string) (a catalogue.Agent, version string, err error) {
	if !strings.ContainsRune(arg, filepath.Separator) && filepath.Ext(arg) != ".yaml" {
		name, version, _ := strings.Cut(arg, "@")
		a, err := catalogue.Lookup(g.Getenv, name)
		return a, version, err
	}
	if _, err := os.Stat(arg); err != nil {
		return a, "", fault.As(fault.Config, err)
	}
	text, err := source.ReadFile(arg, maxDescription)
	if err == nil {
		a, err = catalogue.Parse(arg, text)
	}
	if err == nil {
		if _, taken := catalogue.Find(a.Name); taken {
			return a, "", fault.Errorf(fault.Config, "%s: there is an agent %s already (give yours another name)", redact.Escape(arg), a.Name)
		}
	}
	return a, "", fault.As(fault.Config, err)
}

// findings prints a table.
func (g agentGroup) findings(r agentcheck.Report) error {
	w := console.NewTable(g.Stdout)
	for _, f := range r.Findings {
		works := "yes"
		if !f.Works {
			works = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Step, works, redact.Escape(f.Found))
	}
	return w.Flush()
}
