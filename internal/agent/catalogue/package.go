package catalogue

import (
	"path"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/debian"
	"securebench/internal/digest"
)

// Package is where a program comes from, and what of it is used.
type Package struct {
	Name string `json:"-"` // of the program
	// NPM is the package of the npm registry whose versions and tags are the program's.
	NPM string `json:"npm"`
	// Build and BuildVersion name the package of a platform's build and its version, with
	// {arch}, {libc} and {version}; "" is NPM and {version}. Where neither has {libc}, a
	// build runs with every C library.
	Build        string `json:"build"`
	BuildVersion string `json:"build_version"`
	// Files says where the files of the package go; one that none is about is left out.
	Files []Placement `json:"files"`
	Start string      `json:"start"` // the file that is started, in the tree
	// Executable are files of the tree that can be executed, though the package does not
	// say so.
	Executable []string `json:"executable"`
	// Runtime runs the file, such as node@22.1.0; "" if it is an executable.
	Runtime string `json:"runtime"`
	// PyPI is, instead of NPM, the project of the Python registry whose version is the
	// program's, and Requirements that and all that it needs, in the form of pip, each with
	// its digests.
	PyPI         string `json:"pypi"`
	Requirements string `json:"requirements"`

	// Of a program of Debian:
	Debian map[string][]debian.Package `json:"-"` // what it is made of, by processor
	Beside []File                      `json:"-"` // texts that lie beside it
	Exact  string                      `json:"-"` // its version
	Glibc  int                         `json:"-"` // the minor version of its C library
}

// Placement says where a file goes, or all below a folder.
type Placement struct {
	From   string   `json:"from"` // a file, or a folder with a slash at its end, in which * is any name; "./" is all
	To     string   `json:"to"`
	Except []string `json:"except"` // beginnings of paths below From
}

// Variant is a platform as packages name it.
type Variant struct {
	Arch string // npm's name
	Musl bool
}

// libc is the part of a build's name that says for which C library it is.
const libc = "{libc}"

// ByLibc reports whether builds differ by the C library.
func (p Package) ByLibc() bool { return strings.Contains(p.Build+p.BuildVersion, libc) }

// BuildOf names the package and version of a build.
func (p Package) BuildOf(on Variant, version string) (name, v string) {
	musl := ""
	if on.Musl {
		musl = "-musl"
	}
	expand := strings.NewReplacer("{arch}", on.Arch, libc, musl, "{version}", version).Replace
	if name = p.NPM; p.Build != "" {
		name = expand(p.Build)
	}
	if v = version; p.BuildVersion != "" {
		v = expand(p.BuildVersion)
	}
	return name, v
}

// Layout is a digest of where files of the package go, and as what.
func (p Package) Layout() string {
	text, _ := json.Marshal([]any{p.NPM, p.Build, p.BuildVersion, p.Files, p.Executable}, json.Deterministic(true)) // texts can always be
	return digest.Bytes(text)
}

// Place says where a file of the package goes in the tree, "" for nowhere.
func (p Package) Place(name string) string {
	for _, f := range p.Files {
		if rest, ok := f.below(name); ok {
			for _, not := range f.Except {
				if strings.HasPrefix(rest, not) {
					return ""
				}
			}
			return path.Join(f.To, rest)
		}
	}
	return ""
}

// below returns what is left of a path below the folder of a placement, "" for the file
// itself.
func (f Placement) below(name string) (string, bool) {
	from, folder := strings.CutSuffix(f.From, "/")
	if !folder {
		return "", name == f.From
	}
	if from == "." {
		return name, true
	}
	for part := range strings.SplitSeq(from, "/") {
		first, rest, more := strings.Cut(name, "/")
		if !more || part != "*" && part != first {
			return "", false
		}
		name = rest
	}
	return name, name != ""
}
