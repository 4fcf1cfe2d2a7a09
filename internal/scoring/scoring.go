// Package scoring sets up what is needed to score candidates: the engine, the
// images and users that rows name, and the families' verifiers.
package scoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/checkout"
	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/judge"
	"securebench/internal/packimage"
	"securebench/internal/packlock"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/engines"
	"securebench/internal/sandbox/imageconfig"
	"securebench/internal/sandbox/platform"
	"securebench/internal/source"
	"securebench/internal/wheels"
	"securebench/internal/workload"
)

// closeTime bounds the release of the verifiers' resources.
const closeTime = 30 * time.Second

// Scorer scores candidates. Parts that it does not need are nil.
type Scorer struct {
	Engine sandbox.Engine
	Images map[string]sandbox.Image // by reference
	// Image returns an image of a machine on which they are not looked up before; nil is
	// that of Images.
	Image     func(ref string) (sandbox.Image, bool)
	Users     map[workload.User]sandbox.User
	Verifiers map[string]family.Verifier // by family
	Files     family.Files               // of the pack
	Checkouts *checkout.Keeper           // of the images
	Wheels    *wheels.Store              // Python's libraries on the engine
	Judge     judge.Judge                // decides rubrics in words; nil for none
	// Derive derives a secret from the salt, for the use that the label names.
	Derive func(label string) [32]byte
	// Workers is how many candidates are scored at the same time outside of a run.
	Workers int

	faults faults
	named  []string // absent images, and users in them, of which only the images' files say who that is
}

// Open connects to the engine if the used rows need one, and looks up their
// images, and their users if users is set. What is wrong with a row is not an error:
// see [Scorer.Fault].
func Open(ctx context.Context, w *workload.Workload, open EngineOpener, cfg config.Sandbox, users bool, warn func(string)) (s *Scorer, err error) {
	s = &Scorer{}
	if s.Files, err = w.OpenFiles(); err != nil || len(w.Images) == 0 && !w.Engine {
		return s, err
	}
	lock, err := packlock.Read(packDir(w))
	if err != nil {
		return nil, errors.Join(fault.As(fault.Pack, err), s.Files.Close())
	}
	if s.Engine, err = open(ctx, cfg, warn); err != nil {
		return nil, errors.Join(err, s.Files.Close())
	}
	s.faults.looks.Engine, _ = s.Engine.(sandbox.Looker)
	if err = s.resolveImages(ctx, w); err == nil {
		err = locked(lock, w, s.Images)
	}
	if err == nil && users {
		err = s.resolveUsers(ctx, w.Users)
	}
	if err != nil {
		return nil, errors.Join(err, s.CloseEngine())
	}
	for _, ref := range slices.Sorted(maps.Keys(s.faults.images)) {
		warn(s.faults.images[ref].Error() + "; its rows stay pending")
	}
	return s, nil
}

