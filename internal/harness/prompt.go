package harness

import (
	"fmt"
	"path"
	"strings"

	"securebench/internal/task"
)

// prompt tells an agent where its task is, what it can reach, what the family asks
// for and where the candidate will be taken from. The task itself stays in its
// file.
func prompt(v task.AgentView, p Plan) string {
	parts := []string{
		fmt.Sprintf("Your task is in the file %s, as JSON. Read it, then do the task. %s", p.taskPath(), reach(p.Domains)),
	}
	if v.Instruction() != "" {
		parts = append(parts, v.Instruction())
	}
	if p.Target != p.Workdir {
		parts = append(parts, fmt.Sprintf("The workspace is the folder %s.", p.Target))
	}
	return strings.Join(append(parts, deliver(p)), "\n\n")
}

// reach says what the sandbox has of the network.
func reach(domains []string) string {
	if len(domains) == 0 {
		return "This sandbox has no network."
	}
	return "Of the network, this sandbox reaches only: " + strings.Join(domains, ", ") + "."
}

// deliver says how a candidate is handed in.
func deliver(p Plan) string {
	switch p.Extract.Mode {
	case task.FromFile:
		return fmt.Sprintf("Write the final candidate to the file %s. It must contain the candidate and nothing else.", path.Join(p.Target, p.Extract.Path))
	case task.FromGitDiff:
		return "The repository to change is the current directory; do not clone it. Change no more files than the task needs. " +
			"Whatever differs from its first state when you end is the candidate: there is no need to commit, or to print a patch."
	case task.FromStdout:
		return "Your last message is the candidate. It must contain the answer in the form that is asked for, and no remarks about your work."
	case task.FromWorkspace:
		return "The state of the files when you end is the candidate. Nothing that you print counts."
	}
	return ""
}
