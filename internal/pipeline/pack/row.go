package pack

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/source"
	"securebench/internal/task"
)

// Row is one row of a pack. The rules common to all families have been
// checked.
type Row struct {
	Index  int // 0-based position among the rows
	Line   int // in the file, from 1
	ID     string
	Family string // the row's family, or the manifest's default
	// Input, Eval, Environment and Metadata are objects, never nil.
	// Environment has the manifest's defaults under the row's own keys.
	Input, Eval, Environment, Metadata *source.Node
	Assets                             []task.Asset
	AssetList                          *source.Node // as written in the row; nil without assets
	Raw                                []byte       // the line without its ending
	// Whole is the line with the texts of the files that it names in their place; Raw if
	// it names none.
	Whole []byte
	// EvalTexts are the paths of files below the evaluation root whose texts are in Eval.
	EvalTexts []string
	Pos       source.Pos
	Offset    int64 // of Raw in the file; set by Load

	files bool       // it names files with texts
	idPos source.Pos // of the id, if there is one
	uses  []use      // files that a task of a folder names
	trees *trees     // nil outside of Load
}

// parseRow reads one line and keeps a copy of raw. The row is usable only if
// errs is empty. An err is that of a file with a text of the row.
func parseRow(t *textReader, at source.Pos, index int, raw []byte) (row Row, errs, warnings source.Problems, err error) {
	raw = bytes.Clone(raw)
	p := &rowReader{m: t.manifest, row: Row{Index: index, Line: at.Line, Raw: raw, Whole: raw, Pos: at}}
	root, err := source.ParseJSON(at.File, at.Line, raw)
	if err != nil {
		return p.row, asProblems(at, err), nil, nil
	}
	p.read(root)
	if len(p.errs) == 0 {
		p.errs, err = t.resolve(&p.row)
	}
	if p.row.files && err == nil && len(p.errs) == 0 {
		p.row.Whole = root.JSON()
		p.bounded(p.row.Whole, "the row has %d bytes with the files that it names, more than %d")
	}
	return p.row, p.errs, p.warnings, err
}

// NewRow is a row that is not read from a pack but made for one: an object as a line of it
// has, whose values keep the places that they come from. The row is usable only if errs is
// empty; its Raw is the line.
func NewRow(m *Manifest, index int, root *source.Node) (row Row, errs, warnings source.Problems) {
	raw := root.JSON()
	p := &rowReader{m: m, row: Row{Index: index, Line: root.Pos.Line, Raw: raw, Whole: raw, Pos: root.Pos}}
	p.read(root)
	return p.row, p.errs, p.warnings
}

type rowReader struct {
	m              *Manifest
	row            Row
	task           bool // the row is the file of a task
	errs, warnings source.Problems
}

func (p *rowReader) read(root *source.Node) {
	if root.Kind != source.Map {
		what, fix := "a row", "write one task a line, as a JSON object"
		if p.task {
			what, fix = taskFile, "write the keys of a row: "+strings.Join(rowKeys(), ", ")
		}
		p.fail(&source.Problem{Pos: root.Pos, Message: fmt.Sprintf("%s must be an object, not %s", what, root.Kind), Fix: fix})
		return
	}
	p.row.Pos = root.Pos
	section := "the row"
	if p.task {
		section = taskFile
	}
	p.fields(root, section, rowKeys()...)
	p.names(root)
	p.row.Input = p.object(root, "input")
	p.row.Eval = p.object(root, "eval")
	p.row.Metadata = p.object(root, "metadata")
	p.row.Environment = merge(p.m.Environment, p.object(root, "environment"))
	p.assets(root)
}

// bounded refuses a row that would be longer than a line may be.
func (p *rowReader) bounded(line []byte, format string) {
	if len(line) > maxLine {
		p.errs.Add(p.row.Pos, fixLarge, format, len(line), maxLine)
	}
}

// rowKeys are the keys of a row, in the order of the format.
func rowKeys() []string {
	return []string{"id", "family", "input", "eval", "assets", "environment", "metadata"}
}

func (p *rowReader) names(root *source.Node) {
	var err *source.Problem
	if id := root.Get("id"); id != nil {
		p.row.idPos = id.Pos
		p.row.ID, err = name(id, "id")
		p.fail(err)
	} else {
		p.errs.Add(root.Pos, "give every task a unique id", "the row has no id")
	}
	p.row.Family = p.m.Family
	if n := root.Given("family"); n != nil {
		p.row.Family, err = name(n, "family")
		p.fail(err)
	} else if p.m.Family == "" {
		p.errs.Add(root.Pos, "or set defaults.family in the manifest", "family is required")
	}
}

// merge overrides the fields of base with those of over, one level deep, as
// the format specifies. Fields keep their positions.
func merge(base, over *source.Node) *source.Node {
	out := &source.Node{Pos: over.Pos, Kind: source.Map}
	for _, f := range base.Fields {
		if over.Get(f.Name) == nil {
			out.Fields = append(out.Fields, f)
		}
	}
	out.Fields = append(out.Fields, over.Fields...)
	return out
}

func (p *rowReader) assets(root *source.Node) {
	list := root.Given("assets")
	if list == nil {
		return
	}
	if list.Kind != source.List {
		p.fail(source.Problemf(list.Pos, "assets must be a list, not %s", list.Kind))
		return
	}
	if len(list.Items) == 0 {
		return
	}
	p.row.AssetList = list
	for i, n := range list.Items {
		if a, ok := p.asset(n, fmt.Sprintf("assets[%d]", i)); ok {
			p.row.Assets = append(p.row.Assets, a)
		}
	}
	if len(p.errs) == 0 {
		p.errs = append(p.errs, collisions(p.row)...)
	}
}

// asset reads one entry. The keys type and mode are hints of the format that
// have no effect. Any other unknown key is an error, because a misspelt key
// would place the asset differently than its author intended.
func (p *rowReader) asset(n *source.Node, what string) (task.Asset, bool) {
	before := len(p.errs)
	if n.Kind != source.Map {
		p.fail(source.Problemf(n.Pos, "%s must be an object, not %s", what, n.Kind))
		return task.Asset{}, false
	}
	p.errs.Closed(n, what, "path", "mount", "read_only", "type", "mode")
	a := task.Asset{ReadOnly: p.m.ReadOnly}
	file := n.Get("path")
	if file == nil {
		p.fail(source.Problemf(n.Pos, "%s.path is required", what))
		return task.Asset{}, false
	}
	var err *source.Problem
	a.Path, err = relativePath(file, what+".path")
	p.fail(err)
	mount := file
	if m := n.Given("mount"); m != nil {
		mount = m
	}
	a.Mount, err = mountPath(mount, what+".mount")
	p.fail(err)
	if ro := n.Given("read_only"); ro != nil {
		a.ReadOnly, err = ro.Boolean(what + ".read_only")
		p.fail(err)
	}
	return a, len(p.errs) == before
}

func (p *rowReader) object(root *source.Node, key string) *source.Node {
	n, err := object(root, key, key)
	p.fail(err)
	return n
}

func (p *rowReader) fields(n *source.Node, section string, known ...string) {
	errs, warnings := n.Check(section, true, known...)
	p.errs = append(p.errs, errs...)
	p.warnings = append(p.warnings, warnings...)
}

// fail adds err unless it is nil or already present: the path of an asset
// without a mount is checked twice.
func (p *rowReader) fail(err *source.Problem) {
	if err != nil && !slices.ContainsFunc(p.errs, func(q *source.Problem) bool { return q.Pos == err.Pos }) {
		p.errs = append(p.errs, err)
	}
}
