// Package produce runs an untrusted agent on the public view of a task, in a
// sandbox that contains only that view.
//
// Production has two steps, so that the next sandbox can be created while an
// agent works: [Producer.Prepare] fills the workspace and creates the sandbox;
// [Session.Run] starts the sandbox and returns when all its processes have
// ended.
package produce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"securebench/internal/agent/events"
	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// Producer runs an agent for each request. Of the pack, it has access to the
// only public assets. It must not be copied.
type Producer struct {
	Engine  sandbox.Engine
	Harness harness.Harness // nil if every request has its own command
	Assets  *os.Root        // the pack's public assets; nil if it has none
	Bring   workspace.Bring // makes those be there that a layout needs; nil if all are
	// Env returns the value of a variable that the harness forwards by name. A
	// variable that is not set is not forwarded.
	Env func(name string) (string, bool)
	// Granted are the capabilities that rows may use; a row that asks for
	// another one is an error.
	Granted []sandbox.Capability
	// Files returns the operator's files that plans ask for; nil has none.
	Files func() (sandbox.Overlay, error)
	// Gateway serves agents that have a provider or may reach domains.
	Gateway Gateway

	bases bases
}

// Request is everything needed to run one attempt. It can be encoded, and
// contains no value that the agent may not see.
type Request struct {
	View  task.AgentView `json:"view"`
	Image sandbox.Image  `json:"image"`
	// User is environment.user, resolved in the image; nil is the image's
	// default user.
	User   *sandbox.User  `json:"user,omitzero"`
	Labels sandbox.Labels `json:"labels"`
	// Limits bound the sandbox. Timeout is an upper bound on the plan's
	// timeout; 0 means none.
	Limits sandbox.Limits `json:"limits"`
	// Expect holds the digests that the view's assets had when the pack was
	// loaded; a changed asset is a workspace.ErrChanged. Nil disables the
	// check.
	Expect map[string]string `json:"expect,omitzero"`
	// Checkout is what the agent's repository begins as; nil for a task
	// without one.
	Checkout *sandbox.ImageFolder `json:"checkout,omitzero"`
	// Command is run instead of the harness: the program that a row supplies
	// as its solution.
	Command []string `json:"command,omitzero"`
	// Files is a tar archive of what Command needs, mounted read-only at
	// [harness.ProgramDir].
	Files []byte `json:"files,omitzero"`
	// Used is what the attempt has used of its provider before, in other sandboxes. It is
	// part of the attempt's budget.
	Used map[string]int64 `json:"used,omitzero"`
}

// Session is a prepared sandbox and its workspaces.
type Session struct {
	plan     harness.Plan
	granted  []sandbox.Capability
	public   map[string]string
	limit    time.Duration
	space    sandbox.Workspace
	checkout sandbox.Workspace // nil for a task without a repository
	about    sandbox.Workspace // what is said of the task, nil if that is in the workspace
	solution sandbox.Workspace // the files of the request's command, nil if it needs none
	base     *candidate.Base
	sampled  bool // the size of the root
	box      sandbox.Box
	gate     *gate // nil for an agent that is the first process of its sandbox
	req      Request
	observe  func(stream string) io.WriteCloser
}

// Result describes an agent's run. It can be encoded. The files that the agent
// left are read through [Session.Workspace] and [Session.Checkout].
type Result struct {
	Outcome sandbox.Outcome `json:"outcome"`
	Timeout time.Duration   `json:"timeout_ns"` // the limit that applied
	Ran     time.Duration   `json:"ran_ns"`     // how much of it the agent has used
	// Stdout and Stderr may hold secrets of the operator.
	Stdout []byte `json:"stdout,omitzero"`
	Stderr []byte `json:"stderr,omitzero"`
	// Structured says that Stdout holds the events of an agent's program, whose
	// last message, Answer, is what the agent printed.
	Structured bool            `json:"structured,omitzero"`
	Answer     []byte          `json:"answer,omitzero"`
	Argv       []string        `json:"argv,omitzero"` // nil if no command ran
	Extract    task.Extraction `json:"extract"`
	Target     string          `json:"target"` // where the workspace was
	// Capabilities are those granted to the sandbox.
	Capabilities []sandbox.Capability `json:"capabilities,omitzero"`
	// DiskSampled is set if the size of the sandbox's root was not bounded but
	// sampled.
	DiskSampled bool `json:"disk_sampled,omitzero"`
	// Public holds the digests of the public files in the workspace by path.
	Public   map[string]string `json:"public,omitzero"`
	Metadata verdict.Metadata  `json:"metadata,omitzero"` // the first part of producer_metadata
	Usage    map[string]int64  `json:"usage,omitzero"`
	// Labels say what the agent could reach beyond its sandbox.
	Labels []string `json:"labels,omitzero"`
	// Raw holds files for the operator, by name.
	Raw map[string][]byte `json:"raw,omitzero"`
	// Refusal says why the provider refused, "" if it is not known.
	Refusal string `json:"refusal,omitzero"`
}

