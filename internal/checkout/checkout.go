// Package checkout prepares the repositories that images contain: once per
// image and folder it reads the pristine tree, finds out which commit it is,
// and, if the repository holds more than that one commit, makes an image
// without the rest, from which agents get their checkout.
//
// All git commands run in a sandbox that no candidate has touched, with an
// empty configuration.
package checkout

import (
	"context"
	"errors"

	"securebench/internal/repository"
	"securebench/internal/sandbox"
)

// ErrUnusable is wrapped by the errors of images whose checkout cannot be used:
// the folder, git or the repository is missing, HEAD is another commit, or the
// tree does not fit into limits.disk. It is the pack's fault.
var ErrUnusable = errors.New("the image's checkout cannot be used")

// Options are the choices of a keeper.
type Options struct {
	Run    string // for labels
	Limits sandbox.Limits
}

// Keeper prepares checkouts and keeps the last few. It is safe for concurrent
// use.
type Keeper struct{}

// NewKeeper returns a keeper without any checkout.
func NewKeeper(e sandbox.Engine, o Options) *Keeper { panic("not written yet") }

// Get prepares the checkout in a folder of an image, or returns the one that is
// kept. Concurrent calls for the same one share the work. The caller releases
// the result.
func (k *Keeper) Get(ctx context.Context, image sandbox.Image, dir string) (*Checkout, error) {
	panic("not written yet")
}

// Close removes what was made: contents on disk, and derived images.
func (k *Keeper) Close(ctx context.Context) error { panic("not written yet") }

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
}

// At checks that HEAD is the commit base, or one that was made on top of it by
// the image itself. The error wraps [ErrUnusable].
func (c *Checkout) At(base string) error { panic("not written yet") }

// Head is the commit that is checked out.
func (c *Checkout) Head() string { return c.Commits[0] }

// Content returns the content of a file of the pristine tree, or the target of
// a link.
func (c *Checkout) Content(path string) ([]byte, error) { panic("not written yet") }

// Release ends the use of the checkout.
func (c *Checkout) Release() { panic("not written yet") }
