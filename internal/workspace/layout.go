// Package workspace decides which files a component of a run sees in its
// workspace, at which paths and with which content, and writes them as one tar
// stream.
//
// A layout is determined and checked before any asset is read. Assets are read
// through the root of their folder and never through a link. The same pack
// always gives the same bytes: order, times and modes are fixed.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"securebench/internal/source"
	"securebench/internal/task"
)

// DefaultTaskFile is where an agent finds its task.
const DefaultTaskFile = "task.json"

// The default bounds of a layout.
const (
	defaultMaxBytes = 256 << 20
	defaultMaxFiles = 65536
)

// Options are the inputs of a layout.
type Options struct {
	// TaskFile is where the agent's task goes; "" is [DefaultTaskFile].
	TaskFile string
	// ArtifactPath is where the harness expects the candidate; no file may be
	// placed there. "" means no such path.
	ArtifactPath string
	// Assets and Evals are the pack's public and evaluation asset roots.
	// Without them, a layout that needs them can be checked but not written.
	Assets, Evals *os.Root
	// Expect holds the digests that the files of Assets had when the pack was
	// loaded, by path; nil disables the check. See [ErrChanged].
	Expect map[string]string
	// ExpectEvals is the same for the files of Evals.
	ExpectEvals map[string]string
	// EvalPaths are evaluation files and folders that a family names in a
	// format of its own. They are placed below [EvaluationRoot] under their
	// own paths, beside those named by file references.
	EvalPaths []string
	// PublicAssets are placed in a test sandbox beside the evaluation inputs.
	// The caller lists them, because an agent may have been asked to change
	// some.
	PublicAssets []task.Asset
	// Bring makes files of Assets and Evals be there that a layout needs, by their paths in
	// Expect and ExpectEvals; nil if all are.
	Bring Bring
	// MaxBytes and MaxFiles bound what is written; 0 is the default.
	MaxBytes int64
	MaxFiles int
}

// Bring makes files of a pack be there, public ones and those of evaluation.
type Bring func(public, eval []string) error

// bring makes the files of entries be there.
func (o Options) bring(entries []Entry) error {
	if o.Bring == nil {
		return nil
	}
	var public, eval []string
	for _, e := range entries {
		switch {
		case e.Asset == "" || e.root == nil:
		case e.root == o.Evals:
			eval = append(eval, e.files()...)
		default:
			public = append(public, e.files()...)
		}
	}
	return o.Bring(public, eval)
}

// files are the paths of an asset's files, as they were when the pack was loaded.
func (e Entry) files() (names []string) {
	if _, ok := e.expect[e.Asset]; ok {
		return []string{e.Asset}
	}
	for name := range e.expect {
		if e.Asset == "." || strings.HasPrefix(name, e.Asset+"/") {
			names = append(names, name)
		}
	}
	return names
}

// An Entry is one file of a layout, or an asset that may be a directory.
type Entry struct {
	Path string
	// Mode is 0644, or 0444 for what is read-only. Executables and
	// directories get the x bits when they are written.
	Mode  fs.FileMode
	Data  []byte // the content, unless it comes from an asset
	Asset string // path below the asset root, "" for inline content

	root   *os.Root
	check  func(string) (string, error)
	expect map[string]string
}

// Layout is the checked content of a workspace.
type Layout struct {
	Entries []Entry

	maxBytes int64
	maxFiles int

	mu      sync.Mutex
	digests map[string]string
}

// ForAgent returns what the agent sees: the task file, one file for each
// public value, and the public assets. It does no I/O but that of [Options.Bring]. Its
// other errors are faults of the pack or the configuration.
func ForAgent(v task.AgentView, opts Options) (*Layout, error) {
	b := newBuilder(opts)
	b.assets(v.Assets())
	taskFile := opts.TaskFile
	if taskFile == "" {
		taskFile = DefaultTaskFile
	}
	values := map[string]*source.Node{}
	for _, r := range v.Payload() {
		n := b.value(r)
		values[r.Name] = n
		if r.Name != "assets" {
			b.resource(r.Name, n, PublicRoot, 0o644)
		}
	}
	b.unique()
	if p, ok := b.free("harness.config.task_file", taskFile); ok && b.err() == nil {
		b.entries = append(b.entries, Entry{Path: p, Mode: 0o644, Data: encodeObject(values)})
	}
	if opts.ArtifactPath != "" {
		b.claimed[path.Clean(taskFile)] = true
		b.free("harness.config.artifact_path", opts.ArtifactPath)
	}
	return b.layout()
}

// ForTestSandbox returns what a test sandbox sees: public values, evaluation
// inputs and the files that these name. Evaluation inputs are read-only.
func ForTestSandbox(v task.SandboxView, opts Options) (*Layout, error) {
	b := newBuilder(opts)
	b.assets(opts.PublicAssets)
	for _, r := range v.Payload() {
		switch {
		case r.Lane != task.Public:
			b.nonPublic(r)
		case r.Name != "assets":
			b.resource(r.Name, b.value(r), PublicRoot, 0o644)
		}
	}
	for _, p := range opts.EvalPaths {
		b.evalFile(p)
	}
	b.unique()
	return b.layout()
}

// builder collects entries and everything that is wrong with them.
type builder struct {
	opts    Options
	entries []Entry
	claimed map[string]bool
	errs    []error
}

func newBuilder(opts Options) *builder {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.MaxFiles <= 0 {
		opts.MaxFiles = defaultMaxFiles
	}
	return &builder{opts: opts, claimed: map[string]bool{}}
}

func (b *builder) err() error { return errors.Join(b.errs...) }

