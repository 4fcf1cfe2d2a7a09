package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"securebench/internal/candidate"
)

// inherit offers what former processes of this worker have left, and says that what they
// had not finished is lost. It speaks in their names, so the hub's rules hold: a job that
// others have been given meanwhile stays with these.
func (s *session) inherit(ctx context.Context, left []*folder) {
	for _, f := range left {
		s.heirs.Add(1)
		s.jobs.Go(func() {
			defer s.heirs.Add(-1)
			if err := s.settle(ctx, f); err != nil && !errors.Is(err, ErrDrained) {
				s.Say(fmt.Sprintf("offering what a former process has left: %v", err))
			}
		})
	}
}

// settle offers what is in one folder.
func (s *session) settle(ctx context.Context, f *folder) (err error) {
	defer func() { err = errors.Join(err, f.close(s.ended().done)) }()
	dir := filepath.Join(f.dir, candidatesDir)
	store, err := candidate.OpenStore(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	w := &worker{Options: s.Options, who: f.Who}
	w.Wait, w.Roles = 0, s.Credential.Roles
	heir := newSession(w)
	heir.folder, heir.shelf = f, newShelf(store, dir)
	if err := heir.connect(ctx); err != nil {
		return err
	}
	defer heir.conn.Close()
	if err := heir.hello(ctx); err != nil {
		return err
	}
	if heir.welcome().Token != f.Token {
		return nil // another run has begun there
	}
	heir.offerAll(ctx, f.results())
	if ctx.Err() == nil {
		heir.leave(true)
	}
	return nil
}

// offerAll offers results until the hub has answered all of them.
func (s *session) offerAll(ctx context.Context, all []result) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, r := range all {
		if h := s.active[r.ID]; h == nil || h.Grant < r.Grant {
			s.active[r.ID] = &held{Held: r.Held, cancel: func(error) {}}
		}
	}
	s.beat(ctx) // the hub knows now that they are held
	var offers sync.WaitGroup
	for _, r := range all {
		offers.Go(func() {
			call, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			h := &held{Held: r.Held, cancel: cancel}
			s.mu.Lock()
			if s.active[r.ID].Grant == r.Grant {
				s.active[r.ID] = h
			}
			s.mu.Unlock()
			if s.deliver(call, h, "", r) || errors.Is(context.Cause(call), errTaken) {
				s.folder.drop(r)
			}
		})
	}
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		if e := s.beatUntil(ctx); e.done || e.err != nil {
			stop()
		}
	}()
	offers.Wait()
	stop()
	<-beating
}
