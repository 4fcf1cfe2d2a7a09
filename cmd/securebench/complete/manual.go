package complete

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// writeManual writes the manual pages of a command and of all below it.
func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of manual pages: %w", err)
	}
	root.DisableAutoGenTag = true // it has the day on which they were written
	date := revisionTime()
	header := &doc.GenManHeader{Section: "1", Source: "securebench", Manual: "securebench", Date: &date}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("writing manual pages: %w", err)
	}
	return nil
}

// revisionTime is when the revision of this program was made, so that equal programs
// write equal pages.
func revisionTime() time.Time {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, s := range info.Settings {
			if made, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return made
			}
		}
	}
	return time.Unix(0, 0)
}
