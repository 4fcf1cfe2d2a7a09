package subcommand

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// CompleteRun completes the argument RUN: with the runs below the folder runs, or
// any file.
func CompleteRun(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return runsBelow("runs", begun), cobra.ShellCompDirectiveDefault
}

// CompleteRunAndTask completes the arguments RUN and TASK.
func CompleteRunAndTask(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return tasksOf(args[0], begun), cobra.ShellCompDirectiveNoFileComp
	}
	return CompleteRun(c, args, begun)
}

// runsBelow lists the runs in a folder, and in the folders in it.
func runsBelow(folder, begun string) (out []string) {
	for _, depth := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(folder, depth, record.ManifestName))
		if err != nil {
			return nil
		}
		for _, name := range found {
			if dir := filepath.Dir(name); strings.HasPrefix(dir, begun) && redact.Escape(dir) == dir {
				out = append(out, dir)
			}
		}
	}
	return out
}

// maxCompleted bounds how many tasks are offered.
const maxCompleted = 1000

// tasksOf lists tasks of a run. Names that a shell could not show are left out.
func tasksOf(name, begun string) (out []string) {
	run, err := evidence.OpenRun(name)
	if err != nil {
		return nil
	}
	defer run.Close()
	f, err := run.Open(record.LinesName)
	if err != nil {
		return nil
	}
	defer f.Close()
	for raw, err := range record.Lines(f) {
		var l struct {
			TaskID string `json:"task_id"`
		}
		if err != nil || len(out) == maxCompleted {
			break
		}
		if json.Unmarshal(raw.Bytes, &l) == nil && strings.HasPrefix(l.TaskID, begun) && redact.Escape(l.TaskID) == l.TaskID {
			out = append(out, l.TaskID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
