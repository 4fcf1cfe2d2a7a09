package kinds

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"securebench/internal/agent/setup"
	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/workload"
)

// brought are the operator's files that agents find in their sandboxes.
type brought struct {
	files *ownFiles       // nil for none
	tree  sandbox.Overlay // of them, once they are on the engine
}

// read reads the files that the harness names. It refuses what an agent must not see.
func (b *brought) read(ctx context.Context, c *configured, w *workload.Workload) (err error) {
	f := c.needs.Files
	if f == nil {
		return nil
	}
	o := fileOptions{Dir: filepath.Dir(c.Config.Path), Paths: f.Paths, Content: f.Content, Forbidden: map[string]string{
		w.Location.Tasks: "the pack's file of rows, which has the answers", w.EvalRoot(): "the pack's folder of evaluation files",
		c.Config.OutputDir: "the run's output directory"}}
	if !c.Secrets.Empty() {
		o.Clean = func(w io.Writer) io.WriteCloser { return c.Secrets.Writer(w) }
	}
	if b.files, err = openFiles(ctx, o); err != nil {
		return fault.Errorf(fault.Config, "%s: harness.config.files: %w", c.Config.Harness.At("files"), err)
	}
	return nil
}

// lay puts the files on the engine. Runs with the same files share them.
func (b *brought) lay(ctx context.Context, c *configured, e sandbox.Engine) error {
	if b.files == nil {
		return nil
	}
	engine, ok := e.(sandbox.Overlays)
	if !ok {
		return fault.Errorf(fault.Config, "%s: the engine cannot mount the agent's files", c.Config.Harness.At("files"))
	}
	tree, err := engine.Overlay(ctx, b.spec(), b.files.writeTar)
	if err != nil {
		return fault.As(fault.Engine, fmt.Errorf("%s: putting the agent's files on the engine: %w", c.Config.Harness.At("files"), err))
	}
	b.tree = tree
	return nil
}

// filesKey begins the keys of overlays with agents' files.
const filesKey = "agent-files-"

// spec names the overlay of the files.
func (b *brought) spec() sandbox.OverlaySpec {
	sum, _ := digest.Hex(b.files.Digest)
	return sandbox.OverlaySpec{Key: filesKey + sum[:32], Title: "files of an own agent, " + sum[:12]}
}

// source returns what gives the overlay to attempts, nil for none.
func (b *brought) source(c *configured) func() (sandbox.Overlay, error) {
	switch {
	case c.needs.Files == nil:
		return nil
	case c.Tree != nil:
		return func() (sandbox.Overlay, error) { return c.Tree("", sandbox.Image{}) }
	}
	return func() (sandbox.Overlay, error) { return b.tree, nil }
}

// add adds the files to what a run records and brings elsewhere.
func (b *brought) add(f *setup.Facts) {
	if b.files != nil {
		f.Settings["agent_files"] = b.files.Digest
	}
	if b.tree != nil {
		f.Trees = append(f.Trees, setup.Tree{OverlaySpec: b.spec(), Write: b.files.writeTar})
	}
}

// close releases the files.
func (b *brought) close() error {
	if b.files == nil {
		return nil
	}
	return b.files.Close()
}
