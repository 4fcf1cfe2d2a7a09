package workspace

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"securebench/internal/pathname"
	"securebench/internal/task"
)

// DefaultTarget is where a workspace is mounted unless a task says otherwise.
const DefaultTarget = "/workspace"

// TargetOf returns where the workspace of a task is mounted whose candidate is
// the workspace.
func TargetOf(e task.Environment) string {
	if e.Workdir == "" {
		return DefaultTarget
	}
	return path.Clean(e.Workdir)
}

// systemFolders are the folders of a sandbox in which no workspace can be: it
// would hide what programs, the kernel or securebench itself need there.
func systemFolders() []string {
	return slices.Concat(Reserved(), programFolders(), []string{"/lib", "/lib32", "/lib64", "/libx32", "/etc", "/run", "/tmp"})
}

// TargetFault says why no workspace can be mounted at dir, or "".
func TargetFault(dir string) string {
	switch {
	case !strings.HasPrefix(dir, "/"):
		return "is not absolute"
	case strings.ContainsAny(dir, ":,\\"):
		return "contains a colon, a comma or a backslash"
	case slices.Contains(strings.Split(dir, "/"), ".."):
		return `contains ".."`
	}
	dir = path.Clean(dir)
	if dir == "/" {
		return "is the root"
	}
	for _, taken := range systemFolders() {
		switch {
		case pathname.Within(dir, taken):
			return fmt.Sprintf("is in %s, a folder of the system", taken)
		case pathname.Within(taken, dir):
			return fmt.Sprintf("contains %s, a folder of the system", taken)
		}
	}
	return ""
}
