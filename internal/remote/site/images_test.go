package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/verdict"
)

// pulling is an engine without images, which pulls them.
type pulling struct {
	*sandboxtest.Engine
	pull func(ref string) (sandbox.Image, error)

	mu    sync.Mutex
	has   map[string]sandbox.Image // by reference and by ID
	asked []string
	now   int // pulls under way
	most  int
}

func newPulling(pull func(ref string) (sandbox.Image, error)) *pulling {
	return &pulling{Engine: sandboxtest.New(sandboxtest.Config{}), pull: pull, has: map[string]sandbox.Image{}}
}

func (p *pulling) Image(_ context.Context, ref string) (sandbox.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	img, ok := p.has[ref]
	if !ok {
		return img, fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	return img, nil
}

func (p *pulling) Pull(_ context.Context, ref string, _ io.Writer) (sandbox.Image, error) {
	p.mu.Lock()
	p.asked = append(p.asked, ref)
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	img, err := p.pull(ref)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now--; err == nil {
		p.has[img.ID] = img
	}
	return img, err
}

// of returns images on the engine whose pauses are noted and take no time.
func (p *pulling) of(run map[string]sandbox.Image, mirror string) (*images, *[]time.Duration, *int) {
	pauses, pulled := &[]time.Duration{}, new(int)
	i := newImages(Options{Engine: p, Mirror: mirror, Say: func(string) {}}, run, func(time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		*pulled++
	})
	i.pause = func(_ context.Context, d time.Duration) error { *pauses = append(*pauses, d); return nil }
	return i, pauses, pulled
}

var theirs = sandbox.Image{Ref: "reg.example/a:1", ID: "sha256:a", Digest: "reg.example/a@sha256:d", User: sandbox.Nobody, Path: "/bin"}

// TestPull: a worker pulls an image that it lacks by its registry digest, from a busy
// registry later, or from the mirror, and takes no other image for it.
func TestPull(t *testing.T) {
	t.Parallel()
	busy := fmt.Errorf("429: %w", sandbox.ErrBusy)
	local := theirs
	local.Digest = ""
	for name, c := range map[string]struct {
		want    sandbox.Image
		has     map[string]sandbox.Image
		mirror  string
		answers []error // nil is the image
		id      string  // of what is pulled
		asked   string
		pauses  int
		err     string
		said    string
	}{
		"right":                    {want: theirs, answers: []error{nil}, id: "sha256:a", asked: "reg.example/a@sha256:d"},
		"there by its name":        {want: theirs, has: map[string]sandbox.Image{theirs.Ref: theirs}},
		"there by its ID":          {want: theirs, has: map[string]sandbox.Image{theirs.ID: theirs}},
		"another by its name":      {want: theirs, has: map[string]sandbox.Image{theirs.Ref: {ID: "sha256:b"}}, answers: []error{nil}, id: "sha256:a", asked: "reg.example/a@sha256:d"},
		"of the mirror":            {want: theirs, mirror: "mirror.example:5000/all/", answers: []error{nil}, id: "sha256:a", asked: "mirror.example:5000/all/a@sha256:d"},
		"not in the mirror":        {want: theirs, mirror: "mirror.example", answers: []error{errors.New("404 not found"), nil}, id: "sha256:a", asked: "reg.example/a@sha256:d", said: "the mirror does not provide an image: 404 not found; asking its own registry"},
		"in neither":               {want: theirs, mirror: "mirror.example", answers: []error{errors.New("404 not found"), errors.New("403 denied")}, asked: "reg.example/a@sha256:d", err: "403 denied"},
		"a mirror that is busy":    {want: theirs, mirror: "mirror.example", answers: append(slices.Repeat([]error{busy}, pullTries), nil), id: "sha256:a", asked: "reg.example/a@sha256:d", pauses: pullTries - 1},
		"busy twice":               {want: theirs, answers: []error{busy, busy, nil}, id: "sha256:a", asked: "reg.example/a@sha256:d", pauses: 2},
		"busy for good":            {want: theirs, answers: []error{busy}, asked: "reg.example/a@sha256:d", pauses: pullTries - 1, err: "the registry is busy"},
		"another image":            {want: theirs, answers: []error{nil}, id: "sha256:b", asked: "reg.example/a@sha256:d", err: "is another one on this worker: sha256:b instead of sha256:a"},
		"not there":                {want: theirs, answers: []error{errors.New("404 not found")}, asked: "reg.example/a@sha256:d", err: "404 not found"},
		"in no registry":           {want: local, err: "does not have the image reg.example/a:1, and the run knows no registry"},
		"in no registry, is other": {want: local, has: map[string]sandbox.Image{theirs.Ref: {ID: "sha256:b"}}, err: "is another one on this worker"},
		"in no registry, is there": {want: local, has: map[string]sandbox.Image{theirs.ID: theirs}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			e := newPulling(func(string) (sandbox.Image, error) {
				err := c.answers[min(tries, len(c.answers)-1)]
				tries++
				return sandbox.Image{ID: c.id, User: sandbox.User{UID: 7, GID: 7}}, err
			})
			for ref, img := range c.has {
				img.User = sandbox.User{UID: 7, GID: 7}
				e.has[ref] = img
			}
			i, pauses, pulled := e.of(map[string]sandbox.Image{c.want.Ref: c.want}, c.mirror)
			var said []string
			i.say = func(text string) { said = append(said, text) }
			got, err := i.get(t.Context(), c.want)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if c.said != "" && !slices.Contains(said, c.said) {
				t.Errorf("%q does not say %q", said, c.said)
			}
			if last := strings.Join(e.asked[max(0, len(e.asked)-1):], ""); last != c.asked || len(*pauses) != c.pauses {
				t.Errorf("asked for %q, with %v in between", e.asked, *pauses)
			}
			if err != nil {
				if *pulled != 0 || attempt.Failed(err, verdict.PhasePrepare).Class != attempt.Infrastructure {
					t.Errorf("%d pulls are counted, and the error's class is %q", *pulled, attempt.Failed(err, verdict.PhasePrepare).Class)
				}
				return
			}
			want := c.want
			want.User = sandbox.User{UID: 7, GID: 7} // which the engine knows
			if known, ok := i.known(want.Ref); got.ID != want.ID || got.Ref != want.Ref || got.User != want.User || got.Path != want.Path || !ok || known.User != want.User {
				t.Errorf("got %+v, known as %+v", got, known)
			}
			if n := *pulled; (n == 1) != (c.answers != nil) {
				t.Errorf("%d pulls are counted", n)
			}
		})
	}
}

