// Package catalogue has the descriptions of agents: for each of them, where its
// program comes from, what it is started with, what it speaks with its provider and how
// its output is read. A description is data, one YAML file, which belongs to this
// program or to the operator. Nothing here runs or fetches anything.
package catalogue

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/source"
)

//go:embed agents/*.yaml
var own embed.FS

const (
	// maxFile bounds a description.
	maxFile = 256 << 10
	// folderVar names the operator's folder of descriptions.
	folderVar = "SECUREBENCH_AGENTS"
)

// Builtin returns the descriptions of this program, by name.
func Builtin() []Agent { return slices.Clone(builtin()) }

var builtin = sync.OnceValue(func() []Agent { //nolint:gochecknoglobals // read once, and never changed
	names, err := fs.Glob(own, "agents/*.yaml")
	if err != nil {
		panic(err) // of the pattern
	}
	var out []Agent
	for _, name := range names {
		text, err := own.ReadFile(name)
		if err == nil {
			var a Agent
			if a, err = Parse(name, text); err == nil {
				out = append(out, a)
				continue
			}
		}
		panic(err) // which a test would have found
	}
	return out
})

// Find returns the built-in description of an agent.
func Find(name string) (Agent, bool) { return find(Builtin(), name) }

// find compares names as people write them: a hyphen is an underscore.
func find(all []Agent, name string) (Agent, bool) {
	i := slices.IndexFunc(all, func(a Agent) bool { return fold(a.Name) == fold(name) })
	if i < 0 {
		return Agent{}, false
	}
	return all[i], true
}

func fold(name string) string { return strings.ReplaceAll(name, "_", "-") }

// Load returns the built-in descriptions and those of the operator's folder:
// $SECUREBENCH_AGENTS, else securebench/agents in the user's configuration. Each file
// there is NAME.yaml, and may not have the name of a built-in agent.
func Load(getenv func(string) string) ([]Agent, error) {
	all := Builtin()
	dir := folder(getenv)
	if dir == "" {
		return all, nil
	}
	names, _ := fs.Glob(os.DirFS(dir), "*.yaml") // the pattern is well-formed
	for _, name := range names {
		name = filepath.Join(dir, name)
		text, err := source.ReadFile(name, maxFile)
		if err != nil {
			return nil, fault.As(fault.Config, fmt.Errorf("reading the description of an agent: %w", err))
		}
		a, err := Parse(name, text)
		if err != nil {
			return nil, fault.As(fault.Config, err)
		}
		if _, taken := find(all, a.Name); taken || isRuntime(fold(a.Name)) {
			return nil, fault.Errorf(fault.Config, "%s: there is an agent %s already (give yours another name)", redact.Escape(name), a.Name)
		}
		a.Own = true
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// folder is the operator's folder, "" if there can be none.
func folder(getenv func(string) string) string {
	if dir := getenv(folderVar); dir != "" {
		return dir
	}
	base, err := os.UserConfigDir()
	if x := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(x) {
		base, err = x, nil
	}
	if err != nil {
		return ""
	}
	return filepath.Join(base, "securebench", "agents")
}

// Lookup returns an agent of those that [Load] returns.
func Lookup(getenv func(string) string, name string) (Agent, error) {
	if a, ok := Find(name); ok {
		return a, nil
	}
	all, err := Load(getenv)
	if err != nil {
		return Agent{}, err
	}
	if a, ok := find(all, name); ok {
		return a, nil
	}
	return Agent{}, fault.Errorf(fault.Usage, "there is no agent %s, only %s", redact.QuoteShort(name, 60), strings.Join(Names(all), ", "))
}

// Names lists the names of agents.
func Names(all []Agent) (out []string) {
	for _, a := range all {
		out = append(out, a.Name)
	}
	return out
}

// Digest is that of a description, with which results are compared.
func (a Agent) Digest() string { return digest.Bytes(a.text) }

// Text returns the description as it was written.
func (a Agent) Text() []byte { return slices.Clone(a.text) }

// Packages returns the programs of agents, and those that run them.
func Packages(all []Agent) (out []Package) {
	for _, a := range all {
		out = append(out, a.Program)
	}
	return append(out, Runtimes()...)
}
