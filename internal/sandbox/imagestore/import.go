package imagestore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/bounded"
	"securebench/internal/digest"
	"securebench/internal/source"
)

// FromDocker begins a source that is an image of a Docker engine, and the origin of an
// image that came from there.
const FromDocker = "docker:"

// Import adds the image that src names: "docker:REF", "oci:DIR", an archive ("docker
// save", an OCI layout, or a root file system) or a folder that is a root file system.
// from serves "docker:". Without a.Ref, an image keeps the name that it has in src.
func (s *Store) Import(ctx context.Context, src string, a Addition, from Exporter) (Image, error) {
	a.Origin = cmp.Or(a.Origin, src)
	if err := a.valid(); err != nil {
		return Image{}, fmt.Errorf("importing %q: %w", src, err)
	}
	img, err := s.importFrom(ctx, src, a, from)
	if err != nil {
		return Image{}, fmt.Errorf("importing %q: %w", src, err)
	}
	return img, nil
}

func (s *Store) importFrom(ctx context.Context, src string, a Addition, from Exporter) (Image, error) {
	ref, docker := strings.CutPrefix(src, FromDocker)
	if docker {
		a.Ref = cmp.Or(a.Ref, ref)
	}
	return s.working(a.Ref, func(w *work) (Image, error) {
		if docker {
			return s.importDocker(ctx, w, ref, a, from)
		}
		if dir, ok := strings.CutPrefix(src, "oci:"); ok {
			return s.importLayout(ctx, w, dir, a)
		}
		info, err := os.Stat(src)
		if err != nil {
			return Image{}, err
		}
		if info.IsDir() {
			return s.addRoot(ctx, w, a, func() (io.ReadCloser, error) { return archiveFolder(ctx, src) })
		}
		return s.importFile(ctx, w, src, a)
	})
}

func (s *Store) importLayout(ctx context.Context, w *work, dir string, a Addition) (img Image, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Image{}, err
	}
	defer closer(&err, root)
	c, err := fromLayout(root, a.wanted())
	if err != nil {
		return Image{}, err
	}
	return s.addAll(ctx, w, c, a)
}

func (s *Store) importDocker(ctx context.Context, w *work, ref string, a Addition, from Exporter) (img Image, err error) {
	if from == nil {
		return Image{}, errors.New("there is no Docker engine")
	}
	file := filepath.Join(s.dir, w.file())
	id, err := from.ExportImage(ctx, ref, file)
	if err != nil {
		return Image{}, err
	}
	f, err := os.Open(file)
	if err != nil {
		return Image{}, err
	}
	defer closer(&err, f)
	c, _, err := fromArchive(ctx, f, a.wanted())
	if err != nil {
		return Image{}, err
	}
	if got := digest.Bytes(c.Config); got != id {
		return Image{}, fmt.Errorf("the engine calls the image %s, but its configuration has the digest %s", id, got)
	}
	return s.addAll(ctx, w, c, a)
}

// importFile adds an image from an archive, compressed or not.
func (s *Store) importFile(ctx context.Context, w *work, name string, a Addition) (img Image, err error) {
	f, err := source.Open(name)
	if err != nil {
		return Image{}, err
	}
	defer closer(&err, f)
	plain, err := s.plainFile(ctx, w, f)
	if err != nil {
		return Image{}, err
	}
	if plain != f {
		defer closer(&err, plain)
	}
	c, ref, err := fromArchive(ctx, plain, a.wanted())
	if errors.Is(err, errNoImage) {
		return s.addRoot(ctx, w, a, func() (io.ReadCloser, error) {
			_, err := plain.Seek(0, io.SeekStart)
			return io.NopCloser(plain), err
		})
	}
	if err != nil {
		return Image{}, err
	}
	a.Ref = cmp.Or(a.Ref, ref)
	return s.addAll(ctx, w, c, a)
}

// plainFile returns the archive uncompressed: parts of it are read in any order.
func (s *Store) plainFile(ctx context.Context, w *work, f *os.File) (*os.File, error) {
	in := bufio.NewReader(f)
	plain, done, err := decompressed(in)
	if err != nil {
		return nil, err
	}
	defer done()
	if plain == io.Reader(in) {
		_, err := f.Seek(0, io.SeekStart)
		return f, err
	}
	out, err := s.root.OpenFile(w.file(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	limit := s.layers.Limits.Bytes
	n, err := io.Copy(out, io.LimitReader(bounded.Until(ctx, plain), limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("it is larger than %d bytes uncompressed", limit)
	}
	if err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// AddRoot adds an image of one layer whose content is a tar stream. Equal content
// has an equal ID, unless the image has an owner: it then goes only with that one.
func (s *Store) AddRoot(ctx context.Context, files io.Reader, a Addition) (Image, error) {
	img, err := s.working(a.Ref, func(w *work) (Image, error) {
		return s.addRoot(ctx, w, a, func() (io.ReadCloser, error) { return io.NopCloser(files), nil })
	})
	if err != nil {
		return Image{}, fmt.Errorf("adding a root file system: %w", err)
	}
	return img, nil
}

func (s *Store) addRoot(ctx context.Context, w *work, a Addition, open func() (io.ReadCloser, error)) (Image, error) {
	b := blob{Open: open}
	diffID, err := s.unpack(ctx, w, "", b, a.report(Progress{Layer: 1, Layers: 1}))
	if err != nil {
		return Image{}, err
	}
	info, err := s.layerInfo(diffID)
	if err != nil {
		return Image{}, err
	}
	if info.Entries == 0 {
		return Image{}, errors.New("it has no files")
	}
	arch, err := s.rootArch(diffID, a)
	if err != nil {
		return Image{}, err
	}
	unique := ""
	if a.Owner != "" {
		unique = rand.Text()
	}
	config, err := rootConfig(diffID, unique, arch)
	if err != nil {
		return Image{}, err
	}
	return s.commit(config, record{Ref: a.Ref, Digest: a.Digest, Origin: a.Origin, Owner: a.Owner, Layers: []string{diffID}})
}

// rootConfig is the configuration of an image that has none. With unique, no other
// image is equal.
func rootConfig(diffID, unique, arch string) ([]byte, error) {
	type rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	type settings struct {
		Labels map[string]string `json:"Labels,omitempty"`
	}
	var s settings
	if unique != "" {
		s.Labels = map[string]string{"securebench.import": unique}
	}
	var b bytes.Buffer
	err := json.MarshalWrite(&b, struct {
		Architecture string   `json:"architecture"`
		OS           string   `json:"os"`
		Config       settings `json:"config"`
		RootFS       rootFS   `json:"rootfs"`
	}{Architecture: arch, OS: "linux", Config: s, RootFS: rootFS{"layers", []string{diffID}}})
	return b.Bytes(), err
}
