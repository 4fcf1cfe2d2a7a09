package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"securebench/internal/agent/programs"
	"securebench/internal/capacity"
	"securebench/internal/console"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/owner"
	"securebench/internal/scoring"
)

const cleanHelp = `List what killed runs left on this machine, on every available sandbox engine, and
what no image of the image store needs. Then, with --yes or after asking, remove it.

Only what a process left that is known to have ended is removed: a run on another
machine that shares the engine keeps what it has.

--all also removes images of the store that nothing uses, and agents' programs on
the engines that your cache of agents does not have. Runs fetch them again when they
need them. On a shared engine, they may belong to other users.`

// cleaning is the flags of clean.
type cleaning struct{ yes, all, json bool }

func (g group) cleanCommand() *cobra.Command {
	var f cleaning
	c := &cobra.Command{
		Use: "clean", Short: "Remove what killed runs and unused images left", Long: cleanHelp, Args: cobra.NoArgs,
		Example: "  securebench clean\n  securebench clean --all --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			return g.clean(c.Context(), f, c.InOrStdin())
		},
	}
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "remove without asking")
	c.Flags().BoolVar(&f.all, "all", false, "remove also what nothing uses now but runs may need again")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object per object; without --yes nothing is removed")
	g.AddLogFlag(c)
	return c
}

func (g group) clean(ctx context.Context, f cleaning, in io.Reader) (err error) {
	places, done, err := g.places(ctx, f.all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return g.cleanPlaces(ctx, places, f, in)
}

// cleanPlaces lists what is left, and removes it if that is what the operator wants.
func (g group) cleanPlaces(ctx context.Context, places []place, f cleaning, in io.Reader) error {
	items, failed := findLeft(ctx, places)
	failed = fault.As(fault.Engine, failed)
	switch {
	case ctx.Err() != nil:
		return fault.Errorf(fault.Interrupted, "interrupted; nothing was removed")
	case len(items) == 0 && !f.json:
		_, err := fmt.Fprintln(g.Stdout, "nothing is left")
		return errors.Join(failed, err)
	case !f.json:
		if err := g.showLeft(items); err != nil {
			return errors.Join(failed, err)
		}
	}
	removed := items
	if f.yes || !f.json && g.agreed(len(items), in) {
		var err error
		if removed, err = removeLeft(ctx, places, items); err != nil {
			failed = fault.Errorf(fault.Interrupted, "interrupted; %d of %d objects were checked", len(removed), len(items))
		}
	} else if !f.json {
		g.Say("nothing was removed: give --yes to remove it")
		return failed
	}
	return errors.Join(failed, g.reportClean(removed, f))
}

// agreed asks the operator. Without a terminal the answer is no.
func (g group) agreed(n int, in io.Reader) bool {
	if file, ok := in.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return false
	}
	fmt.Fprintf(g.Stderr, "securebench: remove %s? [y/N] ", console.Plural(n, "object"))
	line, _ := bufio.NewReader(in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// sizeOf writes a size, which can be unknown.
func sizeOf(l sandbox.Leftover) string {
	if l.Size == 0 {
		return "-"
	}
	return capacity.Bytes(l.Size)
}

func (g group) showLeft(items []leftItem) error {
	w := console.NewTable(g.Stdout)
	fmt.Fprintln(w, "WHERE\tWHAT\tSIZE\tNAME")
	for _, it := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", it.Place, it.Kind, sizeOf(it.Leftover), redact.Escape(it.Name))
	}
	return w.Flush()
}

// reportClean says what was removed and what could not be.
func (g group) reportClean(items []leftItem, f cleaning) error {
	var size int64
	var errs []error
	for _, it := range items {
		if f.json {
			if err := g.cleanLine(it, f.yes); err != nil {
				return err
			}
		}
		if it.Err != nil {
			errs = append(errs, fault.Errorf(fault.Engine, "%s, %s %s: %w", it.Place, it.Kind, redact.Quote(it.Name), it.Err))
			continue
		}
		size += it.Size
	}
	if !f.json {
		line := "removed " + console.Plural(len(items)-len(errs), "object")
		if size > 0 {
			line += ", " + capacity.Bytes(size)
		}
		if _, err := fmt.Fprintln(g.Stdout, line); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (g group) cleanLine(it leftItem, removed bool) error {
	line := struct {
		Where   string `json:"where"`
		Kind    string `json:"kind"`
		Name    string `json:"name"`
		Bytes   int64  `json:"bytes"` // 0 if it is not known
		Removed bool   `json:"removed"`
		Error   string `json:"error,omitzero"`
	}{it.Place, it.Kind, it.Name, it.Size, removed && it.Err == nil, ""}
	if it.Err != nil {
		line.Error = it.Err.Error()
	}
	return g.PrintJSON(line)
}

// places are all places where something can be left. done closes them.
func (g group) places(ctx context.Context, all bool) (places []place, done func() error, err error) {
	var cached func() (map[string]bool, error)
	if all {
		cached = g.cachedPrograms
	}
	found, err := scoring.OpenEngines(ctx, g.Around(), g.Notice)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range found {
		places = append(places, onEngine(e.Name, e.Engine, cached))
	}
	store, err := g.imageStore()
	if store != nil {
		places = append(places, storePlace(store, all))
	}
	places = append(places, place{Name: "temporary files",
		Find:   func(context.Context) ([]sandbox.Leftover, error) { return owner.LeftFolders(os.TempDir()) },
		Remove: func(_ context.Context, l sandbox.Leftover) error { return owner.RemoveFolder(l) }})
	done = func() error {
		var errs []error
		for _, e := range found {
			errs = append(errs, e.Engine.Close())
		}
		if store != nil {
			errs = append(errs, store.Close())
		}
		return errors.Join(errs...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return places, done, nil
}

// cachedPrograms are the keys of the agents' programs in the cache.
func (g group) cachedPrograms() (_ map[string]bool, err error) {
	cache, err := programs.OpenCache("", g.Getenv)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	entries, err := cache.List()
	keys := map[string]bool{}
	for _, e := range entries {
		keys[e.Key()] = true
	}
	return keys, err
}

// imageStore opens the image store, nil if there is none.
func (g group) imageStore() (*imagestore.Store, error) {
	dir, err := imagestore.DefaultDir(g.Getenv)
	if err != nil {
		return nil, fault.As(fault.Config, err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s, err := imagestore.Open(dir)
	return s, fault.As(fault.Config, err)
}

// storePlace is what the image store does not need. It is removed all at once.
func storePlace(s *imagestore.Store, all bool) place {
	var once sync.Once
	var failed error
	return place{Name: "image store",
		Find: func(context.Context) (out []sandbox.Leftover, err error) {
			found, err := s.Leftovers(all)
			for _, l := range found {
				out = append(out, sandbox.Leftover{Kind: l.Kind, Name: l.Name, Size: l.Size})
			}
			return out, err
		},
		Remove: func(ctx context.Context, _ sandbox.Leftover) error {
			once.Do(func() { _, failed = s.Prune(ctx, all) })
			return failed
		},
	}
}
