package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"

	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
)

// BuiltFrom is the label that keeps [sandbox.Build.From].
const BuiltFrom = "securebench.built-from"

// Build implements [sandbox.Builder] with the engine's own builder, which
// needs no session and no registry when the base image is on the engine. The
// engine stops building when ctx ends.
func (s *imageStore) Build(ctx context.Context, b sandbox.Build, files io.Reader, log io.Writer) (sandbox.Image, error) {
	res, err := s.conn.API.ImageBuild(ctx, files, client.ImageBuildOptions{Tags: []string{b.Tag}, Version: build.BuilderV1,
		Labels: map[string]string{BuiltFrom: b.From}, NoCache: b.Fresh, Remove: true, ForceRemove: true})
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("building image %q: %w", b.Tag, err)
	}
	defer res.Body.Close()
	if err := follow(res.Body, log); err != nil {
		return sandbox.Image{}, fmt.Errorf("building image %q: %w", b.Tag, err)
	}
	return s.Image(ctx, b.Tag)
}

// BuiltFrom implements [sandbox.Builder].
func (s *imageStore) BuiltFrom(ctx context.Context, ref string) (string, error) {
	res, err := s.conn.API.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return "", fmt.Errorf("image %q: %w", ref, sandbox.ErrImageMissing)
	}
	if err != nil {
		return "", fmt.Errorf("inspecting image %q: %w", ref, err)
	}
	if res.Config == nil {
		return "", nil
	}
	return res.Config.Labels[BuiltFrom], nil
}

// Pull implements [sandbox.Puller].
func (s *imageStore) Pull(ctx context.Context, ref string, log io.Writer) (sandbox.Image, error) {
	res, err := s.conn.API.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err == nil {
		err = errors.Join(follow(res, log), res.Close())
	}
	if err != nil {
		if saysBusy.MatchString(err.Error()) {
			err = fmt.Errorf("%w: %w", sandbox.ErrBusy, err)
		}
		return sandbox.Image{}, fmt.Errorf("pulling image %q: %w", ref, err)
	}
	return s.Image(ctx, ref)
}

// saysBusy matches how engines pass on that a registry is asked too much, or is out of
// order: they have no code for it.
var saysBusy = lazyregexp.New(`(?i)toomanyrequests|HTTP 429 response|\b429 Too Many Requests|\b50[0234] (Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)`)

// follow copies the progress messages of the engine to log until they end. An
// error of the engine comes as a message in the stream.
func follow(r io.Reader, log io.Writer) error {
	dec := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		var m struct {
			Stream string `json:"stream"`
			Status string `json:"status"`
			Error  string `json:"error"`
		}
		err := json.UnmarshalDecode(dec, &m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the engine's messages: %w", err)
		}
		if m.Error != "" {
			return fmt.Errorf("the engine reports: %s", m.Error)
		}
		if m.Status != "" {
			m.Status += "\n"
		}
		if _, err := io.WriteString(log, m.Stream+m.Status); err != nil {
			return fmt.Errorf("writing the engine's messages: %w", err)
		}
	}
}
