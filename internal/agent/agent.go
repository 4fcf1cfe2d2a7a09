// Package agent defines the agents of a run: the configured harness in a
// sandbox, and the built-in ones, whose candidate exists already. All of them
// produce and are captured in the same two steps.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/pathname"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/task"
)

// Agent makes the candidates of a run. It is safe for concurrent use.
type Agent interface {
	// Name is the record's agent field.
	Name() string
	// Sandboxed reports whether the agent always runs in the row's image.
	Sandboxed() bool
	// Prepare prepares an attempt. The caller closes the production.
	Prepare(ctx context.Context, req Request, out Output) (Production, error)
}

// Request is one attempt at a candidate of one task. It can be encoded.
type Request struct {
	View    task.AgentView `json:"view"`
	Attempt int            `json:"attempt"` // from 1
	Dir     string         `json:"dir"`     // the task's folder name in records
	Image   sandbox.Image  `json:"image"`   // the row's
	// Captured says which files make up a tree. The agent does not see it.
	Captured task.Captured `json:"captured,omitzero"`
	// Solution is the row's own, for an agent that [Submits] it; nil if the row
	// has none.
	Solution *Solution `json:"solution,omitzero"`
	// Shown are the presentations of a task that has several: the agent works on each in
	// the place of View, but not on those that are nil. See [Prepare].
	Shown []*task.AgentView `json:"shown,omitzero"`
	// Used is what the attempt has used of its provider's budget for other presentations.
	Used map[string]int64 `json:"used,omitzero"`
}

// Solution is a row's own solution: a candidate, or a program that makes one.
type Solution struct {
	Kind task.CandidateKind `json:"kind,omitzero"`
	Data []byte             `json:"data,omitzero"`
	// Command is the argv of the program; nil means that Data is the solution.
	Command []string `json:"command,omitzero"`
	// Path names the file or folder, below the pack's evaluation root, that the
	// program needs; "" is none.
	Path string `json:"path,omitzero"`
	// Files are the files of a tree, by their paths in the workspace: paths below the
	// pack's evaluation root.
	Files map[string]string `json:"files,omitzero"`
}

// Output is where the results of attempts go.
type Output struct {
	// Sink stores the content of the captured candidate.
	Sink candidate.Sink
	// Observe returns a writer for one of the agent's output streams; nil
	// discards the output.
	Observe func(stream string) io.WriteCloser
}

// Production is one attempt at a candidate. An error means that the engine or
// this process failed.
type Production interface {
	// Run runs the agent to its end; it may be called once. After an error, the
	// result has what the try used and wrote.
	Run(ctx context.Context) (produce.Result, error)
	// Capture takes what Run left.
	Capture(ctx context.Context, ran produce.Result) (capture.Result, error)
	// Command returns what Run will run in a sandbox.
	Command() Command
	// Close releases the attempt's resources. It is idempotent.
	Close(ctx context.Context) error
}

// Command is what runs in a sandbox; it has no Argv if nothing does.
type Command struct {
	Argv           []string
	Workdir, Image string
}

// Standing is a production whose agent can have ended while what it left still
// waits to be captured.
type Standing interface {
	// Standing reports whether Capture can be repeated.
	Standing(ctx context.Context) bool
}

// Blank reports whether a production is known to give no candidate.
func Blank(p Production) bool {
	g, ok := p.(*given)
	return ok && g.blank()
}

// Runner runs agents in sandboxes.
type Runner struct {
	Producer *produce.Producer
	RunID    string
	Limits   sandbox.Limits // Timeout is the operator's limit; 0 means none
	// Expect holds the digests of the pack's public files when it was loaded;
	// nil disables the check.
	Expect map[string]string
	// Checkouts prepares the repositories of images; nil prepares none.
	Checkouts Checkouts
	Users     Users
	// Solutions packs the evaluation files at a path, which the program that is
	// a row's solution needs; nil packs none.
	Solutions func(path string) ([]byte, error)
	// ScoreTimeouts takes the tree that an agent left when its time was up.
	ScoreTimeouts bool
	// Audit returns how many commands of an attempt the command policy allowed
	// and blocked; nil counts nothing.
	Audit func(taskID string, attempt int) (allowed, denied int)
	// Secrets are redacted in all output of the agent; nil means none.
	Secrets *redact.Registry
	Bounds  Bounds
}

// Checkouts prepares the repositories of images; it is a [checkout.Keeper].
type Checkouts interface {
	// Get prepares the repository in a folder of an image. The caller releases
	// it.
	Get(ctx context.Context, image sandbox.Image, dir string) (*checkout.Checkout, error)
}

