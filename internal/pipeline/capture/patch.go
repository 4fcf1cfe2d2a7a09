package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"securebench/internal/bounded"
	"securebench/internal/candidate"
	"securebench/internal/piped"
	"securebench/internal/redact"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// gitFolder is the one part of a checkout that is not looked at: the agent can
// make it say anything.
const gitFolder = ".git"

// maxChanged bounds the files whose two versions are compared, in bytes: both
// are in memory then.
const maxChanged = 64 << 20

// The keys of a capture's metadata: what was left out of a patch. At most
// maxIgnored paths are listed, each with at most ignoredLength characters.
const (
	ignoredKey      = "ignored_paths"
	ignoredCountKey = "ignored_path_count"
	maxIgnored      = 100
	ignoredLength   = 200
)

// Checkout is the repository that an agent was given, as it was and as it is.
type Checkout struct {
	Space sandbox.Workspace // as the agent left it
	// Tree is the pristine tree, and Content returns the content of one of its
	// files, or the target of a link.
	Tree    *repository.Tree
	Content func(path string) ([]byte, error)
	// Tracked are the paths that the repository contains. Of all others, those
	// that the pristine tree's own rules ignore are left out.
	Tracked map[string]bool
	Ignore  *repository.Ignore
}

// patch returns what the agent changed in its repository as a patch. Without a
// change, and if the extraction allows it, a patch that the agent printed is
// the candidate. Paths that were left out enter the metadata.
func (j job) patch(ctx context.Context, m verdict.Metadata) ([]byte, candidate.Origin, error) {
	if j.Checkout == nil {
		return nil, "", errors.New("capture has no repository to compare with")
	}
	after, err := j.walk(ctx)
	if err != nil {
		return nil, "", err
	}
	ignored := j.leaveOut(after)
	j.list(m, ignored)
	if err := j.names(after); err != nil {
		return nil, "", err
	}
	if err := repository.Refuse(j.Checkout.Tree, after); err != nil {
		return nil, "", err
	}
	changes := j.changes(after)
	switch {
	case int64(len(changes)) > j.Tree.Files:
		return nil, "", candidate.Reject(verdict.CandidateTooLarge, "the agent changed %d files of the repository, the limit is %d", len(changes), j.Tree.Files)
	case len(changes) > 0:
		data, err := j.write(ctx, changes)
		return data, candidate.GitDiff, err
	case j.Extraction.OrStdout && isPatch(j.printed()):
		return j.printed(), candidate.Stdout, nil
	}
	return nil, "", candidate.Reject(verdict.CandidateMissing, "the agent changed nothing in the repository%s", leftOut(len(ignored)))
}

// leftOut says that there were files which do not count.
func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (ignored files were left out: %d)", n)
}

