package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/families"
	"securebench/internal/fault"
	"securebench/internal/importer/packdir"
	"securebench/internal/packimage"
	"securebench/internal/packlock"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/workload"
)

func (g group) freezeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "freeze PACK DIR", Short: "Copy a pack, with each task in full on one line", Args: subcommand.Need("PACK", "DIR"),
		Long: `Copy a pack to a folder DIR, with each task in full on one line of tasks.jsonl: the
texts of the files that a row names stand in the line, and a folder of tasks becomes
such a file. Evaluation files, assets, recipes of images, the licence and what is said
about the source are copied too. The copy of a folder of tasks has the same digests.
Nothing that exists is replaced.`,
		Example: "  securebench pack freeze my-pack my-pack-1",
		RunE: func(c *cobra.Command, args []string) error {
			return g.freeze(c.Context(), args[0], args[1])
		},
	}
}

func (g group) freeze(ctx context.Context, arg, dir string) error {
	loc, _, err := subcommand.Locate(arg)
	if err != nil {
		return err
	}
	load := func(loc pack.Location) (*workload.Workload, error) {
		return workload.Load(ctx, loc, families.All(), workload.All, workload.Demands{Unkept: true})
	}
	in, err := load(loc)
	if err != nil {
		return err
	}
	out, err := packdir.New(dir, false, "tasks.jsonl")
	if err != nil {
		return fault.As(fault.Refused, err)
	}
	defer out.Discard()
	f := &freezer{ctx: ctx, in: in.Pack, out: out}
	if err := errors.Join(f.rows(), f.files()); err != nil {
		return fault.As(fault.Refused, fmt.Errorf("freezing %s: %w", redact.Quote(arg), err))
	}
	if err := out.Commit(); err != nil {
		return fault.As(fault.Refused, err)
	}
	frozen, err := load(pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")})
	if err != nil {
		return err
	}
	if frozen.Public != in.Public || frozen.Count != in.Count {
		return fault.As(fault.Refused, fmt.Errorf("%s is not the same pack: it has a folder without files that a task names, or its files changed while they were read", redact.Quote(dir)))
	}
	_, err = fmt.Fprintf(g.Stdout, "wrote %s into %s\npack %s\n", console.Plural(frozen.Count, "task"), redact.Quote(dir), frozen.Digests.Pack)
	return err
}

// freezer copies a pack.
type freezer struct {
	ctx context.Context
	in  *pack.Pack
	out *packdir.Set
}

// rows writes the lines.
func (f *freezer) rows() error {
	for row, err := range f.in.Rows(f.ctx) {
		if err == nil {
			err = f.out.Write("tasks.jsonl", append(bytes.Clone(row.Whole), '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files copies the files of both lanes, the folder of images, and what is about the pack.
func (f *freezer) files() error {
	err := f.in.Copy(f.ctx, func(name string, program bool, content io.Reader) error {
		return f.out.CopyFile(name, content, program)
	})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(f.in.Location.Manifest))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{packlock.Name, "README.md", "ATTRIBUTION.md", "NOTICE", "COPYING", "LICENSE", "LICENSE.md", "LICENSE.txt"} {
		if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := f.file(root, name); err != nil {
			return err
		}
	}
	if _, err := root.Lstat(packimage.Folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return source.WalkDir(source.FS(root), packimage.Folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return f.file(root, name)
	})
}

// file copies a file that is of no lane.
func (f *freezer) file(root *os.Root, name string) error {
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	return pack.CopyFile(root, name, "", func(program bool, content io.Reader) error { return f.out.CopyFile(name, content, program) })
}
