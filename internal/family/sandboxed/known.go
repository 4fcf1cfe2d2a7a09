package sandboxed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// defaultKnown is how many values a [Known] holds.
const defaultKnown = 256

// Known keeps what was found out once, by all that it depends on. It forgets everything
// when it is full: what is found out again is the same. It is safe for concurrent use.
type Known[V any] struct {
	Max int // of values; 0 is the default

	mu     sync.Mutex
	values map[Key]V
}

// Key names all that something which is kept depends on.
type Key [sha256.Size]byte

// KeyOf returns the key of values by name.
func KeyOf(dependsOn map[string]any) (Key, error) {
	b, err := json.Marshal(dependsOn, json.Deterministic(true))
	if err != nil {
		return Key{}, fmt.Errorf("naming what is kept of an image: %w", err)
	}
	return sha256.Sum256(b), nil
}

// Get returns what is kept.
func (k *Known[V]) Get(key Key) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.values[key]
	return v, ok
}

// Put keeps a value.
func (k *Known[V]) Put(key Key, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.values == nil || len(k.values) >= cmp.Or(k.Max, defaultKnown) {
		k.values = map[Key]V{}
	}
	k.values[key] = v
}

// Once returns what is kept, and asks if nothing is.
func (k *Known[V]) Once(dependsOn map[string]any, ask func() (V, error)) (V, error) {
	key, err := KeyOf(dependsOn)
	if err != nil {
		var none V
		return none, err
	}
	if v, ok := k.Get(key); ok {
		return v, nil
	}
	v, err := ask()
	if err == nil {
		k.Put(key, v)
	}
	return v, err
}

// Images is what is known of images, and does not depend on any candidate.
type Images struct {
	Engine sandbox.Engine
	Facts  Known[[]byte] // what trusted commands printed in sandboxes without a candidate
	users  Known[sandbox.User]
}

// User returns the user with a name, or the image's own for "".
func (i *Images) User(ctx context.Context, image sandbox.Image, name string) (sandbox.User, error) {
	if name == "" {
		return image.User, nil
	}
	u, err := i.users.Once(map[string]any{"image": image.ID, "name": name}, func() (sandbox.User, error) { return i.Engine.User(ctx, image, name) })
	if err != nil {
		return u, fmt.Errorf("looking up the row's user: %w", err)
	}
	return u, nil
}

// Ask returns what is found out in a sandbox that has nothing but an image, which takes
// life at most. It asks once for all that the answer depends on.
func (i *Images) Ask(ctx context.Context, site *Site, image sandbox.Image, life time.Duration, dependsOn map[string]any,
	ask func(*initproc.Client) ([]byte, error)) ([]byte, error) {
	return i.Facts.Once(dependsOn, func() ([]byte, error) {
		b, err := openBox(ctx, site.Engine, site.spec("probe", life, sandbox.Spec{Image: image, Workdir: "/", WritableRoot: true, Capabilities: initproc.ApplyCapabilities()}))
		if err != nil {
			return nil, err
		}
		defer func() { _ = b.Close(context.WithoutCancel(ctx)) }() // what is left is reaped
		return ask(b.Client)
	})
}
