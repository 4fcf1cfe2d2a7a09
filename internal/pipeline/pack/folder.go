package pack

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/pathname"
	"securebench/internal/source"
)

const (
	tasksFolder = "tasks"     // of a pack that is a folder of tasks
	taskFile    = "task.yaml" // in the folder of each
	maxTask     = 4 << 20     // bytes of it
	maxTasks    = 1 << 16     // such folders
)

// A folder of tasks has a folder for each task, with task.yaml, which is a row in YAML, and
// the files that it names beside that. Each becomes the line that a file of rows would have:
// compact JSON, the keys of the row in the order of the format, texts in the place of their
// files, and the paths of other files below the task's name. The files of either lane are
// those that rows name in it; no file is of both.

// taskStream reads rows from folders of tasks.
type taskStream struct {
	loc   Location
	names []string
	index int
	texts *textReader
	sum   hash.Hash
}

// openTasks lists the folders of tasks, in the order of their names.
func openTasks(loc Location, texts *textReader) (*taskStream, error) {
	if err := loc.oneForm(); err != nil {
		return nil, err
	}
	names, err := taskNames(loc)
	return &taskStream{loc: loc, names: names, texts: texts, sum: sha256.New()}, err
}

// taskNames lists the folders of tasks; what it returns is not nil.
func taskNames(loc Location) ([]string, error) {
	dir, err := os.Open(loc.Tasks)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", loc.Tasks, withoutPath(err))
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxTasks + 1)
	if len(entries) > maxTasks {
		return nil, source.Problemf(source.Pos{File: loc.Tasks}, "the folder has more than %d tasks", maxTasks)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: %w", loc.Tasks, withoutPath(err))
	}
	names, errs := []string{}, source.Problems(nil)
	for _, e := range entries {
		switch at := (source.Pos{File: shorten(filepath.Join(loc.Tasks, e.Name()))}); {
		case strings.HasPrefix(e.Name(), "."): // what a system or an editor leaves
		case len(errs) == maxProblems:
		case !e.IsDir():
			errs.Add(at, "give each task a folder with "+taskFile, "%s is in the place of a task's folder", source.FileType(e.Type()))
		default:
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, errs.Err()
}

// unread refuses folders of files that a folder of tasks does not read.
func unread(loc Location, m *Manifest) (errs source.Problems) {
	for _, dir := range []string{m.PublicRoot, m.EvalRoot} {
		at := filepath.Join(filepath.Dir(loc.Manifest), filepath.FromSlash(dir))
		if !missing(at) && filepath.Clean(at) != filepath.Clean(loc.Tasks) {
			errs.Add(source.Pos{File: at}, "put its files beside the "+taskFile+" that names them", "a pack of %s/*/%s does not read this folder", filepath.Base(loc.Tasks), taskFile)
		}
	}
	return errs
}

func (s *taskStream) close() {}

// pos is the file of the task that next returned last.
func (s *taskStream) pos() source.Pos {
	if s.index == 0 || s.index > len(s.names) {
		return source.Pos{File: s.loc.Tasks}
	}
	return source.Pos{File: s.loc.task(s.names[s.index-1])}
}

// task is the file of a task.
func (l Location) task(name string) string { return filepath.Join(l.Tasks, name, taskFile) }

func (s *taskStream) digest() string { return digest.Format(s.sum.Sum(nil)) }

func (s *taskStream) next() (r read, more bool, err error) {
	if s.index == len(s.names) {
		s.index++ // behind the last
	}
	if s.index > len(s.names) {
		return r, false, nil
	}
	s.index++
	r, err = readTask(s.texts, s.loc, s.names[s.index-1], s.index-1)
	s.sum.Write(r.Raw)
	s.sum.Write([]byte("\n"))
	return r, true, err
}

// readTask reads one task.
func readTask(t *textReader, loc Location, name string, index int) (r read, err error) {
	file := loc.task(name)
	at := source.Pos{File: file}
	r.Row = Row{Index: index, Line: index + 1, Pos: at}
	fail := func(err error) (read, error) {
		r.errs = asProblems(at, err)
		return r, nil
	}
	if what, fix := nameProblem(name, name); what != "" {
		return fail(&source.Problem{Pos: at, Message: "the task's folder has " + what, Fix: fix})
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return fail(&source.Problem{Pos: at, Message: "the task's folder has no " + taskFile, Fix: "write the task there, or remove the folder"})
	}
	text, err := readRegular(file, maxTask)
	if err != nil {
		return fail(err)
	}
	root, err := source.ParseYAML(file, text)
	if err != nil {
		r.errs = problemsOf(at, err)
		return r, nil
	}
	p := &rowReader{m: t.manifest, row: r.Row, task: true}
	p.odd(root)
	if root.Kind == source.Map {
		inOrder(root, name)
		placeAssets(root, name)
	}
	p.read(root)
	if len(p.errs) == 0 {
		below := *t
		below.below = name
		p.errs, err = below.resolve(&p.row)
	}
	p.row.Raw = root.JSON()
	p.row.Whole = p.row.Raw
	if err == nil && len(p.errs) == 0 {
		p.bounded(p.row.Raw, "the task has %d bytes as a line, with the files that it names, more than %d")
	}
	return read{p.row, p.errs, p.warnings}, err
}

// problemsOf returns the problems that an error joins.
func problemsOf(at source.Pos, err error) (out source.Problems) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return asProblems(at, err)
	}
	for _, one := range joined.Unwrap() {
		out = append(out, asProblems(at, one)...)
	}
	return out
}

