// Package sandboxtest helps to test code that uses sandboxes: [Engine] is an
// engine in memory whose programs are Go functions. It passes the suite of
// package contract, except for isolation.
package sandboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/fstest"

	"securebench/internal/digest"
	"securebench/internal/pathname"
	"securebench/internal/sandbox"
)

// Program is the code of a command of an [Engine]. It returns the exit code.
// It must end soon after ctx does, and close nothing of p.
type Program func(ctx context.Context, p *Process) int

// Process is a running program.
type Process struct {
	Args           []string
	Env            []string // NAME=VALUE
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Dir is the path on this machine of the first mount's tree, "" without
	// mounts.
	Dir string
	// Workdir is where a command of [sandbox.Spec.Init] runs, as a path of the
	// sandbox.
	Workdir string
	Spec    sandbox.Spec

	box  *box
	root string // on this machine, "" without a writable root

	mu   sync.Mutex
	end  sandbox.End
	seen []sandbox.End
}

// Path returns where a path of the sandbox is on this machine. The error of a
// path that the program may not write is [fs.ErrPermission]; of one that the
// sandbox does not have, [fs.ErrNotExist].
func (p *Process) Path(name string, write bool) (string, error) {
	mounts := slices.SortedFunc(slices.Values(p.Spec.Mounts), func(a, b sandbox.Mount) int { // the innermost first
		return len(path.Clean(b.Target)) - len(path.Clean(a.Target))
	})
	for _, m := range mounts {
		if !pathname.Within(name, m.Target) {
			continue
		}
		if m.ReadOnly && write {
			return "", fmt.Errorf("writing %s: %w", name, fs.ErrPermission)
		}
		return filepath.Join(folder(m), strings.TrimPrefix(path.Clean(name), path.Clean(m.Target))), nil
	}
	if home := p.Spec.Home; home != "" && pathname.Within(name, home) {
		return filepath.Join(p.box.home, strings.TrimPrefix(path.Clean(name), path.Clean(home))), nil
	}
	if p.root == "" {
		return "", fmt.Errorf("opening %s: %w", name, fs.ErrNotExist)
	}
	return filepath.Join(p.root, name), nil
}

// folder is where a mounted tree is on this machine.
func folder(m sandbox.Mount) string {
	if o, ok := m.Overlay.(*overlay); ok {
		return o.dir
	}
	return m.Workspace.(*workspace).dir
}

// End sets the end in the outcome of the program, such as
// [sandbox.OutOfMemory], instead of [sandbox.Exited].
func (p *Process) End(end sandbox.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = end
}

// See adds to the limits in [sandbox.Outcome.Seen].
func (p *Process) See(limits ...sandbox.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, limits...)
}

func (p *Process) ending() (end sandbox.End, seen []sandbox.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end, p.seen
}

// Config configures an [Engine].
type Config struct {
	// Programs are the commands by the first word of the command line. An
	// unknown command ends with exit code 127.
	Programs map[string]Program
	// Images are the images by reference. Nil is every reference.
	Images map[string]sandbox.Image
	// Root is the root file system of every image, for writable roots and
	// for workspaces that begin as an image folder. Nil is an empty one.
	Root fs.FS
}

// Engine is a [sandbox.Engine] in memory. Its boxes confine nothing: programs
// are part of the test. Workspaces are directories on this machine, served by
// the code that serves real ones.
type Engine struct {
	cfg Config

	mu       sync.Mutex
	opens    int
	failures map[int]error // by number of the call
	open     int           // boxes and workspaces that are open
	specs    []sandbox.Spec
	imported map[string]string // folders on this machine by image ID

	filling  sync.Mutex // held while an overlay is filled; comes before mu
	overlays map[string]*overlay
}

var (
	_ sandbox.Engine   = (*Engine)(nil)
	_ sandbox.Importer = (*Engine)(nil)
	_ sandbox.Looker   = (*Engine)(nil)
	_ sandbox.Overlays = (*Engine)(nil)
)

// New makes an engine.
func New(cfg Config) *Engine {
	if cfg.Root == nil {
		cfg.Root = fstest.MapFS{}
	}
	return &Engine{cfg: cfg, failures: make(map[int]error), imported: make(map[string]string),
		overlays: make(map[string]*overlay)}
}

// FailOpen makes the nth call of Open from now on, counted from 1, return err.
func (e *Engine) FailOpen(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures[e.opens+n] = err
}

// Specs returns what boxes were opened with, in order.
func (e *Engine) Specs() []sandbox.Spec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.specs)
}

// Left is the number of boxes and workspaces that are open, and of imported
// images.
func (e *Engine) Left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

func (e *Engine) count(by int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open += by
}

