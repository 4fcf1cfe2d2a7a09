// Package launch writes what starts the shards of a prepared run, or workers of a run
// with a hub, on other machines: jobs for Slurm, and manifests for Kubernetes. It starts
// nothing itself.
package launch

import (
	"fmt"

	"securebench/internal/fault"
	"securebench/internal/redact"
)

// Shards describes a prepared run, and how its shards are started.
type Shards struct {
	Run     string   // its folder, an absolute path
	Work    string   // the folder to which relative paths in Args refer, an absolute path
	ID      string   // the run's id
	Version string   // a digest that differs for each preparation of a run
	Count   int      // how many shards there are
	AtOnce  int      // at most so many run at the same time; 0 is all
	Args    []string // what "securebench run" was given, besides --prepare and -o
}

// check refuses what cannot be passed on.
func (s Shards) check() error {
	switch {
	case s.Count < 1:
		return fault.Errorf(fault.Internal, "a run has %d shards", s.Count)
	case s.AtOnce < 0:
		return usage("--throttle must be 1 or more")
	}
	return printable(append([]string{s.Run, s.Work}, s.Args...)...)
}

// printable refuses words that could begin a new line, or that a reader of the output
// would not see.
func printable(words ...string) error {
	for _, word := range words {
		if redact.Escape(word) != word {
			return usage("%s has a line break or an invisible character: use another name", redact.Quote(word))
		}
	}
	return nil
}

// arguments returns what securebench is given for the shard that index names. The
// run's own arguments come last: whatever they are, they cannot change what precedes
// them.
func (s Shards) arguments(index string, word func(string) string) []string {
	out := []string{"run", "--shard", index, "-o", word(s.Run)}
	for _, arg := range s.Args {
		out = append(out, word(arg))
	}
	return out
}

func usage(format string, args ...any) error {
	return fault.As(fault.Usage, fmt.Errorf(format, args...))
}
