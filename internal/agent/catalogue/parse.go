package catalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/access"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// Parse reads a description. An error has the file, and the line and column of what is
// wrong as far as these are known.
func Parse(file string, text []byte) (Agent, error) {
	n, err := source.ParseYAML(file, text)
	if err != nil {
		return Agent{}, err
	}
	var a Agent
	if err := n.Decode(&a); err != nil {
		return Agent{}, err
	}
	a.text = slices.Clone(text)
	a.Program.Name = a.Name
	if a.Name != strings.TrimSuffix(path.Base(file), ".yaml") {
		return Agent{}, source.Problemf(n.Pos, "name: %q is not the name of the file", a.Name)
	}
	if err := a.check(); err != nil {
		return Agent{}, source.Problemf(n.Pos, "%v", err)
	}
	return a, nil
}

// UnmarshalJSON reads a word, or words with a condition.
func (it *Item) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		it.Then = make([]string, 1)
		return json.Unmarshal(b, &it.Then[0])
	}
	type item Item
	return json.Unmarshal(b, (*item)(it), json.RejectUnknownMembers(true))
}

var (
	namePattern  = lazyregexp.New(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)
	wordPattern  = lazyregexp.New(`^[a-z_]+$`)
	variablePart = lazyregexp.New(`^[A-Z][A-Z0-9_]*$`)
)

