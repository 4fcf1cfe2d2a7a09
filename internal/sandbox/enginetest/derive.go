package enginetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/owner"
)

// DeriveLayer makes an image of another, with one more layer, a tar stream, unless that
// is nil, and a changed configuration. It is removed when this process has ended.
func DeriveLayer(t testing.TB, e sandbox.Engine, from sandbox.Image, layer []byte, change func(*v1.Config)) sandbox.Image {
	t.Helper()
	s, err := imagestore.Open(Images(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base, release, err := s.Use(from.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	d := derived{}
	config := base.Config
	config.RootFS.DiffIDs = slices.Clone(config.RootFS.DiffIDs)
	config.History = nil // it would have to name the new layer
	for range config.RootFS.DiffIDs {
		d.layers = append(d.layers, known{})
	}
	if layer != nil {
		sum := sha256.Sum256(layer)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])})
		d.layers = append(d.layers, added{content: layer})
	}
	if change != nil {
		change(&config.Config)
	}
	if d.config, err = json.Marshal(config, jsonv1.DefaultOptionsV1()); err != nil {
		t.Fatal(err)
	}
	img, err := s.Add(t.Context(), d, imagestore.Addition{Owner: owner.Current().String(), Origin: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Image(t.Context(), img.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// derived is as much of an image as a store asks for.
type derived struct {
	v1.Image
	config []byte
	layers []v1.Layer
}

func (d derived) RawConfigFile() ([]byte, error) { return d.config, nil }
func (d derived) Layers() ([]v1.Layer, error)    { return d.layers, nil }

// known is a layer that the store has.
type known struct{ v1.Layer }

func (known) Uncompressed() (io.ReadCloser, error) { return nil, errors.New("the store lost a layer") }

// added is a layer of a test's own.
type added struct {
	v1.Layer
	content []byte
}

func (a added) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(a.content)), nil
}
