package imagestore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"securebench/internal/sandbox/platform"
)

// elsewhere is an architecture that no test machine has or emulates.
const elsewhere = "s390x"

// programFor is the head of a program, as far as it says what the program is for.
func programFor(t testing.TB, arch string) string {
	t.Helper()
	machine := map[string]byte{elsewhere: 22, "amd64": 62, "arm64": 183}[arch]
	if machine == 0 {
		t.Skipf("the test knows no program of %s", arch)
	}
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20], head[52], head[54], head[58] = 2, machine, 1, 64, 56, 64
	return string(head)
}

// says returns an image whose configuration says an architecture.
func says(t testing.TB, img v1.Image, arch string) v1.Image {
	t.Helper()
	c, err := img.ConfigFile()
	if err == nil {
		c = c.DeepCopy()
		c.Architecture = arch
		img, err = mutate.ConfigFile(img, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestPlatforms: an image that this machine does not run is refused from every source,
// with both sides named, unless it is asked for; one that says nothing is what its
// programs are; one that says what is not true is refused. After a refusal the store is
// as before.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	here := runtime.GOARCH
	own, other := tarOf(t, "bin/sh="+programFor(t, here)), tarOf(t, "bin/sh="+programFor(t, elsewhere))
	script := tarOf(t, "bin/sh=no program")
	hidden := tarOf(t, "bin/.wh.sh")
	both := "it is for linux/" + elsewhere + ", and this machine runs linux/" + here
	asked := "linux/" + elsewhere
	for name, c := range map[string]struct {
		img  v1.Image
		on   string
		want string // the error
		is   string // the platform
	}{
		"own":                         {says(t, imageOf(t, own), here), "", "", "linux/" + here},
		"own, asked for":              {says(t, imageOf(t, own), here), "linux/" + here, "", "linux/" + here},
		"another":                     {says(t, imageOf(t, other), elsewhere), "", both, ""},
		"another, asked for":          {says(t, imageOf(t, other), elsewhere), asked, "", asked},
		"own, another is asked for":   {says(t, imageOf(t, own), here), asked, "it is for linux/" + here + ", and " + asked + " is asked for", ""},
		"nothing said, own":           {says(t, imageOf(t, own), ""), "", "", "linux/" + here},
		"nothing said, another":       {says(t, imageOf(t, other), ""), "", both, ""},
		"nothing said, replaced":      {says(t, imageOf(t, other, own), ""), "", "", "linux/" + here},
		"nothing said, hidden":        {says(t, imageOf(t, other, hidden), ""), "", "", "an unknown platform"},
		"nothing said, a script":      {says(t, imageOf(t, script), ""), "", "", "an unknown platform"},
		"it says what is not true":    {says(t, imageOf(t, other), here), "", "its configuration says linux/" + here + ", and its bin/sh is a program for " + asked, ""},
		"it says what is not, hidden": {says(t, imageOf(t, other, hidden), here), "", "", "linux/" + here},
		"not a platform":              {says(t, imageOf(t, own), here), "arm64", "is not a platform", ""},
	} {
		file := write(t, saved(t, c.img, "x:1"))
		for source, from := range map[string]string{"an archive": file, "a layout": "oci:" + laidOut(t, indexOf(c.img, nil))} {
			s := openStore(t, t.TempDir())
			got, err := s.Import(t.Context(), from, Addition{Platform: c.on}, nil)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || c.on != "arm64" && !errors.Is(err, platform.ErrOther) {
					t.Errorf("%s from %s: %v, want %q", name, source, err, c.want)
				}
				if all, err := s.List(); err != nil || len(all) != 0 {
					t.Errorf("%s from %s: it left %+v, %v", name, source, all, err)
				}
				continue
			}
			if err != nil || got.Platform().String() != c.is {
				t.Errorf("%s from %s: %s, %v, want %s", name, source, got.Platform(), err, c.is)
			}
		}
	}
}

// TestPlatformOfIndex: of several images the machine's is taken, or the one that is
// asked for; an only one is what it is.
func TestPlatformOfIndex(t *testing.T) {
	t.Parallel()
	own, other := says(t, imageOf(t, tarOf(t, "a=1")), runtime.GOARCH), says(t, imageOf(t, tarOf(t, "a=2")), elsewhere)
	on := func(arch string) *v1.Platform { return &v1.Platform{OS: "linux", Architecture: arch} }
	index := mutate.AppendManifests(indexOf(own, on(runtime.GOARCH)),
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: on(elsewhere)}})
	several, host := "oci:"+laidOut(t, index), server(t)
	push(t, host+"/several:1", index)
	only := "oci:" + laidOut(t, indexOf(other, on(elsewhere)))
	for name, c := range map[string]struct{ source, on, id, want string }{
		"this machine's": {several, "", idOf(t, own), ""},
		"asked for":      {several, "linux/" + elsewhere, idOf(t, other), ""},
		"not there":      {several, "linux/riscv64", "", `its index has 2 images, none of them for linux/riscv64 ("linux/` + runtime.GOARCH + `"`},
		"only another":   {only, "", "", `its index has 1 images, none of them for linux/` + runtime.GOARCH + ` ("linux/` + elsewhere + `"): the image is for another platform`},
		"only, asked":    {only, "linux/" + elsewhere, idOf(t, other), ""},
	} {
		got, err := openStore(t, t.TempDir()).Import(t.Context(), c.source, Addition{Platform: c.on}, nil)
		if got.ID != c.id || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v, want %s, %q", name, got.ID, err, c.id, c.want)
		}
	}
	for on, want := range map[string]string{"": idOf(t, own), "linux/" + elsewhere: idOf(t, other)} {
		if got, err := openStore(t, t.TempDir()).Pull(t.Context(), host+"/several:1", Addition{Platform: on}); err != nil || got.ID != want {
			t.Errorf("pulled for %q: %s, %v, want %s", on, got.ID, err, want)
		}
	}
}

// TestPlatformOfRoot: a root file system is for what its programs are for.
func TestPlatformOfRoot(t *testing.T) {
	t.Parallel()
	root := func(arch string) string {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.WriteFile(filepath.Join(dir, "bin", "sh"), []byte(programFor(t, arch)), 0o755)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	s := openStore(t, t.TempDir())
	if got, err := s.Import(t.Context(), root(runtime.GOARCH), Addition{}, nil); err != nil || got.Platform() != platform.Here() {
		t.Errorf("own: %s, %v", got.Platform(), err)
	}
	if _, err := s.Import(t.Context(), root(elsewhere), Addition{}, nil); !errors.Is(err, platform.ErrOther) {
		t.Errorf("another: %v", err)
	}
	if got, err := s.Import(t.Context(), root(elsewhere), Addition{Platform: "linux/" + elsewhere}, nil); err != nil || got.Platform().Arch != elsewhere {
		t.Errorf("another, asked for: %s, %v", got.Platform(), err)
	}
}
