package repopatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/go-json-experiment/json"

	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
)

// maxPrepared is how many rows are kept prepared.
const maxPrepared = 32

// Verifier scores patches. What does not depend on the candidate is found out
// once per row: the tree with the setup patch, the test files, what the image
// runs tests with.
type Verifier struct {
	resources family.Resources
	// checkout prepares the repository of an image.
	checkout func(ctx context.Context, image sandbox.Image, dir string) (pristine, *repository.Tree, error)

	mu       sync.Mutex
	prepared map[preparedKey]*prepared
	order    []preparedKey // least recently used first
	users    map[userKey]sandbox.User
	facts    map[preparedKey][]byte
}

// pristine is an image's checkout without its tree; see [checkout.Checkout].
type pristine interface {
	Head() string
	At(commit string) error
	Content(path string) ([]byte, error)
	Release()
}

var _ pristine = (*checkout.Checkout)(nil)

// userKey names a user of an image.
type userKey struct{ image, name string }

// NewVerifier makes the family's verifier. It starts nothing.
func NewVerifier(r family.Resources) family.Verifier {
	v := &Verifier{resources: r, prepared: map[preparedKey]*prepared{}, users: map[userKey]sandbox.User{},
		facts: map[preparedKey][]byte{}}
	v.checkout = func(ctx context.Context, image sandbox.Image, dir string) (pristine, *repository.Tree, error) {
		if r.Checkouts == nil {
			return nil, nil, errors.New("preparing a checkout: there is no engine")
		}
		c, err := r.Checkouts.Get(ctx, image, dir)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Tree, nil
	}
	return v
}

// Open returns the session of a case. Its sandbox is made once the candidate is
// there: it begins as the image, so there is nothing to do before.
func (v *Verifier) Open(_ context.Context, c family.Case) family.Session {
	return newSession(v, c)
}

// Close implements [family.Verifier]. Nothing is kept on the engine.
func (v *Verifier) Close(context.Context) error { return nil }

// preparedKey names all that a preparation depends on.
type preparedKey [sha256.Size]byte

// keyOf returns the key of a row in an image.
func keyOf(image string, r row) (preparedKey, error) {
	b, err := json.Marshal(map[string]any{"image": image, "dir": r.dir, "user": r.user, "setup": r.setup, "tests": r.testPatch,
		"command": r.run.Command, "runner": r.run.Runner, "env": r.run.Env, "named": r.run.Named()}, json.Deterministic(true))
	return sha256.Sum256(b), err
}

// find returns a preparation that is kept, or nil.
func (v *Verifier) find(k preparedKey) *prepared {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.prepared[k] != nil {
		v.use(k)
	}
	return v.prepared[k]
}

// keep keeps a preparation, and forgets the one that was not used for longest.
func (v *Verifier) keep(k preparedKey, p *prepared) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.prepared[k] = p
	v.use(k)
	if len(v.order) > maxPrepared {
		delete(v.prepared, v.order[0])
		v.order = v.order[1:]
	}
}

// use moves a key to the end of the order.
func (v *Verifier) use(k preparedKey) {
	for i, other := range v.order {
		if other == k {
			v.order = append(v.order[:i], v.order[i+1:]...)
			break
		}
	}
	v.order = append(v.order, k)
}

// maxFacts is how many outputs of commands are kept.
const maxFacts = 256

// fact returns what a trusted command prints in a pristine sandbox. ask runs it,
// unless the answer is known for the same value of all that it depends on.
func (v *Verifier) fact(dependsOn map[string]any, ask func() ([]byte, error)) ([]byte, error) {
	b, err := json.Marshal(dependsOn, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	k := preparedKey(sha256.Sum256(b))
	v.mu.Lock()
	known, ok := v.facts[k]
	v.mu.Unlock()
	if ok {
		return known, nil
	}
	out, err := ask()
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.facts) >= maxFacts {
		clear(v.facts)
	}
	v.facts[k] = out
	return out, nil
}

// user returns the user that runs a row's commands.
func (v *Verifier) user(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error) {
	if name == "" {
		return image.User, nil
	}
	k := userKey{image.ID, name}
	v.mu.Lock()
	u, ok := v.users[k]
	v.mu.Unlock()
	if ok {
		return u, nil
	}
	u, err := v.resources.Engine.User(ctx, image, name)
	if err != nil {
		return u, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.users[k] = u
	return u, nil
}
