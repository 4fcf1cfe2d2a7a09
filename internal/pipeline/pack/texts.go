package pack

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"securebench/internal/digest"
	"securebench/internal/pathname"
	"securebench/internal/source"
	"securebench/internal/workspace"
)

// TextPlace is where rows of a family have a text, in place of which {path: …} may name a
// file below the lane's root.
type TextPlace struct {
	// Path leads from "input" or "eval" to the text; "*" is each item or member.
	Path []string
	// Folder says that the path may also be that of a folder, which stands for an object
	// of its files' texts by their names below it.
	Folder bool
	// File says that there is no text: the value is the path of a file that stays one. Its
	// object may be in a list.
	File bool
	// Reference says that there is no text: the value names such a file if it is an object with
	// its path, as [workspace.IsFileReference] says, and is data otherwise.
	Reference bool
}

// Texts returns the places of a family's texts. A nil one has none.
type Texts func(family string) []TextPlace

// fixLarge is what to do about a row that is too large.
const fixLarge = "split the task, or make the data where it is used"

// maxTextFiles is how many files a folder of texts may have.
const maxTextFiles = 1024

// textReader puts texts from files into rows.
type textReader struct {
	places       Texts
	manifest     *Manifest
	public, eval textLane
	below        string // the task's folder, in a folder of tasks
}

// textLane is the root of one lane's files.
type textLane struct {
	dir  string   // relative to the manifest's folder
	root *os.Root // nil if there is none
	// sums are the digests of its files when the pack was loaded; nil before.
	sums   map[string]string
	sorted func() []string // their names, once they are needed
	tree   *tree           // while the pack is loaded
}

// openTexts opens the folders of texts for rows that are read without a scan of the
// folders. The caller closes it.
func openTexts(loc Location, m *Manifest, places Texts) (*textReader, error) {
	t := &textReader{places: places, manifest: m, public: textLane{dir: m.PublicRoot}, eval: textLane{dir: m.EvalRoot}}
	folders := loc.folders()
	for _, l := range []*textLane{&t.public, &t.eval} {
		dir := filepath.Join(filepath.Dir(loc.Manifest), filepath.FromSlash(l.dir))
		if folders {
			dir, l.dir = loc.Tasks, filepath.Base(loc.Tasks)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // a scan says what is wrong, if a row needs it
		}
		var err error
		if l.root, err = os.OpenRoot(dir); err != nil {
			t.close()
			return nil, fmt.Errorf("opening the folder %s of %s: %w", l.dir, loc.Manifest, withoutPath(err))
		}
	}
	return t, nil
}

func (t *textReader) close() {
	for _, l := range []*textLane{&t.public, &t.eval} {
		if l.root != nil {
			_ = l.root.Close() // nothing is written
		}
	}
}

// expect has the files compared with those that the pack had when it was loaded.
func (t *textReader) expect(public, eval map[string]string) {
	for l, sums := range map[*textLane]map[string]string{&t.public: public, &t.eval: eval} {
		l.sums = sums
		l.sorted = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(sums)) })
	}
}

// resolve puts the texts of files where a row names them. An err is a [*ChangedError], or a
// file that cannot be read.
func (t *textReader) resolve(row *Row) (errs source.Problems, err error) {
	if t.places == nil {
		return nil, nil
	}
	r := &resolution{textReader: t, left: maxLine}
	for _, place := range t.places(row.Family) {
		if t.below == "" && (place.File || place.Reference) {
			continue // which stay as they are
		}
		section, lane := row.Input, &t.public
		if place.Path[0] == "eval" {
			section, lane = row.Eval, &t.eval
		}
		if err := r.at(section, place, 1, lane); err != nil {
			return r.errs, err
		}
	}
	if t.below != "" {
		r.errs = append(r.errs, apart(t.below, r.withAssets(row))...)
		row.uses = r.uses
	}
	row.files, row.EvalTexts = r.found, r.evalTexts
	return r.errs, nil
}

// resolution is what is found in one row.
type resolution struct {
	*textReader
	errs  source.Problems
	found bool
	uses  []use
	// evalTexts are the files of the evaluation's whose texts are put into the row.
	evalTexts []string
	left      int64  // bytes that files may still have
	picks     []pick // for each "*" on the way to the value that is looked at
}

