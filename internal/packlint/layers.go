package packlint

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/console"
	"securebench/internal/family"
	"securebench/internal/packimage"
	"securebench/internal/packlint/likeness"
	"securebench/internal/pathname"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Export writes an image as "docker save" does to a file, as [imagestore.Exporter] says.
type Export func(ctx context.Context, ref, file string) (id string, err error)

// Layers returns warnings about built images of a pack in whose layers or configuration is
// what the pack hides from the agents that run in them: hidden values, tests and evaluation
// files, byte for byte within any content, or as copies in another layout. An image is
// exported to a file in a folder, one after the other, and read as a stream.
func Layers(ctx context.Context, p *pack.Pack, reg family.Registry, export Export, temp string) (source.Problems, error) {
	s := &scanner{linter: &linter{pack: p, seen: map[string]bool{}}, reg: reg,
		own:    packimage.Pack{Dir: filepath.Dir(p.Location.Manifest), ID: p.Manifest.ID, Version: p.Manifest.Version},
		hidden: map[string]*secrets{}, names: map[string]map[string]bool{}, all: map[string]bool{}}
	if err := s.openEvals(); err != nil {
		return nil, err
	}
	defer s.close()
	for row, err := range p.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		s.row(row)
	}
	for _, names := range s.names {
		maps.Copy(s.all, names)
	}
	for _, ref := range slices.Sorted(maps.Keys(s.hidden)) {
		if err := s.image(ctx, ref, export, filepath.Join(temp, "image.tar")); err != nil {
			return nil, err
		}
	}
	return s.sorted(), nil
}

// scanner looks into images.
type scanner struct {
	*linter
	reg    family.Registry
	own    packimage.Pack
	hidden map[string]*secrets        // by the image that the agents of their rows are in
	names  map[string]map[string]bool // by that image, as [linter.naming] adds them
	all    map[string]bool            // those of all images
	size   int                        // of all that is hidden
}

// row notes what a row hides from agents in an image of the pack.
func (s *scanner) row(row pack.Row) {
	n := row.Environment.Get("image")
	if n == nil || n.Kind != source.String || !s.own.Makes(n.Text) {
		return
	}
	if s.hidden[n.Text] == nil {
		s.hidden[n.Text], s.names[n.Text] = newSecrets(&s.size), map[string]bool{}
	}
	s.naming(row, s.names[n.Text])
	f := s.reg[row.Family]
	for _, field := range row.Eval.Fields {
		if lane := f.Lanes[field.Name]; lane != task.Hidden && !slices.Contains(f.Checkers, field.Name) {
			continue
		}
		eachSecret(field.Value, func(t *source.Node) {
			if telltale(t.Text, f.EvalSchema) && !holds(row.Input, t.Text) {
				text := []byte(t.Text)
				s.hidden[n.Text].add(fmt.Sprintf("eval.%s of task %s", field.Name, redact.Quote(row.ID)), text, likeness.Of(text), waysOf("eval."+field.Name, text)&^likeness.Contains)
			}
		})
	}
}

// eachSecret calls do for the texts of a value, except those that say how something is run.
func eachSecret(n *source.Node, do func(*source.Node)) {
	if n.Kind == source.String {
		do(n)
	}
	for _, it := range n.Items {
		eachSecret(it, do)
	}
	for _, f := range n.Fields {
		if !slices.Contains([]string{"command", "env", "image", "path", "source", "type", "user", "workdir"}, f.Name) {
			eachSecret(f.Value, do)
		}
	}
}

// holds reports whether the agent is shown a text.
func holds(input *source.Node, text string) (held bool) {
	if input != nil {
		eachText(input, func(t *source.Node) { held = held || strings.Contains(t.Text, strings.TrimSpace(text)) })
	}
	return held
}