// Users resolves environment.user in an image. Nil resolves none.
type Users func(image, name string) (sandbox.User, bool)

// of returns the user that a task names in an image, or nil if it names none
// that is known.
func (u Users) of(v task.AgentView, image sandbox.Image) *sandbox.User {
	if name := v.Environment().User; name != "" && u != nil {
		if user, ok := u(image.Ref, name); ok {
			return &user
		}
	}
	return nil
}

// Owner returns whose files an agent makes: the user's that the task names, or
// the image's.
func (u Users) Owner(v task.AgentView, image sandbox.Image) sandbox.User {
	if user := u.of(v, image); user != nil {
		return *user
	}
	return image.User
}

// Unusable reports whether an error is the fault of the row or its image, which no
// retry will change.
func Unusable(err error) bool {
	return errors.Is(err, checkout.ErrUnusable) || errors.Is(err, produce.ErrFolder) || errors.Is(err, sandbox.ErrUnusable)
}

// Bounds limit candidates.
type Bounds struct {
	Bytes int64            // of a text, code or patch; 0 is the default
	Tree  candidate.Bounds // zero fields are the defaults of a sandbox
}

// tree returns the bounds of a tree.
func (b Bounds) tree() candidate.Bounds {
	def := sandbox.Limits{Disk: b.Tree.Bytes, Files: b.Tree.Files}.WithDefaults()
	return candidate.Bounds{Bytes: def.Disk, Files: def.Files}
}

// Request returns the produce request of the attempt.
func (r *Runner) Request(a Request) produce.Request {
	return produce.Request{
		View: a.View, Image: a.Image, User: r.Users.of(a.View, a.Image), Limits: r.Limits, Expect: r.expect(a.View),
		Labels: sandbox.Labels{Run: r.RunID, Task: a.View.ID(), Attempt: a.Attempt}, Used: a.Used,
	}
}

// expect returns the digests of the assets of a view.
func (r *Runner) expect(v task.AgentView) map[string]string {
	if r.Expect == nil {
		return nil
	}
	out := map[string]string{}
	for _, a := range v.Assets() {
		if sum, ok := r.Expect[a.Path]; ok {
			out[a.Path] = sum
			continue
		}
		for name, sum := range r.Expect {
			if strings.HasPrefix(name, a.Path+"/") {
				out[name] = sum
			}
		}
	}
	return out
}

