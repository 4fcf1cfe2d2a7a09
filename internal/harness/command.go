package harness

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// command is the harness that runs the operator's own command.
type command struct {
	argv         []string
	env          []string
	taskFile     string
	artifactPath string
	timeout      time.Duration
	domains      []string
}

func parseCommand(p *parser) Harness {
	p.closed("command", "artifact_path", "task_file", "timeout_seconds", "allowed_domains")
	c := &command{
		argv:         p.argv(),
		env:          slices.Clone(p.env),
		taskFile:     p.path("task_file", workspace.DefaultTaskFile),
		artifactPath: p.path("artifact_path", ""),
		timeout:      p.timeout(),
		domains:      p.domains(),
	}
	if overlap(c.taskFile, c.artifactPath) {
		n, what := p.get("artifact_path")
		p.ps.Add(n.Pos, "", "%s collides with harness.config.task_file", what)
	}
	return c
}

// argv reads the command: a string is run by a login shell, a list directly.
func (p *parser) argv() []string {
	n, what := p.get("command")
	if n == nil {
		p.ps.Add(p.cfg.Pos, "", "%s is required", what)
		return nil
	}
	argv := []string{"sh", "-lc", n.Text}
	var problem *source.Problem
	switch {
	case n.Kind == source.List && len(n.Items) > 0:
		argv, problem = n.Strings(what)
	case n.Kind == source.String && strings.TrimSpace(n.Text) != "":
		problem = n.OddText(what)
	default:
		problem = source.Problemf(n.Pos, "%s must be a non-empty string or a non-empty list of strings", what)
	}
	if problem == nil && slices.ContainsFunc(argv, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		problem = source.Problemf(n.Pos, "%s contains a NUL character", what)
	}
	p.add(problem)
	return argv
}

// overlap reports whether two clean paths are equal or one is below the other;
// an empty path overlaps nothing.
func overlap(a, b string) bool {
	return a != "" && b != "" && (a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/"))
}

// Name returns "command".
func (c *command) Name() string { return "command" }

// Ready refuses allowed_domains: nothing enforces them yet.
func (c *command) Ready() error {
	if len(c.domains) > 0 {
		return &NotYetError{Harness: c.Name(), What: "allowed_domains"}
	}
	return nil
}

// Command returns the configured argv.
func (c *command) Command() []string { return slices.Clone(c.argv) }

// Forwards returns the variables of harness.env.
func (c *command) Forwards() []string { return slices.Clone(c.env) }

// Check refuses a task whose workspace cannot be mounted where the row wants
// it, or whose candidate cannot be taken from the configured artifact.
func (c *command) Check(v task.AgentView) (workspace.Options, error) {
	_, _, err := c.check(v)
	return workspace.Options{TaskFile: c.taskFile, ArtifactPath: c.artifactPath}, err
}

func (c *command) check(v task.AgentView) (target string, extract task.Extraction, err error) {
	if err := c.Ready(); err != nil {
		return "", extract, err
	}
	if target, err = mountTarget(v); err == nil {
		extract, err = c.extraction(v.Extraction())
	}
	if err != nil {
		err = fmt.Errorf("planning task %s: %w", v.ID(), err)
	}
	return target, extract, err
}

// Plan plans one task.
func (c *command) Plan(v task.AgentView) (Plan, error) {
	target, extract, err := c.check(v)
	if err != nil {
		return Plan{}, err
	}
	var artifact any
	if c.artifactPath != "" {
		artifact = c.artifactPath
	}
	return Plan{
		Argv:         c.Command(),
		EnvNames:     c.Forwards(),
		Workdir:      target,
		Target:       target,
		Timeout:      shorter(v.Environment().Timeout, c.timeout),
		TaskFile:     c.taskFile,
		ArtifactPath: c.artifactPath,
		Extract:      extract,
		Metadata: map[string]any{
			"harness":         c.Name(),
			"task_file":       c.taskFile,
			"artifact_path":   artifact,
			"allowed_domains": []string{},
		},
	}, nil
}

// extraction adapts the family's default: a command prints its candidate unless
// artifact_path names a file, the family takes the whole workspace, or the
// family itself falls back to standard output.
func (c *command) extraction(def task.Extraction) (task.Extraction, error) {
	switch {
	case c.artifactPath != "" && def.Kind == task.Workspace:
		return def, errors.New("harness.config.artifact_path names a file, but this task's candidate is the whole workspace")
	case c.artifactPath != "":
		return task.Extraction{Mode: task.FromFile, Kind: def.Kind, Path: c.artifactPath}, nil
	case def.Kind == task.Workspace, def.Mode == task.FromStdout, def.OrStdout:
		return def, nil
	}
	return task.Extraction{Mode: task.FromStdout, Kind: def.Kind}, nil
}

// mountTarget returns where the workspace is mounted: the row's workdir if the
// candidate is the workspace, otherwise the default.
func mountTarget(v task.AgentView) (string, error) {
	dir := v.Environment().Workdir
	if dir == "" || v.Extraction().Kind != task.Workspace {
		return DefaultTarget, nil
	}
	if strings.Contains(dir, `\`) || slices.Contains(strings.Split(dir, "/"), "..") {
		return "", fmt.Errorf(`environment.workdir %q must not contain ".." or a backslash`, dir)
	}
	clean := path.Clean(dir)
	for _, root := range []string{DefaultTarget, "/app", "/securebench-workspace", "/testbed"} {
		if clean == root || strings.HasPrefix(clean, root+"/") {
			return clean, nil
		}
	}
	return "", fmt.Errorf("environment.workdir %q must be under /workspace, /app, /securebench-workspace or /testbed", dir)
}
