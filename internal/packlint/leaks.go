package packlint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/packimage"
	"securebench/internal/packlint/likeness"
	"securebench/internal/pathname"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// Of an index of public files.
const (
	maxPublic = 100_000 // files, and members of archives
	maxPairs  = 200     // of public files and evaluation files that are alike
)

// Leaks returns warnings about what agents get and should not: public files, also in
// archives, and files of the pack's images that are copies of hidden tests, solutions
// and evaluation files. Programs are recognised in another layout and order, data is
// compared as it is.
func Leaks(ctx context.Context, p *pack.Pack) (source.Problems, error) {
	l := &linter{pack: p, seen: map[string]bool{}}
	err := l.openEvals()
	if err != nil {
		return nil, err
	}
	defer l.close()
	leaks, err := l.leaks(ctx)
	if err != nil || leaks.public.Empty() {
		return nil, err
	}
	for row, err := range p.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		leaks.row(row)
	}
	leaks.finish()
	return l.sorted(), nil
}

// leaks compares what agents get with what they must not get.
type leaks struct {
	*linter
	public likeness.Index
	files  []publicFile // by their numbers in the index
	pairs  []*pair
	// images are the names of the pack's images by their references, each with those
	// that it is built from.
	images map[string][]string
}

// publicFile is a file that agents get, or a member of one that is an archive.
type publicFile struct {
	name   string // below the public assets, or below the folder of images
	image  string // whose folder has it, "" for an asset
	member string
}

// pair is a public file that is a copy of an evaluation file.
type pair struct {
	file         int32
	how          likeness.How
	eval, member string
	seen         string // the first task whose agent gets the file
	named        bool   // a row names the evaluation file
	both         string // the first task that has both
}

// leaks reads the public files and compares them with the evaluation files.
func (l *linter) leaks(ctx context.Context) (*leaks, error) {
	k := &leaks{linter: l, images: map[string][]string{}}
	root, err := os.OpenRoot(l.pack.PublicRoot())
	if err == nil {
		for _, name := range slices.Sorted(maps.Keys(l.pack.PublicFiles)) {
			if ctx.Err() != nil {
				return nil, errors.Join(context.Cause(ctx), root.Close())
			}
			k.add(root, publicFile{name: name}, l.pack.PublicFiles[name])
		}
		err = root.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the pack's public files: %w", err)
	}
	if err := k.addImages(ctx); err != nil || k.public.Empty() || l.evals == nil {
		return k, err
	}
	for _, name := range slices.Sorted(maps.Keys(l.pack.EvalFiles)) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		walk(l.evals, name, l.pack.EvalFiles[name], func(member string, content []byte, m likeness.Marks) {
			for _, found := range k.public.Find(m, waysOf(path.Join(name, member), content)) {
				if len(k.pairs) < maxPairs {
					k.pairs = append(k.pairs, &pair{file: found.ID, how: found.How, eval: name, member: member})
				}
			}
		})
	}
	return k, nil
}

// addImages reads the folders that the pack's images are built from.
func (k *leaks) addImages(ctx context.Context) error {
	own := packimage.Pack{Dir: filepath.Dir(k.pack.Location.Manifest), ID: k.pack.Manifest.ID, Version: k.pack.Manifest.Version}
	if all, err := own.Images(); err == nil { // or else building them says what is wrong
		for _, img := range all {
			k.images[img.Ref] = []string{img.Name}
			for _, base := range img.Uses {
				k.images[img.Ref] = append(k.images[img.Ref], k.images[base]...)
			}
		}
	}
	return walkImages(own.Dir, func(root *os.Root, name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || !d.Type().IsRegular() {
			return err
		}
		image, _, _ := strings.Cut(name, "/")
		k.add(root, publicFile{name: name, image: image}, "")
		return nil
	})
}

