package kinds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/source"
	"securebench/internal/wheels"
)

// requirements are the Python packages of an own agent.
type requirements struct {
	all   []wheels.Requirement
	store *wheels.Store
	trees map[string]pythonTree // by the ID of the image whose Python it is for
}

type pythonTree struct {
	set wheels.Set
	on  sandbox.Overlay
}

// require reads the file of requirements.
func (c *command) require() error {
	root, err := os.OpenRoot(filepath.Dir(c.Config.Path))
	if err != nil {
		return fmt.Errorf("opening the tester YAML's folder: %w", err)
	}
	defer root.Close()
	text, err := source.ReadFileIn(root, c.needs.Requirements, wheels.MaxRequirements)
	if err != nil {
		return c.unrequired("%s: %s", redact.Quote(c.needs.Requirements), source.Words(unpath(err)))
	}
	if c.python.all, err = wheels.ParseRequirements(text); err != nil {
		return c.unrequired("%s: %w", redact.Quote(c.needs.Requirements), err)
	}
	return nil
}

// unrequired is the error of requirements that cannot be had.
func (c *command) unrequired(format string, args ...any) error {
	return fault.Errorf(fault.Config, "%s: harness.config.requirements: %w", c.Config.Harness.At("requirements"), fmt.Errorf(format, args...))
}

// inRequirements says where an error comes from.
func (c *command) inRequirements(err error) error {
	return fault.As(fault.Config, fmt.Errorf("%s: harness.config.requirements: %s: %w", c.Config.Harness.At("requirements"), redact.Quote(c.needs.Requirements), err))
}

// layPython chooses the wheels for the Python of each image, and puts their trees on the engine.
func (c *command) layPython(ctx context.Context, on setup.Ground) (err error) {
	if len(c.python.all) == 0 {
		return nil
	}
	for p := range c.places {
		if img, ok := on.Images[p.image]; ok && img.Absent {
			return fault.Errorf(fault.Refused, "image %s is not on this machine, on which its Python is asked which packages of harness.config.requirements fit: get it (securebench image pull, docker pull)", img.Ref)
		}
	}
	cache, err := wheels.OpenCache("", c.Getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	c.python.store = wheels.NewStore(on.Engine, c.Getenv, c.Notice)
	c.python.trees = map[string]pythonTree{}
	var mu sync.Mutex
	return scoring.Each(ctx, on.Workers, c.pythonImages(on), func(ctx context.Context, img sandbox.Image) error {
		p, err := c.askPython(ctx, on, img)
		if err != nil {
			return err
		}
		mu.Lock() // one image after the other: most have the same Python
		defer mu.Unlock()
		set, err := cache.Resolve(ctx, c.python.all, p, c.Notice)
		if err != nil {
			return c.inRequirements(err)
		}
		tree, err := c.python.store.Tree(ctx, set)
		if err != nil {
			return c.inRequirements(err)
		}
		c.python.trees[img.ID] = pythonTree{set, tree}
		return nil
	})
}

// pythonImages are those that agents run in and that the engine has.
func (c *command) pythonImages(on setup.Ground) func(func(sandbox.Image, error) bool) {
	return func(yield func(sandbox.Image, error) bool) {
		seen := map[string]bool{}
		for p, err := range c.known(on) {
			if err != nil {
				yield(sandbox.Image{}, err)
				return
			}
			if img := on.Images[p.image]; !seen[img.ID] && !yield(img, nil) {
				return
			}
			seen[on.Images[p.image].ID] = true
		}
	}
}

// bring returns the tree for agents in an image.
func (c *command) bring(o harness.Overlay, img sandbox.Image) (sandbox.Overlay, error) {
	if c.Tree != nil {
		return c.Tree(o.Program, img)
	}
	t, ok := c.python.trees[img.ID]
	if !ok {
		return nil, errors.New("the agent's Python packages were not prepared")
	}
	return t.on, nil
}

// pythonTrees are the trees for workers, each with its images.
func (c *command) pythonTrees() (out []setup.Tree) {
	for _, id := range slices.Sorted(maps.Keys(c.python.trees)) {
		set := c.python.trees[id].set
		if i := slices.IndexFunc(out, func(t setup.Tree) bool { return t.Key == set.Key() }); i >= 0 {
			out[i].Images = append(out[i].Images, id)
			continue
		}
		out = append(out, setup.Tree{OverlaySpec: sandbox.OverlaySpec{Key: set.Key(), Title: set.Title()}, Program: harness.Requirements().Program, Images: []string{id},
			Write: func(w io.Writer) error { return c.python.store.WriteTar(context.Background(), set, w) }})
	}
	return out
}

// askPython asks the Python of an image what it is.
func (c *command) askPython(ctx context.Context, on setup.Ground, img sandbox.Image) (p wheels.Python, err error) {
	program := "python3"
	if name := c.needs.Argv[0]; strings.HasPrefix(path.Base(name), "python") {
		program = name
	}
	spec := sandbox.Spec{Labels: sandbox.Labels{Run: c.Config.RunID, Role: "preflight"}, Image: img, Workdir: "/",
		Command: []string{program, "-I", "-S", "-c", wheels.Tell}}
	spec.Limits.Timeout, spec.Limits.Output = 2*time.Minute, 64<<10
	box, err := on.Engine.Open(ctx, spec)
	if err != nil {
		return p, fault.As(fault.Engine, fmt.Errorf("asking image %s for its Python: %w", img.Ref, err))
	}
	defer func() { err = errors.Join(err, box.Close(context.WithoutCancel(ctx))) }()
	var said bytes.Buffer
	if _, err := box.Run(ctx, sandbox.Streams{Stdout: &said}); err != nil {
		return p, fault.As(fault.Engine, fmt.Errorf("asking image %s for its Python: %w", img.Ref, err))
	}
	p, ok := wheels.ReadPython(said.String())
	if !ok {
		return p, c.unrequired("image %s has no %s that says which Python 3 it is (set harness.config.image to one with Python)", redact.Quote(img.Ref), redact.Quote(program))
	}
	return p, nil
}
