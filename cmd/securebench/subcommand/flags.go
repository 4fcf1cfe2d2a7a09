package subcommand

import "github.com/spf13/pflag"

// Hide leaves a flag out of help and completion: the former name of another flag,
// which still works.
func Hide(fl *pflag.FlagSet, name string) { fl.Lookup(name).Hidden = true }
