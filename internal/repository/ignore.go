package repository

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// CacheRule is the rule that [Ignore.Match] names for the fixed list of caches.
const CacheRule = "cache"

// caches are what tests and tools leave in a checkout, in the form of a
// .gitignore file. A name is here only if no project keeps work of its own
// under it. Ignore files of a project are not asked: an agent that runs the
// tests of a project without any must not lose its work either.
const caches = `
__pycache__/
*.py[co]
.pytest_cache/
.mypy_cache/
.ruff_cache/
.hypothesis/
.tox/
.nox/
.venv/
.coverage
.coverage.*
.cache/
.ipynb_checkpoints/
.nyc_output/
/*.egg-info/
/src/*.egg-info/
.DS_Store
`

// Ignore decides which new files capture leaves out. It follows git's rules
// for .gitignore files, with one addition: the fixed list of caches, which no
// file can take back. It is safe for concurrent use.
//
// Files that the base tracks are never ignored, whatever the rules say: ask
// for the others only.
type Ignore struct {
	caches []rule
	files  map[string][]rule // by the folder of the .gitignore file, "." for the top

	mu      sync.Mutex
	folders map[string]answer // of folders that were asked for
}

// answer is what the rules say of a path.
type answer struct {
	rule string
	ok   bool
}

// NewIgnore returns the rules of a base: its own .gitignore files, by path, and
// the fixed list of caches.
func NewIgnore(gitignores map[string][]byte) *Ignore {
	i := &Ignore{caches: parseRules(caches), files: map[string][]rule{}, folders: map[string]answer{".": {}}}
	for name, content := range gitignores {
		if rules := parseRules(string(content)); len(rules) > 0 {
			i.files[path.Dir(name)] = rules
		}
	}
	return i
}

// Match reports whether a path is ignored, and by which rule ("cache" or the
// path of the .gitignore file). The path is that of a file or link; it is
// also ignored if a folder above it is.
func (i *Ignore) Match(path string) (rule string, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := i.match(path, false)
	return a.rule, a.ok
}

// match answers for a path. The first folder on the way that is ignored
// decides: nothing below it can be taken back.
func (i *Ignore) match(p string, folder bool) answer {
	if folder {
		if a, ok := i.folders[p]; ok {
			return a
		}
	}
	dir, base := path.Split(p)
	a := i.match(path.Clean(dir), true)
	if !a.ok {
		a = i.own(p, base, folder)
	}
	if folder {
		i.folders[p] = a
	}
	return a
}

// own answers for a path whose folders are not ignored: the last rule that
// matches decides, of the .gitignore file that is nearest.
func (i *Ignore) own(p, base string, folder bool) answer {
	if _, ok := decide(i.caches, p, base, folder); ok {
		return answer{CacheRule, true}
	}
	for dir, below := path.Dir(p), base; ; dir, below = path.Dir(dir), path.Base(dir)+"/"+below {
		if negative, ok := decide(i.files[dir], below, base, folder); ok {
			if negative {
				return answer{}
			}
			return answer{path.Join(dir, ".gitignore"), true}
		}
		if dir == "." {
			return answer{}
		}
	}
}

// decide returns what the last rule that matches says.
func decide(rules []rule, name, base string, folder bool) (negative, ok bool) {
	for _, r := range slices.Backward(rules) {
		if (folder || !r.foldersOnly) && r.match(name, base) {
			return r.negative, true
		}
	}
	return false, false
}

// rule is one line of a .gitignore file.
type rule struct {
	literal     string // how the pattern begins, up to its first special character
	pattern     string // the rest
	negative    bool
	foldersOnly bool
	anchored    bool // it matches the whole path below the file's folder, not the last part alone
}

// parseRules reads a .gitignore file as git does.
func parseRules(content string) []rule {
	var rules []rule
	for line := range strings.SplitSeq(strings.TrimPrefix(content, "\ufeff"), "\n") {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "\x00")
		if line == "" || line[0] == '#' {
			continue
		}
		if r, ok := parseRule(trimSpaces(line)); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces drops spaces at the end that no backslash protects.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
		} else if line[i] == ' ' {
			continue
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

func parseRule(line string) (rule, bool) {
	var r rule
	line, r.negative = strings.CutPrefix(line, "!")
	line, r.foldersOnly = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	n := strings.IndexAny(line, `*?[\`)
	if n < 0 {
		n = len(line)
	}
	r.literal, r.pattern = line[:n], line[n:]
	return r, line != ""
}

// match compares the rule with a path below its folder, whose last part is
// base.
func (r rule) match(name, base string) bool {
	if !r.anchored {
		name = base
	}
	rest, ok := strings.CutPrefix(name, r.literal)
	switch {
	case !ok:
		return false
	case r.pattern == "":
		return rest == ""
	}
	return wildmatch(r.pattern, rest)
}
