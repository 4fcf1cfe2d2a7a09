package reader

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// A pack is an office file in the Open Packaging Conventions: parts that name each other
// by relations.
type pack struct {
	*archive
	forest
	types map[string]string // of parts, by name
	bases map[string]string // by extension
}

// A relation is what a part says of another.
type relation struct {
	kind     string // after the last slash of the type
	target   string // the name of a part, or an address
	external bool
}

// openPack opens an office file, none of whose parts is a program.
func openPack(data []byte) (*pack, error) {
	a, err := openZip(data)
	if err != nil {
		return nil, err
	}
	p := &pack{archive: a, types: map[string]string{}, bases: map[string]string{}}
	list, err := p.tree("[Content_Types].xml")
	if err != nil {
		return nil, err
	}
	if list == nil {
		return nil, refuse("is not an office file: it has no list of its parts")
	}
	for _, n := range list.nodes {
		kind := n.attr("ContentType")
		if strings.Contains(kind, "macroEnabled") || strings.Contains(kind, "vbaProject") || strings.Contains(kind, "intlmacrosheet") || strings.Contains(kind, "ms-excel.macrosheet") {
			return nil, refuse("has macros")
		}
		if n.name == "Default" {
			p.bases[strings.ToLower(n.attr("Extension"))] = kind
		} else {
			p.types[strings.TrimPrefix(n.attr("PartName"), "/")] = kind
		}
	}
	for _, m := range a.members {
		if strings.EqualFold(path.Base(m.Name), "vbaProject.bin") {
			return nil, refuse("has macros")
		}
	}
	return p, nil
}

// tree returns a part as a tree, nil if it is not there.
func (p *pack) tree(name string) (*node, error) {
	data, err := p.part(name)
	if data == nil || err != nil {
		return nil, err
	}
	return p.parse(data)
}

// main returns the name of the part that the file is about, whose type is as expected.
func (p *pack) main(kind, called string) (string, error) {
	relations, err := p.relations("")
	if err != nil {
		return "", err
	}
	parts := allRelated(relations, "officeDocument")
	if len(parts) > 1 {
		return "", refuse("has several main parts")
	}
	if len(parts) == 0 || !strings.HasSuffix(p.contentType(parts[0]), kind+".main+xml") {
		return "", refuse("is not %s", called)
	}
	return parts[0], nil
}

func (p *pack) contentType(name string) string {
	if t := p.types[name]; t != "" {
		return t
	}
	return p.bases[strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))]
}

// relations returns the relations of a part, by their ids; those of the file itself have
// an empty name.
func (p *pack) relations(name string) (map[string]relation, error) {
	folder, base := path.Split(name)
	root, err := p.tree(folder + "_rels/" + base + ".rels")
	if err != nil {
		return nil, err
	}
	relations := map[string]relation{}
	for _, n := range root.all("Relationship") {
		kind := n.attr("Type")
		r := relation{kind: kind[strings.LastIndexByte(kind, '/')+1:], target: n.attr("Target"), external: n.attr("TargetMode") == "External"}
		if !r.external {
			if absolute, ok := strings.CutPrefix(r.target, "/"); ok {
				r.target = path.Clean(absolute)
			} else {
				r.target = path.Join(folder, r.target)
			}
		}
		if _, twice := relations[n.attr("Id")]; twice {
			return nil, refuse("has a relation twice: %q", n.attr("Id"))
		}
		relations[n.attr("Id")] = r
	}
	return relations, nil
}

// related returns the name of a part's related part of a kind, the first one by its id, or
// "".
func related(relations map[string]relation, kind string) string {
	for _, name := range allRelated(relations, kind) {
		return name
	}
	return ""
}

// allRelated returns the names of a part's related parts of a kind, in the order of ids.
func allRelated(relations map[string]relation, kind string) []string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(relations)) {
		if r := relations[id]; r.kind == kind && !r.external {
			names = append(names, r.target)
		}
	}
	return names
}
