package capture

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"

	"securebench/internal/candidate"
	"securebench/internal/pathname"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/verdict"
)

// Bounds of reading a root: how many changes there may be that are not taken,
// such as those of installed packages, and how many folders are looked at in
// parallel.
const (
	otherChanges = 1 << 17
	looksAtOnce  = 4
)

// A root is what changed outside of the workspace.
type root struct {
	members []member // sorted, each path once
	spool   spool    // the content of the files
}

// A member is one change of a root, and where its content is.
type member struct {
	candidate.Entry
	at int64
}

func (r *root) close() { r.spool.close() }

// root reads what changed outside of the workspace: first the engine's list of
// changes, then what that names.
func (c *collector) root(ctx context.Context) (*root, error) {
	r := &root{spool: spool{limit: c.Tree.Bytes}}
	if !c.Captured.Root(c.scope.workdir) {
		return r, nil
	}
	if c.Root == nil {
		return nil, errors.New("capture has no way to read the sandbox's root")
	}
	changes, err := c.Root.Changes(ctx, int(min(c.Tree.Files, 1<<30))+otherChanges)
	if errors.Is(err, sandbox.ErrTooLarge) {
		return nil, candidate.Reject(verdict.CandidateTooLarge, "the agent changed too many files outside of its workspace, or one that is too deep")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the sandbox's root: %w", err)
	}
	p, err := c.plan(changes)
	if err == nil {
		for _, gone := range p.gone {
			r.members = append(r.members, deletion(gone))
		}
		err = c.look(ctx, r, p)
	}
	if err == nil {
		err = c.fetch(ctx, r, p)
	}
	if err == nil {
		err = c.absent(ctx, changes)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	// A path that is there was not deleted.
	slices.SortStableFunc(r.members, func(x, y member) int {
		if order := candidate.ComparePaths(x.Path, y.Path); order != 0 || x.Deleted == y.Deleted {
			return order
		} else if x.Deleted {
			return 1
		}
		return -1
	})
	r.members = slices.CompactFunc(r.members, func(x, y member) bool { return x.Path == y.Path })
	return r, nil
}

// A plan says how the changes of a root are read.
type plan struct {
	gone    []string
	folders []string // only their owner and permissions may have changed
	all     []string // that are taken with all that is in them
	was     map[string]bool
}

// plan sorts the changes that are taken. The order is that of a tree.
func (c *collector) plan(changes []sandbox.Change) (plan, error) {
	slices.SortFunc(changes, func(x, y sandbox.Change) int { return candidate.ComparePaths(x.Path, y.Path) })
	p := plan{was: map[string]bool{}}
	passed := "" // the last folder or file that was passed over
	for _, ch := range changes {
		if c.scope.passesOver(ch) && (passed == "" || !pathname.Within(ch.Path, passed)) {
			passed = ch.Path
			c.notes.drop(passed, droppedElsewhere)
		}
		if ch.Path == "/" || !c.scope.takes(ch.Path) || pathname.Within(ch.Path, c.scope.workdir) {
			continue
		}
		covered := len(p.all) > 0 && pathname.Within(ch.Path, p.all[len(p.all)-1])
		p.was[ch.Path] = ch.Kind == sandbox.Modified
		switch {
		case ch.Kind == sandbox.Deleted:
			p.gone = append(p.gone, ch.Path)
		case odd(ch) != nil:
			if _, err := c.accept(ch.Path, odd(ch)); err != nil {
				return p, err
			}
			if p.was[ch.Path] {
				p.gone = append(p.gone, ch.Path)
			}
		case covered:
		case ch.Type == "":
			return p, candidate.Reject(verdict.InvalidUTF8, "the agent made %.200q, whose name is not valid UTF-8", ch.Path)
		case ch.Type == sandbox.Directory && (p.was[ch.Path] || !c.scope.whole(ch.Path)):
			p.folders = append(p.folders, ch.Path)
		default:
			p.all = append(p.all, ch.Path)
		}
	}
	return p, nil
}

// odd returns a header for what is neither file nor folder nor link, else nil.
func odd(ch sandbox.Change) *tar.Header {
	h := &tar.Header{Name: ch.Path, Typeflag: tar.TypeFifo}
	switch ch.Type {
	case sandbox.NamedPipe:
	case sandbox.Socket:
		h.PAXRecords = map[string]string{holder.RecordType: holder.Socket}
	case sandbox.Device:
		h.Typeflag = tar.TypeChar
	default:
		return nil
	}
	return h
}

// look reads the headers of folders, a few at a time.
func (c *collector) look(ctx context.Context, r *root, p plan) error {
	headers, errs := make([]*tar.Header, len(p.folders)), make([]error, looksAtOnce)
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for i := worker; i < len(p.folders) && errs[worker] == nil; i += looksAtOnce {
				headers[i], errs[worker] = c.header(ctx, p.folders[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, h := range headers {
		name := p.folders[i]
		if h == nil || p.was[name] && special(h) {
			continue // a tree could only take those bits from a folder of the image
		}
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("reading %q of the sandbox's root: it is no longer a folder", name)
		}
		if ok, err := c.accept(name, h); err != nil || !ok {
			return err
		}
		r.members = append(r.members, member{Entry: entryOf(name, h)})
	}
	return nil
}

// header reads the first header of a path's archive and no more of it; nil if
// nothing is there.
func (c *collector) header(ctx context.Context, p string) (h *tar.Header, err error) {
	getErr, err := piped.Both(func(w io.Writer) error { return c.Root.Archive(ctx, []string{p}, c.Tree.ArchiveSize(), w) }, func(r io.Reader) (err error) {
		h, err = tar.NewReader(r).Next()
		return err
	})
	switch {
	case err == nil:
		return h, nil
	case getErr != nil:
		return nil, fmt.Errorf("reading %q of the sandbox's root: %w", p, getErr)
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // nothing is there
	}
	return nil, fmt.Errorf("reading the archive of the sandbox's root: %w", err)
}

// fetch reads paths with all that is in them. The content of files is kept on
// disk: an engine's archive has an order of its own.
func (c *collector) fetch(ctx context.Context, r *root, p plan) error {
	if len(p.all) == 0 {
		return nil
	}
	getErr, err := piped.Both(func(w io.Writer) error { return c.Root.Archive(ctx, p.all, c.Tree.ArchiveSize(), w) },
		func(archive io.Reader) error { return c.index(archive, r, p) })
	switch {
	case errors.Is(getErr, sandbox.ErrTooLarge):
		return c.tooLarge()
	case getErr != nil:
		return fmt.Errorf("reading the sandbox's root: %w", getErr)
	}
	return err
}

// index keeps what an archive holds.
func (c *collector) index(archive io.Reader, r *root, p plan) error {
	files, left := map[string]member{}, map[string]bool{} // files are for hard links
	for _, name := range p.all {
		left[name] = true
	}
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			c.unread(r, p, slices.Sorted(maps.Keys(left)))
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive of the sandbox's root: %w", err)
		}
		name := path.Clean("/" + h.Name)
		delete(left, name)
		if !c.scope.takes(name) || slices.Contains([]byte{tar.TypeFifo, tar.TypeChar, tar.TypeBlock}, h.Typeflag) {
			continue // the list of changes has named it
		}
		if ok, err := c.accept(name, h); err != nil {
			return err
		} else if !ok {
			if p.was[name] {
				r.members = append(r.members, deletion(name))
			}
			continue
		}
		m := member{Entry: entryOf(name, h), at: r.spool.n}
		if h.Typeflag == tar.TypeLink {
			if m = c.again(name, files[h.Linkname]); m.Path == "" {
				continue
			}
		}
		if int64(len(r.members)) > c.Tree.Files || h.Size > c.Tree.Bytes-r.spool.n {
			return c.tooLarge()
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.CopyBuffer(onlyWriter{&r.spool}, tr, c.buf); err != nil {
				return fmt.Errorf("keeping %q of the sandbox's root: %w", name, err)
			}
		}
		if !m.Mode.IsDir() {
			files[name[1:]] = m
		}
		r.members = append(r.members, m)
	}
}

// unread notes the links that the engine cannot read: they lead in circles.
func (c *collector) unread(r *root, p plan, names []string) {
	for _, name := range names {
		c.notes.drop(name, droppedLink)
		if p.was[name] {
			r.members = append(r.members, deletion(name))
		}
	}
}

// again returns another name of a file or link of the same archive, or a member
// without a path if the tree cannot have it.
func (c *collector) again(name string, first member) member {
	if first.Path == "" || first.Target != "" && !c.scope.follows(name, first.Target) {
		return member{}
	}
	first.Path = name[1:]
	return first
}

func deletion(p string) member { return member{Entry: candidate.Entry{Path: p[1:], Deleted: true}} }

// absent notes the roots outside of the workspace at which nothing is and
// nothing was.
func (c *collector) absent(ctx context.Context, changes []sandbox.Change) error {
	for _, dir := range c.scope.roots {
		if pathname.Within(dir, c.scope.workdir) || slices.ContainsFunc(changes, func(ch sandbox.Change) bool { return pathname.Within(ch.Path, dir) }) {
			continue
		}
		h, err := c.header(ctx, dir)
		if err != nil {
			return err
		}
		if h == nil {
			c.notes.missing = append(c.notes.missing, dir)
		}
	}
	return nil
}

// members writes what changed outside of the workspace, as long as it is before
// something.
func (c *collector) members(r *root, before func(p string) bool) error {
	for ; len(r.members) > 0 && before("/"+r.members[0].Path); r.members = r.members[1:] {
		m := r.members[0]
		p := "/" + m.Path
		var err error
		switch {
		case m.Deleted:
			err = c.deleted(p)
		case c.gone != "" && pathname.Within(p, c.gone):
		case m.Mode.IsRegular():
			err = c.content(m.Entry, r.spool.section(m.at, m.Size))
		default:
			err = c.add(m.Entry, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// content writes a file of a root without the secrets in it.
func (c *collector) content(e candidate.Entry, content io.Reader) error {
	if c.Secrets.Empty() {
		return c.add(e, content)
	}
	sum, err := c.keep(content)
	if err != nil {
		return err
	}
	return c.kept(e, sum)
}
