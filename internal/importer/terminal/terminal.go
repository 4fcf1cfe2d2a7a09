// Package terminal imports folders of terminal tasks: those of Harbor
// (task.toml), of Terminal-Bench (task.yaml), and the edition of the latter whose
// tasks say which Debian packages they need (task.json).
//
// A task that cannot be run as its author meant it is left out, with the reason.
// Nothing of a folder is run. The package keeps TOML, and the scripts of others, apart
// from the other importers.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"securebench/internal/importer/packdir"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// Options are the choices of an import.
type Options struct {
	ID       string // of the pack
	Limit    int    // read the first folders only; 0 is all
	Force    bool   // replace files that exist
	Start    string // the file of [readChanges]; "" is none
	Manifest string // the text of manifest.yaml
	// About and Licence are what is known of every task of the format.
	About, Licence string
}

// Result says what an import wrote.
type Result struct {
	Files   []string // names of the pack's own files
	Rows    int
	Images  int
	LeftOut []string // "NAME: reason", sorted by name
}

// A format reads one task folder.
type format struct {
	file string // by which a task's folder is known
	read func(folder, string) (*task, error)
}

func formatsOf(name string) []format {
	if name == "harbor" {
		return []format{{"task.toml", readHarbor}}
	}
	return []format{{"task.json", readDebian}, {"task.yaml", readTerminalBench}}
}

// leftOut is why a task is not imported.
type leftOut struct{ reason string }

func (l *leftOut) Error() string { return l.reason }

// leave returns the error that leaves a task out.
func leave(reason string, args ...any) error { return &leftOut{fmt.Sprintf(reason, args...)} }

// plainName is what the name of a task must look like to be part of an image's
// name.
var plainName = lazyregexp.New(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$`)

// Import reads the tasks in dir, which is a task's folder or holds such folders,
// and writes a pack to outDir. Nothing is written unless a task can be imported.
func Import(ctx context.Context, name, dir, outDir string, o Options) (sum Result, err error) {
	if !plainName.MatchString(o.ID) {
		return sum, fmt.Errorf("importing %s: the id %q becomes part of images' names: use lower-case letters, digits and single . _ or -", name, o.ID)
	}
	changes, err := readChanges(o.Start)
	if err != nil {
		return sum, err
	}
	folders, err := tasksIn(dir, formatsOf(name))
	if err != nil {
		return sum, err
	}
	if o.Limit > 0 && len(folders) > o.Limit {
		folders = folders[:o.Limit]
	}
	sum.Files = []string{"tasks.jsonl", "manifest.yaml", "ATTRIBUTION.md", "LICENSE"}
	out, err := packdir.New(outDir, o.Force, sum.Files...)
	if err != nil {
		return sum, err
	}
	defer out.Discard()
	w := writer{out: out, id: o.ID, bases: map[string]string{}, taken: map[string]bool{}}
	for _, f := range folders {
		if err := ctx.Err(); err != nil {
			return sum, fmt.Errorf("importing %s: %w", dir, err)
		}
		t, err := f.task(changes)
		if err == nil {
			err = w.task(t)
		}
		var left *leftOut
		switch {
		case errors.As(err, &left):
			sum.LeftOut = append(sum.LeftOut, f.name+": "+left.reason)
		case err != nil:
			return sum, fmt.Errorf("importing %s: %w", f.name, err)
		default:
			sum.Rows++
		}
	}
	if sum.Rows == 0 {
		return sum, fmt.Errorf("no task in %s can be imported: %s", dir, sum.LeftOut[0])
	}
	sum.Images = w.images
	return sum, w.finish(o, sum)
}

// taskFolder is a folder that holds a task.
type taskFolder struct {
	path, name string
	format     format
}

// task reads the task and makes the changes that the operator asked for.
func (f taskFolder) task(changes map[string]change) (*task, error) {
	if !plainName.MatchString(f.name) {
		return nil, leave("its name becomes part of an image's: use lower-case letters, digits and single . _ or -")
	}
	files, err := readFolder(f.path)
	if err != nil {
		return nil, err
	}
	t, err := f.format.read(files, f.name)
	if err != nil {
		return nil, err
	}
	return t, t.adapt(changes[f.name])
}

// tasksIn finds the task folders of a folder, in the order of their names.
func tasksIn(dir string, formats []format) ([]taskFolder, error) {
	if f, ok := taskIn(dir, formats); ok {
		abs, err := filepath.Abs(dir)
		f.name = filepath.Base(abs)
		return []taskFolder{f}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %s", dir, source.Words(err))
	}
	var out []taskFolder
	for _, e := range entries {
		if f, ok := taskIn(filepath.Join(dir, e.Name()), formats); ok && e.IsDir() {
			f.name = e.Name()
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no folder with a %s", dir, formats[0].file)
	}
	return out, nil
}

func taskIn(dir string, formats []format) (taskFolder, bool) {
	i := slices.IndexFunc(formats, func(f format) bool {
		info, err := os.Lstat(filepath.Join(dir, f.file))
		return err == nil && info.Mode().IsRegular()
	})
	if i < 0 {
		return taskFolder{}, false
	}
	return taskFolder{path: dir, format: formats[i]}, true
}

// The bounds of a task's folder.
const (
	maxFiles = 1 << 14
	maxBytes = 1 << 30
)

// file is a file of a task.
type file struct {
	data    []byte
	program bool
}

// folder is the files of a task by their paths.
type folder map[string]file

// readFolder reads a task's folder. Links and special files leave it out.
func readFolder(dir string) (folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out, total := folder{}, int64(0)
	err = fs.WalkDir(source.FS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return leave("%s is a link or a special file", name)
		case len(out) == maxFiles:
			return leave("it has more than %d files", maxFiles)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); total > maxBytes {
			return leave("its files are larger than %d bytes", maxBytes)
		}
		data, err := source.ReadFileIn(root, name, maxBytes)
		out[name] = file{data, info.Mode()&0o111 != 0}
		return err
	})
	return out, err
}

// below returns the files of a folder, by their paths in it.
func (f folder) below(dir string) folder {
	out := folder{}
	for name, content := range f {
		if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
			out[rel] = content
		}
	}
	return out
}

// text returns a file's content, "" for one that is not there.
func (f folder) text(name string) string { return string(f[name].data) }
