package forms

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"securebench/internal/attended"
	"securebench/internal/bounded"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

const (
	// maxTree bounds the files that are read back from a box, in bytes: they are
	// in memory.
	maxTree = 64 << 20
	// maxFiles bounds their number.
	maxFiles = 4096
)

// root is the folder in which programs are built and run.
const root = workspace.DefaultTarget

// programBox is a sandbox in which a candidate's commands run one after the other. Its
// first process is securebench's init, which no command can reach, and all
// commands run as a user without rights. It has a bounded tree, [root].
type programBox struct {
	limits sandbox.Limits
	tree   sandbox.Workspace
	tests  sandbox.Workspace // nil without tests
	box    *sandboxed.Box
	ran    bool // a command of the candidate's
}

// testsRoot is the folder of tests that share a box with the candidate, which no command
// can write to.
const testsRoot = "/securebench/tests"

// open makes a box for a case, whose commands take as long as the case's limit together.
func open(ctx context.Context, site *sandboxed.Site, c family.Case, tests bool) (b *programBox, err error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, sandboxed.StartLimit, sandboxed.ErrSlow)
	defer cancel()
	b = &programBox{limits: site.Limits}
	if b.tree, err = site.Space(ctx, "candidate files", sandbox.Nobody, nil); err != nil {
		return nil, err
	}
	mounts := []sandbox.Mount{{Workspace: b.tree, Target: root}}
	if tests {
		if b.tests, err = site.Space(ctx, "tests", sandbox.User{}, nil); err != nil {
			return nil, err
		}
		mounts = append(mounts, sandbox.Mount{Workspace: b.tests, Target: testsRoot, ReadOnly: true})
	}
	// No command has any capability.
	b.box, err = site.Open(ctx, "candidate", life(c), sandbox.Spec{Image: c.Image, Workdir: root, Mounts: mounts,
		Capabilities: sandbox.Supervisor()})
	return b, err
}

// Limit is the time that the commands of a case may take together.
func Limit(c family.Case) time.Duration {
	if c.Limits.Timeout > 0 {
		return c.Limits.Timeout
	}
	return 30 * time.Second
}

// life bounds the life of a box: an agent may work between its start and the first
// command.
func life(c family.Case) time.Duration { return 24*time.Hour + Limit(c) + sandboxed.StartLimit }

// boxFile is one regular file below a folder of the box.
type boxFile struct {
	Path string // relative
	Mode int64
	Data []byte
}

// lay writes files into a folder of the box's tree, which is made if it is not
// there. A [family.Failure] says that the candidate left no way to do it.
func (b *programBox) lay(ctx context.Context, dir string, files []boxFile) error {
	archive, err := packed(dir, files, sandbox.Nobody)
	if err != nil {
		return err
	}
	err = b.tree.Put(ctx, archive)
	switch {
	case err == nil:
		return nil
	case b.ran && sandboxed.Full(ctx, b.tree):
		return family.Fail(verdict.DiskLimit, "the candidate left no room for the files of the next command")
	case b.spoilt(err):
		return family.Fail(verdict.TestsFailed, "the candidate left its folder so that the files of the next command cannot be written")
	}
	return fmt.Errorf("laying a candidate's files: %w", err)
}

// spoilt reports whether an error is due to the tree that the candidate left. After
// its first command the tree is the candidate's, which could otherwise choose between
// a failure and an error of ours.
func (b *programBox) spoilt(err error) bool { return b.ran && errors.Is(err, sandbox.ErrTree) }

// layTests writes files into [testsRoot], in their order.
func (b *programBox) layTests(ctx context.Context, files []boxFile) error {
	archive, err := packed(".", files, sandbox.User{})
	if err != nil {
		return err
	}
	if err := b.tests.Put(ctx, archive); err != nil {
		return fmt.Errorf("laying the tests: %w", err)
	}
	return nil
}

// packed makes an archive of files in a folder.
func packed(dir string, files []boxFile, owner sandbox.User) (*bytes.Buffer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	var err error
	if dir != "." {
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, Uid: owner.UID, Gid: owner.GID})
	}
	for _, f := range files {
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, f.Path), Mode: f.Mode, Size: int64(len(f.Data)), Uid: owner.UID, Gid: owner.GID})
		}
		if err == nil {
			_, err = w.Write(f.Data)
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("packing files: %w", err)
	}
	return &archive, nil
}

