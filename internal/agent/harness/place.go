package harness

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"securebench/internal/task"
	"securebench/internal/workspace"
)

// The variables that tell an agent where its files are. With the task's file outside
// of the workspace, publicVar names the folder that has each value in a file.
const (
	taskFileVar = "SECUREBENCH_TASK_FILE"
	publicVar   = "SECUREBENCH_PUBLIC"
	repoVar     = "SECUREBENCH_REPO"
)

// taskDir is where the files about a task are mounted whose candidate is the
// workspace: that has nothing of securebench's, so that counting its files counts
// those of the task.
const taskDir = "/opt/securebench/task"

// place plans where the folders of a task are mounted, and what a command in
// the workspace finds in its environment. inside has the task's files in the
// workspace in any case.
func place(v task.AgentView, taskFile string, inside bool) (Plan, error) {
	target, err := mountTarget(v)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Workdir: target, Target: target, TaskFile: taskFile, Checkout: v.Environment().Checkout.Dir, Extract: v.Extraction()}
	if v.Extraction().Kind == task.Workspace {
		p.OldLayout = inside || v.Environment().OldLayout
		if !p.OldLayout {
			p.TaskDir = taskDir
		}
	}
	p.Env = []string{taskFileVar + "=" + p.taskPath()}
	if p.TaskDir != "" {
		p.Env = append(p.Env, publicVar+"="+path.Join(p.TaskDir, workspace.PublicDir))
	}
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

// taskPath is where the task's file is in the sandbox.
func (p Plan) taskPath() string { return path.Join(cmp.Or(p.TaskDir, p.Target), p.TaskFile) }

// namesOwn reports whether a command names the task's files in the workspace.
func namesOwn(argv []string) bool { return slices.ContainsFunc(argv, workspace.NamesOwn) }

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