// pick is what a "*" stands for: an item, or if there is a name a member.
type pick struct {
	index int
	name  string
}

// what names the value at the first elements of a place.
func (r *resolution) what(path []string) string {
	out, picks := path[0], r.picks
	for _, name := range path[1:] {
		if name != "*" {
			out += "." + name
			continue
		}
		if p := picks[0]; p.name != "" {
			out += fmt.Sprintf("[%q]", p.name)
		} else {
			out += fmt.Sprintf("[%d]", p.index)
		}
		picks = picks[1:]
	}
	return out
}

// at follows a place from its element i on.
func (r *resolution) at(n *source.Node, place TextPlace, i int, lane *textLane) error {
	if n == nil {
		return nil
	}
	if i == len(place.Path) {
		return r.value(n, place, lane)
	}
	name := place.Path[i]
	if place.File && i == len(place.Path)-1 && n.Kind == source.List {
		for j, item := range n.Items {
			if named := item.Get(name); named != nil {
				r.file(named, fmt.Sprintf("%s[%d].%s", r.what(place.Path[:i]), j, name))
			}
		}
		return nil
	}
	if name != "*" {
		return r.at(n.Get(name), place, i+1, lane)
	}
	for j, item := range n.Items {
		if err := r.picked(pick{index: j}, item, place, i, lane); err != nil {
			return err
		}
	}
	for _, f := range n.Fields {
		if err := r.picked(pick{name: f.Name}, f.Value, place, i, lane); err != nil {
			return err
		}
	}
	return nil
}

// picked follows a place from what its element i, a "*", stands for.
func (r *resolution) picked(p pick, n *source.Node, place TextPlace, i int, lane *textLane) error {
	r.picks = append(r.picks, p)
	err := r.at(n, place, i+1, lane)
	r.picks = r.picks[:len(r.picks)-1]
	return err
}

// value looks at the value of a place.
func (r *resolution) value(n *source.Node, place TextPlace, lane *textLane) error {
	switch {
	case place.File:
		r.file(n, r.what(place.Path))
	case place.Reference && workspace.IsFileReference(n):
		r.file(n.Get("path"), r.what(place.Path)+".path")
	case !place.Reference && n.Kind == source.Map && len(n.Fields) == 1 && n.Fields[0].Name == "path":
		return r.text(n, place.Folder, r.what(place.Path)+".path", lane)
	}
	return nil
}

// withAssets adds a task's assets to the files that it names.
func (r *resolution) withAssets(row *Row) []use {
	for i, a := range row.Assets {
		r.uses = append(r.uses, use{a.Path, fmt.Sprintf("assets[%d]", i), row.AssetList.Items[i].Pos, true, true})
	}
	return r.uses
}

// file puts the task's folder in front of the path of an evaluation file.
func (r *resolution) file(n *source.Node, what string) {
	if n.Kind != source.String || pathFault(n.Text) != "" || strings.TrimSpace(n.Text) == "" {
		return // what is wrong is reported with the rules of the family
	}
	n.Text = path.Join(r.below, n.Text)
	r.uses = append(r.uses, use{n.Text, what, n.Pos, false, true})
}

