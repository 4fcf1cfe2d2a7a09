package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/go-json-experiment/json"

	"securebench/internal/sandbox"
)

// ID returns the ID of an image, for one short call to the engine.
func (s *imageStore) ID(ctx context.Context, ref string) (string, error) {
	res, err := s.conn.API.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return "", fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	if err != nil {
		return "", fmt.Errorf("inspecting image %q: %w", ref, err)
	}
	return res.ID, nil
}

// ExportImage writes an image to a file, as "docker save" does, and returns the
// digest of its configuration, which is its ID except on engines that keep images
// in containerd. It asks for the image by ID: a name can be given to another one
// meanwhile.
func (s *imageStore) ExportImage(ctx context.Context, ref, file string) (id string, err error) {
	if id, err = s.ID(ctx, ref); err != nil {
		return "", err
	}
	res, err := s.conn.API.ImageSave(ctx, []string{id})
	if err != nil {
		return "", fmt.Errorf("exporting image %q: %w", ref, err)
	}
	defer res.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("exporting image %q: %w", ref, err)
	}
	_, err = io.Copy(f, res)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("exporting image %q: %w", ref, err)
	}
	return configDigest(file)
}

// maxIndex bounds the list of an archive's images in bytes.
const maxIndex = 1 << 20

// configDigest reads which configuration an archive of one image has.
func configDigest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading an exported image: %w", err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			return "", fmt.Errorf("looking for the list of an exported image: %w", err)
		}
		if h.Name != "manifest.json" {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(r, maxIndex))
		if err != nil {
			return "", fmt.Errorf("reading the list of an exported image: %w", err)
		}
		return configOf(text)
	}
}

// configOf reads the list of an archive's images.
func configOf(text []byte) (string, error) {
	var list []struct {
		Config string `json:"Config"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", fmt.Errorf("reading the list of an exported image: %w", err)
	}
	if len(list) != 1 {
		return "", fmt.Errorf("the list of an exported image has %d images", len(list))
	}
	sum := strings.TrimSuffix(path.Base(list[0].Config), ".json")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("the list of an exported image calls its configuration %.200q", list[0].Config)
	}
	return "sha256:" + sum, nil
}