// Image looks an image up; without a list of images, every reference but the
// empty one is an image whose user is 1000:1000.
func (e *Engine) Image(_ context.Context, ref string) (sandbox.Image, error) {
	img, ok := e.cfg.Images[ref]
	if e.cfg.Images == nil && ref != "" {
		img, ok = sandbox.Image{ID: digest.Bytes([]byte(ref)), User: sandbox.User{UID: 1000, GID: 1000},
			OS: "linux", Arch: "amd64"}, true
	}
	if importedID(ref) {
		img, ok = sandbox.Image{ID: ref, OS: "linux", Arch: "amd64"}, e.importedRoot(ref) != ""
	}
	if !ok {
		return sandbox.Image{}, fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	img.Ref = ref
	return img, nil
}

// User resolves numbers only, because there are no account files.
func (e *Engine) User(_ context.Context, _ sandbox.Image, name string) (u sandbox.User, err error) {
	if name == "" {
		return u, nil
	}
	if _, err := fmt.Sscanf(name+"\n", "%d:%d\n", &u.UID, &u.GID); err != nil || u.UID < 0 || u.GID < 0 {
		return u, fmt.Errorf("the image has no user %q: %w", name, sandbox.ErrUnusable)
	}
	return u, nil
}

// Look looks at the root of an image.
func (e *Engine) Look(_ context.Context, image sandbox.Image, name string) (seen sandbox.Sight, err error) {
	root, at := e.root(image), strings.TrimPrefix(path.Clean(name), "/")
	info, err := fs.Lstat(root, cmp.Or(at, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err != nil {
		return seen, fmt.Errorf("looking at %s: %w", name, err)
	}
	if seen.Type = sandbox.TypeOf(info.Mode()); seen.Type == sandbox.Symlink {
		if seen.Link, err = fs.ReadLink(root, at); !path.IsAbs(seen.Link) {
			seen.Link = path.Join("/", path.Dir(at), seen.Link)
		}
	}
	return seen, err
}

// Info describes the engine.
func (e *Engine) Info() sandbox.Info {
	return sandbox.Info{Name: "memory", OS: "linux", Arch: "amd64", SecurityOptions: []string{}, DiskSampled: true}
}

// Reap finds nothing: what the engine makes ends with the process.
func (e *Engine) Reap(ctx context.Context) (int, error) { return 0, context.Cause(ctx) }

// Close removes the overlays, which could not outlive the process.
func (e *Engine) Close() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, o := range e.overlays {
		err = errors.Join(err, openUp(o.dir), os.RemoveAll(o.dir))
		delete(e.overlays, key)
	}
	return err
}

// Open makes a box.
func (e *Engine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	b := &box{engine: e, spec: spec, limits: spec.Limits.WithDefaults(), closed: make(chan struct{})}
	for _, m := range spec.Mounts {
		w, isSpace := m.Workspace.(*workspace)
		o, isOverlay := m.Overlay.(*overlay)
		if (!isSpace || w.engine != e) && (!isOverlay || o.engine != e) {
			return nil, errors.New("opening a sandbox: what is mounted belongs to another engine")
		}
	}
	if p, ok := spec.Peer.(*box); spec.Peer != nil && (!ok || p.engine != e) {
		return nil, errors.New("opening a sandbox: the peer belongs to another engine")
	}
	if err := e.opened(spec); err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	e.use(spec.Mounts, 1)
	if err := b.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a sandbox: %w", err), b.Close(ctx))
	}
	return b, nil
}

// make makes the folders of a box.
func (b *box) make() (err error) {
	if b.spec.Home != "" {
		if b.home, err = os.MkdirTemp("", "sandboxtest-"); err != nil {
			return err
		}
	}
	if b.spec.WritableRoot {
		b.root, err = b.engine.copyRoot(b.spec.Image, ".")
		b.begun = rootSize(b.root)
	}
	return err
}

// opened counts a call of Open, or fails it as [Engine.FailOpen] asks.
func (e *Engine) opened(spec sandbox.Spec) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opens++
	if err := e.failures[e.opens]; err != nil {
		delete(e.failures, e.opens)
		return err
	}
	e.open++
	e.specs = append(e.specs, spec)
	return nil
}

// copyRoot copies a folder of an image's root into a temporary directory.
func (e *Engine) copyRoot(image sandbox.Image, folder string) (string, error) {
	sub, err := fs.Sub(e.root(image), folder)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "sandboxtest-")
	if err != nil {
		return "", err
	}
	err = os.CopyFS(dir, sub)
	if info, statErr := fs.Stat(sub, "."); err == nil && statErr == nil {
		err = os.Chmod(dir, info.Mode().Perm()|0o700)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// Workspace makes a workspace in a temporary directory.
func (e *Engine) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	spec = spec.WithDefaults()
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	folder := "."
	if spec.From != nil {
		folder = path.Clean(spec.From.Path)[1:]
		if info, err := fs.Stat(e.root(spec.From.Image), folder); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("making a workspace: %s: %w", spec.From.Path, sandbox.ErrNoFolder)
		}
	}
	tree := func() (string, error) { return os.MkdirTemp("", "sandboxtest-") }
	if spec.From != nil {
		tree = func() (string, error) { return e.copyRoot(spec.From.Image, folder) }
	}
	dir, err := tree()
	if err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	e.count(1)
	w := serve(e, dir, spec)
	if u, err := w.Usage(ctx); err != nil || u.Bytes > u.BytesLimit || u.Inodes > u.InodesLimit {
		return nil, errors.Join(fmt.Errorf("making a workspace: %w", cmp.Or(err, sandbox.ErrTooSmall)), w.Close(ctx))
	}
	return w, nil
}
