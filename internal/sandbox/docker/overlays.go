package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// The labels of the volumes.
const (
	labelMark    = "securebench.overlay" // the key
	labelTitle   = "securebench.overlay.title"
	labelContent = "securebench.overlay.content" // of a mark: the name; of a content: the key
	labelFiller  = "securebench.overlay.filler"  // who made a content
	labelUse     = "securebench.overlay.use"     // of a container's own overlay: the content
)

// markPrefix begins the names of marks.
const markPrefix = "securebench-overlay-"

// overlayStore is the overlays of an engine. It is safe for concurrent use.
type overlayStore struct {
	conn   *conn
	helper *helperBinary

	filling sync.Mutex // one at a time in this process
}

// newOverlays returns the overlays of an engine.
func newOverlays(conn *conn, h *helperBinary) *overlayStore {
	return &overlayStore{conn: conn, helper: h}
}

// overlay is one that is there.
type overlay struct {
	store  *overlayStore
	key    string
	volume string // the content
	folder string // the content's, of the engine
}

// OverlayKey implements [sandbox.Overlay].
func (o *overlay) OverlayKey() string { return o.key }

// Overlay implements [sandbox.Overlays].
func (s *overlayStore) Overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (sandbox.Overlay, error) {
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("making an overlay: %w", err)
	}
	s.filling.Lock()
	defer s.filling.Unlock()
	o, err := s.find(ctx, spec.Key)
	if err == nil && o == nil {
		o, err = s.make(ctx, spec, fill)
	}
	if err != nil {
		return nil, fmt.Errorf("making the overlay %s: %w", spec.Key, err)
	}
	return o, nil
}

// find returns an overlay that is there whole, or nil.
func (s *overlayStore) find(ctx context.Context, key string) (*overlay, error) {
	mark, err := s.inspect(ctx, markPrefix+key)
	if err != nil || mark == nil {
		return nil, err
	}
	name := mark.Labels[labelContent]
	content, err := s.inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	if content == nil || content.Labels[labelContent] != key { // it was removed
		return nil, s.conn.removeVolume(ctx, mark.Name)
	}
	return &overlay{store: s, key: key, volume: name, folder: content.Mountpoint}, nil
}

// inspect returns a volume, or nil if there is none.
func (s *overlayStore) inspect(ctx context.Context, name string) (*volume.Volume, error) {
	res, err := s.conn.API.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return nil, nil //nolint:nilnil // that is what is asked
	case err != nil:
		return nil, fmt.Errorf("looking at volume %s: %w", name, err)
	}
	return &res.Volume, nil
}

// make fills a volume and marks it. If another process was faster, its volume is
// taken.
func (s *overlayStore) make(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (*overlay, error) {
	if err := s.sweep(ctx, spec.Key); err != nil {
		return nil, err
	}
	o := &overlay{store: s, key: spec.Key, volume: newName()}
	err := s.fill(ctx, o, fill)
	if err == nil {
		err = s.conn.createVolume(ctx, client.VolumeCreateOptions{Name: markPrefix + spec.Key, Driver: "local",
			Labels: map[string]string{labelMark: spec.Key, labelTitle: spec.Title, labelContent: o.volume}})
	}
	if err != nil {
		return nil, errors.Join(err, s.conn.removeVolume(ctx, o.volume))
	}
	there, err := s.find(ctx, spec.Key)
	if err == nil && there == nil {
		err = errors.New("it was removed as soon as it was there")
	}
	if err != nil || there.volume != o.volume {
		err = errors.Join(err, s.conn.removeVolume(ctx, o.volume))
	}
	return there, err
}

// sweep removes what processes that were killed have left of an overlay. Whether
// there is a mark is looked up after the process is known to be dead, which then
// cannot make one any more.
func (s *overlayStore) sweep(ctx context.Context, key string) error {
	names, err := s.torn(ctx, key)
	for _, name := range names {
		if err := s.removeUnused(ctx, name); err != nil {
			return err
		}
	}
	return err
}

// torn lists the contents of a key, or of all, that sweep removes.
func (s *overlayStore) torn(ctx context.Context, key string) (names []string, err error) {
	contents, err := s.contents(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, v := range contents {
		if !s.conn.deadOwner(v.Labels[labelFiller]) {
			continue
		}
		mark, err := s.inspect(ctx, markPrefix+v.Labels[labelContent])
		if err != nil {
			return nil, err
		}
		if mark == nil || mark.Labels[labelContent] != v.Name {
			names = append(names, v.Name)
		}
	}
	return names, nil
}

// kindTorn is the kind of what [Store.Left] lists.
const kindTorn = "unfinished program"

// Left lists the contents that processes left which were killed while they filled
// them.
func (s *overlayStore) Left(ctx context.Context) (left []sandbox.Leftover, err error) {
	names, err := s.torn(ctx, "")
	for _, name := range names {
		left = append(left, sandbox.Leftover{Kind: kindTorn, Name: name})
	}
	return left, err
}

// removeTorn removes what Left lists.
func (s *overlayStore) removeTorn(ctx context.Context, name string) error {
	names, err := s.torn(ctx, "")
	if err != nil || !slices.Contains(names, name) {
		return err
	}
	return s.removeUnused(ctx, name)
}

// removeUnused removes a volume, with the containers that were to fill it.
func (s *overlayStore) removeUnused(ctx context.Context, name string) error {
	res, err := s.conn.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("volume", name)})
	if err != nil {
		return fmt.Errorf("listing the containers that use volume %s: %w", name, err)
	}
	for _, c := range res.Items {
		if err := s.conn.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	return s.conn.removeVolume(ctx, name)
}

// contents lists the volumes that were made for a key, or for any.
func (s *overlayStore) contents(ctx context.Context, key string) ([]volume.Volume, error) {
	res, err := s.conn.API.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelFiller)})
	if err != nil {
		return nil, fmt.Errorf("listing the engine's volumes: %w", err)
	}
	return slices.DeleteFunc(res.Items, func(v volume.Volume) bool { return key != "" && v.Labels[labelContent] != key }), nil
}