// walk reads the repository as the agent left it, without a byte of its .git.
func (j job) walk(ctx context.Context) (tree *repository.Tree, err error) {
	getErr, err := piped.Both(func(w io.Writer) error { return j.Checkout.Space.Get(ctx, ".", j.Tree.ArchiveSize(), w, gitFolder) }, func(r io.Reader) (err error) {
		tree, err = repository.Read(r, repository.Bounds{Bytes: j.Tree.Bytes, Files: j.Tree.Files}, nil)
		_, _ = io.Copy(io.Discard, r) // the workspace stays usable
		return err
	})
	switch {
	case errors.Is(getErr, sandbox.ErrTooLarge):
		return nil, candidate.Reject(verdict.CandidateTooLarge, "the repository has more than %d bytes or %d files, or folders that are too deep", j.Tree.Bytes, j.Tree.Files)
	case getErr != nil:
		return nil, fmt.Errorf("reading the repository from the workspace: %w", getErr)
	case err != nil:
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	return tree, nil
}

// leaveOut removes what the base ignores from the tree that the agent left, so
// that whoever ran the tests there loses nothing, and returns the paths that
// the agent made, changed or deleted.
func (j job) leaveOut(after *repository.Tree) []string {
	var out []string
	for path := range j.Checkout.Tree.Entries {
		if _, is := after.Entries[path]; !is && j.ignored(path) {
			out = append(out, path)
		}
	}
	for path, e := range after.Entries {
		if !j.ignored(path) {
			continue
		}
		if j.Checkout.Tree.Entries[path] != e {
			out = append(out, path)
		}
		delete(after.Entries, path)
	}
	for path := range after.Odd {
		// What is odd can be a folder, which only rules for folders cover.
		if j.ignored(path) || j.ignored(path+"/"+gitFolder) {
			out = append(out, path)
			delete(after.Odd, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ignored reports whether a path is left out: the repository does not contain
// it, and the base's own rules cover it.
func (j job) ignored(path string) bool {
	if j.Checkout.Tracked[path] {
		return false
	}
	_, covered := j.Checkout.Ignore.Match(path)
	return covered
}

// changes returns what differs from the pristine tree, without what is left
// out.
func (j job) changes(after *repository.Tree) []repository.Change {
	return slices.DeleteFunc(repository.Compare(j.Checkout.Tree, after), func(c repository.Change) bool {
		return !c.After.Exists() && j.ignored(c.Path)
	})
}

// list puts the paths that were left out into the metadata, bounded and
// without secrets.
func (j job) list(m verdict.Metadata, ignored []string) {
	if len(ignored) == 0 {
		return
	}
	m.Set(ignoredCountKey, len(ignored))
	shown := make([]string, 0, min(len(ignored), maxIgnored))
	for _, path := range ignored[:cap(shown)] {
		shown = append(shown, redact.EscapeShort(string(j.Secrets.Bytes([]byte(path))), ignoredLength))
	}
	m.Set(ignoredKey, shown)
}

// names refuses new paths that contain a secret, before any is named.
func (j job) names(after *repository.Tree) error {
	if j.Secrets.Empty() {
		return nil
	}
	for path := range after.Entries {
		if _, was := j.Checkout.Tree.Entries[path]; !was && j.secret([]byte(path)) {
			return errSecret("a name in the repository")
		}
	}
	for path := range after.Odd {
		if j.secret([]byte(path)) {
			return errSecret("a name in the repository")
		}
	}
	return nil
}

func (j job) secret(b []byte) bool { return !bytes.Equal(j.Secrets.Bytes(b), b) }

// errSecret refuses what cannot be stored without its secret.
func errSecret(what string) error {
	return candidate.Reject(verdict.Policy, "%s contains a secret of the operator's, which cannot be removed from a patch", what)
}

// write returns changes as a patch of at most the limit.
func (j job) write(ctx context.Context, changes []repository.Change) ([]byte, error) {
	var out bytes.Buffer
	full := candidate.Reject(verdict.CandidateTooLarge, "the patch of the agent's changes has more than %d bytes", j.Limit)
	err := repository.WritePatch(&bounded.Writer{W: &out, Left: j.Limit, Err: full}, changes, func(c repository.Change) (before, after []byte, err error) {
		if size := max(c.Before.Size, c.After.Size); size > maxChanged {
			return nil, nil, candidate.Reject(verdict.CandidateTooLarge, "the agent changed %.200q, which has %d bytes; the limit of a changed file is %d", c.Path, size, maxChanged)
		}
		if c.Before.Exists() {
			if before, err = j.Checkout.Content(c.Path); err != nil {
				return nil, nil, fmt.Errorf("reading the pristine %q: %w", c.Path, err)
			}
		}
		if c.After.Exists() {
			after, err = j.changed(ctx, c)
		}
		return before, after, err
	})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return out.Bytes(), nil
}

// changed reads a file that the agent left. A secret in it would be out of
// sight in a patch's binary section.
func (j job) changed(ctx context.Context, c repository.Change) ([]byte, error) {
	var archive bytes.Buffer
	if err := j.Checkout.Space.Get(ctx, c.Path, c.After.Size+tarOverhead, &archive); err != nil {
		return nil, fmt.Errorf("reading %q from the workspace: %w", c.Path, err)
	}
	data, err := onlyFile(&archive, c.Path, c.After.Size)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != c.After.Size {
		return nil, fmt.Errorf("%q changed after the agent had ended", c.Path)
	}
	if j.secret(data) {
		return nil, errSecret("a changed file")
	}
	return data, nil
}