// text replaces a value that is {path: …} and nothing else; what names the path.
func (r *resolution) text(n *source.Node, folder bool, what string, lane *textLane) error {
	at := n.Fields[0].Value
	name, problem := relativePath(at, what)
	if problem == nil && r.below != "" {
		name = path.Join(r.below, name)
		r.uses = append(r.uses, use{name, what, at.Pos, lane == &r.public, false})
	}
	if problem == nil && r.below == "" && lane == &r.public && pathname.Overlap(path.Join(lane.dir, name), r.manifest.EvalRoot) {
		problem = &source.Problem{Pos: at.Pos, Fix: "keep public and evaluation files apart",
			Message: fmt.Sprintf("%s %q reaches into the evaluation files in %s", what, name, r.manifest.EvalRoot)}
	}
	if problem == nil && lane.tree != nil {
		problem = lane.tree.check(at, what, name)
	}
	if r.errs.Note(problem) {
		return nil
	}
	names, isFolder, err := lane.list(name)
	switch {
	case err != nil:
		r.errs.Add(at.Pos, "", "%s %q cannot be read: %v", what, name, withoutPath(err))
		return nil
	case isFolder && !folder:
		r.errs.Add(at.Pos, "name one of its files", "%s %q is a folder", what, name)
		return nil
	case len(names) > maxTextFiles:
		r.errs.Add(at.Pos, "combine them", "%s %q has more than %d files", what, name, maxTextFiles)
		return nil
	case isFolder && len(names) == 0:
		r.errs.Add(at.Pos, "put files there, or remove the field", "%s %q is a folder without files", what, name)
		return nil
	}
	made := &source.Node{Pos: n.Pos, Kind: source.Map}
	for _, file := range names {
		text, err := r.read(at, what, file, lane)
		if err != nil || len(r.errs) > 0 {
			return err
		}
		value := &source.Node{Pos: n.Pos, Kind: source.String, Text: text}
		if !isFolder {
			made = value
			break
		}
		made.Fields = append(made.Fields, source.Field{Name: strings.TrimPrefix(file, name+"/"), Pos: n.Pos, Value: value})
	}
	if lane == &r.eval {
		r.evalTexts = append(r.evalTexts, names...)
	}
	*n, r.found = *made, true
	return nil
}

// read reads one file, which must be text and the one that was loaded.
func (r *resolution) read(at *source.Node, what, name string, lane *textLane) (string, error) {
	data, err := source.ReadFileIn(lane.root, name, r.left)
	if err != nil {
		if lane.tooLarge(name, r.left) {
			of := "a row"
			if r.below != "" {
				of = "a task"
			}
			r.errs.Add(at.Pos, fixLarge, "%s %q is too large: %s with the files that it names may have %d bytes", what, name, of, int64(maxLine))
			return "", nil
		}
		return "", fmt.Errorf("%s: reading %s: %w", at.Pos, path.Join(lane.dir, name), err)
	}
	sum := sha256.Sum256(data)
	if want := lane.sums[name]; lane.sums != nil && want != "" && want != digest.Format(sum[:]) {
		return "", &ChangedError{source.Pos{File: path.Join(lane.dir, name)}, "the file changed"}
	}
	if p := source.CheckText(path.Join(lane.dir, name), data); p != nil {
		r.errs.Add(at.Pos, cmp.Or(p.Fix, "save it as UTF-8"), "%s %q is not text: %s: %s", what, name, p.Pos, p.Message)
		return "", nil
	}
	r.left -= int64(len(data))
	return string(data), nil
}

// tooLarge reports whether a file has more than most bytes.
func (l *textLane) tooLarge(name string, most int64) bool {
	info, err := l.root.Lstat(name)
	return err == nil && info.Mode().IsRegular() && info.Size() > most
}

// list returns the files that a path stands for: itself, or what is in the folder.
func (l *textLane) list(name string) (names []string, folder bool, err error) {
	if l.root == nil {
		return nil, false, fs.ErrNotExist
	}
	if l.sums == nil {
		return l.walk(name)
	}
	if _, ok := l.sums[name]; ok {
		return []string{name}, false, nil
	}
	sorted := l.sorted()
	from, _ := slices.BinarySearch(sorted, name+"/")
	for _, file := range sorted[from:] {
		if !strings.HasPrefix(file, name+"/") {
			break
		}
		if !leftOut(file[len(name)+1:]) && len(names) <= maxTextFiles {
			names = append(names, file)
		}
	}
	return names, true, nil
}

// walk is list for a folder that was not scanned.
func (l *textLane) walk(name string) (names []string, folder bool, err error) {
	err = source.WalkDir(source.FS(l.root), name, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			folder = folder || file == name
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is %s, %w", file, source.FileType(d.Type()), source.ErrNotRegular)
		case file == name || !leftOut(file[len(name)+1:]):
			names = append(names, file)
		}
		if len(names) > maxTextFiles {
			return fs.SkipAll
		}
		return nil
	})
	slices.Sort(names)
	return names, folder, err
}

// leftOut reports whether a file of a folder of texts is none of them: what Python and
// editors leave behind.
func leftOut(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "__pycache__" || strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}
