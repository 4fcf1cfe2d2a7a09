package capture

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"securebench/internal/candidate"
	"securebench/internal/pathname"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// atOnce is how much is handed from one part to the next: small pieces are slow.
const atOnce = 128 << 10

// tree streams what the agent changed into the sink. Three parts run side by
// side: the workspace writes its archive, the collector keeps what differs from
// the base, and the sink stores it.
func (j job) tree(ctx context.Context, res *Result) (candidate.Candidate, error) {
	if !path.IsAbs(j.Workdir) {
		return candidate.Candidate{}, errors.New("capture does not know where the workspace was")
	}
	c := &collector{job: j, scope: newScope(j.Workdir, j.captured(), j.Extraction.Path), base: j.Base.All(),
		spool: spool{limit: j.Tree.Bytes}, buf: make([]byte, 64<<10)}
	defer c.spool.close()
	var cand candidate.Candidate
	err := piped.Run(func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, atOnce)
		if err := c.write(ctx, buffered); err != nil {
			return err
		}
		return buffered.Flush()
	}, func(r io.Reader) (err error) {
		cand, err = j.Sink.Put(task.Workspace, candidate.File, r)
		return err
	})
	if err == nil && len(j.Extraction.Files) > 0 {
		c.notes.missing = nil // one that was printed
		err = c.countLeft(ctx)
	}
	res.Metadata = j.noted(c.notes)
	cand.Redacted = c.redacted
	return cand, err
}

// A collector writes the changes of a sandbox as a tree.
type collector struct {
	job
	scope scope
	notes notes
	tw    *candidate.TreeWriter
	base  func() (candidate.Fingerprint, bool)
	was   *candidate.Fingerprint // the next of the base, nil at its end
	gone  string                 // the last path that is no folder any more
	spool spool
	buf   []byte
	there []string // of the files that the task names, those that are regular files
	taken []string // of those, what the tree has
	// entries counts those of the tree.
	entries  int
	redacted bool
}

// write writes the tree: the workspace is one piece in the order of paths.
func (c *collector) write(ctx context.Context, w io.Writer) error {
	c.tw = candidate.NewTreePacker(w, c.Tree)
	root, err := c.root(ctx)
	if err != nil {
		return err
	}
	defer root.close()
	if err := c.members(root, func(p string) bool { return candidate.ComparePaths(p, c.scope.workdir) < 0 }); err != nil {
		return err
	}
	c.advance()
	folders, skip := c.scope.folders()
	for _, folder := range folders {
		if c.space == nil {
			break // of an agent without a sandbox
		}
		if err := c.folder(ctx, folder, skip); err != nil {
			return err
		}
	}
	if err := c.delivered(); err != nil {
		return err
	}
	if err := c.members(root, func(string) bool { return true }); err != nil {
		return err
	}
	if c.entries == 0 && c.explained() {
		return candidate.Reject(verdict.CandidateMissing, "the agent changed nothing")
	}
	_, err = c.tw.Close()
	return err
}

// folder writes what changed in one part of the workspace.
func (c *collector) folder(ctx context.Context, folder string, skip []string) error {
	was := c.Base.Bounds()
	limit := candidate.Bounds{Bytes: c.Tree.Bytes + was.Bytes, Files: c.Tree.Files + was.Files}.ArchiveSize()
	getErr, err := piped.Both(func(w io.Writer) error { return c.space.Get(ctx, folder, limit, w, skip...) }, func(r io.Reader) error {
		err := c.compare(bufio.NewReaderSize(r, atOnce), folder)
		_, _ = io.Copy(io.Discard, r) // the workspace stays usable
		return err
	})
	switch {
	case errors.Is(getErr, sandbox.ErrTooLarge):
		return c.tooLarge()
	case getErr != nil:
		return fmt.Errorf("reading the tree from the workspace: %w", getErr)
	}
	return err
}

