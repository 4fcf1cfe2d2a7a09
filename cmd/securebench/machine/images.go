package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/capacity"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/engines"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/platform"
)

const imageHelp = `Pull, import, list and remove images of the native engine.

They are kept in the folder that SECUREBENCH_IMAGES names, or in
securebench/images in your data directory (XDG_DATA_HOME, or ~/.local/share),
each layer once. An image has the same ID as in Docker.

A run takes an image that the store lacks from a Docker engine on this machine, if
one answers, and takes it again when Docker has another image of that name. An image
that was pulled, or imported from elsewhere, stays as it is.`

// imageGroup is the command group in its surroundings.
type imageGroup struct{ *subcommand.Shell }

// imageCommand returns the command group.
func imageCommand(sh *subcommand.Shell) *cobra.Command {
	g := imageGroup{sh}
	c := &cobra.Command{Use: "image", Short: "Pull, import, list and remove images of the native engine", Long: imageHelp,
		Args: cobra.NoArgs, RunE: subcommand.Missing,
		Example: "  securebench image pull python:3.12-slim\n  securebench image list"}
	c.AddCommand(g.pullCommand(), g.importCommand(), g.listCommand(), g.removeCommand(), g.pruneCommand())
	return c
}

// withStore calls f with the image store.
func (g imageGroup) withStore(f func(*imagestore.Store) error) (err error) {
	dir, err := imagestore.DefaultDir(g.Getenv)
	if err != nil {
		return fault.As(fault.Config, err)
	}
	store, err := imagestore.Open(dir)
	if err != nil {
		return fault.As(fault.Config, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return f(store)
}

// added ends a command that added an image: it prints the image, or why there is
// none.
func (g imageGroup) added(ctx context.Context, img imagestore.Image, err error) error {
	switch {
	case ctx.Err() != nil && err != nil:
		return fault.Errorf(fault.Interrupted, "interrupted; nothing was added")
	case err != nil:
		return fault.As(fault.Engine, err)
	}
	if img.Platform() == (platform.Platform{}) {
		g.Say("the image does not say what platform it is for, and no program in it shows it: it is assumed to be for this machine")
	}
	_, err = fmt.Fprintf(g.Stdout, "%s %s %s\n", redact.Quote(cmp.Or(img.Ref, "-")), img.ID, capacity.Bytes(img.Size))
	return err
}

// platformFlag adds the flag that names a platform.
func platformFlag(c *cobra.Command, on *string) {
	c.Flags().StringVar(on, "platform", "", "take the image of `PLATFORM`, such as linux/arm64, even if this machine cannot run it")
}

// unwanted adds the flag that helps to the error of an image of another platform.
func unwanted(err error, on string) error {
	if errors.Is(err, platform.ErrOther) && on == "" {
		return fmt.Errorf("%w (--platform PLATFORM takes an image of another one)", err)
	}
	return err
}

func (g imageGroup) pullCommand() *cobra.Command {
	var name, on string
	c := &cobra.Command{
		Use: "pull REF", Short: "Pull an image from a registry", Args: subcommand.Need("REF"),
		Long: `Pull an image for this machine's platform from a registry, and print its name, ID
and size. REF is a name as Docker reads it, such as python:3.12-slim, or
NAME@sha256:… for exactly one image. A registry that wants a login gets that of
"docker login", if there is one. --name gives the image another name.`,
		Example: "  securebench image pull python:3.12-slim\n  securebench image pull python:3.12-slim --name securebench-python:3",
		RunE: func(c *cobra.Command, args []string) error {
			return g.withStore(func(s *imagestore.Store) error {
				m := newMeter(g.Stderr)
				img, err := s.Pull(c.Context(), args[0], imagestore.Addition{Ref: cmp.Or(name, args[0]), Platform: on, Progress: m.show})
				m.end()
				return g.added(c.Context(), img, unwanted(err, on))
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "`NAME` of the image, instead of REF")
	platformFlag(c, &on)
	return c
}

func (g imageGroup) importCommand() *cobra.Command {
	var name, on string
	c := &cobra.Command{
		Use: "import SOURCE", Short: "Import an image from Docker, an archive or a folder", Args: subcommand.Need("SOURCE"),
		Long: `Import an image and print its name, ID and size. SOURCE is one of:

  docker:REF  an image of the Docker engine on this machine
  oci:DIR     an OCI image layout
  FILE        an archive: of "docker save", of an OCI layout, or of a root file
              system; compressed or not
  DIR         a folder that is a root file system

The name of an image from Docker is REF, unless --name gives another. Without a
name, an image has only its ID. No program of the image is run.

From an image for several platforms, the one for this machine is taken. An image
that this machine cannot run is refused, unless --platform asks for it. The
platform of a root file system is that of its programs.`,
		Example: "  securebench image import docker:securebench-python:3\n  securebench image import rootfs.tar --name my-image:1",
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("name") && name == "" {
				return subcommand.UsageError(errors.New("--name is empty"))
			}
			return g.withStore(func(s *imagestore.Store) error { return g.importImage(c.Context(), s, args[0], name, on) })
		},
	}
	c.Flags().StringVar(&name, "name", "", "`NAME` of the image, such as my-image:1")
	platformFlag(c, &on)
	return c
}

func (g imageGroup) importImage(ctx context.Context, s *imagestore.Store, source, name, on string) (err error) {
	var from imagestore.Exporter
	if ref, ok := strings.CutPrefix(source, imagestore.FromDocker); ok {
		d, err := engines.OpenDockerImages(ctx, g.Getenv)
		if err != nil {
			return fault.As(fault.Engine, fmt.Errorf("%w (start Docker or set DOCKER_HOST)", err))
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		from, name = d, cmp.Or(name, ref)
	}
	m := newMeter(g.Stderr)
	img, err := s.Import(ctx, source, imagestore.Addition{Ref: name, Platform: on, Progress: m.show}, from)
	m.end()
	return g.added(ctx, img, unwanted(err, on))
}

func (g imageGroup) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the images", Args: cobra.NoArgs,
		Long: `List the images by name, with ID, size, origin and the time when they were added.
The size is that of all layers of an image, those that it shares included.`,
		Example: "  securebench image list\n  securebench image list --json",
		RunE: func(*cobra.Command, []string) error {
			return g.withStore(func(s *imagestore.Store) error {
				all, err := s.List()
				switch {
				case err != nil:
					return err
				case asJSON:
					return g.lines(all)
				}
				return g.table(all)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per image instead of a table")
	return c
}

func (g imageGroup) table(all []imagestore.Image) error {
	w := console.NewTable(g.Stdout)
	fmt.Fprintln(w, "NAME\tID\tMIB\tORIGIN\tADDED")
	for _, img := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", redact.Escape(cmp.Or(img.Ref, "-")), console.ShortDigest(img.ID), img.Size>>20,
			redact.Escape(cmp.Or(img.Origin, "-")), img.Added.UTC().Format(time.DateTime))
	}
	return w.Flush()
}

func (g imageGroup) lines(all []imagestore.Image) error {
	for _, img := range all {
		b, err := json.Marshal(struct {
			Name   string `json:"name"`
			ID     string `json:"id"`
			Digest string `json:"digest"`
			Origin string `json:"origin"`
			Bytes  int64  `json:"bytes"`
			Added  string `json:"added"`
		}{img.Ref, img.ID, img.Digest, img.Origin, img.Size, img.Added.UTC().Format(time.RFC3339)})
		if err == nil {
			_, err = fmt.Fprintf(g.Stdout, "%s\n", b)
		}
		if err != nil {
			return fmt.Errorf("printing the images: %w", err)
		}
	}
	return nil
}

func (g imageGroup) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME…", Short: "Remove images by name or ID", Args: cobra.MinimumNArgs(1),
		Long: `Remove names of images, and each image that has no other name, with the layers that
no other image has. An image that a running command uses is refused.`,
		Example: "  securebench image remove my-image:1",
		RunE: func(_ *cobra.Command, args []string) error {
			return g.withStore(func(s *imagestore.Store) error {
				for _, ref := range args {
					err := s.Remove(ref)
					if errors.Is(err, sandbox.ErrImageMissing) {
						return fault.As(fault.Engine, fmt.Errorf("there is no image %s", redact.Quote(ref)))
					}
					if err != nil {
						return fault.As(fault.Refused, err)
					}
				}
				return nil
			})
		},
	}
}

func (g imageGroup) pruneCommand() *cobra.Command {
	var everything bool
	c := &cobra.Command{
		Use: "prune", Short: "Remove what no image needs", Args: cobra.NoArgs,
		Long: `Remove the layers that no image has, and what killed commands left unfinished. With
--all, remove all images as well, except those that a running command uses.`,
		Example: "  securebench image prune\n  securebench image prune --all",
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withStore(func(s *imagestore.Store) error { return g.prune(c.Context(), s, everything) })
		},
	}
	c.Flags().BoolVar(&everything, "all", false, "remove also the images that nothing uses")
	return c
}

func (g imageGroup) prune(ctx context.Context, s *imagestore.Store, everything bool) error {
	removed, err := s.Prune(ctx, everything)
	var size int64
	for _, l := range removed {
		size += l.Size
		fmt.Fprintf(g.Stdout, "removed %s %s, %s\n", l.Kind, redact.Quote(l.Name), capacity.Bytes(l.Size))
	}
	if err != nil && ctx.Err() != nil {
		return fault.Errorf(fault.Interrupted, "interrupted; the images named above were removed")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.Stdout, "removed %s, %s\n", console.Plural(len(removed), "object"), capacity.Bytes(size))
	return err
}
