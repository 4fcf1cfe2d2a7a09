package imagestore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
)

// SavedLayer is one layer of an image in a file.
type SavedLayer struct {
	Number, Of int // from 1, the lowest first
	Files      io.Reader
}

// ReadSaved calls each for the configuration of an image in an archive of "docker save", or
// of an OCI layout, and for the uncompressed tar stream of every layer. Nothing is unpacked.
func ReadSaved(ctx context.Context, file string, config func([]byte) error, each func(SavedLayer) error) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer closer(&err, f)
	c, _, err := fromArchive(ctx, f, Addition{}.wanted())
	if err != nil {
		return oneLine(err)
	}
	if len(c.Config) > maxConfig {
		return fmt.Errorf("its configuration is larger than %d bytes", maxConfig)
	}
	if err := config(c.Config); err != nil {
		return err
	}
	for i, b := range c.Layers {
		if err := b.read(func(files io.Reader) error { return each(SavedLayer{i + 1, len(c.Layers), files}) }); err != nil {
			return oneLine(fmt.Errorf("layer %d: %w", i+1, err))
		}
	}
	return nil
}

// read calls do with the uncompressed content.
func (b blob) read(do func(io.Reader) error) (err error) {
	rc, err := b.Open()
	if err != nil {
		return err
	}
	defer closer(&err, rc)
	plain, done, err := decompressed(bufio.NewReaderSize(rc, 1<<20))
	if err != nil {
		return err
	}
	defer done()
	return do(plain)
}
