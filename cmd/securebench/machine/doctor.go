package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"securebench/internal/config"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/engines"
	"securebench/internal/scoring"
	"securebench/internal/wheels"
)

const doctorHelp = `Check what this machine offers to the sandbox engines, native and docker: each
requirement, whether it holds, what was found, and what makes it hold.

An engine can run if all its requirements hold. Without an optional one it runs, but
confines less. With sandbox.engine auto, a run takes the first engine that can run.
The check makes one sandbox and removes it; it changes nothing else.

The exit code is 14 if no engine can run.`

func (g group) doctorCommand() *cobra.Command {
	var asJSON bool
	var runtime string
	c := &cobra.Command{
		Use: "doctor", Short: "Check what this machine offers to the sandbox engines", Long: doctorHelp, Args: cobra.NoArgs,
		Example: "  securebench doctor\n  securebench doctor --json",
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := scoring.ExamineEngines(c.Context(), config.Sandbox{Runtime: runtime}, g.Around())
			if err != nil {
				return err
			}
			if c.Context().Err() != nil {
				return fault.Errorf(fault.Interrupted, "interrupted")
			}
			return g.diagnose(found, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per engine instead of a table")
	c.Flags().StringVar(&runtime, "runtime", "", "check for the OCI runtime `NAME`, as sandbox.runtime names it")
	return c
}

// errNone is why doctor fails.
var errNone = errors.New("no sandbox engine can run here")

func (g group) diagnose(found []engines.Examination, asJSON bool) error {
	printing := g.table(found)
	if asJSON {
		printing = g.lines(found)
	}
	if err := printing(); err != nil {
		return fmt.Errorf("printing the requirements: %w", err)
	}
	first := slices.IndexFunc(found, runs)
	if first < 0 {
		return fault.As(fault.Problems, errNone)
	}
	if !asJSON {
		_, err := fmt.Fprintf(g.Stdout, "\nA run with sandbox.engine auto takes %s.\n%s\n", found[first].Engine, libraries(g.Getenv))
		return err
	}
	return nil
}

// libraries says whether packs that compare mathematical expressions need a registry.
func libraries(getenv func(string) string) string {
	set := wheels.MathVerify()
	if wheels.IsCached(set, getenv) {
		return set.Title() + ", which compares mathematical answers, is in the cache."
	}
	return set.Title() + ", which compares mathematical answers, is fetched from the Python registry when a pack first needs it."
}

// runs reports whether an engine can run.
func runs(e engines.Examination) bool { return len(engines.Lacking(e.Requirements)) == 0 }

func (g group) table(found []engines.Examination) func() error {
	return func() error {
		w := console.NewTable(g.Stdout)
		for i, e := range found {
			if i > 0 {
				fmt.Fprintln(w)
			}
			can := "can run"
			if !runs(e) {
				can = "cannot run"
			}
			fmt.Fprintf(w, "%s: %s\n", e.Engine, can)
			for _, r := range e.Requirements {
				fmt.Fprintf(w, "  %s\t%s\t%s\n", mark(r), redact.Escape(r.Name), redact.Escape(r.Found))
				if r.Fix != "" {
					fmt.Fprintf(w, "  \t\tto fix: %s\n", redact.Escape(r.Fix))
				}
			}
		}
		return w.Flush()
	}
}

// mark is the state of a requirement.
func mark(r sandbox.Requirement) string {
	switch {
	case r.Holds:
		return "yes"
	case r.Optional:
		return "no (optional)"
	}
	return "NO"
}

// requirement is a requirement as JSON.
type requirement struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
	Holds    bool   `json:"holds"`
	Found    string `json:"found"`
	Fix      string `json:"fix"`
}

func (g group) lines(found []engines.Examination) func() error {
	return func() error {
		for _, e := range found {
			all := make([]requirement, len(e.Requirements))
			for i, r := range e.Requirements {
				all[i] = requirement(r)
			}
			err := g.PrintJSON(struct {
				Engine       string        `json:"engine"`
				Runs         bool          `json:"runs"`
				Requirements []requirement `json:"requirements"`
			}{e.Engine, runs(e), all})
			if err != nil {
				return err
			}
		}
		return nil
	}
}
