package family

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// Files gives verifiers access to the pack's files. The zero value is a pack
// without files.
type Files struct {
	// Public and Eval are the roots of the public and the evaluation files;
	// nil if the pack has none.
	Public, Eval *os.Root
	// PublicDigests and EvalDigests are the digests of the files when the pack
	// was loaded, by path. Reading a file that has changed since is a
	// [workspace.ErrChanged].
	PublicDigests, EvalDigests map[string]string
	// Bring makes files be there on a machine that has only some; nil is one that has all.
	Bring workspace.Bring
}

// OpenFiles opens the two roots; either may be missing. The caller
// closes the result.
func OpenFiles(publicRoot, evalRoot string, publicDigests, evalDigests map[string]string) (Files, error) {
	f := Files{PublicDigests: publicDigests, EvalDigests: evalDigests}
	for root, dir := range map[**os.Root]string{&f.Public: publicRoot, &f.Eval: evalRoot} {
		r, err := os.OpenRoot(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Files{}, errors.Join(fmt.Errorf("opening the pack's files: %w", err), f.Close())
		}
		*root = r
	}
	return f, nil
}

// Close closes the roots.
func (f Files) Close() error {
	var errs []error
	for _, root := range []*os.Root{f.Public, f.Eval} {
		if root != nil {
			errs = append(errs, root.Close())
		}
	}
	return errors.Join(errs...)
}

// Layout returns what a test sandbox sees of a task, within limits: its public values,
// its evaluation inputs, the files that these refer to, and the given public
// assets. evalPaths are further evaluation files, which the family's rows name
// in a format of their own.
func (f Files) Layout(v task.SandboxView, assets []task.Asset, l sandbox.Limits, evalPaths ...string) (*workspace.Layout, error) {
	return workspace.ForTestSandbox(v, workspace.Options{
		Assets: f.Public, Expect: f.PublicDigests, PublicAssets: assets,
		Evals: f.Eval, ExpectEvals: f.EvalDigests, EvalPaths: evalPaths,
		MaxBytes: l.Disk, MaxFiles: int(l.Files), Bring: f.Bring,
	})
}

// Solution returns the files of a row's own solution, at a path below the
// evaluation root, as a tar archive. They belong to root and are read-only.
func (f Files) Solution(path string) ([]byte, error) {
	layout, err := workspace.ForSolution(path, workspace.Options{Evals: f.Eval, ExpectEvals: f.EvalDigests, Bring: f.Bring})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := layout.WriteTar(&out, 0, 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
