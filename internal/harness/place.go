package harness

import (
	"fmt"
	"path"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// The variables that tell an agent where its files are.
const (
	taskFileVar = "SECUREBENCH_TASK_FILE"
	repoVar     = "SECUREBENCH_REPO"
)

// place plans where the folders of a task are mounted, and what a command in
// the workspace finds in its environment.
func place(v task.AgentView, taskFile string) (Plan, error) {
	target, err := mountTarget(v)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Workdir: target, Target: target, TaskFile: taskFile, Checkout: v.Environment().Checkout.Dir,
		Env: []string{taskFileVar + "=" + path.Join(target, taskFile)}, Extract: v.Extraction()}
	if p.Checkout == "" {
		return p, nil
	}
	if overlap(target, p.Checkout) {
		return Plan{}, fmt.Errorf("the repository at %q and the workspace at %q would hide one another", p.Checkout, target)
	}
	p.Env = append(p.Env, repoVar+"="+p.Checkout)
	if p.Extract.Mode == task.FromGitDiff {
		p.Extract.OrStdout = true // the patch may be printed instead
	}
	return p, nil
}

// MountTarget returns where the workspace of a task that was checked is mounted.
func MountTarget(v task.AgentView) string {
	target, err := mountTarget(v)
	if err != nil { // which the check of the row has refused
		return workspace.DefaultTarget
	}
	return target
}

// mountTarget returns where the workspace is mounted: the row's workdir if the
// candidate is the workspace, otherwise the default.
func mountTarget(v task.AgentView) (string, error) {
	dir := v.Environment().Workdir
	if dir == "" || v.Extraction().Kind != task.Workspace {
		return workspace.DefaultTarget, nil
	}
	if fault := workspace.TargetFault(dir); fault != "" {
		return "", fmt.Errorf("environment.workdir %q %s", dir, fault)
	}
	return workspace.TargetOf(v.Environment()), nil
}