func (a Agent) check() error {
	switch {
	case !namePattern.MatchString(a.Name) || len(a.Name) > 40:
		return errors.New("name: want small letters and digits, with - or _ between them")
	case a.About == "" || strings.ContainsAny(a.About, "\r\n"):
		return errors.New("about: want one line")
	case len(a.Command) == 0 && a.ACP == nil:
		return errors.New("command: there is none")
	case a.ACP != nil && len(a.ACP.Command) == 0:
		return errors.New("acp: command: there is none")
	case len(a.Providers) == 0:
		return errors.New("providers: there is none")
	}
	if err := a.Program.check(); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	for i, p := range a.Providers {
		if err := p.check(); err != nil {
			return fmt.Errorf("providers[%d]: %w", i, err)
		}
	}
	if a.Work.Files && a.Work.Last != "" {
		return errors.New("work: want last or files, not both")
	}
	if o := a.Output; o.Reader != "" && len(o.Events) > 0 {
		return errors.New("output: want a reader or events, not both")
	}
	if f := a.Format(); f != nil {
		if err := f.Check(); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return a.checkTexts()
}

func (p Package) check() error {
	_, _, run := p.RunBy()
	switch {
	case (p.NPM == "") == (p.PyPI == ""):
		return errors.New("npm, pypi: want a package of the npm registry, or a project of the Python registry")
	case !fs.ValidPath(p.Start) || p.Start == ".":
		return errors.New("start: want the path of a file")
	case p.Runtime != "" && !run:
		return fmt.Errorf("runtime: want one of %s, or none for an executable", strings.Join(runtimeNames(), ", "))
	case (p.PyPI == "") != (p.Requirements == ""):
		return errors.New("requirements: want them for a project of the Python registry, and only for one")
	}
	for arch := range machines() {
		if _, _, err := p.Locked(arch); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(p.Executable, func(name string) bool { return !fs.ValidPath(name) || name == "." }); i >= 0 {
		return fmt.Errorf("executable: %q is not the path of a file", p.Executable[i])
	}
	for _, f := range p.Files {
		if f.To != "" && !fs.ValidPath(f.To) {
			return fmt.Errorf("files: %q is not a path", f.To)
		}
	}
	if len(p.Files) == 0 && p.NPM != "" {
		return errors.New("files: there is none")
	}
	return nil
}

func (p Provider) check() error {
	switch {
	case !slices.Contains(access.APIs(), p.API):
		return fmt.Errorf("api: want one of %s", strings.Join(access.APIs(), ", "))
	case !strings.HasPrefix(p.BaseURL, "https://"):
		return errors.New("base_url: want an address that begins with https://")
	case len(p.Keys) == 0:
		return errors.New("keys: want the name of a variable")
	}
	for _, key := range p.Keys {
		if !variablePart.MatchString(key) {
			return fmt.Errorf("keys: %q is not the name of a variable", key)
		}
	}
	for word := range p.Words {
		if !wordPattern.MatchString(word) || slices.Contains(given(), word) {
			return fmt.Errorf("words: %q cannot be a name: want small letters and _, and none of %s", word, strings.Join(given(), ", "))
		}
	}
	return nil
}

// given are the placeholders that every agent has.
func given() []string {
	return []string{"program", "runtime", "model", "small_model", "relay", "home", "key", "prompt", "config", "probe", "settings"}
}

// checkTexts sees that placeholders and conditions are known, and that variables are
// such as a description may set.
func (a Agent) checkTexts() error {
	known := given()
	for word := range a.Providers[0].Words {
		known = append(known, word)
	}
	for _, p := range a.Providers {
		for word := range a.Providers[0].Words {
			if _, ok := p.Words[word]; !ok || len(p.Words) != len(a.Providers[0].Words) {
				return errors.New("providers: want the same words for each")
			}
		}
	}
	texts := []string{string(a.Config)}
	for _, f := range a.Files {
		texts = append(texts, f.Text)
		if rel, ok := strings.CutPrefix(f.Path, "{home}/"); !ok || !fs.ValidPath(rel) {
			return fmt.Errorf("files: %q does not lie below {home}", f.Path)
		}
	}
	for _, it := range slices.Concat(append(a.commands(), a.Version, a.Env)...) {
		name := strings.TrimPrefix(it.If, "not ")
		if it.If != "" && name != ExternalTools && name != NamedModel {
			return fmt.Errorf("if: %q is not known: want %s or %s, with not before it or without", it.If, ExternalTools, NamedModel)
		}
		texts = append(texts, it.Then...)
	}
	if a.Accepts.inConfig() && !slices.ContainsFunc(texts[1:], func(t string) bool { return strings.Contains(t, "{config}") }) {
		return errors.New("accepts: want {config} in the command, a variable or a file, or words")
	}
	for _, text := range texts {
		for _, p := range placeholder.FindAllString(text, -1) {
			if !slices.Contains(known, p[1:len(p)-1]) {
				return fmt.Errorf("the placeholder %s is not known (there are %s)", p, strings.Join(known, ", "))
			}
		}
	}
	for name, words := range a.Settings {
		if !slices.Contains(SettingNames(), name) || len(words) == 0 {
			return fmt.Errorf("settings: %q: want words for one of %s", name, strings.Join(SettingNames(), ", "))
		}
	}
	for _, command := range a.commands() {
		if placed := slices.ContainsFunc(command, func(it Item) bool { return it.If == "" && slices.Contains(it.Then, "{settings}") }); placed != a.settable() {
			return errors.New("settings: want them or what operators may add, and {settings} in each command, or neither")
		}
	}
	if err := a.Accepts.check(); err != nil {
		return fmt.Errorf("accepts: %w", err)
	}
	return a.checkVariables()
}

// checkVariables refuses variables that lead out of a sandbox, or that it has anyway.
func (a Agent) checkVariables() error {
	for _, it := range a.Env {
		for _, text := range it.Then {
			name, _, ok := strings.Cut(text, "=")
			if upper := strings.ToUpper(name); !ok || !variablePart.MatchString(name) || strings.HasSuffix(upper, "_PROXY") || upper == "HOME" || upper == "PATH" {
				return fmt.Errorf("env: %q: want NAME=VALUE, of which NAME is none of HOME, PATH and the variables of proxies", text)
			}
		}
	}
	return nil
}

// commands are those by which an agent can be started.
func (a Agent) commands() (out [][]Item) {
	if len(a.Command) > 0 {
		out = append(out, a.Command)
	}
	if a.ACP != nil {
		out = append(out, a.ACP.Command)
	}
	return out
}
