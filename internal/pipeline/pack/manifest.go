package pack

import (
	"fmt"
	"math"
	"path"
	"strings"
	"unicode"

	"securebench/internal/digest"
	"securebench/internal/source"
	"securebench/internal/workspace"
)

// maxName is the longest id in bytes. Ids become parts of file names, labels
// and records, in an encoding that can triple them.
const maxName = 512

// Manifest is the pack's manifest.yaml. Unknown keys are ignored with a
// warning.
type Manifest struct {
	ID      string
	Version int64
	Family  string // defaults.family; "" if not set
	// FamilyPos is the position of that.
	FamilyPos source.Pos
	// Environment is defaults.environment, an object; rows are merged over it.
	Environment *source.Node
	PublicRoot  string // slash-separated, relative to the manifest's folder
	EvalRoot    string // likewise
	ReadOnly    bool   // the default of an asset

	publicPos, evalPos source.Pos
}

// ReadManifest reads and checks a pack's manifest. Warnings are returned with
// also an error. The digest covers the file's bytes.
func ReadManifest(loc Location) (m Manifest, sum string, warnings source.Problems, err error) {
	b, err := readRegular(loc.Manifest, maxManifest)
	if err != nil {
		return Manifest{}, "", nil, err
	}
	m, warnings, err = ParseManifest(loc.Manifest, b)
	if err != nil {
		return Manifest{}, "", warnings, err
	}
	return m, digest.Bytes(b), warnings, nil
}

// ParseManifest is [ReadManifest] for the text of a manifest.
func ParseManifest(file string, text []byte) (m Manifest, warnings source.Problems, err error) {
	root, err := source.ParseYAML(file, text)
	if err != nil {
		return Manifest{}, nil, err
	}
	p := &manifestReader{}
	p.read(root)
	if len(p.errs) > 0 {
		for _, w := range p.warnings { // a misspelt key explains a missing one
			hint := *w
			hint.Message = "warning: " + hint.Message
			p.errs = append(p.errs, &hint)
		}
		return Manifest{}, p.warnings, p.errs.Err()
	}
	return p.m, p.warnings, nil
}

type manifestReader struct {
	m              Manifest
	errs, warnings source.Problems
}

func (p *manifestReader) read(root *source.Node) {
	if root.Kind != source.Map {
		p.errs.Note(source.Problemf(root.Pos, "the manifest must be an object, not %s", root.Kind))
		return
	}
	p.fields(root, "the manifest", "id", "version", "defaults", "asset_roots", "asset_defaults")
	if id, ok := p.require(root, "id"); ok {
		var err *source.Problem
		p.m.ID, err = name(id, "manifest.id")
		p.errs.Note(err)
	}
	if version, ok := p.require(root, "version"); ok {
		var err *source.Problem
		p.m.Version, err = version.Int("manifest.version", math.MinInt64, math.MaxInt64)
		p.errs.Note(err)
	}
	p.defaults(root)
	p.roots(root)
}

func (p *manifestReader) defaults(root *source.Node) {
	defaults := p.object(root, "manifest.defaults", "defaults")
	p.fields(defaults, "manifest.defaults", "family", "environment")
	if n := defaults.Given("family"); n != nil {
		p.m.FamilyPos = n.Pos
	}
	source.Optional(&p.errs, defaults, "manifest.defaults.family", &p.m.Family, name)
	p.m.Environment = p.object(defaults, "manifest.defaults.environment", "environment")
	assets := p.object(root, "manifest.asset_defaults", "asset_defaults")
	p.fields(assets, "manifest.asset_defaults", "read_only")
	p.m.ReadOnly = true
	source.Optional(&p.errs, assets, "manifest.asset_defaults.read_only", &p.m.ReadOnly, (*source.Node).Boolean)
}

func (p *manifestReader) roots(root *source.Node) {
	roots := p.object(root, "manifest.asset_roots", "asset_roots")
	p.fields(roots, "manifest.asset_roots", "public", "eval")
	p.m.PublicRoot, p.m.publicPos = p.root(roots, "public", "assets")
	p.m.EvalRoot, p.m.evalPos = p.root(roots, "eval", "hidden")
}

