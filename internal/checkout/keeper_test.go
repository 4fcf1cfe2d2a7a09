package checkout

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake counts what a keeper prepares and removes.
type fake struct {
	prepared, removed atomic.Int32
	started           chan struct{} // gets a token for each preparation, if not nil
	proceed           chan struct{} // a preparation waits for it, if not nil
	err               error
}

func (f *fake) keeper() *Keeper {
	return &Keeper{known: make(map[key]*entry), prepare: func(ctx context.Context, image sandbox.Image, _ string) (*Checkout, func(context.Context) error, error) {
		f.prepared.Add(1)
		if f.started != nil {
			f.started <- struct{}{}
		}
		if f.proceed != nil {
			select {
			case <-f.proceed:
			case <-ctx.Done():
				return nil, nil, context.Cause(ctx)
			}
		}
		if f.err != nil {
			return nil, nil, f.err
		}
		return &Checkout{Commits: []string{image.ID}}, func(context.Context) error { f.removed.Add(1); return nil }, nil
	}}
}

func image(n int) sandbox.Image { return sandbox.Image{ID: fmt.Sprintf("sha256:%d", n)} }

func mustGet(t *testing.T, k *Keeper, n int) *Checkout {
	t.Helper()
	c, err := k.Get(t.Context(), image(n), "/testbed")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func closeKeeper(t *testing.T, k *Keeper) {
	t.Helper()
	for range 2 {
		if err := k.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := k.Get(t.Context(), image(0), "/testbed"); !errors.Is(err, errClosed) {
		t.Errorf("Get after Close: %v", err)
	}
}

func TestGetIsShared(t *testing.T) {
	f := &fake{proceed: make(chan struct{})}
	k := f.keeper()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { mustGet(t, k, 1).Release() })
	}
	close(f.proceed)
	wg.Wait()
	if n := f.prepared.Load(); n != 1 {
		t.Errorf("prepared %d times", n)
	}
	closeKeeper(t, k)
	if n := f.removed.Load(); n != 1 {
		t.Errorf("removed %d", n)
	}
}

// TestOnlyTheLastAreKept: a checkout that is held is never removed, and of the
// others the four that were used last stay.
func TestOnlyTheLastAreKept(t *testing.T) {
	f := &fake{}
	k := f.keeper()
	held := mustGet(t, k, 0)
	for n := 1; n <= kept+1; n++ {
		c := mustGet(t, k, n)
		c.Release()
		c.Release() // once is enough
	}
	mustGet(t, k, 1).Release()
	if n := f.prepared.Load(); n != kept+3 {
		t.Errorf("%d preparations: the first was kept too long or another not", n)
	}
	for n := 3; n <= kept+1; n++ {
		mustGet(t, k, n).Release()
	}
	mustGet(t, k, 0).Release()
	held.Release()
	if n := f.prepared.Load(); n != kept+3 {
		t.Errorf("%d preparations of what is kept", n)
	}
	closeKeeper(t, k)
	if p, r := f.prepared.Load(), f.removed.Load(); p != r {
		t.Errorf("prepared %d, removed %d", p, r)
	}
}

// TestErrorsAreRemembered only if the image is to blame for them.
func TestErrorsAreRemembered(t *testing.T) {
	for err, tries := range map[error]int32{unusable("no git"): 1, errors.New("the engine stumbled"): 3} {
		f := &fake{err: err}
		k := f.keeper()
		for range 3 {
			if _, got := k.Get(t.Context(), image(1), "/testbed"); !errors.Is(got, err) {
				t.Errorf("got %v, want %v", got, err)
			}
		}
		if n := f.prepared.Load(); n != tries {
			t.Errorf("%v: %d tries, want %d", err, n, tries)
		}
		closeKeeper(t, k)
	}
}

// TestCancellation: a caller that gives up does not end the work of others; the
// last one does.
func TestCancellation(t *testing.T) {
	f := &fake{started: make(chan struct{}, 10), proceed: make(chan struct{})}
	k := f.keeper()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan error)
	go func() { _, err := k.Get(ctx, image(1), "/testbed"); gone <- err }()
	<-f.started
	stays := make(chan *Checkout)
	go func() { stays <- mustGet(t, k, 1) }()
	for k.users(1) != 2 {
		runtime.Gosched()
	}
	cancel(cause)
	if err := <-gone; !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
	f.proceed <- struct{}{}
	(<-stays).Release()
	if n := f.prepared.Load(); n != 1 {
		t.Errorf("prepared %d times", n)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	go func() { _, err := k.Get(ctx, image(2), "/testbed"); gone <- err }()
	<-f.started
	cancel(cause)
	<-gone
	closeKeeper(t, k) // which waits for the work that nobody wants
	if n := f.removed.Load(); n != 1 {
		t.Errorf("removed %d", n)
	}
}

// users is how many wait for or hold a checkout.
func (k *Keeper) users(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[key{image(n).ID, "/testbed"}].users
}

func TestCloseEndsPreparations(t *testing.T) {
	f := &fake{started: make(chan struct{}, 1), proceed: make(chan struct{})}
	k := f.keeper()
	got := make(chan error)
	go func() { _, err := k.Get(t.Context(), image(1), "/testbed"); got <- err }()
	<-f.started
	closeKeeper(t, k)
	if err := <-got; !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

func TestRemovalErrorsAreReported(t *testing.T) {
	failed := errors.New("the engine stumbled")
	k := &Keeper{known: make(map[key]*entry), prepare: func(context.Context, sandbox.Image, string) (*Checkout, func(context.Context) error, error) {
		return &Checkout{}, func(context.Context) error { return failed }, nil
	}}
	mustGet(t, k, 1).Release()
	if err := k.Close(t.Context()); !errors.Is(err, failed) {
		t.Errorf("Close: %v", err)
	}
}