// Prepare creates the workspaces and the sandbox of an attempt. observe returns
// a writer for one of the agent's output streams; nil discards the output. The
// caller closes the session.
func (p *Producer) Prepare(ctx context.Context, req Request, observe func(stream string) io.WriteCloser) (*Session, error) {
	plan, err := p.plan(req)
	if err != nil {
		return nil, err
	}
	s := &Session{plan: plan, req: req, observe: observe}
	if err := s.open(ctx, p); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// plan returns what to run: the request's own command, or the harness's.
func (p *Producer) plan(req Request) (harness.Plan, error) {
	if req.Command != nil {
		plan, err := harness.PlanProgram(req.View, req.Command)
		if err != nil {
			return plan, fmt.Errorf("planning the row's program: %w", err)
		}
		return plan, nil
	}
	if p.Harness == nil {
		return harness.Plan{}, errors.New("no harness is configured and the request has no command")
	}
	plan, err := p.Harness.Plan(req.View)
	if err != nil {
		return plan, fmt.Errorf("planning the %s harness: %w", p.Harness.Name(), err)
	}
	return plan, nil
}

func (s *Session) open(ctx context.Context, p *Producer) error {
	spec, err := p.spec(s.plan, s.req)
	if err != nil {
		return err
	}
	layout, err := workspace.ForAgent(s.req.View, workspace.Options{
		Assets: p.Assets, Expect: s.req.Expect, TaskFile: s.plan.TaskFile, ArtifactPath: s.plan.ArtifactPath,
		MaxBytes: spec.Limits.Disk, MaxFiles: int(spec.Limits.Files), Bring: p.Bring,
	})
	if err != nil {
		return fmt.Errorf("laying out the workspace: %w", err)
	}
	if (s.plan.Checkout == "") != (s.req.Checkout == nil) {
		return errors.New("the task's repository was not prepared, or the task has none")
	}
	var about *workspace.Layout
	if s.plan.TaskDir != "" {
		about = layout.Apart(s.plan.TaskFile)
	}
	begun, err := s.makeSpaces(ctx, p.Engine, spec, layout, about)
	if err != nil {
		return err
	}
	s.public, s.limit, s.granted = layout.Digests(), spec.Limits.Timeout, spec.Capabilities
	s.sampled = spec.WritableRoot && p.Engine.Info().DiskSampled
	programs, err := p.Gateway.overlays(s.plan, s.req.Image)
	if err != nil {
		return err
	}
	spec.Mounts = append(s.mounts(), programs...)
	if dir := s.plan.FilesDir; dir != "" {
		if p.Files == nil {
			return errors.New("the agent's files were not prepared")
		}
		files, err := p.Files()
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Overlay: files, Target: dir, ReadOnly: true})
	}
	base := make(chan error, 1)
	go func() { base <- s.readBase(ctx, p, spec, begun) }()
	if err = s.openBox(ctx, p, spec); err != nil {
		err = fmt.Errorf("creating the agent's sandbox: %w", err)
	}
	return errors.Join(err, <-base)
}

// openBox makes the sandbox, behind an init if the plan needs a gateway.
func (s *Session) openBox(ctx context.Context, p *Producer, spec sandbox.Spec) (err error) {
	if !gated(s.plan) {
		s.box, err = p.Engine.Open(ctx, spec)
		return err
	}
	if a, ok := p.Engine.(admitter); ok { // which sees no command of such a sandbox
		if err := a.Admit(spec.Labels, s.plan.Argv); err != nil {
			return err
		}
	}
	g := p.Gateway.behind(&spec, s.plan)
	g.used = s.req.Used
	if s.box, err = p.Engine.Open(ctx, spec); err != nil {
		return err
	}
	s.gate, g.box = g, &watched{sandbox.Watched{Box: s.box}}
	return nil
}

// admitter is an engine that restricts commands: a [sandbox.PolicyEngine].
type admitter interface {
	// Admit returns an error for a command that may not run.
	Admit(labels sandbox.Labels, command []string) error
}

func (p *Producer) spec(plan harness.Plan, req Request) (sandbox.Spec, error) {
	spec := sandbox.Spec{
		Labels: req.Labels, Image: req.Image, Command: plan.Argv,
		Workdir: plan.Workdir, Limits: req.Limits.WithDefaults(),
		Tracing: true, // agents may run debuggers
	}
	spec.Labels.Role = "agent"
	spec.Limits.Timeout = plan.TimeLimit(req.Limits.Timeout)
	spec.WritableRoot = req.View.Environment().WritableRoot
	spec.Env, spec.Home = WithPath(p.variables(plan, req), plan, req.Image), plan.Home
	for _, name := range req.View.Environment().Capabilities {
		c := sandbox.Capability(name)
		if !slices.Contains(p.Granted, c) {
			return spec, fmt.Errorf("environment.capabilities: %s was not granted", name)
		}
		spec.Capabilities = append(spec.Capabilities, c)
	}
	spec.User = req.User
	if name := req.View.Environment().User; name != "" && req.User == nil {
		return spec, fmt.Errorf("environment.user %q was not resolved in image %s", name, req.Image.Ref)
	}
	return spec, nil
}

