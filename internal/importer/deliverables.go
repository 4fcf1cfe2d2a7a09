package importer

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"securebench/internal/importer/packdir"
	"securebench/internal/source"
)

// deliverableFamily is the family of rows whose answers are files.
const deliverableFamily = "artifact_task"

// officeImage and dataImage have what such rows are worked on with.
const (
	officeImage = "securebench-office:1"
	dataImage   = "securebench-data:1"
)

// deliverableInput is the input of an artifact_task row.
type deliverableInput struct {
	Brief  string     `json:"brief"`
	Output outputSpec `json:"output_spec"`
}

// outputSpec is the file that is asked for.
type outputSpec struct {
	Type string `json:"type"`
	Path string `json:"path"`
}

// deliverableEval is the eval of an artifact_task row.
type deliverableEval struct {
	Reference any            `json:"reference_artifact"` // an evalPath, or several of which any is right
	Rubric    map[string]any `json:"rubric"`
}

// evalPath names a file of the evaluation.
type evalPath struct {
	Path string `json:"path"`
}

// mounted is a public file of a row.
type mounted struct {
	Path     string `json:"path"`
	Mount    string `json:"mount"`
	ReadOnly *bool  `json:"read_only,omitempty"`
}

// writable is a file that the agent changes.
func writable() *bool { return new(bool) }

// maxMaterial is the most bytes of one file that is taken over.
const maxMaterial = 256 << 20

// materials are the files that rows name, in the folder of their data set.
type materials struct {
	dir     string
	pending []material
	done    map[string]bool
}

// material is a file of the data set, and its path in the pack.
type material struct{ from, to string }

// stat returns what a path is, or why it cannot be taken over.
func (m *materials) stat(name string) (fs.FileInfo, string) {
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return nil, fmt.Sprintf("%s is not there", name)
	}
	defer root.Close()
	info, err := root.Lstat(filepath.FromSlash(name))
	switch {
	case !fs.ValidPath(name) || err != nil:
		return nil, fmt.Sprintf("%s is not there", name)
	case info.IsDir():
		return info, ""
	case !info.Mode().IsRegular():
		return nil, fmt.Sprintf("%s is no file", name)
	case info.Size() > maxMaterial:
		return nil, fmt.Sprintf("%s has more than %d MiB", name, maxMaterial>>20)
	case m.pointer(root, name, info):
		return nil, fmt.Sprintf("%s is a pointer of Git LFS, without its file", name)
	}
	return info, ""
}

// pointer reports whether a file only names one that Git LFS keeps.
func (m *materials) pointer(root *os.Root, name string, info fs.FileInfo) bool {
	if info.Size() > 1024 {
		return false
	}
	data, err := root.ReadFile(filepath.FromSlash(name))
	return err == nil && bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/"))
}

// file plans to copy a file. It returns why that cannot be, or "".
func (m *materials) file(from, to string) string {
	info, why := m.stat(from)
	if why == "" && info.IsDir() {
		why = from + " is no file"
	}
	if why == "" {
		m.pending = append(m.pending, material{from, to})
	}
	return why
}

// folder plans to copy a folder's files to a folder of the pack's public ones, and returns
// the assets that mount what is at its top; edited is the one that the agent changes.
func (m *materials) folder(from, to, edited string) (assets []mounted, why string) {
	info, why := m.stat(from)
	if why == "" && !info.IsDir() {
		why = from + " is no folder"
	}
	if why != "" {
		return nil, why
	}
	err := fs.WalkDir(os.DirFS(filepath.Join(m.dir, filepath.FromSlash(from))), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case path.Base(name)[0] == '.': // of an editor or a version control system
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if path.Dir(name) == "." {
			a := mounted{Path: path.Join(to, name), Mount: name}
			if name == edited {
				a.ReadOnly = writable()
			}
			assets = append(assets, a)
		}
		if d.IsDir() {
			return nil
		}
		if why := m.file(path.Join(from, name), path.Join("assets", to, name)); why != "" {
			return errors.New(why)
		}
		return nil
	})
	if err != nil {
		return nil, err.Error()
	}
	return assets, ""
}

// names lists the names of a folder's entries, nil without one.
func (m *materials) names(dir string) []string {
	entries, err := os.ReadDir(filepath.Join(m.dir, filepath.FromSlash(dir)))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// header returns the names of a table's columns.
func (m *materials) header(name string) ([]string, error) {
	f, err := os.OpenInRoot(m.dir, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return csv.NewReader(io.LimitReader(f, maxLine)).Read()
}

// put copies what was planned into the pack, or forgets it.
func (m *materials) put(out *packdir.Set, wanted bool) error {
	pending := m.pending
	m.pending = nil
	for _, p := range pending {
		if !wanted || m.done[p.to] {
			continue
		}
		if m.done == nil {
			m.done = map[string]bool{}
		}
		m.done[p.to] = true
		f, err := os.OpenInRoot(m.dir, filepath.FromSlash(p.from))
		if err != nil {
			return fmt.Errorf("reading the data set: %w", err)
		}
		err = out.PutFrom(p.to, f, maxMaterial)
		if err = cmp.Or(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// oneFile returns a function that returns row after row of a file in the folder of a data
// set, and then io.EOF.
func oneFile(name string, sum io.Writer) (func() (*object, error), error) {
	f, err := source.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the data set: %w", err)
	}
	next, err := rowsOf(io.TeeReader(f, sum), name, true)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	over := false
	return func() (*object, error) {
		if over {
			return nil, io.EOF
		}
		o, err := next()
		if err != nil {
			over = true
			return nil, cmp.Or(f.Close(), err)
		}
		return o, nil
	}, nil
}

// beside returns the folder of a data set whose input is a file, or a folder that has what
// is named itself or in one of some folders.
func beside(input string, has string, below ...string) string {
	info, err := os.Stat(input)
	if err != nil || !info.IsDir() {
		return filepath.Dir(input)
	}
	for _, sub := range append([]string{"."}, below...) {
		if _, err := os.Stat(filepath.Join(input, sub, has)); err == nil {
			return filepath.Join(input, sub)
		}
	}
	return input
}
