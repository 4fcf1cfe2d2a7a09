package imagestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"securebench/internal/digest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imageconfig"
	"securebench/internal/sandbox/platform"
)

// Described is an image as its registry describes it.
type Described struct {
	sandbox.Image
	Manifest string // digest of what the name means in the registry
}

// Describe reads what a registry says of an image, and none of its layers. With an error
// that wraps [sandbox.ErrUnusable], as much of it as is known is returned all the same.
// Credentials are those of the Docker command.
func Describe(ctx context.Context, ref string, on platform.Platform) (Described, error) {
	d, config, err := describe(ctx, ref, on)
	if err != nil {
		return Described{}, fmt.Errorf("reading about image %q in its registry: %w", ref, oneLine(err))
	}
	d.Ref, d.Absent = ref, true
	if u, ok := imageconfig.NumericUser(config.Config.User); ok {
		d.User = u
	} else {
		d.User, d.UserName = sandbox.Nobody, config.Config.User
	}
	d.Env, d.Path = imageconfig.VariableNames(config.Config.Env), imageconfig.SearchPath(config.Config.Env)
	return d, imageconfig.CheckVariables(config.Config.Env)
}

// describe asks the registry.
func describe(ctx context.Context, ref string, on platform.Platform) (d Described, config *v1.ConfigFile, err error) {
	parsed, found, err := ask(ctx, ref, on)
	if err != nil {
		return d, nil, err
	}
	img, err := found.Image()
	if err != nil {
		return d, nil, err
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return d, nil, err
	}
	if config, err = v1.ParseConfigFile(bytes.NewReader(raw)); err != nil {
		return d, nil, err
	}
	is := platformOf(config)
	d.Image = sandbox.Image{ID: digest.Bytes(raw), Digest: digestName(parsed, found), OS: is.OS, Arch: is.Arch, Variant: is.Variant}
	d.Manifest = found.Digest.String()
	return d, config, nil
}

// ask looks an image up in its registry.
func ask(ctx context.Context, ref string, on platform.Platform) (name.Reference, *remote.Descriptor, error) {
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return nil, nil, err
	}
	found, err := remote.Get(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(libraryPlatform(on)), remote.WithUserAgent("securebench"))
	return parsed, found, err
}

// digestName is what a name means in its registry, which can be an index, in Docker's
// words.
func digestName(ref name.Reference, found *remote.Descriptor) string {
	return familiarRepository(ref.Context()) + "@" + found.Digest.String()
}

// busy makes the refusal of a registry that is asked too much, or is out of order, a
// [sandbox.ErrBusy].
func busy(err error) error {
	said, ok := errors.AsType[*transport.Error](err)
	if ok && (said.StatusCode == http.StatusTooManyRequests || said.StatusCode >= http.StatusInternalServerError) {
		return fmt.Errorf("%w: %w", sandbox.ErrBusy, err)
	}
	return err
}
