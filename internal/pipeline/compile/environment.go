package compile

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"securebench/internal/family"
	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// The bounds of a row's timeout in seconds. Outside them, a time.Duration
// would be zero, which means no timeout, or overflow.
const (
	minSeconds = 0.001
	maxSeconds = 365 * 24 * 3600
)

// userPattern matches a user as engines accept it: a name or number with an
// optional group.
var userPattern = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// environment checks the row's environment, which is open: keys that have no
// effect are ignored, with a warning unless the format documents them.
func (k *checker) environment(f family.Family) {
	errs, warnings := k.row.Environment.Check("environment", true, "image", "platform", "workdir", "user", "timeout_seconds",
		"materialize_workdir_from_image", "capabilities", "packages", "env", "setup", "network", "resources")
	_, problems := environment(k.row.Environment, f)
	k.errs = append(append(k.errs, errs...), problems...)
	k.warnings = append(k.warnings, warnings...)
}

// environment reads the keys that securebench uses.
func environment(n *source.Node, f family.Family) (env task.Environment, ps source.Problems) {
	// Only then is workdir the workspace's mount point and can be filled from the image.
	inWorkspace := f.Extraction.Mode == task.FromWorkspace
	source.Optional(&ps, n, "environment.image", &env.Image, image)
	source.Optional(&ps, n, "environment.platform", &env.Platform, imagePlatform)
	source.Optional(&ps, n, "environment.workdir", &env.Workdir, func(n *source.Node, what string) (string, *source.Problem) {
		return workdir(n, what, inWorkspace)
	})
	source.Optional(&ps, n, "environment.user", &env.User, user)
	source.Optional(&ps, n, "environment.timeout_seconds", &env.Timeout, timeout)
	source.Optional(&ps, n, "environment.materialize_workdir_from_image", &env.MaterializeWorkdir, func(n *source.Node, what string) (bool, *source.Problem) {
		on, p := n.Boolean(what)
		if p == nil && on && !inWorkspace {
			p = wrong(n, "remove it", "%s is only for families whose candidate is the workspace", what)
		}
		return on, p
	})
	source.Optional(&ps, n, "environment.capabilities", &env.Capabilities, capabilities)
	if v := n.Given("env"); v != nil {
		env.Env = variables(v, &ps)
	}
	return env, ps
}

// wrong is a problem of a value, with what to do about it.
func wrong(n *source.Node, fix, format string, args ...any) *source.Problem {
	p := source.Problemf(n.Pos, format, args...)
	p.Fix = fix
	return p
}

func image(n *source.Node, what string) (string, *source.Problem) {
	s, p := n.Str(what)
	s = strings.TrimSpace(s)
	if p == nil && (strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })) {
		p = wrong(n, "write name:tag or name@sha256:digest", "%s %q is not an image reference", what, s)
	}
	return s, p
}

func imagePlatform(n *source.Node, what string) (string, *source.Problem) {
	s, problem := n.Str(what)
	if problem != nil {
		return "", problem
	}
	p, err := platform.Parse(s)
	if err != nil {
		return "", wrong(n, "write linux/amd64 or linux/arm64", "%s: %v", what, err)
	}
	return p.String(), nil
}

func workdir(n *source.Node, what string, inWorkspace bool) (string, *source.Problem) {
	s, p := n.Str(what)
	if p != nil {
		return "", p
	}
	if fault := workdirFault(s); fault != "" {
		return "", wrong(n, "write an absolute path in the image", "%s %q %s", what, s, fault)
	}
	if fault := workspace.TargetFault(path.Clean(s)); inWorkspace && fault != "" {
		return "", wrong(n, "choose another folder, such as /app", "%s %q cannot hold a workspace: it %s", what, s, fault)
	}
	return path.Clean(s), nil
}

// workdirFault says why s is not an acceptable absolute path, or "".
func workdirFault(s string) string {
	switch {
	case !strings.HasPrefix(s, "/"):
		return "is not absolute"
	case strings.Contains(s, `\`):
		return "contains a backslash"
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "contains a control character"
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return `contains ".."`
		}
	}
	return ""
}

func user(n *source.Node, what string) (string, *source.Problem) {
	_, err := strconv.ParseUint(n.Text, 10, 32)
	numeric := n.Kind == source.Number && err == nil
	if n.Odd || !numeric && (n.Kind != source.String || !userPattern.MatchString(n.Text)) {
		return "", wrong(n, `write a name, "1000" or "1000:1000"`, "%s must be a user of the image", what)
	}
	return n.Text, nil
}

func timeout(n *source.Node, what string) (time.Duration, *source.Problem) {
	s, p := n.Positive(what)
	if p == nil && (s < minSeconds || s > maxSeconds) {
		p = source.Problemf(n.Pos, "%s must be from %g to %d", what, minSeconds, maxSeconds)
	}
	return time.Duration(s * float64(time.Second)), p
}

// capabilities reads the capabilities that the row asks for. Only the operator
// can grant them.
func capabilities(n *source.Node, what string) ([]string, *source.Problem) {
	names, p := n.Strings(what)
	for i, name := range names {
		if !slices.Contains(sandbox.Grantable(), sandbox.Capability(name)) {
			return nil, wrong(n.Items[i], "choose from "+grantable(), "%s[%d] %q cannot be granted", what, i, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), p
}

// grantable lists the capabilities that a row may ask for.
func grantable() string {
	var names []string
	for _, c := range sandbox.Grantable() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}
