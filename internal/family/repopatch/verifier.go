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
	"securebench/internal/testrunner"
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
	prepared map[key]*prepared
	order    []key // least recently used first
	facts    map[key][]byte
}

// pristine is an image's checkout without its tree; see [checkout.Checkout].
type pristine interface {
	Head() string
	At(commit string) error
	Content(path string) ([]byte, error)
	Release()
}

var _ pristine = (*checkout.Checkout)(nil)

// NewVerifier makes the family's verifier. It starts nothing.
func NewVerifier(r family.Resources) family.Verifier {
	v := &Verifier{resources: r, prepared: map[key]*prepared{}, facts: map[key][]byte{}}
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

// Explain says which tests did not pass, and what they said.
func (v *Verifier) Explain(_ context.Context, _ family.Case, got family.Verdict) ([]string, error) {
	return testrunner.Explain(got.Restricted), nil
}

// Close implements [family.Verifier]. Nothing is kept on the engine.
func (v *Verifier) Close(context.Context) error { return nil }

// key names all that something which is kept depends on.
type key [sha256.Size]byte

func keyOf(dependsOn map[string]any) (key, error) {
	b, err := json.Marshal(dependsOn, json.Deterministic(true))
	return sha256.Sum256(b), err
}

// preparedKey returns the key of a row in an image.
func preparedKey(image string, r row) (key, error) {
	return keyOf(map[string]any{"image": image, "dir": r.dir, "user": r.user, "setup": r.setup, "tests": r.testPatch,
		"command": r.run.Command, "runner": r.run.Runner, "env": r.run.Env, "named": r.run.Named(), "fail": r.run.FailToPass})
}

// find returns a preparation that is kept, or nil.
func (v *Verifier) find(k key) *prepared {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.prepared[k] != nil {
		v.use(k)
	}
	return v.prepared[k]
}

// keep keeps a preparation, and forgets the one that was not used for longest.
func (v *Verifier) keep(k key, p *prepared) {
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
func (v *Verifier) use(k key) {
	for i, other := range v.order {
		if other == k {
			v.order = append(v.order[:i], v.order[i+1:]...)
			break
		}
	}
	v.order = append(v.order, k)
}

// maxFacts is how many facts are kept.
const maxFacts = 256

// fact returns what is known of an image and does not depend on the candidate,
// such as what a trusted command prints in a pristine sandbox. It asks only if
// the answer for the same value of all that it depends on is not known.
func (v *Verifier) fact(dependsOn map[string]any, ask func() ([]byte, error)) ([]byte, error) {
	k, err := keyOf(dependsOn)
	if err != nil {
		return nil, err
	}
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
func (v *Verifier) user(ctx context.Context, image sandbox.Image, name string) (u sandbox.User, err error) {
	if name == "" {
		return image.User, nil
	}
	known, err := v.fact(map[string]any{"name": name, "image": image.ID}, func() ([]byte, error) {
		u, err := v.resources.Engine.User(ctx, image, name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(u)
	})
	if err == nil {
		err = json.Unmarshal(known, &u)
	}
	return u, err
}
