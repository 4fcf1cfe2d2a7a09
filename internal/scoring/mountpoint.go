package scoring

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"securebench/internal/sandbox"
)

// The bounds of paths in Linux, and of links on the way.
const (
	maxName  = 255
	maxPath  = 4095
	maxLinks = 40
)

// mountPoints finds out whether a folder can be mounted at a path of an image, before
// anything runs in it, and remembers the answers. The image is as its author made it, so
// no agent or candidate can have caused what is found. It is safe for concurrent use.
// Without an Engine it finds nothing.
type mountPoints struct {
	Engine sandbox.Looker

	mu    sync.Mutex
	known map[mountKey]*mountFound
}

type mountKey struct {
	image, target string
	exact         bool
}

// mountFound is what is known of a path, once it was looked at.
type mountFound struct {
	sync.Mutex
	done  bool
	fault error
}

// Fault says why nothing can be mounted at a path of an image, as a
// [sandbox.ErrUnusable], or returns nil. With exact, no link may be on the way: the
// path is the folder's own name. err is the engine's.
func (l *mountPoints) Fault(ctx context.Context, image sandbox.Image, target string, exact bool) (fault, err error) {
	if l == nil || l.Engine == nil || image.ID == "" {
		return nil, nil
	}
	f := l.entry(mountKey{image.ID, path.Clean(target), exact})
	f.Lock()
	defer f.Unlock()
	if f.done {
		return f.fault, nil
	}
	w := mountWay{engine: l.Engine, image: image, exact: exact}
	what, err := w.walk(ctx, path.Clean(target))
	if err != nil {
		return nil, err
	}
	if what != "" {
		f.fault = sandbox.Unusable(fmt.Errorf("nothing can be mounted at %.80s: %s", target, what))
	}
	f.done = true
	return f.fault, nil
}

func (l *mountPoints) entry(k mountKey) *mountFound {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[mountKey]*mountFound{}
	}
	if l.known[k] == nil {
		l.known[k] = &mountFound{}
	}
	return l.known[k]
}

// mountWay is the walk to a path.
type mountWay struct {
	engine sandbox.Looker
	image  sandbox.Image
	exact  bool
	links  int
}

// walk says what is wrong with a path, or "". What does not exist the engine makes.
func (w *mountWay) walk(ctx context.Context, target string) (string, error) {
	if len(target) > maxPath {
		return fmt.Sprintf("the path has %d bytes, and Linux allows %d", len(target), maxPath), nil
	}
	at := "/"
	parts := strings.Split(strings.Trim(target, "/"), "/")
	for i, part := range parts {
		at = path.Join(at, part)
		if len(part) > maxName {
			return fmt.Sprintf("a name in it has %d bytes, and Linux allows %d", len(part), maxName), nil
		}
		seen, err := w.engine.Look(ctx, w.image, at)
		switch {
		case err != nil:
			return "", fmt.Errorf("looking at %s in image %s: %w", at, w.image.Ref, err)
		case seen.Type == sandbox.Directory:
			continue
		case seen.Type == "":
			return w.new(parts[i+1:]), nil
		case seen.Type != sandbox.Symlink:
			return fmt.Sprintf("the image has a %s at %s", seen.Type, at), nil
		case w.exact:
			return fmt.Sprintf("the image has a link at %s: name the folder itself", at), nil
		}
		return w.follow(ctx, at, seen.Link, parts[i+1:])
	}
	return "", nil
}

// new says what is wrong with folders that have to be made.
func (w *mountWay) new(parts []string) string {
	for _, part := range parts {
		if len(part) > maxName {
			return fmt.Sprintf("a name in it has %d bytes, and Linux allows %d", len(part), maxName)
		}
	}
	return ""
}

// follow continues where a link leads.
func (w *mountWay) follow(ctx context.Context, at, link string, rest []string) (string, error) {
	if w.links++; w.links > maxLinks || link == "" {
		return fmt.Sprintf("the link at %s in the image leads nowhere", at), nil
	}
	seen, err := w.engine.Look(ctx, w.image, path.Clean(link))
	if err == nil && seen.Type == "" {
		return fmt.Sprintf("the link at %s in the image leads to %s, which does not exist", at, path.Clean(link)), nil
	}
	if err != nil {
		return "", fmt.Errorf("looking at %s in image %s: %w", link, w.image.Ref, err)
	}
	return w.walk(ctx, path.Join(append([]string{link}, rest...)...))
}
