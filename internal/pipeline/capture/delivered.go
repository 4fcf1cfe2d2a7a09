package capture

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// captured is what makes up a tree: the files that the task names, if it does.
func (r Request) captured() task.Captured {
	if len(r.Extraction.Files) == 0 {
		return r.Captured
	}
	var c task.Captured
	for _, name := range r.Extraction.Files {
		c.Roots = append(c.Roots, path.Join(r.Workdir, name))
	}
	return c
}

// asked reports whether an entry is one of the files that a task names, and refuses what
// is there in the place of one. Of a task that names none, all are.
func (c *collector) asked(p string, h *tar.Header) (bool, error) {
	switch {
	case len(c.Extraction.Files) == 0:
		return true, nil
	case !slices.Contains(c.scope.roots, p):
		return false, nil
	case h.Typeflag != tar.TypeReg || lost(h) != "":
		return false, candidate.Reject(verdict.CandidateNotRegular, "%s is %s, not a regular file", c.scope.inside(p), typeName(h))
	}
	c.there = append(c.there, p)
	return true, nil
}

// delivered refuses a tree that lacks one of the files that the task names. What was
// printed is the only one, if the task allows that and nothing is there.
func (c *collector) delivered() error {
	for _, name := range c.Extraction.Files {
		p := path.Join(c.scope.workdir, name)
		switch {
		case slices.Contains(c.taken, p):
		case c.Extraction.OrStdout && len(bytes.TrimSpace(c.printed())) > 0:
			return c.inline(p)
		case slices.Contains(c.there, p):
			return candidate.Reject(verdict.CandidateMissing, "the agent did not change %s", name)
		default:
			return candidate.Reject(verdict.CandidateMissing, "the agent left no %s", name)
		}
	}
	return nil
}

// inline makes what the agent printed a file.
func (c *collector) inline(p string) error {
	sum, err := c.keep(bytes.NewReader(unfenced(c.printed())))
	if err != nil {
		return err
	}
	return c.kept(candidate.Entry{Path: p[1:], Mode: 0o644}, sum)
}

// unfenced returns what stands in the code block of Markdown that a text consists of, or
// the text.
func unfenced(text []byte) []byte {
	fence := []byte("```")
	body := bytes.TrimSpace(text)
	first, rest, ok := bytes.Cut(body, []byte("\n"))
	inner, ended := bytes.CutSuffix(rest, fence)
	if !ok || !ended || !bytes.HasPrefix(first, fence) || bytes.Contains(first[len(fence):], []byte("`")) || bytes.Contains(inner, fence) {
		return text
	}
	return inner
}

// countLeft counts by how many files and folders the workspace has grown beside those that
// were taken. One that the agent removed makes up for one that it made: to tell them apart,
// the whole workspace would have to be read.
func (c *collector) countLeft(ctx context.Context) error {
	if c.space == nil {
		return nil
	}
	u, err := c.space.Usage(ctx)
	if err != nil {
		return fmt.Errorf("counting what is left in the workspace: %w", err)
	}
	c.notes.left = max(0, u.Inodes-1-c.Base.Bounds().Files-int64(len(c.taken)))
	return nil
}
