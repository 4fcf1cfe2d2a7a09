package imagestore

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/digest"
	"securebench/internal/sandbox/platform"
	"securebench/internal/source"
)

// container is what image files are read from: a folder or an archive.
type container interface {
	// open opens a regular file; the error is [fs.ErrNotExist] if there is none.
	open(name string) (io.ReadCloser, int64, error)
}

// folder is a container. Links in it that lead out are not followed.
type folder struct{ root *os.Root }

func (f folder) open(name string) (io.ReadCloser, int64, error) {
	file, err := source.OpenIn(f.root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// archive is a container that is a tar file.
type archive struct {
	file  io.ReaderAt
	parts map[string]part
}

// part is a file in an archive.
type part struct {
	offset, size int64
	link         string // the name of the file that it links to
}

// content files are few and lie in at most two folders. An archive with more is a
// root file system.
const (
	maxParts     = 1 << 14
	maxPartDepth = 3
	maxPartName  = 1 << 10
)

// readArchive lists the files of an archive that an image can consist of.
func readArchive(ctx context.Context, f *os.File) (*archive, error) {
	a := &archive{file: f, parts: make(map[string]part)}
	r := tar.NewReader(f)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, whole(f)
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is damaged: %w", err)
		}
		name := path.Clean(h.Name)
		if strings.Count(name, "/") > maxPartDepth || len(name) > maxPartName || len(a.parts) >= maxParts {
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			offset, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			a.parts[name] = part{offset: offset, size: h.Size}
		case tar.TypeSymlink:
			a.parts[name] = part{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			a.parts[name] = part{link: path.Clean(h.Linkname)}
		}
	}
}

// whole checks that an archive ends as archives do. One that was cut between two
// files could pass for a root file system.
func whole(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	block := make([]byte, 512)
	if end < int64(len(block)) {
		return errors.New("the archive has no files")
	}
	if _, err := f.ReadAt(block, end-int64(len(block))); err != nil {
		return err
	}
	if !bytes.Equal(block, make([]byte, len(block))) {
		return errors.New("the archive is cut")
	}
	return nil
}

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	p, ok := a.parts[path.Clean(name)]
	for range 4 {
		if ok && p.link != "" {
			p, ok = a.parts[p.link]
		}
	}
	if !ok || p.link != "" {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.file, p.offset, p.size)), p.size, nil
}

// readAll reads a small file of a container.
func readAll(c container, name string) ([]byte, error) {
	r, size, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxConfig {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxConfig)
	}
	return io.ReadAll(io.LimitReader(r, maxConfig))
}

// readVerified reads a small file whose digest is known.
func readVerified(c container, d v1.Descriptor) ([]byte, error) {
	name, err := blobName(d)
	if err != nil {
		return nil, err
	}
	b, err := readAll(c, name)
	if err == nil && digest.Bytes(b) != d.Digest.String() {
		err = fmt.Errorf("%s has another digest than its name says", name)
	}
	return b, err
}

func blobName(d v1.Descriptor) (string, error) {
	sum, err := digest.Hex(d.Digest.String())
	if err != nil {
		return "", fmt.Errorf("digest %.80q: %w", d.Digest.String(), err)
	}
	return "blobs/sha256/" + sum, nil
}

// errNoImage is the error of a container without image files.
var errNoImage = errors.New("it has neither a manifest.json of docker save nor an oci-layout with an index.json")

// fromArchive reads the image in an archive, and the name that it has there. The file
// stays open as long as the image is used.
func fromArchive(ctx context.Context, f *os.File, want platform.Platform) (content, string, error) {
	a, err := readArchive(ctx, f)
	if err != nil {
		return content{}, "", err
	}
	return find(a, want)
}

// fromLayout reads the image in a folder that is an OCI layout, which stays open as
// long as the image is used.
func fromLayout(root *os.Root, want platform.Platform) (content, error) {
	img, _, err := find(folder{root}, want)
	return img, err
}

// find reads the image in a container, and the name that it has there.
func find(c container, want platform.Platform) (content, string, error) {
	if b, err := readAll(c, "manifest.json"); err == nil {
		if found, name, err := savedImage(c, b); !errors.Is(err, errNoImage) {
			return found, name, err
		}
	}
	if _, err := readAll(c, "oci-layout"); err != nil {
		return content{}, "", errNoImage
	}
	b, err := readAll(c, "index.json")
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, "", errNoImage
	}
	if err != nil {
		return content{}, "", err
	}
	found, err := layoutImage(c, b, want)
	return found, "", err
}

