package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release that this code belongs to.
const version = "0.1.0"

// buildVersion returns the module's version and, if the binary contains it,
// the revision it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return version + "+" + s.Value[:min(12, len(s.Value))]
		}
	}
	return version
}

// versionLine is the version with what it was built by and for.
func versionLine() string {
	return fmt.Sprintf("%s %s %s/%s", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "securebench %s\n", versionLine())
			return err
		},
	}
}