// odd refuses scalars about which YAML readers disagree: nothing in a task may depend on its
// reader.
func (p *rowReader) odd(n *source.Node) {
	if n.Odd {
		p.errs.Add(n.Pos, "write it in quotes, or in plain digits", "%s is read differently by YAML readers", shorten(n.Plain))
	}
	for _, item := range n.Items {
		p.odd(item)
	}
	for _, f := range n.Fields {
		p.odd(f.Value)
	}
}

// inOrder puts the keys of a row into the order of the format, and gives a row without an id
// that of its folder.
func inOrder(root *source.Node, name string) {
	if root.Get("id") == nil {
		root.Fields = append(root.Fields, source.Field{Name: "id", Pos: root.Pos, Value: &source.Node{Pos: root.Pos, Kind: source.String, Text: name}})
	}
	order := func(f source.Field) int {
		if i := slices.Index(rowKeys(), f.Name); i >= 0 {
			return i
		}
		return len(rowKeys())
	}
	slices.SortStableFunc(root.Fields, func(a, b source.Field) int { return cmp.Compare(order(a), order(b)) })
}

// placeAssets puts the task's name in front of the paths of its assets, which keep their
// places in the workspace.
func placeAssets(root *source.Node, name string) {
	list := root.Get("assets")
	if list == nil {
		return
	}
	for _, item := range list.Items {
		at := item.Get("path")
		if at == nil || at.Kind != source.String || pathFault(at.Text) != "" || strings.TrimSpace(at.Text) == "" {
			continue // it is reported
		}
		if item.Given("mount") == nil {
			item.Fields = slices.DeleteFunc(item.Fields, func(f source.Field) bool { return f.Name == "mount" })
			item.Fields = append(item.Fields, source.Field{Name: "mount", Pos: at.Pos, Value: &source.Node{Pos: at.Pos, Kind: source.String, Text: at.Text}})
		}
		at.Text = path.Join(name, at.Text)
	}
}

// use is a file, or a folder, that a task names in a lane.
type use struct {
	path   string // below the folder of tasks
	what   string // the field
	at     source.Pos
	public bool
	stays  bool // as a file; a text becomes part of the row
}

// apart refuses files that a task names in both lanes, and its own description.
func apart(name string, uses []use) (errs source.Problems) {
	for i, u := range uses {
		if pathname.Overlap(u.path, path.Join(name, taskFile)) {
			errs.Add(u.at, "name a file or folder beside it", "%s reaches %s, which has the answers", u.what, taskFile)
			continue
		}
		for _, v := range uses[:i] {
			if u.public != v.public && pathname.Overlap(u.path, v.path) {
				errs.Add(u.at, "keep public and hidden files apart", "%s names what %s names in the other lane", u.what, v.what)
				break
			}
		}
	}
	return errs
}

// share returns the part of a tree that tasks name: the digests of its files, and that of the
// tree that has nothing else, as a pack with these files would have it.
func (t *tree) share(named []string) (files map[string]string, sum string) {
	files, folders := map[string]string{}, map[string]bool{}
	roots := map[string]bool{}
	for _, name := range named {
		roots[name] = true
	}
	for name, e := range t.entries {
		if e.folder || !pathname.AnyAbove(roots, name) {
			continue
		}
		files[name] = e.sum
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	h := sha256.New()
	for _, f := range t.order {
		if f.info.IsDir() && folders[f.path] {
			f.writeTo(h, "")
		} else if s := files[f.path]; s != "" {
			f.writeTo(h, s)
		}
	}
	return files, digest.Format(h.Sum(nil))
}
