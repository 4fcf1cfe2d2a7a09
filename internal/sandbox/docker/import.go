package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// Import implements [sandbox.Importer]. The image has no name, and the labels of
// this process, by which it is found again.
func (s *imageStore) Import(ctx context.Context, labels sandbox.Labels, files io.Reader) (sandbox.Image, error) {
	id, err := s.load(ctx, s.conn.Labels(labels), files)
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("importing an image: %w", err)
	}
	image, err := s.Image(ctx, id)
	if err != nil {
		err = errors.Join(err, s.RemoveImage(ctx, sandbox.Image{ID: id}))
	}
	return image, err
}

func (s *imageStore) load(ctx context.Context, labels map[string]string, files io.Reader) (id string, err error) {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		changes = append(changes, fmt.Sprintf(`LABEL "%s"="%s"`, name, plainValue(labels[name])))
	}
	res, err := s.conn.API.ImageImport(ctx, client.ImageImportSource{Source: files, SourceName: "-"}, "",
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		return "", err
	}
	defer res.Close()
	if id, err = imported(res); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return id, err
}

// plainValue replaces what has a meaning in an instruction of a Dockerfile.
func plainValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:", r) {
			return r
		}
		return '_'
	}, s)
}

// maxMessages bounds what the engine says about an import in bytes.
const maxMessages = 1 << 20

// imported reads the ID of a new image from the engine's messages.
func imported(r io.Reader) (id string, err error) {
	dec := jsontext.NewDecoder(io.LimitReader(r, maxMessages), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		var m struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		}
		err := json.UnmarshalDecode(dec, &m)
		switch {
		case errors.Is(err, io.EOF) && id == "":
			return "", errors.New("the engine names no image")
		case errors.Is(err, io.EOF):
			return id, nil
		case err != nil:
			return "", fmt.Errorf("reading the engine's messages: %w", err)
		case m.Error != "":
			return "", fmt.Errorf("the engine reports: %s", m.Error)
		case strings.HasPrefix(m.Status, "sha256:"):
			id = m.Status
		}
	}
}

// RemoveImage implements [sandbox.Importer]. It refuses images that no process
// of securebench has imported.
func (s *imageStore) RemoveImage(ctx context.Context, image sandbox.Image) error {
	cctx, cancel := cleanup(ctx)
	defer cancel()
	res, err := s.conn.inspectImage(cctx, image.ID)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspecting image %q: %w", image.ID, err)
	}
	if res.Config == nil || !s.conn.owns(res.Config.Labels) {
		return fmt.Errorf("removing image %q: this process has not imported it", image.ID)
	}
	s.forget(res.ID)
	return s.conn.RemoveImage(ctx, res.ID)
}

// forget drops what is known of an image.
func (s *imageStore) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
	maps.DeleteFunc(s.folders, func(f folder, _ bool) bool { return f.image == id })
}