// variables returns the agent's variables, each once: those of the row, over
// them what the operator forwards, so that a pack cannot redirect it, and over
// both the plan's own.
func (p *Producer) variables(plan harness.Plan, req Request) []string {
	all := slices.Clone(req.View.Environment().Env)
	for _, name := range plan.EnvNames {
		if v, ok := p.Env(name); ok {
			all = append(all, name+"="+v)
		}
	}
	all = append(all, plan.Env...)
	last := map[string]int{}
	for i, v := range all {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	var out []string
	for i, v := range all {
		if name, _, _ := strings.Cut(v, "="); last[name] == i {
			out = append(out, v)
		}
	}
	return out
}

// Workspace returns the agent's workspace; it is valid until the session is
// closed.
func (s *Session) Workspace() sandbox.Workspace { return s.space }

// Checkout returns the workspace that the agent's repository is, or nil; it is
// valid until the session is closed.
func (s *Session) Checkout() sandbox.Workspace { return s.checkout }

// Base returns what the workspace held before the agent came; nil if the
// candidate is not the workspace.
func (s *Session) Base() *candidate.Base { return s.base }

// Root returns the root of the sandbox, which can be read after Run; nil if the
// agent could not write there.
func (s *Session) Root() sandbox.RootReader {
	if !s.req.View.Environment().WritableRoot {
		return nil
	}
	r, _ := s.box.(sandbox.RootReader)
	return r
}

// Command returns what Run runs, and in which folder.
func (s *Session) Command() (argv []string, workdir string) { return s.plan.Argv, s.plan.Workdir }

// Run starts the agent and returns when all its processes have ended, so that
// nothing changes during capture. After an error, the result has what the agent used
// of its provider. Close removes what is left.
func (s *Session) Run(ctx context.Context) (Result, error) {
	var stdout, stderr bytes.Buffer
	seenOut, seenErr := s.observer("stdout"), s.observer("stderr")
	out, err := s.runBox(ctx, sandbox.Streams{
		Stdout: io.MultiWriter(&stdout, seenOut), Stderr: io.MultiWriter(&stderr, seenErr),
	})
	err = errors.Join(err, seenOut.Close(), seenErr.Close())
	if err != nil {
		used := Result{Metadata: verdict.Metadata{}}
		if s.gate != nil && s.gate.client != nil {
			s.gate.report(&used)
		}
		return used, fmt.Errorf("running the agent: %w", err)
	}
	res := s.result(out, stdout.Bytes(), stderr.Bytes())
	if s.gate != nil {
		res.Ran = s.limit - s.gate.clock.remaining()
		s.gate.report(&res)
	}
	if s.plan.Output != nil {
		res.read(s.plan.Output)
	}
	return res, nil
}

// read reads the events of an agent's program.
func (r *Result) read(format *events.Format) {
	sum := events.Read(format, r.Stdout)
	r.Structured, r.Answer = true, []byte(sum.Message)
	if r.Usage == nil {
		r.Usage = map[string]int64{}
	}
	r.Usage["steps"] = sum.Steps
}

func (s *Session) runBox(ctx context.Context, streams sandbox.Streams) (sandbox.Outcome, error) {
	if s.gate != nil {
		return s.gate.run(ctx, s.limit, streams)
	}
	return s.box.Run(ctx, streams)
}

func (s *Session) result(out sandbox.Outcome, stdout, stderr []byte) Result {
	m := verdict.NewMetadata(map[string]any{
		"exit_code": out.ExitCode, "candidate_kind": s.plan.Extract.Kind, "candidate_extraction": s.plan.Extract.Mode,
	})
	if len(out.Seen) > 0 {
		m.Set("limits_seen", out.Seen)
	}
	if s.plan.Checkout != "" {
		m.Set("candidate_workdir", s.plan.Checkout)
	}
	for k, v := range s.plan.Metadata {
		m.Set(k, v)
	}
	var labels []string
	if s.plan.OldLayout {
		labels = append(labels, OldLayout)
	}
	return Result{Outcome: out, Labels: labels, Timeout: s.limit, Ran: out.Duration, Stdout: stdout, Stderr: stderr, Argv: s.plan.Argv,
		Extract: s.plan.Extract, Target: s.plan.Target, DiskSampled: s.sampled, Public: s.public, Capabilities: s.granted, Metadata: m}
}

func (s *Session) observer(stream string) io.WriteCloser {
	if s.observe == nil {
		return discard{io.Discard}
	}
	return s.observe(stream)
}

// discard is a stream that is not read.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// Standing reports whether what the agent left can still be read after Run.
func (s *Session) Standing(ctx context.Context) bool {
	for _, w := range []sandbox.Workspace{s.space, s.checkout} {
		if w == nil {
			continue
		}
		if _, err := w.Usage(ctx); err != nil {
			return false
		}
	}
	return true
}

// Close removes the sandbox and the workspaces. It is idempotent.
func (s *Session) Close(ctx context.Context) error {
	var errs []error
	if s.box != nil {
		errs = append(errs, s.box.Close(ctx))
	}
	for _, w := range []sandbox.Workspace{s.space, s.checkout, s.about, s.solution} {
		if w != nil {
			errs = append(errs, w.Close(ctx))
		}
	}
	return errors.Join(errs...)
}
