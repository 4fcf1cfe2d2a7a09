package config

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"securebench/internal/sandbox"
	"securebench/internal/source"
)

// maxFile bounds the tester YAML and the env file.
const maxFile = 1 << 20

// A Check returns the problems of the sections that stay raw trees, as their owners see
// them.
type Check func(*Tester) source.Problems

// LoadTester reads a tester YAML. Relative paths in it are joined to its
// directory. All errors in the file are joined as [source.Problem] values in
// file order. The checks run if those sections are well-formed, and their
// problems are reported with the others.
func LoadTester(path string, checks ...Check) (*Tester, error) {
	data, err := source.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading the tester configuration: %w", err)
	}
	root, err := source.ParseYAML(path, data)
	if err != nil {
		return nil, err
	}
	if root.Kind != source.Map {
		return nil, source.Problemf(root.Pos, "the tester config root must be an object, not %s", root.Kind)
	}
	r := &reader{dir: filepath.Dir(path)}
	t := r.tester(root)
	t.Path = path
	if r.rawOK {
		for _, check := range checks {
			r.ps = append(r.ps, check(t)...)
		}
	}
	slices.SortStableFunc(r.ps, func(a, b *source.Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	if err := r.ps.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// reader collects problems while it walks the file.
type reader struct {
	dir   string
	ps    source.Problems
	rawOK bool
}

func (r *reader) tester(root *source.Node) *Tester {
	t := Default()
	r.ps.Closed(root, "root", "schema_version", "run", "benchmark", "harness", "judge", "verification", "limits", "sandbox")
	r.version(root)
	r.run(root, t)
	if s := r.section(root, "benchmark", true, "manifest", "tasks"); s != nil {
		required(r, s, "benchmark.manifest", &t.Manifest, r.path)
		required(r, s, "benchmark.tasks", &t.Tasks, r.path)
		t.ManifestPos, t.TasksPos = placeOf(s, "manifest"), placeOf(s, "tasks")
	}
	r.harness(root, &t.Harness)
	r.judge(root, &t.Judge)
	r.verification(root, &t.Verification)
	r.limits(root, &t.Limits)
	r.sandbox(root, &t.Sandbox)
	return t
}

func (r *reader) version(root *source.Node) {
	const fix = `write schema_version: "0.2"`
	n := root.Get("schema_version")
	switch {
	case n == nil:
		r.ps.Add(root.Pos, fix, "root.schema_version is required")
	case n.Kind != source.String:
		// An unquoted 0.2 is a number, and 0.10 would be 0.1.
		r.ps.Add(n.Pos, fix, "root.schema_version must be a non-empty string, not %s", n.Kind)
	case n.Text != "0.2":
		r.ps.Add(n.Pos, fix, "unsupported tester schema_version %q", n.Text)
	}
}

func (r *reader) run(root *source.Node, t *Tester) {
	s := r.section(root, "run", true, "id", "output_dir", "max_workers", "attempts", "retries", "score_timeouts")
	if s == nil {
		return
	}
	required(r, s, "run.id", &t.RunID, (*source.Node).Str)
	required(r, s, "run.output_dir", &t.OutputDir, r.path)
	source.Optional(&r.ps, s, "run.max_workers", &t.MaxWorkers, integer(1, 1024))
	source.Optional(&r.ps, s, "run.attempts", &t.Attempts, integer(1, 10_000))
	source.Optional(&r.ps, s, "run.retries", &t.Retries, integer(0, 100))
	source.Optional(&r.ps, s, "run.score_timeouts", &t.ScoreTimeouts, (*source.Node).Boolean)
}

func (r *reader) harness(root *source.Node, h *Harness) {
	s := r.section(root, "harness", true, "type", "name", "version", "env", "config")
	if s == nil {
		return
	}
	before := len(r.ps)
	h.Pos = s.Pos
	h.Config = &source.Node{Pos: s.Pos, Kind: source.Map}
	required(r, s, "harness.type", &h.Type, (*source.Node).Str)
	h.Type = strings.TrimSpace(h.Type)
	if n := s.Get("type"); n != nil {
		h.TypePos = n.Pos
	}
	r.named(s, h)
	var vars []variable
	source.Optional(&r.ps, s, "harness.env", &vars, variables)
	for _, v := range vars {
		h.Env, h.EnvPos = append(h.Env, v.name), append(h.EnvPos, v.at)
		if v.required {
			h.Required = append(h.Required, v.name)
		}
	}
	source.Optional(&r.ps, s, "harness.config", &h.Config, object)
	r.rawOK = len(r.ps) == before
}

// named reads the keys of an agent of the catalogue.
func (r *reader) named(s *source.Node, h *Harness) {
	h.Version = s.Given("version")
	name := s.Given("name")
	switch {
	case h.Type == "agent" && name == nil:
		r.ps.Add(s.Pos, "securebench agent list has the names", "harness.name is required with type agent")
	case h.Type == "agent":
		source.Optional(&r.ps, s, "harness.name", &h.Name, (*source.Node).Str)
	case name != nil:
		r.ps.Add(name.Pos, "write type: agent, or remove it", "harness.name is for the type agent")
	case h.Version != nil:
		r.ps.Add(h.Version.Pos, "write harness.config.version, or type: agent", "harness.version is for the type agent")
	}
}

func (r *reader) judge(root *source.Node, j *Judge) {
	n := root.Given("judge")
	switch {
	case n == nil:
	case n.Kind != source.Map:
		r.ps.Add(n.Pos, "", "root.judge must be an object, not %s", n.Kind)
		r.rawOK = false
	default:
		j.Config, j.Pos = n, n.Pos
	}
}

func (r *reader) verification(root *source.Node, v *Verification) {
	s := r.section(root, "verification", false, "disallow_dangerous_commands", "deny_commands")
	source.Optional(&r.ps, s, "verification.disallow_dangerous_commands", &v.DisallowDangerous, (*source.Node).Boolean)
	source.Optional(&r.ps, s, "verification.deny_commands", &v.Deny, listOf(oneOf("chroot")))
}

func (r *reader) limits(root *source.Node, l *Limits) {
	s := r.section(root, "limits", false,
		"memory", "cpus", "pids", "disk", "files", "output", "candidate", "produce_seconds", "verify_seconds")
	// Engines refuse to start a sandbox with less than about 6 MiB.
	source.Optional(&r.ps, s, "limits.memory", &l.Memory, size(8<<20, math.MaxInt64))
	source.Optional(&r.ps, s, "limits.disk", &l.Disk, size(1, math.MaxInt64))
	// A workspace has at least a root and a task file. Even an empty file
	// costs the machine memory.
	source.Optional(&r.ps, s, "limits.files", &l.Files, func(n *source.Node, what string) (int64, *source.Problem) {
		return n.Int(what, 16, 1<<20)
	})
	// Recorded output must remain small enough to read back.
	source.Optional(&r.ps, s, "limits.output", &l.Output, size(1, 1<<30))
	source.Optional(&r.ps, s, "limits.candidate", &l.Candidate, size(1, 256<<20))
	source.Optional(&r.ps, s, "limits.cpus", &l.CPUs, cores)
	source.Optional(&r.ps, s, "limits.pids", &l.Pids, func(n *source.Node, what string) (int64, *source.Problem) {
		return n.Int(what, 1, 1<<22) // the kernel's own maximum
	})
	source.Optional(&r.ps, s, "limits.produce_seconds", &l.Produce, Seconds)
	source.Optional(&r.ps, s, "limits.verify_seconds", &l.Verify, Seconds)
}

func (r *reader) sandbox(root *source.Node, b *Sandbox) {
	s := r.section(root, "sandbox", false, "engine", "runtime", "commands", "capabilities")
	source.Optional(&r.ps, s, "sandbox.engine", &b.Engine, oneOf(EngineAuto, EngineDocker, EngineNative))
	source.Optional(&r.ps, s, "sandbox.runtime", &b.Runtime, runtimeName)
	source.Optional(&r.ps, s, "sandbox.capabilities", &b.Capabilities, capabilities)
	c := s.Given("commands")
	if c == nil {
		return
	}
	if c.Kind != source.Map {
		r.ps.Add(c.Pos, "", "sandbox.commands must be an object, not %s", c.Kind)
		return
	}
	r.ps.Closed(c, "sandbox.commands", "allow", "deny")
	source.Optional(&r.ps, c, "sandbox.commands.allow", &b.Allow, (*source.Node).Strings)
	source.Optional(&r.ps, c, "sandbox.commands.deny", &b.Deny, (*source.Node).Strings)
}

// section returns the closed object called name, or nil.
func (r *reader) section(root *source.Node, name string, need bool, known ...string) *source.Node {
	// A section whose lines are all commented out is null in YAML.
	n := root.Given(name)
	switch {
	case n == nil && need:
		r.ps.Add(root.Pos, "", "root.%s is required", name)
		return nil
	case n == nil:
		return nil
	case n.Kind != source.Map:
		r.ps.Add(n.Pos, "", "root.%s must be an object, not %s", name, n.Kind)
		return nil
	}
	r.ps.Closed(n, name, known...)
	return n
}

// placeOf returns where a section has a key's value, or the section.
func placeOf(s *source.Node, key string) source.Pos {
	if n := s.Get(key); n != nil {
		return n.Pos
	}
	return s.Pos
}

// path reads a path and joins it to the file's directory.
func (r *reader) path(n *source.Node, what string) (string, *source.Problem) {
	s, p := n.Str(what)
	switch {
	case p != nil:
		return "", p
	case strings.ContainsRune(s, 0):
		return "", source.Problemf(n.Pos, "%s contains a NUL character", what)
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	return filepath.Join(r.dir, s), nil
}

type readFunc[T any] func(n *source.Node, what string) (T, *source.Problem)

// required is like [source.Optional], but reports a missing key.
func required[T any](r *reader, s *source.Node, key string, dst *T, read readFunc[T]) {
	if s.Given(key[strings.LastIndexByte(key, '.')+1:]) == nil {
		r.ps.Add(s.Pos, "", "%s is required", key)
		return
	}
	source.Optional(&r.ps, s, key, dst, read)
}

func integer(lo, hi int64) readFunc[int] {
	return func(n *source.Node, what string) (int, *source.Problem) {
		i, p := n.Int(what, lo, hi)
		return int(i), p
	}
}

func object(n *source.Node, what string) (*source.Node, *source.Problem) {
	if n.Kind != source.Map {
		return nil, source.Problemf(n.Pos, "%s must be an object, not %s", what, n.Kind)
	}
	return n, nil
}

func oneOf(names ...string) readFunc[string] {
	return func(n *source.Node, what string) (string, *source.Problem) {
		s := strings.TrimSpace(n.Text)
		if n.Kind != source.String || !slices.Contains(names, s) {
			return "", source.Problemf(n.Pos, "%s must be one of: %s", what, strings.Join(names, ", "))
		}
		return s, nil
	}
}

// listOf reads a list and drops duplicates, as the reference does.
func listOf(read readFunc[string]) readFunc[[]string] {
	return func(n *source.Node, what string) ([]string, *source.Problem) {
		if n.Kind != source.List {
			return nil, source.Problemf(n.Pos, "%s must be a list, not %s", what, n.Kind)
		}
		var out []string
		for i, it := range n.Items {
			s, p := read(it, fmt.Sprintf("%s[%d]", what, i))
			if p != nil {
				return nil, p
			}
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return out, nil
	}
}

// variable is a variable that is forwarded.
type variable struct {
	name     string
	at       source.Pos
	required bool
}

// variables reads a list of names, or of objects with a name and whether it has to be
// set. Of a repeated name the first one counts, and every demand.
func variables(n *source.Node, what string) (out []variable, p *source.Problem) {
	if n.Kind != source.List {
		return nil, source.Problemf(n.Pos, "%s must be a list, not %s", what, n.Kind)
	}
	for i, it := range n.Items {
		v, p := readVariable(it, fmt.Sprintf("%s[%d]", what, i))
		if p != nil {
			return nil, p
		}
		if at := slices.IndexFunc(out, func(o variable) bool { return o.name == v.name }); at >= 0 {
			out[at].required = out[at].required || v.required
			continue
		}
		out = append(out, v)
	}
	return out, nil
}

func readVariable(n *source.Node, what string) (v variable, p *source.Problem) {
	v.at = n.Pos
	if n.Kind != source.Map {
		v.name, p = variableName(n, what)
		return v, p
	}
	if errs, _ := n.Check(what, false, "name", "required"); len(errs) > 0 {
		return v, errs[0]
	}
	name := n.Given("name")
	if name == nil {
		return v, source.Problemf(n.Pos, "%s.name is required", what)
	}
	v.at = name.Pos
	if v.name, p = variableName(name, what+".name"); p != nil {
		return v, p
	}
	if need := n.Given("required"); need != nil {
		v.required, p = need.Boolean(what + ".required")
	}
	return v, p
}

func variableName(n *source.Node, what string) (string, *source.Problem) {
	s, p := n.Str(what)
	switch {
	case p != nil:
		return "", p
	case strings.Contains(s, "="):
		// The text may contain a secret value, so it is not repeated.
		return "", &source.Problem{Pos: n.Pos, Message: what + ` contains "="`,
			Fix: "list only the name; its value comes from the environment"}
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", source.Problemf(n.Pos, "%s contains a control character", what)
	}
	return s, nil
}

func cores(n *source.Node, what string) (float64, *source.Problem) {
	f, p := n.Positive(what)
	if p == nil && (f < 0.01 || f > 4096) {
		return 0, source.Problemf(n.Pos, "%s must be from 0.01 to 4096", what)
	}
	return f, p
}

// capabilities reads the capabilities that rows may use, without duplicates.
func capabilities(n *source.Node, what string) ([]sandbox.Capability, *source.Problem) {
	var known []string
	for _, c := range sandbox.Grantable() {
		known = append(known, string(c))
	}
	names, p := listOf(oneOf(known...))(n, what)
	var out []sandbox.Capability
	for _, name := range slices.Sorted(slices.Values(names)) {
		out = append(out, sandbox.Capability(name))
	}
	return out, p
}

func runtimeName(n *source.Node, what string) (string, *source.Problem) {
	s, p := n.Str(what)
	if p == nil && !runtimePattern.MatchString(s) {
		return "", source.Problemf(n.Pos, "%s must be the name of a runtime, such as runc or runsc", what)
	}
	return s, p
}
