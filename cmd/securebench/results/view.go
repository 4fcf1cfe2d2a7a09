package results

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/viewer"
)

const viewHelp = `Show runs in a browser: all below a folder, one, or one attempt in full.

DIR is a folder with runs and bundles, or a run; without it, runs. Each run is checked
as by "securebench verify", and marked as such if it does not verify. An attempt is
shown with its prompt, the agent's steps, what the gateway decided about its requests,
the candidate and the verdict in words.

With --export, the same is written to a new folder, which can be opened from disk and
published: it holds only what runs publish, and needs no server. Otherwise the
command prints an address and serves it until it is interrupted. Only this machine
can open it, and only with the token that is part of the address. The page loads nothing
from elsewhere, and shows what runs wrote as text.
`

type viewFlags struct {
	trust  subcommand.Trust
	listen string
	export string
}

func (g group) viewCommand() *cobra.Command {
	var f viewFlags
	c := &cobra.Command{
		Use: "view [DIR]", Short: "Show runs in a browser",
		Long: viewHelp + subcommand.TrustHelp, Args: cobra.MaximumNArgs(1),
		Example: "  securebench view\n  securebench view runs/demo\n  securebench view runs --listen 127.0.0.1:8080\n  securebench view runs --export public",
		RunE: func(c *cobra.Command, args []string) error {
			dir := "runs"
			if len(args) == 1 {
				dir = args[0]
			}
			return g.view(c.Context(), dir, f)
		},
	}
	f.trust.Add(c)
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "`ADDRESS` of this machine to listen at; port 0 is one that is free")
	c.Flags().StringVar(&f.export, "export", "", "write pages to a new `FOLDER` that can be opened from disk and published, and serve nothing")
	c.MarkFlagsMutuallyExclusive("listen", "export")
	return c
}

// view serves the runs until the command is interrupted.
func (g group) view(ctx context.Context, dir string, f viewFlags) error {
	trust, err := f.trust.Signers()
	if err != nil {
		return err
	}
	library, err := viewer.OpenLibrary(dir, viewer.Options{Trust: trust, Families: families.All(), Advise: subcommand.AdviseTrust})
	if err != nil {
		return fault.As(fault.Usage, err)
	}
	if f.export != "" {
		return fault.As(fault.Refused, library.Export(ctx, f.export, g.Version))
	}
	s := &viewer.Server{Library: library, Version: g.Version}
	if err := s.Listen(ctx, f.listen); err != nil {
		return fault.As(fault.Usage, err)
	}
	if _, err := fmt.Fprintf(g.Stdout, "%s\n", s.Address()); err != nil {
		return err
	}
	g.Say("open this address in a browser of this machine; end with Ctrl-C")
	return s.Serve(ctx)
}