// discard removes a folder of the box. What cannot be removed stays: it takes room
// that the candidate then lacks, and nothing reads it.
func (b *programBox) discard(ctx context.Context, dir string) { _ = b.tree.Remove(ctx, dir) }

// clear removes a folder of the box, which has to be gone. A [family.Failure] says
// that what the candidate's commands left there cannot be removed.
func (b *programBox) clear(ctx context.Context, dir string) error {
	err := b.tree.Remove(ctx, dir)
	switch {
	case err == nil:
		return nil
	case b.spoilt(err), b.ran && errors.Is(err, sandbox.ErrTooLarge):
		return family.Fail(verdict.TestsFailed, "the build left files that cannot be removed")
	}
	return fmt.Errorf("removing files of a build: %w", err)
}

// files returns the regular files below a folder or file of the box. Links are
// left out, and never followed. It is called when no process of the candidate's
// runs. A [family.Failure] says that there is more than is read, or that it cannot be
// read.
func (b *programBox) files(ctx context.Context, dir string) ([]boxFile, error) {
	var archive bytes.Buffer
	err := b.tree.Get(ctx, dir, maxTree, &archive)
	if errors.Is(err, sandbox.ErrTooLarge) {
		return nil, family.Fail(verdict.DiskLimit, "the candidate left more than %d MiB of files", maxTree>>20)
	}
	if b.spoilt(err) {
		return nil, family.Fail(verdict.TestsFailed, "the candidate left files that cannot be read")
	}
	if err != nil {
		return nil, fmt.Errorf("reading what a candidate left: %w", err)
	}
	return filesOf(&archive, dir)
}

// filesOf reads an archive of a folder, or of one file, which has the path ".".
func filesOf(archive io.Reader, dir string) (out []boxFile, err error) {
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what a candidate left: %w", err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path.Clean(h.Name), dir), "/")
		if name == "" {
			name = "."
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if len(out) == maxFiles {
			return nil, family.Fail(verdict.DiskLimit, "the candidate left more than %d files", maxFiles)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("reading what a candidate left: %w", err)
		}
		out = append(out, boxFile{Path: name, Mode: h.Mode & 0o777, Data: data})
	}
}

// command is a command of the candidate's.
type command struct {
	Argv    []string
	Env     []string // on top of the image's
	Dir     string   // relative to [root]
	Stdin   []byte
	Output  int64 // limit of each stream; 0 is the case's
	Timeout time.Duration
}

// ran is what a command did.
type ran struct {
	initproc.Result
	Stdout, Stderr []byte
}

// errFlood ends a command that writes more than its limit.
var errFlood = errors.New("more output than the limit")

// Run runs a command, and ends what it left running. A [family.Failure] says that
// it wrote too much; an error wraps [initproc.ErrLost] if the sandbox ended under
// it.
func (b *programBox) Run(ctx context.Context, c command) (ran, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, c.Timeout+sandboxed.StartLimit, sandboxed.ErrSlow)
	defer cancel()
	if c.Output == 0 {
		c.Output = b.limits.Output
	}
	b.ran = true
	var stdout, stderr bytes.Buffer
	limited := func(w io.Writer) io.Writer { return &bounded.Writer{W: w, Left: c.Output, Err: errFlood} }
	res, err := b.box.Client.Run(ctx, initproc.Command{Argv: c.Argv, Env: append([]string{"HOME=/tmp"}, c.Env...), Inherit: true,
		Dir: path.Join(root, c.Dir), User: sandbox.Nobody, Stdin: bytes.NewReader(c.Stdin), Stdout: limited(&stdout), Stderr: limited(&stderr),
		Output: c.Output + 1, Timeout: c.Timeout})
	flood := errors.Is(err, errFlood)
	if err == nil || flood {
		err = b.box.Client.KillAll(ctx)
	}
	if err == nil && flood {
		err = family.Fail(verdict.OutputLimit, "the candidate wrote more than its limit of output")
	}
	return ran{res, stdout.Bytes(), stderr.Bytes()}, err
}

// settle ends every process of the box, and judges the end of a verification by
// how the box ended.
func (b *programBox) settle(ctx context.Context, err error) error {
	limits, endErr := b.box.End(ctx)
	err = sandboxed.Settle(err, limits, endErr, true)
	var f *family.Failure
	if !errors.As(err, &f) || f.Reason != verdict.WorkerExited && f.Reason != verdict.TestsFailed {
		return err
	}
	if limit := family.LimitReached(limits, "the candidate"); limit != nil {
		return limit
	}
	return err
}