func (b *builder) errorf(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *builder) layout() (*Layout, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	if err := b.opts.bring(b.entries); err != nil {
		return nil, err
	}
	return &Layout{Entries: b.entries, maxBytes: b.opts.MaxBytes, maxFiles: b.opts.MaxFiles}, nil
}

// assets adds public assets at their mounts.
func (b *builder) assets(assets []task.Asset) {
	for i, a := range assets {
		src, err := cleanSource(a.Path)
		if err != nil {
			b.errorf("assets[%d].path %q: %w", i, a.Path, err)
			continue
		}
		dst, err := CleanPath(a.Mount)
		if err != nil {
			b.errorf("assets[%d].mount %q: %w", i, a.Mount, err)
			continue
		}
		b.entries = append(b.entries, Entry{Path: dst, Mode: mode(a.ReadOnly), Asset: src,
			root: b.opts.Assets, check: CleanPath, expect: b.opts.Expect})
	}
}

func mode(readOnly bool) fs.FileMode {
	if readOnly {
		return 0o444
	}
	return 0o644
}

// resource adds the file of one value below root.
func (b *builder) resource(name string, n *source.Node, root string, m fs.FileMode) {
	if name == "" || strings.ContainsAny(name, `/\`) || strings.Contains(name, "..") {
		b.errorf("resource name %q cannot name a file", name)
		return
	}
	p, err := inside(root)(root + "/" + name + ".json")
	if err != nil {
		b.errorf("resource name %q: %w", name, err)
		return
	}
	if n != nil {
		b.entries = append(b.entries, Entry{Path: p, Mode: m, Data: encodeValue(n)})
	}
}

// value parses a resource's JSON. If that fails, it records the error and
// returns nil.
func (b *builder) value(r task.Resource) *source.Node {
	n, err := source.ParseJSON("resource "+r.Name, 1, r.Value)
	if err != nil {
		b.errs = append(b.errs, err)
		return nil
	}
	return n
}

// nonPublic adds a value below [EvaluationRoot], or the file that it refers to.
func (b *builder) nonPublic(r task.Resource) {
	n := b.value(r)
	if n == nil {
		return
	}
	if !IsFileReference(n) {
		b.resource(r.Name, n, EvaluationRoot, 0o444)
		return
	}
	e, err := fileRef(n, r.Name)
	if err != nil {
		b.errs = append(b.errs, err)
		return
	}
	e.root, e.expect = b.opts.Evals, b.opts.ExpectEvals
	b.entries = append(b.entries, e)
}

// evalFile adds an evaluation file or folder under its own path.
func (b *builder) evalFile(p string) {
	src, err := cleanSource(p)
	if err != nil {
		b.errorf("evaluation file %q: %w", p, err)
		return
	}
	check := inside(EvaluationRoot)
	dst, err := check(EvaluationRoot + "/" + src)
	if err != nil {
		b.errorf("evaluation file %q: %w", p, err)
		return
	}
	b.entries = append(b.entries, Entry{Path: dst, Mode: 0o444, Asset: src, check: check, root: b.opts.Evals, expect: b.opts.ExpectEvals})
}

// IsFileReference reports whether a value names a file: an object with a path and no other keys
// than mount and read_only. With any other key it is plain JSON.
func IsFileReference(n *source.Node) bool {
	return n.Kind == source.Map && n.Get("path") != nil && !slices.ContainsFunc(n.Fields, func(f source.Field) bool {
		return f.Name != "path" && f.Name != "mount" && f.Name != "read_only"
	})
}

func fileRef(n *source.Node, name string) (Entry, error) {
	p, problem := n.Get("path").Str(name + ".path")
	if problem != nil {
		return Entry{}, problem
	}
	src, err := cleanSource(p)
	if err != nil {
		return Entry{}, fmt.Errorf("%s.path %q: %w", name, p, err)
	}
	mount, readOnly := EvaluationRoot+"/"+src, true
	if m := n.Get("mount"); m != nil {
		if mount, problem = m.Str(name + ".mount"); problem != nil {
			return Entry{}, problem
		}
	}
	if ro := n.Get("read_only"); ro != nil {
		if readOnly, problem = ro.Boolean(name + ".read_only"); problem != nil {
			return Entry{}, problem
		}
	}
	dst, err := inside(EvaluationRoot)(mount)
	if err != nil {
		return Entry{}, fmt.Errorf("%s.mount %q: %w", name, mount, err)
	}
	return Entry{Path: dst, Mode: mode(readOnly), Asset: src, check: inside(EvaluationRoot)}, nil
}

// unique claims the entries' paths: no two may be equal, and none may be
// inside another.
func (b *builder) unique() {
	for _, e := range b.entries {
		if b.claimed[e.Path] {
			b.errorf("duplicate materialized path: %s", e.Path)
		}
		b.claimed[e.Path] = true
	}
	for _, e := range b.entries {
		for dir := range parents(e.Path) {
			if b.claimed[dir] {
				b.errorf("duplicate materialized path: %s lies inside %s", e.Path, dir)
			}
		}
	}
}

// free checks that a path named by the harness does not collide with any
// entry.
func (b *builder) free(what, p string) (string, bool) {
	c, err := CleanPath(p)
	if err != nil {
		b.errorf("%s %q: %w", what, p, err)
		return "", false
	}
	clash := b.claimed[c]
	for dir := range parents(c) {
		clash = clash || b.claimed[dir]
	}
	for q := range b.claimed {
		clash = clash || under(q, c)
	}
	if clash {
		b.errorf("%s collides with public materialized path: %s", what, c)
	}
	return c, !clash
}
