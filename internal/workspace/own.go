package workspace

import (
	"path"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

// PublicDir is the folder of public values in a layout that is not part of the
// workspace; see [Layout.Apart].
const PublicDir = "public"

// ownPaths matches what names securebench's own files as they lie in a workspace:
// task.json, a relative path below securebench, or an absolute one of a workspace.
var ownPaths = lazyregexp.New(`(?:^|[^A-Za-z0-9_.-])task\.json(?:$|[^A-Za-z0-9_-])|` +
	`(?:^|[^A-Za-z0-9_./-])(?:\./)?securebench/|/securebench/(?:public|evaluation_inputs)(?:$|[^A-Za-z0-9_-])`)

// NamesOwn reports whether a text names securebench's own files in a workspace.
func NamesOwn(text string) bool { return ownPaths.MatchString(text) }

// Apart takes securebench's own files out of an agent's layout: the task file, under
// the path that it has, and the public values below [PublicDir].
func (p *Layout) Apart(taskFile string) *Layout {
	out := &Layout{maxBytes: p.maxBytes, maxFiles: p.maxFiles}
	p.Entries = slices.DeleteFunc(p.Entries, func(e Entry) bool {
		rest, public := strings.CutPrefix(e.Path, PublicRoot+"/")
		switch {
		case e.Asset != "":
			return false
		case e.Path == path.Clean(taskFile):
		case public:
			e.Path = PublicDir + "/" + rest
		default:
			return false
		}
		out.Entries = append(out.Entries, e)
		return true
	})
	return out
}