func (c *collector) tooLarge() error {
	return candidate.Reject(verdict.CandidateTooLarge, "the tree has more than %d bytes or %d files, or is too deep", c.Tree.Bytes, c.Tree.Files)
}

// compare reads the archive of a folder of the workspace beside the base. Both
// are in the same order.
func (c *collector) compare(archive io.Reader, folder string) error {
	for c.was != nil && !pathname.Within(c.was.Path, folder) && candidate.ComparePaths(c.was.Path, folder) < 0 {
		c.advance()
	}
	found := folder == "." || c.was != nil && pathname.Within(c.was.Path, folder)
	for tr := tar.NewReader(archive); ; found = true {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the workspace's archive: %w", err)
		}
		p := strings.TrimSuffix(h.Name, "/")
		if p == "." {
			return candidate.Reject(verdict.CandidateNotRegular, "the agent left a workspace that its own user cannot read")
		}
		if path.Clean("/"+p) != "/"+p {
			return candidate.Reject(verdict.CandidateNotRegular, "tree entry %.80q has a name that is not a path", p)
		}
		if err := c.deletions(folder, func(was string) bool { return candidate.ComparePaths(was, p) < 0 }); err != nil {
			return err
		}
		var was *candidate.Fingerprint
		if c.was != nil && c.was.Path == p {
			was = c.was
			c.advance()
		}
		if err := c.entry(path.Join(c.scope.workdir, p), h, was, tr); err != nil {
			return err
		}
	}
	if !found {
		c.notes.missing = append(c.notes.missing, path.Join(c.scope.workdir, folder))
	}
	return c.deletions(folder, func(string) bool { return true })
}

// advance goes to the next fingerprint of the base.
func (c *collector) advance() {
	p, ok := c.base()
	if c.was = &p; !ok {
		c.was = nil
	}
}

// deletions writes what of the base is no longer in a folder, as long as it is
// before something.
func (c *collector) deletions(folder string, before func(string) bool) error {
	for c.was != nil && pathname.Within(c.was.Path, folder) && before(c.was.Path) {
		if err := c.deleted(path.Join(c.scope.workdir, c.was.Path)); err != nil {
			return err
		}
		c.advance()
	}
	return nil
}

// deleted writes that nothing is at a path any more.
func (c *collector) deleted(p string) error {
	if len(c.Extraction.Files) > 0 || !c.scope.takes(p) || c.gone != "" && pathname.Within(p, c.gone) {
		return nil
	}
	return c.add(candidate.Entry{Path: p[1:], Deleted: true}, nil)
}

// entry writes one entry of an archive if it differs from what was there.
func (c *collector) entry(p string, h *tar.Header, was *candidate.Fingerprint, content io.Reader) error {
	if !c.scope.takes(p) {
		return nil
	}
	if ok, err := c.asked(p, h); !ok || err != nil {
		return err
	}
	now := candidate.NewFingerprint(h)
	same := was != nil && now.Same(*was)
	switch {
	case now.Mode.IsRegular() && (same || !c.Secrets.Empty()):
		return c.file(entryOf(p, h), h, was, same, content)
	case same:
		return nil
	}
	if ok, err := c.accept(p, h); !ok || err != nil {
		return c.dropped(p, was, err)
	}
	return c.add(entryOf(p, h), content)
}

// entryOf returns what a tree keeps of a header.
func entryOf(p string, h *tar.Header) candidate.Entry {
	e := candidate.Entry{Path: p[1:], Mode: h.FileInfo().Mode() & (fs.ModeType | fs.ModePerm), UID: h.Uid, GID: h.Gid}
	switch h.Typeflag {
	case tar.TypeReg:
		e.Size = h.Size
	case tar.TypeSymlink:
		e.Target = h.Linkname
	}
	return e
}