// start prepares a production in a sandbox.
func (r *Runner) start(ctx context.Context, a Request, out Output, req produce.Request) (*sandboxed, error) {
	base, err := r.checkout(ctx, a)
	if err != nil {
		return nil, err
	}
	p := &sandboxed{runner: r, request: a, sink: out.Sink, base: base}
	if base != nil {
		req.Checkout = &base.Folder
	}
	if p.session, err = r.Producer.Prepare(ctx, req, out.Observe); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// checkout prepares the repository that the agent changes, nil if the task has
// none.
func (r *Runner) checkout(ctx context.Context, a Request) (*checkout.Checkout, error) {
	c := a.View.Environment().Checkout
	switch {
	case c.Dir == "":
		return nil, nil
	case r.Checkouts == nil:
		return nil, errors.New("nothing prepares the repositories of images")
	}
	base, err := r.Checkouts.Get(ctx, a.Image, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("preparing the repository: %w", err)
	}
	if err := base.At(c.Commit); err != nil {
		base.Release()
		return nil, fmt.Errorf("preparing the repository: %w", err)
	}
	return base, nil
}

// Harness runs the configured harness.
type Harness struct {
	Runner
	// Image is where all agents run, instead of in the rows' images; nil for those.
	Image *sandbox.Image
}

var _ Agent = (*Harness)(nil)

// Name returns the harness's name.
func (h *Harness) Name() string { return h.Producer.Harness.Name() }

// Sandboxed is true.
func (h *Harness) Sandboxed() bool { return true }

// Prepare makes the attempt's workspace and sandbox.
func (h *Harness) Prepare(ctx context.Context, req Request, out Output) (Production, error) {
	if h.Image != nil {
		req.Image = *h.Image
	}
	p, err := h.start(ctx, req, out, h.Request(req))
	if err != nil {
		return nil, err
	}
	return p, nil
}

// sandboxed is a production that runs in a sandbox.
type sandboxed struct {
	runner  *Runner
	request Request
	sink    candidate.Sink
	session *produce.Session
	base    *checkout.Checkout // nil for a task without a repository
}

func (p *sandboxed) Close(ctx context.Context) error {
	p.release()
	return p.session.Close(ctx)
}

// release ends the use of the pristine repository, once.
func (p *sandboxed) release() {
	if p.base != nil {
		p.base.Release()
		p.base = nil
	}
}

// Standing reports whether the workspaces answer.
func (p *sandboxed) Standing(ctx context.Context) bool { return p.session.Standing(ctx) }

func (p *sandboxed) Command() Command {
	argv, workdir := p.session.Command()
	return Command{argv, workdir, p.request.Image.Ref}
}

func (p *sandboxed) Run(ctx context.Context) (produce.Result, error) {
	res, err := p.session.Run(ctx)
	if err == nil {
		p.runner.complete(p.request, &res)
	}
	if p.runner.Secrets != nil {
		for name, content := range res.Raw {
			res.Raw[name] = p.runner.Secrets.Bytes(content)
		}
	}
	return res, err
}

// complete adds data that only the parent process has to the result of an
// attempt.
func (r *Runner) complete(a Request, res *produce.Result) {
	res.Metadata.Set("workspace_root", "workspaces/"+a.Dir)
	if r.Audit != nil {
		allowed, denied := r.Audit(a.View.ID(), a.Attempt)
		if res.Usage == nil {
			res.Usage = map[string]int64{}
		}
		res.Usage["commands_allowed"], res.Usage["commands_denied"] = int64(allowed), int64(denied)
	}
}

func (p *sandboxed) Capture(ctx context.Context, ran produce.Result) (capture.Result, error) {
	stage := capture.Stage{Secrets: p.runner.Secrets, Sink: p.sink}
	if b := p.base; b != nil {
		stage.Checkout = &capture.Checkout{Space: p.session.Checkout(), Tree: b.Tree, Content: b.Content, Tracked: b.Tracked, Ignore: b.Ignore}
	}
	stage.Base, stage.Root = p.session.Base(), p.session.Root()
	req := p.runner.Bounds.Request(ran)
	req.Captured, req.ScoreTimeouts = p.request.Captured, p.runner.ScoreTimeouts
	return stage.Capture(ctx, req, p.session.Workspace())
}

// Request returns the capture request for a production.
func (b Bounds) Request(r produce.Result) capture.Request {
	return capture.Request{Extraction: r.Extract, Outcome: r.Outcome, Limit: b.Bytes, Tree: b.tree(), Workdir: r.Target,
		Public: r.Public, Stdout: r.Stdout, Stderr: r.Stderr, Structured: r.Structured, Answer: r.Answer}
}

// program runs the program that a row supplies as its solution.
func (r *Runner) program(ctx context.Context, a Request, out Output) (_ Production, err error) {
	switch {
	case r == nil || r.Producer == nil:
		return nil, errors.New("the row's solution is a program, but no sandbox engine is available to run it")
	case a.Image.ID == "":
		return nil, fmt.Errorf("the solution of task %s is a program, and its family asks for no image", a.View.ID())
	}
	req := r.Request(a)
	sol := a.Solution
	req.Command = sol.Command
	if sol.Path != "" {
		if r.Solutions == nil {
			return nil, errors.New("the row's solution has files, but nothing packs them")
		}
		if req.Files, err = r.Solutions(sol.Path); err != nil {
			return nil, fmt.Errorf("packing the row's solution: %w", err)
		}
	}
	p, err := r.start(ctx, a, out, req)
	if err != nil {
		return nil, err
	}
	return &program{p, req}, nil
}

// program is the run of what a row supplies as its solution.
type program struct {
	*sandboxed
	request produce.Request
}

// Run runs the program. If it was not found, and the image as it is has it not, that is
// the row's fault.
func (p *program) Run(ctx context.Context) (produce.Result, error) {
	res, err := p.sandboxed.Run(ctx)
	if err != nil || !sandbox.MissingCommand(res.Outcome.ExitCode) {
		return res, err
	}
	q := initproc.Lookup{Image: p.request.Image, User: p.request.User, Argv: p.request.Command, Env: p.request.View.Environment().Env,
		Labels: p.request.Labels, Elsewhere: func(file string) bool {
			return pathname.Within(file, harness.ProgramDir) || pathname.Within(file, res.Target)
		}}
	q.Labels.Role = "probe"
	missing, err := initproc.Missing(ctx, p.runner.Producer.Engine, q)
	if err == nil && missing != "" {
		err = sandbox.Unusable(fmt.Errorf("the command of the row's solution is not in image %s (build the image with it, or name another)", q.Image.Ref))
	}
	return res, err
}