// TestPullsAtATime: two images are pulled at the same time and no more, each once.
func TestPullsAtATime(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}, 16), make(chan struct{})
	e := newPulling(func(ref string) (sandbox.Image, error) {
		begun <- struct{}{}
		<-finish
		return sandbox.Image{ID: "sha256:" + ref}, nil
	})
	i, _, _ := e.of(nil, "")
	var all sync.WaitGroup
	for n := range 12 {
		ref := fmt.Sprint("image", n%6)
		all.Go(func() {
			if _, err := i.get(t.Context(), sandbox.Image{Ref: ref, ID: "sha256:" + ref, Digest: ref}); err != nil {
				t.Error(err)
			}
		})
	}
	for range pulls {
		<-begun
	}
	awaittest.Until(t, "the others that wait", func() bool { i.mu.Lock(); defer i.mu.Unlock(); return len(i.busy) == 6 })
	close(finish)
	all.Wait()
	if e.most != pulls || len(e.asked) != 6 {
		t.Errorf("%d at a time, %d in all", e.most, len(e.asked))
	}
}

// TestMirrored: names are those of the same images in a mirror.
func TestMirrored(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"python@sha256:d":                   "m:5000/library/python@sha256:d",
		"user/image@sha256:d":               "m:5000/user/image@sha256:d",
		"reg.example/user/image@sha256:d":   "m:5000/user/image@sha256:d",
		"reg.example/image@sha256:d":        "m:5000/image@sha256:d",
		"localhost/image@sha256:d":          "m:5000/image@sha256:d",
		"127.0.0.1:4000/a/b/image@sha256:d": "m:5000/a/b/image@sha256:d",
	} {
		if got := mirrored(ref, "m:5000"); got != want {
			t.Errorf("%s is %s, want %s", ref, got, want)
		}
		if mirrored(ref, "") != ref {
			t.Errorf("%s changes without a mirror", ref)
		}
	}
}
