package terminaltask

import (
	"context"
	"errors"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

const (
	// applyLimit bounds the changes of a candidate.
	applyLimit = 10 * time.Minute
	// stepLimit bounds every command that is not the row's own.
	stepLimit = 2 * time.Minute
	// saidLimit is how much of what such a command prints is kept, in bytes.
	saidLimit = 64 << 10
)

// scorer scores one tree.
type scorer struct {
	verifier  *verifier
	c         family.Case
	row       row
	candidate candidate.Candidate
	denied    *denial              // of the commands that the checker needs
	grants    []sandbox.Capability // that those need
	image     sandbox.Image        // of the checker
	user      sandbox.User         // of the checker and of services
	site      *site                // nil until it is made
	home      string               // of the user, in the checker's image
	running   *running             // the service, once it was started
	tests     *testrunner.Plan     // of pytest
	// serviceHome is the user's home in the row's image, and oldPython says that
	// the checker's image has a Python without a safe path.
	serviceHome string
	oldPython   bool
	// unmounted are captured folders that the candidate leaves nothing of.
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
	restricted map[string][]byte
}

// Read implements [sandboxed.Scorer].
func (s *scorer) Read(c candidate.Candidate) (err error) {
	if err := s.permit(); err != nil {
		return err
	}
	if !c.IsTree() {
		return family.Fail(verdict.CandidateNotRegular, "the candidate is not a tree")
	}
	s.candidate = c
	s.unmounted, err = s.row.unmountedRoots(c)
	return err
}

// Limit implements [sandboxed.Scorer]: the changes, the wait for a service, and the
// checker with what belongs to it.
func (s *scorer) Limit() time.Duration {
	d := applyLimit + s.c.Limits.WithDefaults().Timeout + 4*stepLimit + sandboxed.StartLimit
	if s.row.start != nil {
		d += applyLimit + s.row.start.timeout
	}
	return d
}

// Settle implements [sandboxed.Scorer].
func (s *scorer) Settle(ctx context.Context, err error) error {
	limits, endErr := s.site.checker.End(ctx)
	err = sandboxed.Settle(err, limits, endErr, s.live)
	var f *family.Failure
	if limit := family.LimitReached(limits, "the verification"); s.live && limit != nil && errors.As(err, &f) && failing(f.Reason) {
		err = limit
	}
	return s.endService(ctx, err)
}

// Score verifies the candidate in the sandboxes.
func (s *scorer) Score(ctx context.Context) error {
	if err := s.change(ctx, s.candidate); err != nil {
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
	return s.check(ctx)
}

// change makes the candidate's changes, in both sandboxes if there are two.
func (s *scorer) change(ctx context.Context, c candidate.Candidate) (err error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, applyLimit, sandboxed.ErrSlow)
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
		if err := s.apply(ctx, c, s.site.service.Client, own, nil); err != nil {
			return err
		}
		if !shared {
			if s.began, err = s.look(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.apply(ctx, c, s.site.checker.Client, a, s.left.add); err != nil {
		return err
	}
	a.outside = false // links of the workspace are looked at, whoever made them
	s.placing = a
	return s.removeLinks(ctx, reading(c), a.put)
}

// Open looks up what the verification needs and makes its sandboxes.
func (s *scorer) Open(ctx context.Context, at *sandboxed.Site) (err error) {
	s.site = &site{Site: at, roots: map[string]sandbox.Workspace{}}
	s.image = s.c.Image
	if s.row.image != "" {
		var ok bool
		if s.image, ok = s.verifier.resources.Image(s.row.image); !ok {
			return family.Fail(verdict.PackFault, "the checker's image was not looked up")
		}
	}
	if s.user, err = s.verifier.images.User(ctx, s.c.Image, s.row.user); err != nil {
		return err
	}
	if err := s.lookAtImages(ctx); err != nil {
		return err
	}
	if err := s.planTests(ctx); err != nil {
		return err
	}
	if err := s.makeSpaces(ctx); err != nil {
		return err
	}
	return s.makeBoxes(ctx)
}

// makeSpaces makes the workspaces side by side, because each takes the engine a
// while.
func (s *scorer) makeSpaces(ctx context.Context) error {
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
		s.site.tree, err = s.makeTree(ctx, all.public)
		return err
	})
	if s.row.start != nil && !s.row.start.shared {
		do(func() (err error) {
			s.site.own, err = s.makeTree(ctx, all.public)
			return err
		})
	}
	do(func() (err error) {
		var owner sandbox.User // root
		if s.row.writable {
			owner = s.user
		}
		if s.site.evaluator, err = s.site.Space(ctx, "evaluation files", owner, nil); err != nil {
			return err
		}
		return fill(ctx, s.site.evaluator, all.evaluation, workspace.EvaluationRoot, owner)
	})
	if s.row.inWorkspace() {
		do(func() (err error) {
			if s.site.part, err = s.site.Space(ctx, "evaluation files", sandbox.User{}, nil); err != nil {
				return err
			}
			return fill(ctx, s.site.part, all.part, workspace.OwnRoot, sandbox.User{})
		})
	}
	if s.row.reward != "" {
		do(func() (err error) {
			s.site.reward, err = s.site.Space(ctx, "reward", s.user, nil)
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
func (s *scorer) makeTree(ctx context.Context, public *workspace.Layout) (sandbox.Workspace, error) {
	var from *sandbox.ImageFolder
	if s.row.fromImage {
		from = &sandbox.ImageFolder{Image: s.c.Image, Path: s.row.workdir}
	}
	w, err := s.site.Space(ctx, "workspace", s.user, from)
	if err != nil || len(public.Entries) == 0 {
		return w, err
	}
	err = fill(ctx, w, public, "", s.user)
	if from != nil && errors.Is(err, sandbox.ErrTree) { // nothing of a candidate's is there yet
		return w, family.Fail(verdict.PackFault, "the row's user cannot put its files into %s as the image has it: set environment.user to the folder's owner, or build the image with a folder that the user may write to", s.row.workdir)
	}
	return w, err
}

// makeRoot makes a captured folder as the row's image has it. What the image
// does not have as a folder is a file, or is new: then the candidate's changes
// are all that there is to it.
func (s *scorer) makeRoot(ctx context.Context, root string, mu *sync.Mutex) error {
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
	s.site.roots[root] = w
	return nil
}
