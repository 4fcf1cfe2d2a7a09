package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
)

// The bounds of pulling images.
const (
	// pulls is how many images are pulled at the same time.
	pulls = 2
	// pullTries is how often a busy registry is asked, with a pause in between that
	// begins as pullPause, doubles and ends as pullPauseMost.
	pullTries     = 8
	pullPause     = 2 * time.Second
	pullPauseMost = time.Minute
	// pullTime bounds the pull of one image.
	pullTime = time.Hour
)

// images sees to it that the engine has the images of jobs, as the run knows them.
type images struct {
	engine sandbox.Engine
	mirror string
	say    func(string)
	pulled func(time.Duration)
	pause  func(context.Context, time.Duration) error
	turns  chan struct{} // of pulls

	mu   sync.Mutex
	run  map[string]sandbox.Image // as the run knows them, by reference
	here map[string]sandbox.Image // as the engine has them, by ID
	busy map[string]chan struct{} // closed when an image has been looked for, by ID
}

// newImages makes the images of a run.
func newImages(o Options, run map[string]sandbox.Image, pulled func(time.Duration)) *images {
	return &images{engine: o.Engine, mirror: o.Mirror, say: o.Say, pulled: pulled, pause: attended.Pause, turns: make(chan struct{}, pulls),
		run: run, here: map[string]sandbox.Image{}, busy: map[string]chan struct{}{}}
}

// known returns an image that the run names: as the engine has it, if that is known.
func (i *images) known(ref string) (sandbox.Image, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	img, ok := i.run[ref]
	if is, there := i.here[img.ID]; ok && there {
		img.User = is.User
	}
	return img, ok
}

// get returns an image of a job once the engine has it. Whoever wants an image that is
// being looked for or pulled waits.
func (i *images) get(ctx context.Context, want sandbox.Image) (sandbox.Image, error) {
	if want.ID == "" {
		return want, nil
	}
	for {
		i.mu.Lock()
		wait := i.busy[want.ID]
		if wait == nil {
			i.busy[want.ID] = make(chan struct{})
		}
		i.mu.Unlock()
		if wait == nil {
			return i.look(ctx, want)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return want, context.Cause(ctx)
		}
	}
}

// look looks for an image, and pulls it if the engine lacks it. Nobody else does so
// meanwhile.
func (i *images) look(ctx context.Context, want sandbox.Image) (sandbox.Image, error) {
	is, err := i.find(ctx, want)
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.busy[want.ID])
	delete(i.busy, want.ID)
	if err != nil {
		return want, err
	}
	i.here[want.ID] = is
	want.User = is.User
	return want, nil
}

// find returns an image that the engine has by its ID, by its name, or after a pull. The ID
// comes first because an engine that has the image in use knows that without a look.
func (i *images) find(ctx context.Context, want sandbox.Image) (sandbox.Image, error) {
	other := "" // ID of what has the name
	for _, ref := range []string{want.ID, want.Ref} {
		is, err := i.engine.Image(ctx, ref)
		switch {
		case err == nil && is.ID == want.ID:
			return is, nil
		case err == nil && ref == want.Ref:
			other = is.ID
		case err != nil && !errors.Is(err, sandbox.ErrImageMissing):
			return is, fmt.Errorf("looking up the image: %w", err)
		}
	}
	switch {
	case want.Digest != "":
		return i.pull(ctx, want)
	case other != "":
		return want, fmt.Errorf("the image %s is another one on this worker: %s instead of %s", want.Ref, other, want.ID)
	}
	return want, fmt.Errorf("this worker does not have the image %s, and the run knows no registry that has it: put %s on the worker, or use an image from a registry", want.Ref, want.ID)
}

// pull pulls an image by its registry digest: from the mirror, or from its own registry if
// there is none or it does not have the image.
func (i *images) pull(ctx context.Context, want sandbox.Image) (sandbox.Image, error) {
	puller, ok := i.engine.(sandbox.Puller)
	if !ok {
		return want, fmt.Errorf("this worker does not have the image %s, and its engine pulls none", want.Ref)
	}
	select {
	case i.turns <- struct{}{}:
		defer func() { <-i.turns }()
	case <-ctx.Done():
		return want, context.Cause(ctx)
	}
	is, err := i.pullFrom(ctx, puller, want, mirrored(want.Digest, i.mirror))
	if err != nil && i.mirror != "" && ctx.Err() == nil {
		i.say(fmt.Sprintf("the mirror does not provide an image: %v; asking its own registry", err))
		is, err = i.pullFrom(ctx, puller, want, want.Digest)
	}
	return is, err
}

// pullFrom pulls an image by a name.
func (i *images) pullFrom(ctx context.Context, puller sandbox.Puller, want sandbox.Image, ref string) (sandbox.Image, error) {
	ctx, stop := attended.WithTimeout(ctx, pullTime)
	defer stop()
	i.say("pulling image " + ref)
	began := time.Now()
	is, err := i.pullPatiently(ctx, puller, ref)
	switch {
	case err != nil:
		return want, err
	case is.ID != want.ID:
		return want, fmt.Errorf("the image %s is another one on this worker: %s instead of %s", ref, is.ID, want.ID)
	}
	if i.pulled != nil {
		i.pulled(time.Since(began))
	}
	return is, nil
}

// pullPatiently pulls an image, from a busy registry later.
func (i *images) pullPatiently(ctx context.Context, puller sandbox.Puller, ref string) (sandbox.Image, error) {
	wait := pullPause
	for try := 1; ; try++ {
		is, err := puller.Pull(ctx, ref, io.Discard)
		if !errors.Is(err, sandbox.ErrBusy) || try == pullTries {
			return is, err
		}
		i.say(fmt.Sprintf("%v; trying again in %s", err, wait))
		if i.pause(ctx, wait) != nil {
			return is, err
		}
		wait = min(2*wait, pullPauseMost)
	}
}

// hosted matches the names of images that begin with their registry.
var hosted = lazyregexp.New(`^(localhost|[^/]*[.:][^/]*)/`)

// mirrored returns a name in Docker's words as it is in a mirror; "" is none.
func mirrored(ref, mirror string) string {
	if mirror == "" {
		return ref
	}
	path := hosted.ReplaceAllString(ref, "")
	if path == ref && !strings.Contains(strings.SplitN(ref, "@", 2)[0], "/") {
		path = "library/" + path
	}
	return strings.TrimSuffix(mirror, "/") + "/" + path
}