// root reads one asset root and cleans it.
func (p *manifestReader) root(roots *source.Node, key, def string) (string, source.Pos) {
	n := roots.Given(key)
	if n == nil {
		return def, source.Pos{File: roots.Pos.File}
	}
	dir, err := relativePath(n, "manifest.asset_roots."+key)
	p.errs.Note(err)
	return dir, n.Pos
}

// require returns the value of a required key.
func (p *manifestReader) require(root *source.Node, key string) (*source.Node, bool) {
	n := root.Get(key)
	if n == nil {
		p.errs.Note(source.Problemf(root.Pos, "manifest.%s is required", key))
	}
	return n, n != nil
}

// object returns the object at key; a missing or null one is empty.
func (p *manifestReader) object(parent *source.Node, what, key string) *source.Node {
	n, err := object(parent, what, key)
	p.errs.Note(err)
	return n
}

func (p *manifestReader) fields(n *source.Node, section string, known ...string) {
	errs, warnings := n.Check(section, true, known...)
	p.errs = append(p.errs, errs...)
	p.warnings = append(p.warnings, warnings...)
}

// object returns the object at key of parent. A missing or null one is an
// empty object at parent's position. The result is never nil, even with an
// error.
func object(parent *source.Node, what, key string) (*source.Node, *source.Problem) {
	n := parent.Given(key)
	switch {
	case n == nil:
		return &source.Node{Pos: parent.Pos, Kind: source.Map}, nil
	case n.Kind != source.Map:
		return &source.Node{Pos: n.Pos, Kind: source.Map}, source.Problemf(n.Pos, "%s must be an object, not %s", what, n.Kind)
	}
	return n, nil
}

// name reads an id: a short string without characters that could end a line, a
// field or an argument, or make one id display as another.
func name(n *source.Node, what string) (string, *source.Problem) {
	s, err := n.Str(what)
	if err != nil {
		return "", err
	}
	if len(s) > maxName {
		return "", &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s has %d bytes", what, len(s)),
			Fix: fmt.Sprintf("at most %d: it becomes part of file names and records", maxName)}
	}
	for _, r := range s {
		if kind := unsafeRune(r); kind != "" {
			return "", &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s contains %s (%U)", what, kind, r),
				Fix: "remove it: ids are shown in records, logs and terminals, where it could forge or hide text"}
		}
	}
	return s, nil
}

// unsafeRune names the class of a rune that an id may not contain, or "".
func unsafeRune(r rune) string {
	switch {
	case r == 0:
		return "a NUL character"
	case r == '\n' || r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp):
		return "a line break"
	case unicode.Is(unicode.Cc, r):
		return "a control character"
	case unicode.Is(unicode.Bidi_Control, r):
		return "a bidirectional control character"
	}
	return ""
}

// relativePath reads a relative, slash-separated path below some folder and
// returns it cleaned.
func relativePath(n *source.Node, what string) (string, *source.Problem) {
	s, err := n.Str(what)
	if err != nil {
		return "", err
	}
	const fix = "write a relative path with forward slashes"
	switch bad := pathFault(s); bad {
	case "":
		return path.Clean(s), nil
	default:
		return "", &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("%s %q %s", what, shorten(s), bad), Fix: fix}
	}
}

// pathFault says why s is not an acceptable relative path, or "".
func pathFault(s string) string {
	switch {
	case strings.Contains(s, `\`):
		return "contains a backslash"
	case strings.HasPrefix(s, "/"):
		return "is absolute"
	case strings.ContainsFunc(s, func(r rune) bool { return unsafeRune(r) != "" }):
		return "contains a control character"
	case path.Clean(s) == ".":
		return "names the folder itself"
	case len(s) > workspace.MaxPath:
		return fmt.Sprintf("is longer than %d bytes", workspace.MaxPath)
	}
	for part := range strings.SplitSeq(s, "/") {
		switch {
		case part == "..":
			return `contains ".."`
		case len(part) > workspace.MaxPart:
			return fmt.Sprintf("has a part of more than %d bytes", workspace.MaxPart)
		case trailing(part):
			return "has a part that ends in a dot or a space"
		}
	}
	return ""
}
