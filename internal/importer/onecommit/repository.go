package onecommit

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// The bounds of a repository.
const (
	maxObjects = 1 << 18
	maxBytes   = 1 << 30
	maxDepth   = 64
	maxPath    = 4096 // bytes, as on Linux
)

// Object is an object of a repository.
type Object struct {
	Kind Kind
	Data []byte
}

// Repository is a commit with all that its tree holds, and nothing before it.
type Repository struct {
	head    ID
	objects map[ID]Object
	files   map[string]file
	bytes   int64
	entries int // of all trees; one that is in two places counts twice
}

// file is a file, link or submodule of the commit.
type file struct {
	mode int
	id   ID
}

// Read makes a repository of a commit. get returns an object by id and type;
// what it returns is checked against the id.
func Read(head ID, get func(ID, Kind) ([]byte, error)) (*Repository, error) {
	r := &Repository{head: head, objects: map[ID]Object{}, files: map[string]file{}}
	commit, err := r.object(head, Commit, get)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(commit), "\n")
	digits, ok := strings.CutPrefix(first, "tree ")
	root, err := ParseID(digits)
	if err != nil || !ok {
		return nil, fmt.Errorf("the commit %s names no tree", head)
	}
	return r, r.tree(root, "", 0, get)
}

func (r *Repository) object(id ID, kind Kind, get func(ID, Kind) ([]byte, error)) ([]byte, error) {
	if o, ok := r.objects[id]; ok && o.Kind == kind {
		return o.Data, nil
	}
	data, err := get(id, kind)
	if err != nil {
		return nil, err
	}
	if NewID(kind, data) != id {
		return nil, fmt.Errorf("the %s %s is damaged", kind, id)
	}
	if r.bytes += int64(len(data)); r.bytes > maxBytes || len(r.objects) >= maxObjects {
		return nil, fmt.Errorf("the commit has more than %d bytes or %d objects", maxBytes, maxObjects)
	}
	r.objects[id] = Object{kind, data}
	return data, nil
}

func (r *Repository) tree(id ID, dir string, depth int, get func(ID, Kind) ([]byte, error)) error {
	if depth > maxDepth {
		return errors.New("its folders are nested too deeply")
	}
	data, err := r.object(id, Tree, get)
	if err != nil {
		return err
	}
	return decodeTree(data, func(mode int, name string, id ID) error {
		name = path.Join(dir, name)
		// Folders also count: a few empty ones in one another, each twice, would
		// take for ever.
		if r.entries++; r.entries > maxObjects {
			return fmt.Errorf("it has more than %d files and folders", maxObjects)
		}
		if len(name) > maxPath {
			return fmt.Errorf("%.80q… is longer than %d bytes", name, maxPath)
		}
		switch mode {
		case modeTree:
			return r.tree(id, name, depth+1, get)
		case modeFile, modeExec, modeLink:
			r.files[name] = file{mode, id}
			_, err := r.object(id, Blob, get)
			return err
		case modeSubmodule:
			r.files[name] = file{mode, id}
			return nil
		}
		return fmt.Errorf("%q has the mode %o", name, mode)
	})
}

// Names returns the paths of all files, sorted.
func (r *Repository) Names() []string { return slices.Sorted(maps.Keys(r.files)) }

// when is the time of every file of an archive.
func when() time.Time { return time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) }

// WriteTar writes the checkout as an archive below a folder: the files of the
// commit, and a .git with their objects, one branch, an index, and nothing
// else: no remote, no reflog, no hook. Where the commit has a parent, the
// repository is shallow, as a clone of depth one is. The bytes depend on the
// repository alone.
func (r *Repository) WriteTar(out io.Writer, dir string) error {
	pack, idx, err := r.pack()
	if err != nil {
		return err
	}
	name := "pack-" + ID(pack[len(pack)-len(ID{}):]).String()
	git := map[string]string{
		".git/HEAD":            "ref: refs/heads/main\n",
		".git/config":          "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
		".git/refs/heads/main": r.head.String() + "\n",
		".git/index":           string(r.index()),

		".git/objects/pack/" + name + ".pack": string(pack),
		".git/objects/pack/" + name + ".idx":  string(idx),
	}
	if bytes.Contains(r.objects[r.head].Data, []byte("\nparent ")) {
		git[".git/shallow"] = r.head.String() + "\n"
	}
	w := &treeWriter{tar: tar.NewWriter(out), dir: dir, made: map[string]bool{}}
	for _, name := range []string{".", ".git/objects/info", ".git/objects/pack", ".git/refs/tags"} {
		w.folder(name)
	}
	for _, name := range slices.Sorted(maps.Keys(git)) {
		w.file(name, 0o644, git[name])
	}
	for _, name := range r.Names() {
		switch f := r.files[name]; f.mode {
		case modeLink:
			w.link(name, string(r.objects[f.id].Data))
		case modeSubmodule:
			w.folder(name)
		case modeExec:
			w.file(name, 0o755, string(r.objects[f.id].Data))
		default:
			w.file(name, 0o644, string(r.objects[f.id].Data))
		}
	}
	if w.err != nil {
		return fmt.Errorf("writing the checkout: %w", w.err)
	}
	return w.tar.Close()
}

// treeWriter writes entries of an archive, with the folders above them. It
// keeps its first error.
type treeWriter struct {
	tar  *tar.Writer
	dir  string
	made map[string]bool
	err  error
}

func (w *treeWriter) add(h *tar.Header, text string) {
	h.ModTime, h.Format = when(), tar.FormatPAX
	if w.err == nil {
		w.err = w.tar.WriteHeader(h)
	}
	if w.err == nil {
		_, w.err = io.WriteString(w.tar, text)
	}
}

func (w *treeWriter) folder(name string) {
	full := path.Join(w.dir, name)
	if full == "." || w.made[full] {
		return
	}
	w.made[full] = true
	if up := path.Dir(name); name != "." {
		w.folder(up)
	}
	w.add(&tar.Header{Typeflag: tar.TypeDir, Name: full + "/", Mode: 0o755}, "")
}

func (w *treeWriter) file(name string, mode int64, text string) {
	w.folder(path.Dir(name))
	w.add(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(w.dir, name), Mode: mode, Size: int64(len(text))}, text)
}

func (w *treeWriter) link(name, target string) {
	w.folder(path.Dir(name))
	w.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: path.Join(w.dir, name), Linkname: target, Mode: 0o777}, "")
}
