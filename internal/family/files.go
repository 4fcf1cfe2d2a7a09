package family

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// Files are the pack's own files for verifiers. The zero value is a pack
// without any.
type Files struct {
	// Public and Eval are the roots of the public and the evaluation files;
	// nil where the pack has none.
	Public, Eval *os.Root
	// PublicDigests and EvalDigests are what the files had when the pack was
	// loaded, by path. A file that has changed since is
	// [workspace.ErrChanged] when it is read.
	PublicDigests, EvalDigests map[string]string
}

// OpenFiles opens the two roots, either of which may be missing. The caller
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

// Layout is what a test sandbox sees of a task: its public values, its
// evaluation inputs, the public assets that the caller lists, and the files
// that evaluation inputs refer to. The verifier adds the files that its rows
// name in another form.
func (f Files) Layout(v task.SandboxView, assets []task.Asset, evalPaths ...string) (*workspace.Layout, error) {
	return workspace.ForTestSandbox(v, workspace.Options{
		Assets: f.Public, Expect: f.PublicDigests, PublicAssets: assets,
		Evals: f.Eval, ExpectEvals: f.EvalDigests, EvalPaths: evalPaths,
	})
}
