package terminaltask

import (
	"context"
	"sync"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/testrunner"
)

// Verifier scores what agents left by running the rows' checkers.
type Verifier struct {
	resources family.Resources

	mu    sync.Mutex
	users map[userKey]sandbox.User
	found map[string][]byte // what probes of images printed
}

// userKey names a user of an image.
type userKey struct{ image, name string }

// NewVerifier makes the family's verifier. It starts nothing.
func NewVerifier(r family.Resources) family.Verifier {
	return &Verifier{resources: r, users: map[userKey]sandbox.User{}, found: map[string][]byte{}}
}

// Open returns the session of a case. Its sandboxes are made once the candidate
// is there: nothing of them could be used before.
func (v *Verifier) Open(_ context.Context, c family.Case) family.Session { return newSession(v, c) }

// Explain says which tests of the checker did not pass, and what they said.
func (v *Verifier) Explain(_ context.Context, _ family.Case, got family.Verdict) ([]string, error) {
	return testrunner.Explain(got.Restricted), nil
}

// Close implements [family.Verifier]. Nothing is kept on the engine.
func (v *Verifier) Close(context.Context) error { return nil }

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

// once returns what ask returned first for the same key.
func (v *Verifier) once(key string, ask func() ([]byte, error)) ([]byte, error) {
	v.mu.Lock()
	known, ok := v.found[key]
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
	v.found[key] = out
	return out, nil
}
