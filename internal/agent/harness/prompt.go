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
		fmt.Sprintf("Your task is in the JSON file %s. Read it, then do the task. %s", p.taskPath(), reach(p.Domains)),
	}
	if v.Instruction() != "" {
		parts = append(parts, v.Instruction())
	}
	if p.Target != p.Workdir {
		parts = append(parts, fmt.Sprintf("Your workspace is the folder %s.", p.Target))
	}
	return strings.Join(append(parts, deliver(p)), "\n\n")
}

// reach says what the agent can reach over the network.
func reach(domains []string) string {
	if len(domains) == 0 {
		return "You have no network access."
	}
	return "You can reach only these hosts over the network: " + strings.Join(domains, ", ") + "."
}

// deliver says how a candidate is handed in.
func deliver(p Plan) string {
	switch p.Extract.Mode {
	case task.FromFile:
		return fmt.Sprintf("Write your solution to the file %s. The file must contain only the solution.", path.Join(p.Target, p.Extract.Path))
	case task.FromGitDiff:
		return "The repository is in the current directory; do not clone it. Change only what the task needs. " +
			"Your solution is the difference between the repository as you found it and as you leave it: you do not need to commit, or to print a patch."
	case task.FromStdout:
		return "Your last message is your answer. Give it in the form that the task asks for, without comments on your work."
	case task.FromWorkspace:
		if len(p.Extract.Files) > 0 {
			var files []string
			for _, name := range p.Extract.Files {
				files = append(files, path.Join(p.Target, name))
			}
			return fmt.Sprintf("Your solution is what you leave in %s. No other file counts, nor what you print.", strings.Join(files, ", "))
		}
		return "Your solution is the state of the files when you finish. What you print does not count."
	}
	return ""
}
