package imagestore

import (
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/digest"
	"securebench/internal/sandbox/platform"
)

// content is an image that is not in the store yet.
type content struct {
	Config []byte
	Layers []blob
}

// blob is the content of a layer.
type blob struct {
	Digest string // of what open gives, or "" if only the diff ID is known
	Size   int64  // of what open gives, or 0
	Open   func() (io.ReadCloser, error)
}

// fromImage reads an image of the library. Its layers are checked against their diff IDs only.
func fromImage(img v1.Image) (c content, err error) {
	if c.Config, err = img.RawConfigFile(); err != nil {
		return content{}, err
	}
	layers, err := img.Layers()
	if err != nil {
		return content{}, err
	}
	for _, l := range layers {
		c.Layers = append(c.Layers, blob{Open: l.Uncompressed})
	}
	return c, nil
}

// maxLayers is how many layers overlayfs stacks, with one for the sandbox.
const maxLayers = 499

// maxConfig bounds a configuration in bytes.
const maxConfig = 8 << 20

// diffIDs reads which layers an image has.
func (c content) diffIDs() ([]string, error) {
	if len(c.Config) > maxConfig {
		return nil, fmt.Errorf("its configuration is larger than %d bytes", maxConfig)
	}
	parsed, err := v1.ParseConfigFile(bytes.NewReader(c.Config))
	if err != nil {
		return nil, fmt.Errorf("reading its configuration: %w", err)
	}
	ids := parsed.RootFS.DiffIDs
	if len(ids) != len(c.Layers) || len(ids) == 0 || len(ids) > maxLayers {
		return nil, fmt.Errorf("it has %d layers, and %d in its configuration: need the same number, from 1 to %d", len(c.Layers), len(ids), maxLayers)
	}
	var out []string
	for _, id := range ids {
		if _, err := digest.Hex(id.String()); err != nil {
			return nil, fmt.Errorf("diff ID %.80q: %w", id.String(), err)
		}
		out = append(out, id.String())
	}
	return out, nil
}

// fromRegistry reads an image of a registry, and checks its manifest. The library checks the digests of the
// manifest and the configuration.
func fromRegistry(img v1.Image) (content, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return content{}, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return content{}, err
	}
	c := content{Config: config}
	for _, d := range manifest.Layers {
		// Addresses would be asked for by this machine, for whoever wrote the manifest.
		if len(d.URLs) > 0 {
			return content{}, fmt.Errorf("its layer %s is kept outside the registry", d.Digest)
		}
		c.Layers = append(c.Layers, blob{Digest: d.Digest.String(), Size: d.Size, Open: func() (io.ReadCloser, error) {
			l, err := img.LayerByDigest(d.Digest)
			if err != nil {
				return nil, err
			}
			return l.Compressed()
		}})
	}
	return c, nil
}

// libraryPlatform is the platform whose image is taken where there are several.
func libraryPlatform(p platform.Platform) v1.Platform {
	return v1.Platform{OS: p.OS, Architecture: p.Arch, Variant: p.Variant}
}
