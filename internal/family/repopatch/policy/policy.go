// Package policy decides which paths of a repository a candidate may change.
// Its subject is what changed on disk, never the text of a patch.
package policy

import "securebench/internal/repository"

// Policy is a row's policy. The zero value is the default deny list alone.
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

// Decide applies the policy to changes.
func (p Policy) Decide(changes []repository.Change) Decision { panic("not written yet") }

// Rejects reports whether the candidate is refused.
func (p Policy) Rejects(d Decision) bool { panic("not written yet") }