// accept reports whether a tree can hold an entry of an archive, and notes what
// it cannot hold.
func (c *collector) accept(p string, h *tar.Header) (bool, error) {
	// Before anything else, since what is left out is named.
	for _, name := range []string{h.Name, h.Linkname} {
		if c.secret([]byte(name)) {
			return false, candidate.Reject(verdict.CandidateNotRegular, "a name in the tree contains a secret of the operator")
		}
	}
	reason := lost(h)
	if h.Typeflag == tar.TypeSymlink && !c.scope.follows(p, h.Linkname) {
		reason = droppedLink
	}
	if reason != "" {
		c.notes.drop(p, reason)
		return false, nil
	}
	for _, r := range lessened(h) {
		c.notes.drop(p, r)
	}
	return true, nil
}

// dropped writes that nothing is where an entry was not accepted, if something
// was there before.
func (c *collector) dropped(p string, was *candidate.Fingerprint, err error) error {
	if was == nil || err != nil {
		return err
	}
	return c.deleted(p)
}

// add writes an entry.
func (c *collector) add(e candidate.Entry, content io.Reader) error {
	c.entries++
	if len(c.Extraction.Files) > 0 {
		c.taken = append(c.taken, "/"+e.Path)
	}
	if !e.Mode.IsDir() || e.Deleted {
		c.gone = "/" + e.Path
	}
	return c.tw.Add(e, content)
}

// file writes a file without the secrets in its content. If it is the same as
// before from outside, its content tells whether it changed.
func (c *collector) file(e candidate.Entry, h *tar.Header, was *candidate.Fingerprint, same bool, content io.Reader) error {
	if e.Size > c.Tree.Bytes {
		return c.oversized(e, was, same, content)
	}
	sum, err := c.keep(content)
	if err != nil || same && sum == was.Sum {
		return err
	}
	if ok, err := c.accept("/"+e.Path, h); !ok || err != nil {
		return c.dropped("/"+e.Path, was, err)
	}
	return c.kept(e, sum)
}

// keep reads a file into the spool without its secrets: its new size has to be
// known before it is written. It returns the digest of what was read.
func (c *collector) keep(content io.Reader) (sum [sha256.Size]byte, err error) {
	if err := c.spool.reset(); err != nil {
		return sum, fmt.Errorf("keeping a file of the tree: %w", err)
	}
	before := sha256.New()
	w := c.Secrets.Writer(&c.spool)
	if _, err = io.CopyBuffer(onlyWriter{w}, io.TeeReader(content, before), c.buf); err == nil {
		err = w.Close()
	}
	if err != nil {
		return sum, fmt.Errorf("keeping a file of the tree: %w", err)
	}
	return [sha256.Size]byte(before.Sum(nil)), nil
}

// onlyWriter hides that a writer can read by itself.
type onlyWriter struct{ io.Writer }

// kept writes the file in the spool; sum is the digest of it with its secrets.
func (c *collector) kept(e candidate.Entry, sum [sha256.Size]byte) error {
	if !c.Secrets.Empty() && !c.redacted {
		after := sha256.New()
		if _, err := io.CopyBuffer(onlyWriter{after}, c.spool.section(0, c.spool.n), c.buf); err != nil {
			return fmt.Errorf("reading a file of the tree again: %w", err)
		}
		c.redacted = [sha256.Size]byte(after.Sum(nil)) != sum
	}
	e.Size = c.spool.n
	return c.add(e, c.spool.section(0, c.spool.n))
}

// oversized refuses a file that no tree can hold, unless it was there before.
func (c *collector) oversized(e candidate.Entry, was *candidate.Fingerprint, same bool, content io.Reader) error {
	if same {
		sum := sha256.New()
		if _, err := io.CopyBuffer(onlyWriter{sum}, content, c.buf); err != nil {
			return fmt.Errorf("reading a file of the tree: %w", err)
		}
		if [sha256.Size]byte(sum.Sum(nil)) == was.Sum {
			return nil
		}
	}
	return c.add(e, content) // which refuses it
}