// fill makes a volume and fills it through a container that never starts.
func (s *overlayStore) fill(ctx context.Context, o *overlay, fill func(io.Writer) error) error {
	image, err := s.helper.Image(ctx)
	if err != nil {
		return err
	}
	err = s.conn.createVolume(ctx, client.VolumeCreateOptions{Name: o.volume, Driver: "local",
		Labels: map[string]string{labelContent: o.key, labelFiller: s.conn.Owner()}})
	if err != nil {
		return err
	}
	name := newName()
	err = s.conn.createContainer(ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{Image: image, Entrypoint: []string{sandbox.HelperPath}, WorkingDir: "/", NetworkDisabled: true,
			Labels: s.conn.Labels(sandbox.Labels{Role: "overlay"})},
		HostConfig: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: o.volume, Target: tree, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}},
	})
	if err != nil {
		return err
	}
	return errors.Join(s.copy(ctx, name, fill), s.conn.removeContainer(ctx, name))
}

// copy lays what fill writes into a container's tree.
func (s *overlayStore) copy(ctx context.Context, name string, fill func(io.Writer) error) error {
	return sandbox.FillOverlay(fill, func(content io.Reader) error {
		_, err := s.conn.API.CopyToContainer(ctx, name, client.CopyToContainerOptions{DestinationPath: tree, Content: content})
		return err
	})
}

// Overlays implements [sandbox.Overlays].
func (s *overlayStore) Overlays(ctx context.Context) (all []sandbox.OverlaySpec, err error) {
	res, err := s.conn.API.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelMark)})
	if err != nil {
		return nil, fmt.Errorf("listing the engine's overlays: %w", err)
	}
	contents, err := s.contents(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, mark := range res.Items {
		if slices.ContainsFunc(contents, func(v volume.Volume) bool { return v.Name == mark.Labels[labelContent] }) {
			all = append(all, sandbox.OverlaySpec{Key: mark.Labels[labelMark], Title: mark.Labels[labelTitle]})
		}
	}
	slices.SortFunc(all, func(a, b sandbox.OverlaySpec) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// RemoveOverlay implements [sandbox.Overlays].
func (s *overlayStore) RemoveOverlay(ctx context.Context, key string) error {
	if err := (sandbox.OverlaySpec{Key: key}).Check(); err != nil {
		return fmt.Errorf("removing an overlay: %w", err)
	}
	s.filling.Lock()
	defer s.filling.Unlock()
	o, err := s.find(ctx, key)
	if err == nil && o != nil { // the content first: it may be used
		if err = s.used(ctx, o.volume); err == nil {
			err = s.conn.removeVolume(ctx, o.volume)
		}
		if err == nil {
			err = s.conn.removeVolume(ctx, markPrefix+key)
		}
	}
	if err == nil {
		err = s.sweep(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("removing the overlay %s: %w", key, err)
	}
	return nil
}

// Mount returns how a container mounts an overlay of this engine, read-only.
func (s *overlayStore) Mount(ctx context.Context, o sandbox.Overlay, target string) (mount.Mount, error) {
	mine, ok := o.(*overlay)
	if !ok || mine.store != s {
		return mount.Mount{}, errors.New("the overlay belongs to another engine")
	}
	return s.helper.Own(ctx, mount.Mount{Type: mount.TypeVolume, Source: mine.volume, Target: target, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true}}, mine.folder, map[string]string{labelUse: mine.volume})
}

// used reports whether a container has a content as its own: the engine knows of others.
func (s *overlayStore) used(ctx context.Context, volume string) error {
	res, err := s.conn.API.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelUse+"="+volume)})
	switch {
	case err != nil:
		return fmt.Errorf("listing the uses of volume %s: %w", volume, err)
	case len(res.Items) > 0:
		return errors.New("a sandbox uses it")
	}
	return nil
}

// Verify checks that an overlay is still there after a container was made that
// mounts it: the engine makes an empty volume for a name that it does not know. One that
// is removed at this very moment fails the container's start.
func (s *overlayStore) Verify(ctx context.Context, o sandbox.Overlay) error {
	mine, ok := o.(*overlay)
	if !ok {
		return errors.New("the overlay belongs to another engine")
	}
	v, err := s.inspect(ctx, mine.volume)
	if err == nil && (v == nil || v.Labels[labelContent] != mine.key) {
		err = fmt.Errorf("the overlay %s was removed", mine.key)
	}
	return err
}

// Discard removes the empty volume that the engine made for an overlay that was
// gone.
func (s *overlayStore) Discard(ctx context.Context, o sandbox.Overlay) error {
	mine, ok := o.(*overlay)
	if !ok {
		return nil
	}
	v, err := s.inspect(context.WithoutCancel(ctx), mine.volume)
	if err != nil || v == nil || v.Labels[labelContent] != "" {
		return err
	}
	return s.conn.removeVolume(ctx, mine.volume)
}
