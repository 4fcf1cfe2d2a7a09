package results

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/earlier"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/viewer"
)

const viewHelp = `Show runs in a browser: all below a folder, one, or one attempt in full.

DIR is a folder with runs and bundles, or a run; without it, runs. Each run is checked
as by "securebench verify", and marked as such if it does not verify. An attempt is
shown with its prompt, the agent's steps, what the gateway decided about its requests,
the candidate and the verdict in words.

With --pack, attempts of runs of that pack also show the tags and pictures of their rows,
and the values that agents did not see.

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
	pack   string
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
	c.Flags().StringVar(&f.pack, "pack", "", "the `PACK` of runs, to show its tags, its pictures and what agents did not see")
	c.MarkFlagsMutuallyExclusive("listen", "export")
	c.MarkFlagsMutuallyExclusive("pack", "export") // which is for others
	return c
}

// view serves the runs until the command is interrupted.
func (g group) view(ctx context.Context, dir string, f viewFlags) error {
	trust, err := f.trust.Signers()
	if err != nil {
		return err
	}
	o := viewer.Options{Trust: trust, Families: families.All(), Advise: subcommand.AdviseTrust}
	if f.pack != "" {
		if o.Pack, err = packOf(ctx, f.pack); err != nil {
			return err
		}
	}
	library, err := viewer.OpenLibrary(dir, o)
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

// packOf reads what a pack adds to its runs.
func packOf(ctx context.Context, arg string) (*viewer.Pack, error) {
	loc, _, err := subcommand.Locate(arg)
	if err != nil {
		return nil, err
	}
	out := &viewer.Pack{}
	p, err := compile.Load(ctx, loc, families.All(), func(row pack.Row, _ func() (task.Task, error)) { out.Add(row) })
	if ctx.Err() != nil {
		return nil, fault.Errorf(fault.Interrupted, "interrupted while reading the pack")
	}
	if err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	out.Of = func(m record.Manifest, hidden *record.PackDigests) bool {
		return (&earlier.Run{Manifest: m, Hidden: hidden}).Of(p.Manifest, p.Digests, p.Public)
	}
	return out, nil
}
