package packlint

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/packimage"
	"securebench/internal/packlock"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// Lasting returns what keeps a pack from being the same for whoever gets it, and from being
// passed on: images and packages that are not pinned, and a licence and a source that nothing
// names.
func Lasting(ctx context.Context, p *pack.Pack) (source.Problems, error) {
	l := &linter{pack: p, seen: map[string]bool{}}
	lock, err := packlock.Read(filepath.Dir(p.Location.Manifest))
	if err != nil {
		return nil, err
	}
	said := map[string]bool{}
	for row, err := range p.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		n := row.Environment.Get("image")
		if n == nil || n.Kind != source.String || said[n.Text] || lock.Has(n.Text) || !packlock.Lockable(n.Text) {
			continue
		}
		said[n.Text] = true
		l.warn(n.Pos, "run securebench pack lock, or name it by its digest: "+redact.Escape(n.Text)+"@sha256:…", "environment.image %s is named by a tag, which can become another image", redact.Quote(n.Text))
	}
	folder := filepath.Dir(p.Location.Manifest)
	if err := walkImages(folder, func(root *os.Root, name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(name) != "Dockerfile" {
			return err
		}
		text, err := source.ReadFileIn(root, name, maxFile)
		if err != nil {
			return nil //nolint:nilerr // what cannot be read has no warnings
		}
		l.pinned(filepath.Join(folder, packimage.Folder, filepath.FromSlash(name)), string(text))
		return nil
	}); err != nil {
		return nil, err
	}
	l.papers(folder)
	return l.sorted(), nil
}

var (
	baseOf  = lazyregexp.New(`(?i)^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$`)
	install = lazyregexp.New(`(?:^|[;&|]|\s)(pip3?|uv\s+pip|npm|apt-get|apt|apk)\s+(?:-\S+\s+)*(?:install|add|i)\b([^;&|]*)`)
)

// pinned looks in a recipe for images by tag and packages without a version.
func (l *linter) pinned(file, text string) {
	stages := map[string]bool{}
	line, first := 0, 0
	var whole strings.Builder // a line with those that continue it
	for part := range strings.Lines(text) {
		line++
		if whole.Len() == 0 {
			first = line
		}
		part = strings.TrimRight(part, "\r\n")
		if rest, goesOn := strings.CutSuffix(strings.TrimRight(part, " \t"), `\`); goesOn {
			whole.WriteString(rest + " ")
			continue
		}
		l.instruction(source.Pos{File: file, Line: first}, whole.String()+part, stages)
		whole.Reset()
	}
}

// instruction looks at one line of a recipe.
func (l *linter) instruction(at source.Pos, text string, stages map[string]bool) {
	if m := baseOf.FindStringSubmatch(text); m != nil {
		if !stages[m[1]] && packlock.Lockable(m[1]) && !strings.Contains(m[1], "$") {
			l.warn(at, "name it by its digest: "+redact.Escape(m[1])+"@sha256:…", "the image is built from %s, whose tag can become another image", redact.Quote(m[1]))
		}
		stages[m[2]] = true
		return
	}
	if !strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "RUN") {
		return
	}
	for _, m := range install.FindAllStringSubmatch(text, -1) {
		tool := strings.Fields(m[1])[0]
		if loose := looseOf(tool, strings.Fields(m[2])); len(loose) > 0 {
			l.warn(at, "write the version of each", "%s installs what has no version: %s", strings.Join(strings.Fields(m[1]), " "), redact.Escape(strings.Join(loose, ", ")))
		}
	}
}

// looseOf returns the packages without a version.
func looseOf(tool string, words []string) (out []string) {
	sign := map[string]string{"npm": "@", "apt": "=", "apt-get": "=", "apk": "="}[tool]
	if sign == "" {
		sign = "=="
	}
	for i, w := range words {
		w = strings.Trim(w, `'"`)
		switch {
		case w == "", strings.ContainsAny(w[:1], "-<>2"), strings.ContainsAny(w, "/$`"), w == ".", strings.HasSuffix(w, ".txt"), strings.HasSuffix(w, ".whl"):
		case i > 0 && slices.Contains([]string{"-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-t", "--target"}, words[i-1]):
		case !strings.Contains(strings.TrimPrefix(w, "@"), sign):
			out = append(out, w)
		}
	}
	return out
}

// papers looks for a licence, and for where the tasks are from.
func (l *linter) papers(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	licence, origin := false, false
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		licence = licence || strings.HasPrefix(name, "LICEN") || strings.HasPrefix(name, "COPYING")
		if !strings.HasPrefix(name, "ATTRIBUTION") && !strings.HasPrefix(name, "README") && !strings.HasPrefix(name, "NOTICE") {
			continue
		}
		origin = true
		if text, err := source.ReadFile(filepath.Join(folder, e.Name()), maxFile); err == nil {
			licence = licence || named.Match(text) && !bytes.Contains(text, []byte("Licence: not stated"))
		}
	}
	at := source.Pos{File: l.pack.Location.Manifest}
	if !licence {
		l.warn(at, "add a file LICENSE, or say it in ATTRIBUTION.md", "nothing says under which licence the tasks are")
	}
	if !origin {
		l.warn(at, "say it in ATTRIBUTION.md", "nothing says where the tasks are from")
	}
}

// named is a text that speaks of a licence.
var named = lazyregexp.New(`(?i)\blicen[cs]e\b`)
