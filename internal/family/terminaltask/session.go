package terminaltask

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/steps"
	"securebench/internal/family/terminaltask/site"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

const (
	// startLimit bounds the wait for sandboxes, and the rest of what the engine
	// does for a verification. Beyond it the engine is at fault.
	startLimit = 2 * time.Minute
	// applyLimit bounds the changes of a candidate.
	applyLimit = 10 * time.Minute
	// stepLimit bounds every command that is not the row's own.
	stepLimit = 2 * time.Minute
	// saidLimit is how much of what such a command prints is kept, in bytes.
	saidLimit = 64 << 10
	// streams is the output limit of a whole box: commands have their own.
	streams = 1 << 40
)

// errSlow is the cause of a verification that takes too long although each of
// its commands is bounded.
var errSlow = errors.New("the engine takes too long")

// session is the verification of one attempt.
type session struct {
	verifier *Verifier
	c        family.Case
	row      row
	refused  *family.Failure  // why the row cannot be scored
	image    sandbox.Image    // of the checker
	user     sandbox.User     // of the checker and of services
	site     *site.Site       // nil until Verify makes it
	home     string           // of the user, in the checker's image
	running  *running         // the service, once it was started
	tests    *testrunner.Plan // of pytest
	// serviceHome is the user's home in the row's image, and oldPython says that
	// the checker's image has a Python without a safe path.
	serviceHome string
	oldPython   bool
	// unmounted are captured folders of which the candidate leaves none.
	unmounted map[string]bool
	bare      []string        // captured paths that are no folders of the row's image
	linked    bool            // a link of the candidate's was made
	placing   arrangement     // of the candidate's changes in the checker's sandbox
	began     *candidate.Base // the service's own workspace, before it starts
	config    string          // the pack's settings of pytest, among the evaluation files
	asked     int             // how often the row's image was asked about a link
	text      []byte          // of the checker, once it was needed

	// What is known so far, for the verdict.
	phase      verdict.Phase
	live       bool // something of the candidate's is in a sandbox
	left       leftOut
	labels     []string
	metadata   map[string]any
	waited     time.Duration
	restricted map[string][]byte
}

func newSession(v *Verifier, c family.Case) *session {
	s := &session{verifier: v, c: c, phase: phaseFiles, metadata: map[string]any{}, restricted: map[string][]byte{}}
	s.row, s.refused = readRow(c.Sandbox)
	return s
}

// Verify scores a tree.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if s.refused != nil {
		return s.verdict(s.refused), nil
	}
	grants, denied, why := s.verifier.resources.Commands.Permit(s.row.needed)
	if len(denied) > 0 {
		return s.denied(denied, why), nil
	}
	if !c.IsTree() {
		return s.verdict(&family.Failure{Reason: verdict.CandidateNotRegular, Message: "the candidate is not a tree"}), nil
	}
	err := family.Blame(s.verify(ctx, c, grants), sandbox.ErrNoFolder, sandbox.ErrTooSmall, sandbox.ErrUnusable, workspace.ErrChanged)
	var f *family.Failure
	if err != nil && !errors.As(err, &f) {
		return family.Verdict{}, err
	}
	return s.verdict(f), nil
}

// verify makes the sandboxes, takes the steps in them, and finds out how they
// ended. A *family.Failure is the candidate's or the pack's, any other error the
// engine's or this process's.
func (s *session) verify(ctx context.Context, c candidate.Candidate, grants []sandbox.Capability) error {
	ctx, cancel := attended.WithTimeoutCause(ctx, s.wholeLimit()+startLimit, errSlow)
	defer cancel()
	var err error
	if s.unmounted, err = s.row.unmountedRoots(c); err != nil {
		return err
	}
	if err := s.ready(ctx, grants); err != nil {
		return err
	}
	err = s.steps(ctx, c, grants)
	ectx, stop := attended.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer stop()
	limits, endErr := s.site.Checker.End(ectx)
	return s.endService(ectx, s.settle(err, limits, endErr))
}

// wholeLimit bounds a verification: its changes, the wait for a service, and
// the checker with what belongs to it.
func (s *session) wholeLimit() time.Duration {
	d := applyLimit + s.c.Limits.WithDefaults().Timeout + 4*stepLimit + startLimit
	if s.row.start != nil {
		d += applyLimit + s.row.start.timeout
	}
	return d
}

// settle judges an end of the steps by how the checker's sandbox ended.
func (s *session) settle(err error, limits []sandbox.End, endErr error) error {
	err = steps.Settle(err, limits, endErr, s.live)
	var f *family.Failure
	if limit := family.LimitReached(limits, "the verification"); s.live && limit != nil && errors.As(err, &f) && failing(f.Reason) {
		return limit
	}
	return err
}

// steps verifies a candidate in the sandboxes.
func (s *session) steps(ctx context.Context, c candidate.Candidate, grants []sandbox.Capability) error {
	if err := s.change(ctx, c); err != nil {
		return err
	}
	if s.row.start != nil {
		s.phase = phaseService
		if err := s.serve(ctx); err != nil {
			return err
		}
		if !s.row.start.shared {
			if err := s.follow(ctx); err != nil {
				return err
			}
		}
	}
	s.phase = phaseChecker
	return s.check(ctx, grants)
}

