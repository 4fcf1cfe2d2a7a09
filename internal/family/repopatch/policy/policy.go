// Package policy decides which paths of a repository a candidate may change.
// Its subject is what changed on disk, never the text of a patch.
package policy

import (
	"slices"
	"strings"

	"securebench/internal/repository"
)

// Policy is a row's policy. The zero value is the default deny list.
//
// A pattern matches a path that is equal to it, that is below it as a folder,
// or that it matches as fnmatch does: "*" crosses slashes, and letter case
// counts.
type Policy struct {
	AllowPaths          []string // if set, nothing else may change
	AllowSensitivePaths []string // exceptions from the deny list
	// PreservedPaths keep the base's version: changes to them are dropped and
	// listed, whatever Drop says.
	PreservedPaths []string
	// Drop makes denied changes be dropped and listed instead of rejecting the
	// candidate.
	Drop bool
}

// Decision divides changes.
type Decision struct {
	Allowed   []repository.Change
	Preserved []repository.Change // dropped because of PreservedPaths
	Denied    []Denial            // dropped if the policy says so; else they reject the candidate
}

// Denial is a denied change and the rule that denies it, in a few words.
type Denial struct {
	repository.Change
	Rule string
	// Fatal paths are never dropped: they reject the candidate.
	Fatal bool
}

// Decide applies the policy to changes. Every change is in exactly one part of
// the decision, in the order in which it came.
func (p Policy) Decide(changes []repository.Change) Decision {
	var d Decision
	for _, c := range changes {
		if rule := fatal(c.Path); rule != "" {
			d.Denied = append(d.Denied, Denial{c, rule, true})
			continue
		}
		if matchAny(p.PreservedPaths, c.Path) {
			d.Preserved = append(d.Preserved, c)
			continue
		}
		rule := ""
		if len(p.AllowPaths) > 0 && !matchAny(p.AllowPaths, c.Path) {
			rule = "not in allow_paths"
		} else if !matchAny(p.AllowSensitivePaths, c.Path) {
			rule = sensitive(c)
		}
		if rule != "" {
			d.Denied = append(d.Denied, Denial{c, rule, false})
			continue
		}
		d.Allowed = append(d.Allowed, c)
	}
	return d
}

// Rejects reports whether the candidate is refused.
func (p Policy) Rejects(d Decision) bool {
	return slices.ContainsFunc(d.Denied, func(n Denial) bool { return n.Fatal || !p.Drop })
}

// fatal returns the rule that no policy can lift.
func fatal(path string) string {
	if path == "" || path[0] == '/' || path[0] == '\\' {
		return "an absolute path"
	}
	parts := strings.Split(path, "/")
	for _, part := range parts {
		switch {
		case part == "" || part == "." || part == "..":
			return "a path that leaves the checkout"
		case repository.IsDotGit(part):
			return "a repository's own files"
		}
	}
	if fold(parts[0]) == "securebench" {
		return "securebench's own folder"
	}
	return ""
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

// match compares a path with one pattern.
func match(pattern, path string) bool {
	folder := strings.TrimRight(pattern, "/")
	if rest, ok := strings.CutPrefix(path, folder); ok && folder != "" && (rest == "" || rest[0] == '/') {
		return true
	}
	return fnmatch(pattern, path)
}
