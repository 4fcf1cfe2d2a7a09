// Package checkout prepares the repositories that images contain: once per
// image and folder it reads the pristine tree, finds out which commit it is,
// and, if the repository holds more than that one commit, makes an image
// without the rest, from which agents get their checkout.
//
// # Zone
//
// All git commands run in a sandbox that no candidate has touched, through its
// init, as the owner of the repository, without capabilities or network and
// with an empty configuration. The folder is mounted read-only there. The image
// is code of the pack: a git of its own can lie about its repository, but what
// it prints is bounded in bytes and time and decoded strictly.
//
// # One commit
//
// A repository is left as it is if it holds only HEAD's commit with its trees
// and files, the index's, and what every new repository has. Whatever else there
// is, known or not, has it cut down: a new .git is laid out from HEAD's commit
// (with the same ID, its parents cut off), the branch and the index, and nothing
// of the former one is copied but settings that decide how files are compared.
// Working tree, modes, owners and links stay.
//
// Submodules and nested repositories are no part of this. An agent gets their
// folders as they are in the image, their history included, and
// [securebench/internal/repository.Tree.Odd] names them.
package checkout

import (
	"errors"
	"fmt"
	"strings"

	"securebench/internal/repository"
	"securebench/internal/sandbox"
)

// ErrUnusable is wrapped by the errors of images whose checkout cannot be used:
// the folder, git or the repository is missing, HEAD is another commit, or the
// tree does not fit into limits.disk. It is the pack's fault.
var ErrUnusable = errors.New("the image's checkout cannot be used")

func unusable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnusable, fmt.Errorf(format, args...))
}

// Checkout is the pristine checkout of an image. It is immutable.
type Checkout struct {
	// Folder is what an agent's checkout begins as: the image's folder, or that
	// of an image which holds the same tree and a repository of one commit.
	Folder sandbox.ImageFolder
	// Commits are HEAD and its ancestors by first parent, as far as the
	// repository has them, at most 16; merges end the list.
	Commits []string
	Tree    *repository.Tree
	// Tracked are the paths that HEAD or the index contains.
	Tracked map[string]bool
	// Ignore are the base's own ignore rules.
	Ignore *repository.Ignore

	contents *contents
	release  func()
}

// minPrefix is the least length of an abbreviated commit ID.
const minPrefix = 7

// At checks that HEAD is the commit base, or one that was made on top of it by
// the image itself. The error wraps [ErrUnusable].
func (c *Checkout) At(base string) error {
	id := strings.ToLower(base)
	if len(id) < minPrefix || len(id) > maxID || strings.Trim(id, hexDigits) != "" {
		return unusable("base_commit %q is not a commit ID of %d or more hexadecimal digits", clip(base), minPrefix)
	}
	found := 0
	for _, commit := range c.Commits {
		if strings.HasPrefix(commit, id) {
			found++
		}
	}
	switch found {
	case 0:
		return unusable("HEAD is commit %s, which is neither base_commit %s nor was made on top of it: correct base_commit or build the image from that commit", c.Head(), id)
	case 1:
		return nil
	}
	return unusable("base_commit %s is ambiguous: %d commits begin with it", id, found)
}

// Head is the commit that is checked out.
func (c *Checkout) Head() string { return c.Commits[0] }

// Content returns the content of a file of the pristine tree, or the target of
// a link.
func (c *Checkout) Content(path string) ([]byte, error) {
	e, ok := c.Tree.Entries[path]
	if !ok {
		return nil, fmt.Errorf("the pristine tree has no file %q", path)
	}
	return c.contents.read(path, e)
}

// Release ends the use of the checkout. It is idempotent.
func (c *Checkout) Release() {
	if c.release != nil {
		c.release()
	}
}
