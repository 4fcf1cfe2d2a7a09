package imagestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/sandbox/imagestore/layer"
)

// Add unpacks what an image has that the store lacks, and gives it a name. After an
// error nothing has changed. Layers are checked against the diff IDs of the image's
// configuration.
func (s *Store) Add(ctx context.Context, img v1.Image, a Addition) (Image, error) {
	c, err := fromImage(img)
	if err != nil {
		return Image{}, fmt.Errorf("adding an image: %w", oneLine(err))
	}
	stored, err := s.working(a.Ref, func(w *work) (Image, error) { return s.addAll(ctx, w, c, a) })
	if err != nil {
		return Image{}, fmt.Errorf("adding an image: %w", err)
	}
	return stored, nil
}

// once keeps the highest of layers that occur twice: what a lower one adds and
// hides, the higher does as well, and overlayfs takes no folder twice.
func once(ids []string) (out []string) {
	for i, id := range ids {
		if !slices.Contains(ids[i+1:], id) {
			out = append(out, id)
		}
	}
	return out
}

// working calls do with an addition under way, and ends it.
func (s *Store) working(ref string, do func(*work) (Image, error)) (img Image, err error) {
	if ref != "" {
		if _, err := familiar(ref); err != nil {
			return Image{}, err
		}
	}
	w, err := s.begin()
	if err != nil {
		return Image{}, err
	}
	img, err = do(w)
	if err = errors.Join(err, w.end(err != nil)); err != nil {
		return Image{}, oneLine(err)
	}
	return img, nil
}

func (s *Store) addAll(ctx context.Context, w *work, c content, a Addition) (Image, error) {
	ids, err := c.diffIDs()
	if err != nil {
		return Image{}, err
	}
	says, err := a.accept(c.Config)
	if err != nil {
		return Image{}, err
	}
	for i, id := range ids {
		p := Progress{Layer: i + 1, Layers: len(ids), Total: c.Layers[i].Size}
		if err := s.ensure(ctx, w, id, c.Layers[i], a.report(p)); err != nil {
			return Image{}, fmt.Errorf("layer %d of %d: %w", i+1, len(ids), err)
		}
	}
	if err := s.compare(says, ids, a); err != nil {
		return Image{}, err
	}
	return s.commit(c.Config, record{Ref: a.Ref, Digest: a.Digest, Origin: a.Origin, Owner: a.Owner, Layers: once(ids)})
}

// report returns the function that reports progress with a layer.
func (a Addition) report(p Progress) func(done int64, shared bool) {
	return func(done int64, shared bool) {
		if a.Progress != nil {
			p.Done, p.Shared = done, shared
			a.Progress(p)
		}
	}
}

// commit names an image whose layers the store has.
func (s *Store) commit(config []byte, r record) (Image, error) {
	if r.Ref != "" {
		ref, err := familiar(r.Ref)
		if err != nil {
			return Image{}, err
		}
		r.Ref = ref
	}
	lock, err := s.exclusive()
	if err != nil {
		return Image{}, err
	}
	defer lock.Close()
	x, err := s.readIndex()
	if err != nil {
		return Image{}, err
	}
	r.ID, r.Added = digest.Bytes(config), time.Now().UTC().Truncate(time.Second)
	if err := durable.WriteFile(s.root, filepath.Join(configsDir, hexOf(r.ID)), config, 0o600); err != nil {
		return Image{}, err
	}
	x.set(r)
	if err := s.writeIndex(x); err != nil {
		return Image{}, err
	}
	return s.image(r)
}

// work is an addition that is under way: while it is, layers that no image has are
// not removed, and its own folder is not taken for one that a killed process left.
type work struct {
	s      *Store
	adding *durable.Locked
	name   string // of its folder
	folder *os.File
	made   []string // diff IDs of the layers that it added
	count  int
}

func (s *Store) begin() (*work, error) {
	lock, err := s.shared() // so that none takes the folder for a leftover before it is locked
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	adding, err := s.locked(addingFile, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	w := &work{s: s, adding: adding, name: filepath.Join(UnfinishedDir, rand.Text())}
	if err := s.root.Mkdir(w.name, 0o700); err != nil {
		return nil, errors.Join(err, adding.Close())
	}
	if w.folder, err = s.root.Open(w.name); err == nil {
		err = durable.TryLock(w.folder)
	}
	if err != nil {
		return nil, errors.Join(err, w.end(true))
	}
	return w, nil
}

// end removes the folder, and after a failure the layers that were added.
func (w *work) end(failed bool) error {
	err := w.s.removeTree(w.name)
	if w.folder != nil {
		err = errors.Join(err, w.folder.Close())
	}
	err = errors.Join(err, w.adding.Close())
	if failed && len(w.made) > 0 {
		err = errors.Join(err, w.s.sweep(w.made))
	}
	return err
}

// file returns the path of a new file or folder, which w.end removes.
func (w *work) file() string {
	w.count++
	return filepath.Join(w.name, fmt.Sprint(w.count))
}

// ensure unpacks a layer unless the store has it. If another process is unpacking
// it, ensure waits for that.
func (s *Store) ensure(ctx context.Context, w *work, diffID string, b blob, report func(int64, bool)) error {
	lock, err := s.waitFor(ctx, diffID)
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := s.layerInfo(diffID); err == nil {
		report(0, true)
		return nil
	}
	if _, err := s.unpack(ctx, w, diffID, b, report); err != nil {
		return err
	}
	return nil
}

// unpack adds a layer, whose diff ID it checks, or finds if want is "".
func (s *Store) unpack(ctx context.Context, w *work, want string, b blob, report func(int64, bool)) (string, error) {
	name := w.file()
	if err := errors.Join(s.root.Mkdir(name, 0o700), s.root.Mkdir(filepath.Join(name, filesDir), 0o755)); err != nil {
		return "", err
	}
	report(0, false)
	got, sum, err := b.unpack(ctx, filepath.Join(s.dir, name, filesDir), s.layers, func(n int64) { report(n, false) })
	if err == nil && want != "" && got != want {
		err = fmt.Errorf("%w: its content has the digest %s instead of %s", layer.ErrLayer, got, want)
	}
	if err != nil {
		return "", errors.Join(err, s.removeTree(name))
	}
	info, err := json.Marshal(infoOf(sum))
	if err != nil {
		return "", err
	}
	if err := s.root.WriteFile(filepath.Join(name, infoFile), info, 0o600); err != nil {
		return "", err
	}
	return got, s.place(w, name, got)
}

// place gives a whole layer its name, which says that it is whole: also after the
// machine failed.
func (s *Store) place(w *work, name, diffID string) error {
	if err := s.flush(w.folder); err != nil {
		return fmt.Errorf("flushing the image store: %w", err)
	}
	err := s.root.Rename(name, s.layerDir(diffID))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		if _, have := s.layerInfo(diffID); have == nil {
			return s.removeTree(name) // another process was faster
		}
		// Parts of it are lost: begin it again.
		if err = s.removeTree(s.layerDir(diffID)); err == nil {
			err = s.root.Rename(name, s.layerDir(diffID))
		}
	}
	if err != nil {
		return err
	}
	w.made = append(w.made, diffID)
	return durable.SyncDir(s.root, layersDir)
}