// OpenForReview opens a scorer outside of a run: name goes into the labels of
// its sandboxes.
func OpenForReview(ctx context.Context, name string, w *workload.Workload, open EngineOpener, cfg *config.Tester, users bool, warn func(string)) (*Scorer, error) {
	s, err := Open(ctx, w, open, cfg.Sandbox, users, warn)
	if err != nil {
		return nil, err
	}
	salt, err := digest.NewSalt()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	plan, err := s.Plan(ctx, w, cfg)
	if err == nil {
		err = s.Equip(ctx, w, cfg, warn)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Derive, s.Workers = salt.Derive, plan.Verifications
	s.MakeVerifiers(w.Families, name, cfg, s.Workers)
	return s, nil
}

// Equip makes the store of Python's libraries, and sees that those are on the engine
// which the used rows need. notice gets a line before anything is fetched.
func (s *Scorer) Equip(ctx context.Context, w *workload.Workload, cfg *config.Tester, notice func(string)) error {
	if s.Engine == nil {
		return nil
	}
	getenv := cfg.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	s.Wheels = wheels.NewStore(s.Engine, getenv, notice)
	if !w.MathVerify {
		return nil
	}
	_, err := s.Wheels.Tree(ctx, wheels.MathVerify())
	return err
}

// MakeVerifiers makes the verifiers of the families that have one, for so many
// verifications at a time. runID goes into the labels of
// their sandboxes.
func (s *Scorer) MakeVerifiers(reg family.Registry, runID string, cfg *config.Tester, verifications int) {
	r := family.Resources{RunID: runID, Workers: verifications, Files: s.Files, Image: s.image, Judge: s.Judge,
		Commands: family.Commands{Allow: !cfg.Verification.DisallowDangerous, Deny: cfg.Verification.Deny}}
	if s.Engine != nil {
		s.Checkouts = checkout.NewKeeper(s.Engine, checkout.Options{Run: runID, Limits: Limits(cfg.Limits)})
		r.Engine, r.Checkouts = s.Engine, s.Checkouts
	}
	if s.Wheels != nil {
		r.MathVerify = func(ctx context.Context) (sandbox.Overlay, error) { return s.Wheels.Tree(ctx, wheels.MathVerify()) }
	}
	s.Verifiers = map[string]family.Verifier{}
	for name, f := range reg {
		if f.NewVerifier != nil {
			s.Verifiers[name] = f.NewVerifier(r)
		}
	}
}

// image returns an image that rows name.
func (s *Scorer) image(ref string) (sandbox.Image, bool) {
	if s.Image != nil {
		return s.Image(ref)
	}
	img, ok := s.Images[ref]
	return img, ok
}

// Unresolved returns images that the engine does not have, and of which only a machine
// that has them knows who their users are; an empty list if there are none.
func (s *Scorer) Unresolved() []string { return s.named }

// Answers returns an error if the engine does not answer.
func (s *Scorer) Answers(ctx context.Context) error {
	for ref := range s.Images {
		_, err := s.Engine.Image(ctx, ref)
		if errors.Is(err, sandbox.ErrUnusable) {
			return nil
		}
		return err
	}
	return nil
}

// Close releases everything within a bounded time.
func (s *Scorer) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	return errors.Join(s.CloseVerifiers(ctx), s.CloseEngine())
}

// CloseVerifiers releases the sandboxes that verifiers keep warm, and what was
// made of the images' repositories. It returns when ctx ends even if the engine
// hangs.
func (s *Scorer) CloseVerifiers(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		var errs []error
		for name, v := range s.Verifiers {
			if err := v.Close(ctx); err != nil {
				errs = append(errs, fmt.Errorf("closing the %s verifier: %w", name, err))
			}
		}
		if s.Checkouts != nil { // when nothing uses them any more
			if err := s.Checkouts.Close(ctx); err != nil {
				errs = append(errs, fmt.Errorf("removing prepared repositories: %w", err))
			}
		}
		done <- errors.Join(errs...)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("closing the verifiers: %w", ctx.Err())
	}
}

// CloseEngine releases the connection to the engine, and the pack's files.
func (s *Scorer) CloseEngine() error {
	err := s.Files.Close()
	if s.Engine == nil {
		return err
	}
	return errors.Join(err, s.Engine.Close())
}

// Limits are the configured limits of every sandbox; time limits differ by
// what runs in it.
func Limits(l config.Limits) sandbox.Limits {
	return sandbox.Limits{Memory: l.Memory, CPUs: l.CPUs, Pids: l.Pids, Disk: l.Disk, Files: l.Files, Output: l.Output}
}