// add adds a public file and what is in it. One that cannot be read has no copies.
func (k *leaks) add(root *os.Root, f publicFile, sum string) {
	walk(root, f.name, sum, func(member string, _ []byte, m likeness.Marks) {
		if len(k.files) < maxPublic {
			f.member = member
			k.public.Add(int32(len(k.files)), m)
			k.files = append(k.files, f)
		}
	})
}

func walk(root *os.Root, name, sum string, each func(string, []byte, likeness.Marks)) {
	f, err := source.OpenIn(root, name, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		_ = likeness.Walk(f, info.Size(), sum, each) // what cannot be read has no copies
	}
}

// solution matches the names of files and values that are solutions.
var solution = lazyregexp.New(`(?i)(?:^|[/_.-])(?:solutions?|solve|oracle|reference|gold|canonical)(?:[/_.-]|$)`)

// waysOf returns how copies of something hidden are recognised. A starter file may
// have the words of its solution, and the input of a task the lines of what is
// expected.
func waysOf(name string, content []byte) likeness.How {
	switch {
	case !likeness.IsCode(name, content):
		return likeness.Same
	case solution.MatchString(name):
		return likeness.Same | likeness.LaidOut | likeness.Shuffled
	}
	return likeness.Same | likeness.LaidOut | likeness.Shuffled | likeness.Reworded | likeness.Contains
}

// row looks which of the files that are alike a row has, and for its own texts.
func (k *leaks) row(row pack.Row) {
	names := map[string]bool{}
	if len(k.pairs) > 0 {
		k.naming(row, names)
	}
	for _, p := range k.pairs {
		named := p.both == "" && pathname.AnyAbove(names, p.eval)
		p.named = p.named || named
		if (p.seen == "" || named) && k.gets(row, k.files[p.file]) {
			if p.seen == "" {
				p.seen = row.ID
			}
			if named {
				p.both = row.ID
			}
		}
	}
	for _, f := range row.Eval.Fields {
		eachText(f.Value, func(n *source.Node) {
			text := []byte(n.Text)
			ways := waysOf("eval."+f.Name, text)
			for _, found := range k.public.Find(likeness.Of(text), ways) {
				if file := k.files[found.ID]; k.gets(row, file) {
					k.copy(file, row.ID, found.How, fmt.Sprintf("eval.%s at %s", f.Name, n.Pos))
				}
			}
		})
	}
}

// gets reports whether the agent of a row gets a file.
func (k *leaks) gets(row pack.Row, f publicFile) bool {
	if f.image != "" {
		n := row.Environment.Get("image")
		return n != nil && slices.Contains(k.images[n.Text], f.image)
	}
	for _, a := range row.Assets {
		if pathname.Within(f.name, a.Path) {
			return true
		}
	}
	return false
}

// finish warns about the evaluation files that agents get: in the row that has them,
// or if no row says whose they are, in any.
func (k *leaks) finish() {
	for _, p := range k.pairs {
		file, id := k.files[p.file], p.both
		if id == "" && !p.named {
			id = p.seen
		}
		if id != "" || file.image != "" {
			k.copy(file, id, p.how, "the evaluation file "+redact.Quote(path.Join(p.eval, p.member)))
		}
	}
}

// copy warns about a public file that is a copy.
func (k *leaks) copy(f publicFile, task string, how likeness.How, of string) {
	at, what, fix := filepath.Join(k.pack.PublicRoot(), filepath.FromSlash(f.name)), "the file", "remove it from the assets"
	if f.image != "" {
		at = filepath.Join(filepath.Dir(k.pack.Location.Manifest), packimage.Folder, filepath.FromSlash(f.name))
		what, fix = "the image's file", "remove it from the image's folder"
	}
	if f.member != "" {
		what = "its member " + redact.Quote(f.member)
	}
	if task != "" {
		what += fmt.Sprintf(", which the agent of task %s gets,", redact.Quote(task))
	}
	k.warn(source.Pos{File: at}, fix+", or ignore this warning if it gives nothing away", "%s %s %s", what, how, of)
}