// savedImage reads the format of "docker save".
func savedImage(c container, manifest []byte) (content, string, error) {
	var images []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if json.Unmarshal(manifest, &images) != nil || len(images) == 0 || images[0].Config == "" {
		return content{}, "", errNoImage
	}
	if len(images) > 1 {
		return content{}, "", fmt.Errorf("the archive has %d images: save each by itself", len(images))
	}
	m := images[0]
	var found content
	var err error
	if found.Config, err = readAll(c, m.Config); err != nil {
		return content{}, "", fmt.Errorf("reading its configuration: %w", err)
	}
	sum := strings.TrimSuffix(path.Base(m.Config), ".json")
	if got := digest.Bytes(found.Config); isSum(sum) && got != "sha256:"+sum {
		return content{}, "", fmt.Errorf("its configuration has the digest %s instead of %s", got, sum)
	}
	for _, name := range m.Layers {
		r, size, err := c.open(name)
		if err != nil {
			return content{}, "", fmt.Errorf("reading its layers: %w", err)
		}
		if err := r.Close(); err != nil {
			return content{}, "", err
		}
		b := blob{Size: size, Open: func() (io.ReadCloser, error) { r, _, err := c.open(name); return r, err }}
		// Docker names blobs by their digest if it writes an OCI layout as well.
		if dir, sum := path.Split(name); dir == "blobs/sha256/" && isSum(sum) {
			b.Digest = "sha256:" + sum
		}
		found.Layers = append(found.Layers, b)
	}
	name := ""
	if len(m.RepoTags) > 0 {
		name = m.RepoTags[0]
	}
	return found, name, nil
}

// isSum reports whether a file's name is the hex part of a digest.
func isSum(name string) bool {
	_, err := digest.Hex("sha256:" + name)
	return err == nil
}

// layoutImage reads the image of an OCI layout (image-spec, image-layout.md).
func layoutImage(c container, indexFile []byte, want platform.Platform) (content, error) {
	manifest, err := pickManifest(c, indexFile, want, 0)
	if err != nil {
		return content{}, err
	}
	var found content
	if found.Config, err = readVerified(c, manifest.Config); err != nil {
		return content{}, fmt.Errorf("reading its configuration: %w", err)
	}
	for _, d := range manifest.Layers {
		name, err := blobName(d)
		if err != nil {
			return content{}, err
		}
		found.Layers = append(found.Layers, blob{Digest: d.Digest.String(), Size: d.Size,
			Open: func() (io.ReadCloser, error) { r, _, err := c.open(name); return r, err }})
	}
	return found, nil
}

// maxNested bounds how deep indexes are nested.
const maxNested = 4

// pickManifest finds the manifest of the image for a platform.
func pickManifest(c container, raw []byte, want platform.Platform, depth int) (*v1.Manifest, error) {
	list, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("reading its index: %w", err)
	}
	if depth > maxNested {
		return nil, fmt.Errorf("its indexes are nested more than %d deep", maxNested)
	}
	d, err := pick(list.Manifests, want)
	if err != nil {
		return nil, err
	}
	if raw, err = readVerified(c, d); err != nil {
		return nil, fmt.Errorf("reading its manifest: %w", err)
	}
	if d.MediaType.IsIndex() {
		return pickManifest(c, raw, want, depth+1)
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("reading its manifest: %w", err)
	}
	return m, nil
}

// pick chooses from an index: the only image, if it says nothing else, or the one for
// a platform.
func pick(manifests []v1.Descriptor, want platform.Platform) (v1.Descriptor, error) {
	var images, fitting []v1.Descriptor
	for _, d := range manifests {
		if !d.MediaType.IsIndex() && !d.MediaType.IsImage() || d.Annotations["vnd.docker.reference.type"] != "" {
			continue // such as the statements that BuildKit adds
		}
		images = append(images, d)
		if d.Platform != nil && d.Platform.Satisfies(libraryPlatform(want)) {
			fitting = append(fitting, d)
		}
	}
	if len(images) == 1 && images[0].Platform == nil { // its configuration says it
		fitting = images
	}
	if len(fitting) == 0 && len(images) > 0 {
		return v1.Descriptor{}, fmt.Errorf("its index has %d images, none of them for %s%s: %w", len(images), want, platforms(images), platform.ErrOther)
	}
	if len(fitting) != 1 {
		return v1.Descriptor{}, fmt.Errorf("its index has %d images for %s, of %d%s: need one", len(fitting), want, len(images), platforms(images))
	}
	return fitting[0], nil
}

// platforms lists what the images of an index are for.
func platforms(images []v1.Descriptor) string {
	var all []string
	for _, d := range images[:min(len(images), 8)] {
		if d.Platform != nil {
			all = append(all, fmt.Sprintf("%.40q", d.Platform.String()))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}
