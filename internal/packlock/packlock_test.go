package packlock_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"securebench/internal/packlock"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
	"securebench/internal/schemas/schematest"
)

func TestSchema(t *testing.T) { schematest.Agrees(t, "lock", reflect.TypeFor[packlock.Lock]()) }

func sum(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// TestCheck: an image passes for the locked one by the digest of its registry or by that of
// its configuration, and by nothing else.
func TestCheck(t *testing.T) {
	t.Parallel()
	l := &packlock.Lock{Images: map[string]packlock.Image{
		"python:3.12": {Digest: sum("1"), Configs: map[string]string{"linux/amd64": sum("2"), "linux/arm64": sum("3")}}}}
	for name, c := range map[string]struct {
		lock *packlock.Lock
		ref  string
		img  sandbox.Image
		want string // "" passes
	}{
		"pulled":                  {l, "python:3.12", sandbox.Image{ID: sum("9"), Digest: "python@" + sum("1")}, ""},
		"known by its index":      {l, "python:3.12", sandbox.Image{ID: sum("1")}, ""},
		"loaded":                  {l, "python:3.12", sandbox.Image{ID: sum("3")}, ""},
		"by another name":         {l, "python:3.12", sandbox.Image{ID: sum("2"), Digest: "mirror/python@" + sum("7")}, ""},
		"a moved tag":             {l, "python:3.12", sandbox.Image{ID: sum("9"), Digest: "python@" + sum("8")}, "image python:3.12 is python@" + sum("8")},
		"built under its name":    {l, "python:3.12", sandbox.Image{ID: sum("9")}, "image python:3.12 is " + sum("9")},
		"a digest in its name":    {l, "python:3.12", sandbox.Image{ID: sum("9"), Digest: sum("1") + "@" + sum("8")}, "says " + sum("1")},
		"not in the lock":         {l, "python:3.13", sandbox.Image{ID: sum("2")}, "is not in the pack's images.lock"},
		"of a pack":               {l, "localhost/p/a:1", sandbox.Image{ID: sum("9")}, ""},
		"securebench's":           {l, "securebench-python:3", sandbox.Image{ID: sum("9")}, ""},
		"named by digest":         {l, "python@" + sum("8"), sandbox.Image{ID: sum("9")}, ""},
		"nothing at all is known": {l, "python:3.12", sandbox.Image{}, "image python:3.12 is"},
		"no lock":                 {nil, "python:3.12", sandbox.Image{ID: sum("9")}, ""},
	} {
		err := c.lock.Check(c.ref, c.img)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRead: what is not a lock is refused in one line; its twin is read.
func TestRead(t *testing.T) {
	t.Parallel()
	good := `{"version": 1, "images": {"a:1": {"digest": "` + sum("1") + `", "configs": {"linux/amd64": "` + sum("2") + `"}}}}`
	for name, text := range map[string]string{
		"good":             good,
		"no JSON":          "images: {}",
		"another version":  strings.Replace(good, "1", "2", 1),
		"an unknown key":   strings.Replace(good, `"version"`, `"x": 1, "version"`, 1),
		"twice":            strings.Replace(good, `"version": 1`, `"version": 1, "version": 1`, 1),
		"a short digest":   strings.Replace(good, sum("1"), "sha256:1", 1),
		"no digest":        strings.Replace(good, `"digest": "`+sum("1")+`", `, "", 1),
		"another config":   strings.Replace(good, sum("2"), "md5:1", 1),
		"no platform":      strings.Replace(good, "linux/amd64", "plan9", 1),
		"a pinned name":    strings.Replace(good, "a:1", "a@"+sum("1"), 1),
		"a name of a pack": strings.Replace(good, "a:1", "localhost/p/a:1", 1),
		"nothing":          "",
		"more than one":    good + good,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, packlock.Name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := packlock.Read(dir)
		if (err == nil) != (name == "good") || err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "pack lock")) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	if l, err := packlock.Read(t.TempDir()); l != nil || err != nil {
		t.Errorf("without a file: %+v, %v", l, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version": 1, "images": {"a:1": {"digest": "` + sum("1") + `", "configs": {"linux/amd64": "` + sum("2") + `"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, packlock.Name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := packlock.Read(dir)
		if err != nil {
			return
		}
		if err := l.Write(dir); err != nil {
			t.Fatal(err)
		}
		if again, err := packlock.Read(dir); err != nil || len(l.Differences(again)) > 0 {
			t.Errorf("%+v became %+v, %v", l, again, err)
		}
	})
}

// serve starts a registry.
func serve(t *testing.T) (host string) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func imageFor(t *testing.T, arch, mark string) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, Author: mark})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestAsk: a name that means an index is locked with the configurations of its images, and
// one that moved is found.
func TestAsk(t *testing.T) {
	t.Parallel()
	host := serve(t)
	amd, arm := imageFor(t, "amd64", "x"), imageFor(t, "arm64", "x")
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: amd, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	both, err := imagename.NewTag(host + "/both:1")
	if err != nil {
		t.Fatal(err)
	}
	one, err := imagename.NewTag(host + "/one:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(both, index); err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(one, amd); err != nil {
		t.Fatal(err)
	}
	wanted := map[string][]platform.Platform{both.Name(): nil, one.Name(): nil}
	l, err := packlock.Ask(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	id := func(img v1.Image) string {
		h, err := img.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		return h.String()
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Images[both.Name()]; got.Digest != digest.String() || got.Configs["linux/amd64"] != id(amd) || got.Configs["linux/arm64"] != id(arm) || len(got.Configs) != 2 {
		t.Errorf("of an index: %+v", got)
	}
	if got := l.Images[one.Name()]; got.Configs["linux/amd64"] != id(amd) || len(got.Configs) != 1 {
		t.Errorf("of one image: %+v", got)
	}
	dir := t.TempDir()
	if err := l.Write(dir); err != nil {
		t.Fatal(err)
	}
	was, err := packlock.Read(dir)
	if err != nil || len(was.Differences(l)) > 0 {
		t.Errorf("%+v, %v", was, err)
	}
	if err := remote.Write(one, imageFor(t, "amd64", "moved")); err != nil {
		t.Fatal(err)
	}
	is, err := packlock.Ask(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	if got := was.Differences(is); len(got) != 1 || !strings.HasPrefix(got[0], "image "+one.Name()+" has moved: images.lock says ") {
		t.Errorf("a moved tag: %q", got)
	}
	if _, err := packlock.Ask(t.Context(), map[string][]platform.Platform{host + "/none:1": nil}); err == nil {
		t.Error("an image that is not there was locked")
	}
	if _, err := packlock.Ask(t.Context(), map[string][]platform.Platform{both.Name(): {platform.New("linux", "s390x", "")}}); err == nil {
		t.Error("a platform that is not there was locked")
	}
}
