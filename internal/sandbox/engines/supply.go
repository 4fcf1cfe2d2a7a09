package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
)

// supply takes images of a local Docker engine into the store. It is safe for
// concurrent use; who wants an image waits for the one who takes it.
type supply struct {
	store imageStore
	say   func(string)
	open  func(context.Context) (dockerImages, error)

	mu    sync.Mutex
	known map[string]bool // images that need no second look
	conn  dockerImages
	err   error // of connecting, once it has been tried
}

// imageStore is what is used of the store.
type imageStore interface {
	Use(ref string) (imagestore.Image, func() error, error)
	Import(ctx context.Context, source string, a imagestore.Addition, from imagestore.Exporter) (imagestore.Image, error)
	Pull(ctx context.Context, ref string, a imagestore.Addition) (imagestore.Image, error)
	Close() error
}

// dockerImages is what is used of a Docker engine.
type dockerImages interface {
	imagestore.Exporter
	ID(ctx context.Context, ref string) (string, error)
	Build(ctx context.Context, b sandbox.Build, files io.Reader, log io.Writer) (sandbox.Image, error)
	Close() error
}

func newSupply(cfg Config, store imageStore) *supply {
	s := &supply{store: store, say: cfg.Say, known: map[string]bool{}}
	if s.say == nil {
		s.say = func(string) {}
	}
	s.open = func(ctx context.Context) (dockerImages, error) { return openImages(ctx, cfg) }
	return s
}

// missing implements [native.Config.Missing]: an image that the store lacks, or
// that came from a Docker engine and is another one there now, is taken from there.
// An image that came from elsewhere, or is named by its ID, is what it is.
func (s *supply) missing(ctx context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[ref] {
		return nil
	}
	img, err := s.lookup(ref)
	if err != nil {
		return err
	}
	if img.ID != "" && (img.ID == ref || !strings.HasPrefix(img.Origin, imagestore.FromDocker)) {
		s.known[ref] = true
		return nil
	}
	d, err := s.connect(ctx)
	if err != nil {
		return ctx.Err() // without Docker, the store has what it has
	}
	id, err := d.ID(ctx, ref)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("looking for image %s in Docker: %w", ref, err)
	case err != nil:
		return nil // nor does Docker have it
	case id == img.ID || img.Origin == originOf(ref, id):
		s.known[ref] = true
		return nil
	}
	return s.importImage(ctx, d, ref)
}

// originOf is the origin of an image that Docker knows by another ID than that of
// its configuration, as engines do that keep images in containerd.
func originOf(ref, id string) string { return imagestore.FromDocker + ref + "@" + id }

// lookup returns an image of the store; one without an ID is not there.
func (s *supply) lookup(ref string) (imagestore.Image, error) {
	img, release, err := s.store.Use(ref)
	if errors.Is(err, sandbox.ErrImageMissing) {
		return imagestore.Image{}, nil
	}
	if err != nil {
		return img, err
	}
	return img, release()
}

// take takes an image from the Docker engine, whatever the store has.
func (s *supply) take(ctx context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return s.importImage(ctx, d, ref)
}

func (s *supply) importImage(ctx context.Context, d dockerImages, ref string) error {
	s.say("taking image " + ref + " from Docker into the image store")
	a := imagestore.Addition{Ref: ref}
	if strings.HasPrefix(ref, "sha256:") {
		a.Ref = "" // an ID is no name
	}
	img, err := s.store.Import(ctx, imagestore.FromDocker+ref, a, d)
	if err == nil {
		// Only now is it known whether the ID has to be noted.
		var id string
		if id, err = d.ID(ctx, ref); err == nil && id != img.ID {
			a.Origin = originOf(ref, id)
			_, err = s.store.Import(ctx, imagestore.FromDocker+ref, a, d)
		}
	}
	if err != nil {
		return fmt.Errorf("taking image %s from Docker: %w", ref, err)
	}
	s.known[ref] = true
	return nil
}

// docker returns the Docker engine.
func (s *supply) docker(ctx context.Context) (dockerImages, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connect(ctx)
}

// connect connects once: an engine that does not answer is not asked again.
func (s *supply) connect(ctx context.Context) (dockerImages, error) {
	if s.conn == nil && s.err == nil {
		conn, err := s.open(ctx)
		if err != nil && ctx.Err() != nil {
			return nil, err // it was not given its time
		}
		s.conn, s.err = conn, err
	}
	return s.conn, s.err
}

// close releases the Docker engine and the store.
func (s *supply) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.store.Close()
	if s.conn != nil {
		err = errors.Join(err, s.conn.Close())
		s.conn = nil
	}
	return err
}