// image looks into one image.
func (s *scanner) image(ctx context.Context, ref string, export Export, file string) (err error) {
	secret := s.hidden[ref]
	for _, name := range slices.Sorted(maps.Keys(s.pack.EvalFiles)) {
		if pathname.AnyAbove(s.names[ref], name) || !pathname.AnyAbove(s.all, name) { // which is no other row's
			s.evalFile(secret, name)
		}
	}
	delete(s.hidden, ref) // which is not needed any more
	defer func() { s.size -= secret.own }()
	if len(secret.texts) == 0 {
		return nil
	}
	secret.begin()
	name, _, _ := strings.Cut(path.Base(ref), ":")
	l := look{scanner: s, secrets: secret, ref: ref, at: source.Pos{File: filepath.Join(s.own.Dir, packimage.Folder, name, "Dockerfile")}}
	if secret.leftOut > 0 {
		l.warn(l.at, "split the pack", "image %s was not searched for %s: the pack hides more than %d MiB", ref, console.Plural(secret.leftOut, "text"), maxSecrets>>20)
	}
	defer func() {
		if e := os.Remove(file); !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	_, err = export(ctx, ref, file)
	if errors.Is(err, sandbox.ErrImageMissing) {
		l.warn(l.at, "build it with: securebench pack build "+s.own.Dir+" --rebuild", "image %s is not in Docker, and was not searched", ref)
		return nil
	}
	if err != nil {
		return err
	}
	if err := imagestore.ReadSaved(ctx, file, l.config, func(layer imagestore.SavedLayer) error { return l.layer(ctx, layer) }); err != nil {
		return fmt.Errorf("reading image %s: %w", ref, err)
	}
	return nil
}

// evalFile notes an evaluation file, and what is in it if it is an archive.
func (s *scanner) evalFile(secret *secrets, name string) {
	if s.evals == nil {
		return
	}
	walk(s.evals, name, s.pack.EvalFiles[name], func(member string, content []byte, m likeness.Marks) {
		what := path.Join(name, member)
		secret.add("the evaluation file "+redact.Quote(what), content, m, waysOf(what, content)&^likeness.Contains)
	})
}

// look is the search of one image.
type look struct {
	*scanner
	secrets *secrets
	ref     string
	at      source.Pos
}

// config searches the configuration: variables, labels and commands are in every sandbox.
func (l *look) config(text []byte) error {
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("reading its configuration: %w", err)
	}
	search := searcher{secrets: l.secrets, found: func(id int) { l.report("its configuration", "has", id) }}
	var each func(v any)
	each = func(v any) {
		switch v := v.(type) {
		case string:
			_, _ = search.Write([]byte(v)) // never fails
			search.end()
		case []any:
			for _, e := range v {
				each(e)
			}
		case map[string]any:
			for k, e := range v {
				each(k)
				each(e)
			}
		}
	}
	each(all)
	return nil
}

// layer searches one layer.
func (l *look) layer(ctx context.Context, layer imagestore.SavedLayer) error {
	in := fmt.Sprintf("layer %d of %d", layer.Number, layer.Of)
	file := ""
	here := func(member string) string {
		text := in + ", the file " + redact.Quote(file)
		if member != "" {
			text += ", in it " + redact.Quote(member)
		}
		return text
	}
	raw, inner := map[int]bool{}, map[int]bool{}
	whole := searcher{secrets: l.secrets, found: func(id int) { raw[id] = true }}
	parts := searcher{secrets: l.secrets, found: func(id int) { inner[id] = true }}
	return likeness.WalkTar(ctx, layer.Files, likeness.Visitor{
		Enter: func(h *tar.Header) {
			file = path.Clean(h.Name)
			_, _ = whole.Write([]byte(h.Name + "\x00" + h.Linkname)) // never fails
			whole.end()
			l.flush(raw, in+", the name of "+redact.Quote(file))
		},
		Whole: &whole, Part: &parts,
		WholeEnd: func() { whole.end(); l.flush(raw, here("")) },
		PartEnd:  func(member string) { parts.end(); l.flush(inner, here(member)) },
		Each:     func(member string, content []byte, m likeness.Marks) { l.alike(here(member), content, m) },
		Cut: func() {
			l.warn(l.at, "look into it", "image %s: %s is larger than what is unpacked, and was not searched whole", l.ref, here(""))
		},
	})
}

// alike reports what a content is a copy of, in another form.
func (l *look) alike(where string, content []byte, m likeness.Marks) {
	for _, f := range l.secrets.index.Find(m, likeness.Same|likeness.LaidOut|likeness.Shuffled|likeness.Reworded) {
		text := l.secrets.texts[f.ID]
		if l.secrets.ways[f.ID]&f.How == 0 || text != nil && bytes.Contains(content, text) { // which is found as it is
			continue
		}
		l.report(where, f.How.String(), int(f.ID))
	}
}

// flush reports what was found in a content, the closest once.
func (l *look) flush(found map[int]bool, where string) {
	for _, id := range slices.Sorted(maps.Keys(found)) {
		l.report(where, "has", id)
	}
	clear(found)
}

// report warns about something hidden.
func (l *look) report(where, how string, id int) {
	l.warn(l.at, "build it without that: a layer keeps what a later one deletes", "image %s: %s %s %s", l.ref, where, how, l.secrets.names[id])
}
