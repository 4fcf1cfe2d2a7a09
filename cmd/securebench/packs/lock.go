package packs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/packlock"
	"securebench/internal/redact"
	"securebench/internal/sandbox/platform"
	"securebench/internal/workload"
)

const packLockHelp = `Write which images the names in a pack mean: images.lock beside the manifest has the
digest of each image that the manifest or a row names by a tag, as its registry has it
now. No image is pulled, and no engine is needed. With the file, "run", "validate" and
"reverify" refuse an image that is another one, or that the file lacks.

Images that a digest names need no lock, and those that are built on each machine can
have none: localhost/…, which "pack build" makes, and securebench-….

With --check, nothing is written. The exit code is 14 if a registry has another image by
now, or if the file lacks an image or has one that the pack does not name.`

func (g group) lockCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "lock PACK", Short: "Write which images the names in a pack mean", Args: subcommand.Need("PACK"), Long: packLockHelp,
		Example: "  securebench pack lock packs/demo\n  securebench pack lock packs/demo --check",
		RunE: func(c *cobra.Command, args []string) error {
			return g.lock(c.Context(), args[0], check)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "compare the file with the registries, and write nothing")
	return c
}

func (g group) lock(ctx context.Context, arg string, check bool) error {
	loc, _, err := subcommand.Locate(arg)
	if err != nil {
		return err
	}
	w, err := workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{Image: workload.NamesImage})
	if err != nil {
		return err
	}
	dir, pinned, built := filepath.Dir(loc.Manifest), 0, 0
	was, broken := packlock.Read(dir)
	if check && broken != nil {
		return fault.As(fault.Pack, broken)
	}
	wanted := map[string][]platform.Platform{}
	for _, ref := range w.RowImages() {
		switch {
		case packlock.Lockable(ref):
			wanted[ref] = nil
		case packlock.Pinned(ref):
			pinned++
		default:
			built++
		}
	}
	for of := range w.Platforms {
		if p, err := platform.Parse(of.Name); err == nil {
			if _, ok := wanted[of.Image]; ok {
				wanted[of.Image] = append(wanted[of.Image], p)
			}
		}
	}
	is, err := packlock.Ask(ctx, wanted)
	if err != nil {
		return fault.As(fault.Engine, err)
	}
	changes := was.Differences(is)
	others := fmt.Sprintf("%d named by digest, %d built on each machine", pinned, built)
	if check {
		if len(changes) == 0 {
			_, err = fmt.Fprintf(g.Stdout, "%s says what the registries have: %s; %s\n", packlock.Name, console.Plural(len(wanted), "image"), others)
			return err
		}
		var errs []error
		for _, c := range changes {
			errs = append(errs, errors.New(c))
		}
		return fault.As(fault.Problems, errors.Join(errs...))
	}
	if was != nil {
		for _, c := range changes {
			g.Say("%s", c)
		}
	}
	if err := is.Write(dir); err != nil {
		return fault.As(fault.Refused, fmt.Errorf("writing %s: %w", packlock.Name, err))
	}
	_, err = fmt.Fprintf(g.Stdout, "%s: %s; %s\n", redact.Quote(filepath.Join(dir, packlock.Name)), console.Plural(len(wanted), "image"), others)
	return err
}
