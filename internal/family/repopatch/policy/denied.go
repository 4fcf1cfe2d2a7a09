package policy

import "securebench/internal/repository"

// Denied returns those of the paths that the default deny list denies to a
// candidate that changes them, without those that no policy can allow.
func Denied(paths []string) (out []string) {
	var changes []repository.Change
	for _, p := range paths {
		changes = append(changes, repository.Change{Path: p, Before: repository.Entry{Mode: repository.Regular}, After: repository.Entry{Mode: repository.Regular}})
	}
	for _, d := range (Policy{}).Decide(changes).Denied {
		if !d.Fatal {
			out = append(out, d.Path)
		}
	}
	return out
}
