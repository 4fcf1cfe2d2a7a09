package native

import (
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
)

// Import implements [sandbox.Importer]. Equal content is one image, which stays until
// it was removed as often as it was imported.
func (i *imagesInUse) Import(ctx context.Context, labels sandbox.Labels, files io.Reader) (sandbox.Image, error) {
	img, err := i.store.AddRoot(ctx, files, imagestore.Addition{Owner: i.owner, Origin: "import for " + labels.Role})
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("importing an image: %w", err)
	}
	i.mu.Lock()
	i.imported[img.ID]++
	i.mu.Unlock()
	info, err := i.stored(img.ID) // from now on it is in use
	if err != nil {
		return sandbox.Image{}, errors.Join(fmt.Errorf("importing an image: %w", err), i.RemoveImage(ctx, sandbox.Image{ID: img.ID}))
	}
	return info, nil
}

// RemoveImage implements [sandbox.Importer].
func (i *imagesInUse) RemoveImage(_ context.Context, image sandbox.Image) error {
	if err := i.removeImage(image.ID); err != nil {
		return fmt.Errorf("removing image %s: %w", image.ID, err)
	}
	return nil
}

func (i *imagesInUse) removeImage(id string) error {
	i.mu.Lock()
	times := i.imported[id]
	if times > 1 {
		i.imported[id]--
	}
	i.mu.Unlock()
	if times > 1 {
		return nil
	}
	if times == 0 {
		if _, err := i.stored(id); !errors.Is(err, sandbox.ErrImageMissing) {
			return errors.Join(errors.New("this engine did not import it"), err)
		}
		return nil
	}
	if err := i.forget(id); err != nil {
		return err
	}
	// Another process may have imported the same content: it removes it then.
	err := i.store.Remove(id)
	if err != nil && !errors.Is(err, sandbox.ErrImageMissing) && !errors.Is(err, imagestore.ErrInUse) {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.imported, id)
	return nil
}