// resolveImages looks every image up once. Missing images, and those of a platform
// that cannot be run or is not the one that is asked for, are reported together, with
// the command that gets each.
func (s *Scorer) resolveImages(ctx context.Context, w *workload.Workload) error {
	refs, info := w.Images, s.Engine.Info()
	obtain := obtain(w, info.Obtain)
	s.Images, s.faults.images = make(map[string]sandbox.Image, len(refs)), map[string]error{}
	var missing []error
	all := slices.Sorted(maps.Keys(refs))
	for i, l := range s.lookUp(ctx, all) {
		ref, img, err := all[i], l.image, l.err
		nowhere, asked := errors.AsType[*engines.AbsentError](err)
		switch {
		case asked:
			missing = append(missing, fmt.Errorf("image %s is neither on the engine nor known from its registry (first needed at %s): %w: %s", ref, refs[ref], nowhere.Registry, obtain(ref)))
			continue
		case errors.Is(err, sandbox.ErrImageMissing):
			missing = append(missing, fmt.Errorf("image %s is not on the engine (first needed at %s): %s", ref, refs[ref], obtain(ref)))
			continue
		case errors.Is(err, platform.ErrOther): // it could not be taken from elsewhere
			missing = append(missing, fmt.Errorf("image %s (first needed at %s): %w", ref, refs[ref], err))
			continue
		case errors.Is(err, sandbox.ErrUnusable):
			s.faults.images[ref] = imageFault(ref, err)
		case err != nil:
			return fault.As(fault.Engine, fmt.Errorf("looking up image %s: %w", ref, err))
		}
		if err := platformFault(w, info, img); err != nil {
			missing = append(missing, err)
		}
		if s.Images[ref] = img; img.UserName != "" {
			s.named = append(s.named, ref)
		}
	}
	return fault.As(fault.Engine, errors.Join(missing...))
}

// locked compares the images of rows with those of the pack's lock.
func locked(lock *packlock.Lock, w *workload.Workload, images map[string]sandbox.Image) error {
	var moved []error
	for _, ref := range w.RowImages() {
		if img, ok := images[ref]; ok {
			moved = append(moved, lock.Check(ref, img))
		}
	}
	return fault.As(fault.Refused, errors.Join(moved...))
}

// lookups is how many images are looked up at the same time: registries may be far.
const lookups = 8

// looked is what came of looking an image up.
type looked struct {
	image sandbox.Image
	err   error
}

// lookUp looks images up, several at a time.
func (s *Scorer) lookUp(ctx context.Context, refs []string) []looked {
	out := make([]looked, len(refs))
	var all sync.WaitGroup
	turns := make(chan struct{}, lookups)
	for i, ref := range refs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			out[i].image, out[i].err = s.Engine.Image(ctx, ref)
		})
	}
	all.Wait()
	return out
}

// packDir is the folder of a pack.
func packDir(w *workload.Workload) string { return filepath.Dir(w.Location.Manifest) }

// madeHere returns the images that this project's Makefile makes.
func madeHere() []string { return []string{"securebench-python:3", "securebench-pytest:1"} }

// obtain returns the command that gets an image: the pack's and the project's
// own are built, all others pulled, by the command that pull begins.
func obtain(w *workload.Workload, pull string) func(ref string) string {
	own := packimage.Pack{Dir: packDir(w), ID: w.Manifest.ID, Version: w.Manifest.Version}
	return func(ref string) string {
		switch {
		case own.Makes(ref):
			return "build it with: securebench pack build " + own.Dir
		case own.Claims(ref):
			return fmt.Sprintf("the pack has no recipe of that name and version: it would be %s, and the version %d", filepath.Join(own.Dir, packimage.Folder, "NAME", "Dockerfile"), own.Version)
		case slices.Contains(madeHere(), ref):
			return "build it with: make image"
		}
		if strings.HasPrefix(ref, "securebench-") && !strings.Contains(ref, "@") {
			return "securebench has no such image: write " + strings.Join(madeHere(), " or ")
		}
		return "get it with: " + cmp.Or(pull, "docker pull") + " " + ref
	}
}

// resolveUsers looks up the users that rows name.
func (s *Scorer) resolveUsers(ctx context.Context, users map[workload.User]source.Pos) error {
	s.Users, s.faults.users = make(map[workload.User]sandbox.User, len(users)), map[workload.User]error{}
	for key := range users {
		if s.faults.images[key.Image] != nil {
			continue
		}
		if s.Images[key.Image].Absent { // whoever pulls it looks the user up
			if _, number := imageconfig.NumericUser(key.Name); !number {
				s.named = append(s.named, key.Image)
			}
			continue
		}
		u, err := s.Engine.User(ctx, s.Images[key.Image], key.Name)
		if err != nil {
			var other error
			if s.faults.users[key], other = userFault(key, err); other != nil {
				return fault.As(fault.Engine, other)
			}
			continue
		}
		s.Users[key] = u
	}
	return nil
}