// change makes the candidate's changes, in both sandboxes if there are two.
func (s *session) change(ctx context.Context, c candidate.Candidate) (err error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, applyLimit, errSlow)
	defer cancel()
	shared := s.row.start != nil && s.row.start.shared
	a := arrangement{row: s.row, folders: s.ownFolders(), moved: s.moved(), outside: shared}
	if a.leads, err = s.leadsOf(ctx, a); err != nil {
		return err
	}
	if err := s.clearRoots(ctx); err != nil {
		return err
	}
	s.live = true
	if s.row.start != nil {
		own := arrangement{row: s.row, folders: a.folders}
		if err := s.apply(ctx, c, s.site.Service.Client, own, nil); err != nil {
			return err
		}
		if !shared {
			if s.began, err = s.look(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.apply(ctx, c, s.site.Checker.Client, a, s.left.add); err != nil {
		return err
	}
	a.outside = false // links of the workspace are looked at, whoever made them
	s.placing = a
	return s.removeLinks(ctx, reading(c), a.put)
}

// ready looks up what the verification needs and makes its sandboxes.
func (s *session) ready(ctx context.Context, grants []sandbox.Capability) (err error) {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	s.image = s.c.Image
	if s.row.image != "" {
		var ok bool
		if s.image, ok = s.verifier.resources.Images[s.row.image]; !ok {
			return family.Fail(verdict.PackFault, "the checker's image was not looked up")
		}
	}
	if s.user, err = s.verifier.user(ctx, s.c.Image, s.row.user); err != nil {
		return fmt.Errorf("looking up the row's user: %w", err)
	}
	labels := sandbox.Labels{Run: s.verifier.resources.RunID, Task: s.c.Sandbox.ID(), Attempt: s.c.Attempt}
	s.site = &site.Site{Engine: s.verifier.resources.Engine, Labels: labels, Limits: s.c.Limits.WithDefaults(), Roots: map[string]sandbox.Workspace{}}
	if err := s.lookAtImages(ctx); err != nil {
		return err
	}
	if err := s.planTests(ctx); err != nil {
		return err
	}
	if err := s.makeSpaces(ctx); err != nil {
		return err
	}
	return s.makeBoxes(ctx, grants)
}

// makeSpaces makes the workspaces side by side, because each takes the engine a
// while.
func (s *session) makeSpaces(ctx context.Context) error {
	all, err := s.layouts()
	if err != nil {
		return family.Fail(verdict.PackFault, "the row's files cannot be laid out: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	do := func(step func() error) {
		wg.Go(func() {
			if err := step(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	do(func() (err error) {
		s.site.Tree, err = s.makeTree(ctx, all.public)
		return err
	})
	if s.row.start != nil && !s.row.start.shared {
		do(func() (err error) {
			s.site.Own, err = s.makeTree(ctx, all.public)
			return err
		})
	}
	do(func() (err error) {
		var owner sandbox.User // root
		if s.row.writable {
			owner = s.user
		}
		if s.site.Evaluator, err = s.site.Space(ctx, "evaluation files", owner, nil); err != nil {
			return err
		}
		return site.Fill(ctx, s.site.Evaluator, all.evaluation, workspace.EvaluationRoot, owner)
	})
	if s.row.inWorkspace() {
		do(func() (err error) {
			if s.site.Part, err = s.site.Space(ctx, "evaluation files", sandbox.User{}, nil); err != nil {
				return err
			}
			return site.Fill(ctx, s.site.Part, all.part, workspace.OwnRoot, sandbox.User{})
		})
	}
	if s.row.reward != "" {
		do(func() (err error) {
			s.site.Reward, err = s.site.Space(ctx, "reward", s.user, nil)
			return err
		})
	}
	if s.row.image != "" {
		for _, root := range s.row.roots() {
			if !s.unmounted[root] {
				do(func() error { return s.makeRoot(ctx, root, &mu) })
			}
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// makeTree makes a workspace as the agent found it.
func (s *session) makeTree(ctx context.Context, public *workspace.Layout) (sandbox.Workspace, error) {
	var from *sandbox.ImageFolder
	if s.row.fromImage {
		from = &sandbox.ImageFolder{Image: s.c.Image, Path: s.row.workdir}
	}
	w, err := s.site.Space(ctx, "workspace", s.user, from)
	if err != nil || len(public.Entries) == 0 {
		return w, err
	}
	err = site.Fill(ctx, w, public, "", s.user)
	if from != nil && errors.Is(err, sandbox.ErrTree) { // nothing of a candidate's is there yet
		return w, family.Fail(verdict.PackFault, "the row's user cannot put its files into %s as the image has it: set environment.user to the folder's owner, or build the image with a folder that the user may write to", s.row.workdir)
	}
	return w, err
}

// makeRoot makes a captured folder as the row's image has it. What the image
// does not have as a folder is a file, or is new: then the candidate's changes
// are all that there is to it.
func (s *session) makeRoot(ctx context.Context, root string, mu *sync.Mutex) error {
	w, err := s.site.Space(ctx, "captured folder", sandbox.User{}, &sandbox.ImageFolder{Image: s.c.Image, Path: root})
	mu.Lock()
	defer mu.Unlock()
	if errors.Is(err, sandbox.ErrNoFolder) {
		s.bare = append(s.bare, root)
		return nil
	}
	if err != nil {
		return err
	}
	s.site.Roots[root] = w
	return nil
}

// Close removes the sandboxes.
func (s *session) Close(ctx context.Context) error {
	if s.site == nil {
		return nil
	}
	old := s.site
	s.site = nil
	return old.Close(ctx)
}
