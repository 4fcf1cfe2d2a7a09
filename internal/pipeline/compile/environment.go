package compile

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"securebench/internal/family"
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
var userPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

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
func environment(n *source.Node, f family.Family) (task.Environment, source.Problems) {
	e := &environmentReader{n: n, workspace: f.Extraction.Mode == task.FromWorkspace}
	e.image()
	e.platform()
	e.workdir()
	e.user()
	e.timeout()
	e.materialize()
	e.capabilities()
	e.variables()
	return e.env, e.errs
}

type environmentReader struct {
	n    *source.Node
	env  task.Environment
	errs source.Problems
	// workspace is set when the family's candidate is the workspace itself:
	// only then is workdir its mount point and can be filled from the image.
	workspace bool
}

// get returns the value of a key unless it is missing or null.
func (e *environmentReader) get(key string) (*source.Node, bool) {
	n := e.n.Get(key)
	return n, n != nil && n.Kind != source.Null
}

func (e *environmentReader) fail(p *source.Problem) bool {
	if p != nil {
		e.errs = append(e.errs, p)
	}
	return p != nil
}

func (e *environmentReader) image() {
	n, ok := e.get("image")
	if !ok {
		return
	}
	s, err := n.Str("environment.image")
	if e.fail(err) {
		return
	}
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		e.errs.Add(n.Pos, "write name:tag or name@sha256:digest", "environment.image %q is not an image reference", s)
		return
	}
	e.env.Image = s
}

func (e *environmentReader) platform() {
	n, ok := e.get("platform")
	if !ok {
		return
	}
	s, err := n.Str("environment.platform")
	if e.fail(err) {
		return
	}
	p, wrong := platform.Parse(s)
	if wrong != nil {
		e.errs.Add(n.Pos, "write linux/amd64 or linux/arm64", "environment.platform: %v", wrong)
		return
	}
	e.env.Platform = p.String()
}

func (e *environmentReader) workdir() {
	n, ok := e.get("workdir")
	if !ok {
		return
	}
	s, err := n.Str("environment.workdir")
	if e.fail(err) {
		return
	}
	if fault := workdirFault(s); fault != "" {
		e.errs.Add(n.Pos, "write an absolute path in the image", "environment.workdir %q %s", s, fault)
		return
	}
	e.env.Workdir = path.Clean(s)
	if fault := workspace.TargetFault(e.env.Workdir); e.workspace && fault != "" {
		e.errs.Add(n.Pos, "choose another folder, such as /app", "environment.workdir %q cannot hold a workspace: it %s", s, fault)
	}
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

func (e *environmentReader) user() {
	n, ok := e.get("user")
	if !ok {
		return
	}
	_, err := strconv.ParseUint(n.Text, 10, 32)
	numeric := n.Kind == source.Number && err == nil
	if n.Odd || !numeric && (n.Kind != source.String || !userPattern.MatchString(n.Text)) {
		e.errs.Add(n.Pos, `write a name, "1000" or "1000:1000"`, "environment.user must be a user of the image")
		return
	}
	e.env.User = n.Text
}

func (e *environmentReader) timeout() {
	n, ok := e.get("timeout_seconds")
	if !ok {
		return
	}
	s, err := n.Positive("environment.timeout_seconds")
	if e.fail(err) {
		return
	}
	if s < minSeconds || s > maxSeconds {
		e.fail(source.Problemf(n.Pos, "environment.timeout_seconds must be from %g to %d", minSeconds, maxSeconds))
		return
	}
	e.env.Timeout = time.Duration(s * float64(time.Second))
}

// capabilities reads the capabilities that the row asks for. Only the operator
// can grant them.
func (e *environmentReader) capabilities() {
	n, ok := e.get("capabilities")
	if !ok {
		return
	}
	names, err := n.Strings("environment.capabilities")
	if e.fail(err) {
		return
	}
	for i, name := range names {
		if !slices.Contains(sandbox.Grantable(), sandbox.Capability(name)) {
			e.errs.Add(n.Items[i].Pos, "choose from "+grantable(), "environment.capabilities[%d] %q cannot be granted", i, name)
			return
		}
	}
	slices.Sort(names)
	e.env.Capabilities = slices.Compact(names)
}

// grantable lists the capabilities that a row may ask for.
func grantable() string {
	var names []string
	for _, c := range sandbox.Grantable() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

func (e *environmentReader) materialize() {
	const what = "environment.materialize_workdir_from_image"
	n, ok := e.get("materialize_workdir_from_image")
	if !ok {
		return
	}
	on, err := n.Boolean(what)
	if e.fail(err) {
		return
	}
	if on && !e.workspace {
		e.errs.Add(n.Pos, "remove it", "%s is only for families whose candidate is the workspace", what)
		return
	}
	e.env.MaterializeWorkdir = on
}
