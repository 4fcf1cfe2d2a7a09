package checkout

import (
	"context"
	"errors"
	"slices"
	"sync"

	"securebench/internal/sandbox"
)

// kept is how many unused checkouts are kept.
const kept = 4

// Options are the choices of a keeper.
type Options struct {
	Run    string // for labels
	Limits sandbox.Limits
}

// Keeper prepares checkouts and keeps the last few. It is safe for concurrent
// use.
type Keeper struct {
	// prepare makes a checkout, and the function that removes what was made
	// for it.
	prepare func(ctx context.Context, image sandbox.Image, dir string) (*Checkout, func(context.Context) error, error)

	mu     sync.Mutex
	known  map[key]*entry
	idle   []*entry // without users, the longest unused first
	closed bool
	work   sync.WaitGroup // what prepares or removes
	errs   []error        // of removals
}

// key is what a checkout is made from.
type key struct{ image, dir string }

// entry is a checkout that is being prepared, kept, or cannot be used.
type entry struct {
	key    key
	done   chan struct{} // closed when the rest is set
	cancel context.CancelCauseFunc
	users  int // that wait for it or hold it

	checkout *Checkout
	remove   func(context.Context) error // nil if nothing was made
	err      error
}

var (
	errClosed    = errors.New("no more checkouts are prepared")
	errForgotten = errors.New("the checkout is no longer needed")
)

// NewKeeper returns a keeper without any checkout. A command policy of the
// engine does not apply: the commands are securebench's own.
func NewKeeper(e sandbox.Engine, o Options) *Keeper {
	if p, ok := e.(*sandbox.PolicyEngine); ok {
		e = p.Engine
	}
	o.Limits = o.Limits.WithDefaults()
	p := &preparer{engine: e, run: o.Run, limits: o.Limits}
	return &Keeper{prepare: p.prepare, known: make(map[key]*entry)}
}

// Get prepares the checkout in a folder of an image, or returns the one that is
// kept. Concurrent calls for the same one share the work. The caller releases
// the result.
func (k *Keeper) Get(ctx context.Context, image sandbox.Image, dir string) (*Checkout, error) {
	e, err := k.entry(ctx, image, dir)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		k.leave(e)
		return nil, context.Cause(ctx)
	}
	if e.err != nil {
		k.leave(e)
		return nil, e.err
	}
	c := *e.checkout
	c.release = sync.OnceFunc(func() { k.leave(e) })
	return &c, nil
}

// entry returns the entry of a checkout with one more user, and begins to
// prepare a new one.
func (k *Keeper) entry(ctx context.Context, image sandbox.Image, dir string) (*entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed
	}
	at := key{image.ID, dir}
	if e := k.known[at]; e != nil {
		e.users++
		k.idle = slices.DeleteFunc(k.idle, func(i *entry) bool { return i == e })
		return e, nil
	}
	// The work continues as long as any caller waits for it.
	wctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	e := &entry{key: at, done: make(chan struct{}), cancel: cancel, users: 1}
	k.known[at] = e
	k.work.Go(func() {
		e.checkout, e.remove, e.err = k.prepare(wctx, image, dir)
		k.finished(e)
	})
	return e, nil
}

// finished publishes what was prepared. Only what the image is to blame for is
// worth remembering of an error.
func (k *Keeper) finished(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(e.done)
	e.cancel(nil)
	if e.err != nil && !errors.Is(e.err, ErrUnusable) {
		k.forget(e)
	}
	if e.users == 0 {
		k.rest(e)
	}
}

// forget makes the next call prepare the checkout anew.
func (k *Keeper) forget(e *entry) {
	if k.known[e.key] == e {
		delete(k.known, e.key)
	}
}

// leave ends one use of an entry.
func (k *Keeper) leave(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.users--; e.users > 0 {
		return
	}
	select {
	case <-e.done:
		k.rest(e)
	default:
		e.cancel(errForgotten)
		k.forget(e)
	}
}

// rest keeps an entry without users, or removes what was made for it, and
// removes the one that was unused for longest.
func (k *Keeper) rest(e *entry) {
	switch {
	case k.known[e.key] != e:
		k.drop(e)
	case !slices.Contains(k.idle, e):
		k.idle = append(k.idle, e)
	}
	for len(k.idle) > kept {
		k.forget(k.idle[0])
		k.drop(k.idle[0])
		k.idle = k.idle[1:]
	}
}

// drop removes what was made for an entry, in the background.
func (k *Keeper) drop(e *entry) {
	remove := e.remove
	if e.remove = nil; remove == nil {
		return
	}
	k.work.Go(func() {
		if err := remove(context.Background()); err != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.errs = append(k.errs, err)
		}
	})
}

// Close removes what was made: contents on disk, and derived images. Checkouts
// that are still held are of no use any more. It is idempotent; the error joins
// those of all removals, the earlier ones included.
func (k *Keeper) Close(context.Context) error {
	k.mu.Lock()
	k.closed = true
	var finished []*entry
	for _, e := range k.known {
		e.cancel(errClosed)
		finished = append(finished, e)
	}
	k.mu.Unlock()
	for _, e := range finished {
		<-e.done
	}
	k.mu.Lock()
	for _, e := range finished {
		k.forget(e)
		k.drop(e)
	}
	k.idle = nil
	k.mu.Unlock()
	k.work.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	err := errors.Join(k.errs...)
	k.errs = nil
	return err
}
