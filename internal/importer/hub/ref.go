package hub

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"securebench/internal/importer/table"
	"securebench/internal/lazyregexp"
)

// ref names a part of a data set: OWNER/NAME[@REV][:CONFIG/SPLIT].
type ref struct{ repo, revision, config, split string }

var (
	repoName     = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(?:/[A-Za-z0-9._-]{1,96})?$`)
	revisionName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	partName     = lazyregexp.New(`^[^\x00-\x20/:]{1,200}$`)
	commit       = lazyregexp.New(`^[0-9a-f]{40}$`)
)

func parseRef(text string) (r ref, err error) {
	rest, part, given := strings.Cut(text, ":")
	r.repo, r.revision, _ = strings.Cut(rest, "@")
	if given {
		r.config, r.split, _ = strings.Cut(part, "/")
	}
	switch {
	case !repoName.MatchString(r.repo) || strings.Contains(r.repo, ".."):
		err = fmt.Errorf("%q names no data set", r.repo)
	case strings.Contains(rest, "@") && (!revisionName.MatchString(r.revision) || strings.Contains(r.revision, "..")):
		err = fmt.Errorf("%q is no revision", r.revision)
	case given && r.config == "" && r.split == "", r.config != "" && !partName.MatchString(r.config), r.split != "" && !partName.MatchString(r.split):
		err = fmt.Errorf("%q is no configuration and split", part)
	}
	if err != nil {
		return r, fmt.Errorf("--from is hf:%s: %w (want hf:OWNER/NAME[@REVISION][:CONFIG/SPLIT])", text, err)
	}
	return r, nil
}

// entry is a file of a data set at a revision.
type entry struct {
	Type string `json:"type"`
	OID  string `json:"oid"` // of git
	Size int64  `json:"size"`
	Path string `json:"path"`
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// part is a split of a configuration, with its files.
type part struct {
	config, split string
	files         []entry
}

func (p part) String() string { return p.config + "/" + p.split }

// usual is what a configuration or a split is called that has no name.
const usual = "default"

// declared lists the parts that the card of a data set declares.
func (c card) declared(files []entry) (out []part) {
	for _, config := range c.Configs {
		for _, d := range config.files() {
			p := part{config: cmp.Or(config.Name, usual), split: d.split}
			for _, f := range files {
				if slices.ContainsFunc(d.patterns, func(pattern string) bool { return matches(path.Join(config.Dir, pattern), f.Path) }) {
					p.files = append(p.files, f)
				}
			}
			if len(p.files) > 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

// matches reports whether a path has the form of a pattern, in which ** is any folders.
func matches(pattern, name string) bool {
	before, after, deep := strings.Cut(pattern, "**")
	if !deep {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	}
	after = strings.TrimPrefix(after, "/")
	if !strings.HasPrefix(name, before) {
		return false
	}
	for rest := name[len(before):]; ; {
		if ok, err := path.Match(after, rest); after == "" || err == nil && ok {
			return true
		}
		_, below, more := strings.Cut(rest, "/")
		if !more {
			return false
		}
		rest = below
	}
}

var (
	sharded = lazyregexp.New(`^(.+?)-[0-9]{5}-of-[0-9]{5}(?:-[0-9a-f]+)?\.`)
	words   = lazyregexp.New(`[A-Za-z]+`)
)

// keywords are what splits are called in the names of files, with what the hub takes them for.
func keywords() map[string]string {
	out := map[string]string{}
	for split, names := range map[string]string{"train": "train training", "validation": "validation valid val dev", "test": "test testing eval evaluation"} {
		for _, name := range strings.Fields(names) {
			out[name] = split
		}
	}
	return out
}

// found lists the parts that the names of files say, as the hub reads them: a split is a
// word of a file's name or of a folder's, a configuration the folder around it.
func found(files []entry) (out []part) {
	known := keywords()
	for _, f := range files {
		if format, _ := table.Format(f.Path); format == "" || strings.HasPrefix(path.Base(f.Path), ".") || isAbout(f.Path) {
			continue
		}
		config, split := usual, "train"
		folders := strings.Split(path.Dir(f.Path), "/")
		at, named := len(folders), false
		if m := sharded.FindStringSubmatch(path.Base(f.Path)); m != nil {
			split, named = m[1], true
		} else if s := wordOf(path.Base(f.Path), known); s != "" {
			split, named = s, true
		}
		for i := len(folders) - 1; i >= 0 && !named; i-- {
			if s := wordOf(folders[i], known); s != "" {
				at, split, named = i, s, true
			}
		}
		if at > 0 && folders[at-1] != "." && folders[at-1] != "data" {
			config = folders[at-1]
		}
		i := slices.IndexFunc(out, func(p part) bool { return p.config == config && p.split == split })
		if i < 0 {
			i = len(out)
			out = append(out, part{config: config, split: split})
		}
		out[i].files = append(out[i].files, f)
	}
	return out
}

// isAbout reports whether a file is about the data and no part of them.
func isAbout(name string) bool {
	return slices.Contains([]string{"dataset_infos.json", "dataset_dict.json", "dataset_info.json", "state.json", "metadata.jsonl", "package.json"}, path.Base(name))
}

// wordOf is the split that a word of a name is called.
func wordOf(name string, known map[string]string) string {
	for _, w := range words.FindAllString(strings.TrimSuffix(name, path.Ext(name)), -1) {
		if split := known[strings.ToLower(w)]; split != "" {
			return split
		}
	}
	return ""
}

// choose returns the part that is wanted.
func (r ref) choose(all []part) (part, error) {
	wanted := slices.DeleteFunc(slices.Clone(all), func(p part) bool {
		return r.config != "" && p.config != r.config || r.split != "" && p.split != r.split
	})
	switch {
	case len(wanted) == 1:
		return wanted[0].oneFormat()
	case len(wanted) == 0:
		return part{}, fmt.Errorf("hf:%s has no part %s: it has %s", r.repo, strings.TrimPrefix(part{config: r.config, split: r.split}.String(), "/"), listed(all))
	}
	if r.config == "" { // one configuration may be the usual one
		of := slices.DeleteFunc(slices.Clone(wanted), func(p part) bool { return p.config != usual })
		if len(of) == 1 {
			return of[0].oneFormat()
		}
	}
	return part{}, fmt.Errorf("hf:%s has several parts: %s; say which with --from hf:%s:CONFIG/SPLIT", r.repo, listed(wanted), r.repo)
}

// listed names parts, not all of very many.
func listed(parts []part) string {
	const most = 40
	var names []string
	for _, p := range parts {
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d more", len(parts)-most))
			break
		}
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// oneFormat takes the Parquet files of a part that is there in several formats.
func (p part) oneFormat() (part, error) {
	formats := map[string][]entry{}
	for _, f := range p.files {
		format, _ := table.Format(f.Path)
		formats[format] = append(formats[format], f)
	}
	delete(formats, "")
	switch {
	case len(formats) == 0:
		return p, fmt.Errorf("the files of %s are no tables, such as %s", p, p.files[0].Path)
	case formats[table.Parquet] != nil:
		p.files = formats[table.Parquet]
	case len(formats) > 1:
		return p, fmt.Errorf("%s is there in several formats: give the address of one file with --from https://…", p)
	default:
		for _, files := range formats {
			p.files = files
		}
	}
	slices.SortFunc(p.files, func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	return p, nil
}
