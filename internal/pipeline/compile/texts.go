package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"securebench/internal/family"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Texts returns where the rows of families have texts that may be in files. The schema of a
// family is read when its first row is.
func Texts(reg family.Registry) pack.Texts {
	places := map[string]func() []pack.TextPlace{}
	for name, f := range reg {
		places[name] = sync.OnceValue(func() []pack.TextPlace { return append(textsOf(name, f), filesOf(f)...) })
	}
	return func(family string) []pack.TextPlace {
		if of := places[family]; of != nil {
			return of()
		}
		return nil
	}
}

// textsOf returns the places that the schemas of a family mark.
func textsOf(name string, f family.Family) []pack.TextPlace {
	w := &marks{}
	for _, part := range []struct {
		key  string
		text []byte
	}{{"input", f.InputSchema}, {"eval", f.EvalSchema}} {
		if part.text == nil {
			continue
		}
		root, err := source.ParseJSON(name+"/"+part.key, 1, part.text)
		if err != nil {
			panic(fmt.Sprintf("compile: the schema %s/%s: %v", name, part.key, err)) // part of the program
		}
		w.defs = root.Get("$defs")
		w.walk(root, []string{part.key})
	}
	return w.found
}

// filesOf returns where the rows of a family name evaluation files that stay files.
func filesOf(f family.Family) (out []pack.TextPlace) {
	for _, path := range f.EvalFiles {
		out = append(out, pack.TextPlace{Path: append([]string{"eval"}, path...), File: true})
	}
	for _, key := range slices.Sorted(maps.Keys(f.Lanes)) {
		if f.Lanes[key] == task.EvaluationInputs {
			out = append(out, pack.TextPlace{Path: []string{"eval", key}, Reference: true})
		}
	}
	return out
}

// marks collects the marked parts of a schema.
type marks struct {
	defs  *source.Node
	found []pack.TextPlace
}

// maxPlace is how deep a place can be: a schema may refer to itself.
const maxPlace = 16

// walk looks for marks in the part of a schema that describes the value at a place.
func (w *marks) walk(part *source.Node, place []string) {
	if part == nil || part.Kind != source.Map || len(place) > maxPlace {
		return
	}
	if mark := part.Get(family.FileMark); mark != nil {
		w.add(pack.TextPlace{Path: place, Folder: mark.Text == family.FolderMark})
	}
	if ref := part.Get("$ref"); ref != nil {
		w.walk(w.defs.Get(strings.TrimPrefix(ref.Text, "#/$defs/")), place)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		if all := part.Get(key); all != nil {
			for _, one := range all.Items {
				w.walk(one, place)
			}
		}
	}
	w.walk(part.Get("then"), place)
	w.walk(part.Get("else"), place)
	below := func(name string) []string { return append(slices.Clone(place), name) }
	if properties := part.Get("properties"); properties != nil {
		for _, f := range properties.Fields {
			w.walk(f.Value, below(f.Name))
		}
	}
	w.walk(part.Get("items"), below("*"))
	w.walk(part.Get("additionalProperties"), below("*"))
}

// add adds a place once; several parts of a schema may describe it.
func (w *marks) add(p pack.TextPlace) {
	for i, known := range w.found {
		if slices.Equal(known.Path, p.Path) {
			w.found[i].Folder = known.Folder || p.Folder
			return
		}
	}
	w.found = append(w.found, p)
}
