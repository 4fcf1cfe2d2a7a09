package dist

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ImageFile is where the program lies in its image.
const ImageFile = "usr/bin/securebench"

// Image writes an archive of an OCI image that holds only the program. Engines
// that read Docker's own archives only, read it as well.
func Image(w io.Writer, program []byte, ref, version string, p v1.Platform, made time.Time) error {
	img, err := image(program, version, p, made)
	if err != nil {
		return fmt.Errorf("making the image: %w", err)
	}
	dir, err := os.MkdirTemp("", "securebench-dist-")
	if err != nil {
		return fmt.Errorf("making a folder for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	index, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = index.AppendImage(img, layout.WithPlatform(p), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
	}
	if err != nil {
		return fmt.Errorf("laying out the image: %w", err)
	}
	files, err := filesOf(dir)
	if err != nil {
		return err
	}
	old, err := dockerManifest(img, ref)
	if err != nil {
		return fmt.Errorf("describing the image for Docker: %w", err)
	}
	return Tar(w, "", append(files, File{Name: "manifest.json", Body: old}), made)
}

func image(program []byte, version string, p v1.Platform, made time.Time) (v1.Image, error) {
	var b bytes.Buffer
	if err := Tar(&b, "", []File{{Name: ImageFile, Body: program, Exec: true}, {Name: "tmp/"}}, made); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "securebench"}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, config(img, version, p, made))
}

// config is the image's configuration with that of the program.
func config(img v1.Image, version string, p v1.Platform, made time.Time) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil {
		return &v1.ConfigFile{}
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = p.OS, p.Architecture, v1.Time{Time: made}
	c.Config.Entrypoint = []string{"/" + ImageFile}
	c.Config.Labels = map[string]string{"org.opencontainers.image.title": "securebench", "org.opencontainers.image.version": version}
	return c
}

// filesOf reads the files of a folder.
func filesOf(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, File{Name: filepath.ToSlash(rel), Body: body})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the image: %w", err)
	}
	return files, nil
}

// dockerManifest describes the image as Docker's own archives do.
func dockerManifest(img v1.Image, ref string) ([]byte, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(d v1.Descriptor) string { return "blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{blob(m.Config), []string{ref}, nil}
	for _, l := range m.Layers {
		entry.Layers = append(entry.Layers, blob(l))
	}
	return json.Marshal([]any{entry}, json.Deterministic(true))
}
