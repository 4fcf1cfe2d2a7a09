package scoring

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/sandboxtest"
)

// place is a path of an image and what is wrong with it, "" if nothing.
type place struct{ path, exact, loose string }

func places() []place {
	const long = "a name in it has 300 bytes"
	name := strings.Repeat("n", 300)
	return []place{
		{"/", "", ""},
		{"/srv", "", ""},
		{"/srv/new/folder", "", ""},
		{"/new", "", ""},
		{"/srv/file", "the image has a file at /srv/file", "the image has a file at /srv/file"},
		{"/srv/file/below", "the image has a file at /srv/file", "the image has a file at /srv/file"},
		{"/srv/link", "the image has a link at /srv/link", ""},
		{"/srv/link/sub", "the image has a link at /srv/link", ""},
		{"/srv/again/sub", "the image has a link at /srv/again", ""},
		{"/srv/tofile", "the image has a link at /srv/tofile", "the image has a file at /srv/file"},
		{"/srv/nowhere", "the image has a link at /srv/nowhere", "leads to /missing, which does not exist"},
		{"/srv/nowhere/sub", "the image has a link at /srv/nowhere", "leads to /missing, which does not exist"},
		{"/srv/loop", "the image has a link at /srv/loop", "leads nowhere"},
		{"/srv/" + name, long, long},
		{"/new/" + name, long, long},
		{"/" + strings.Repeat("n/", 2100), "the path has 4200 bytes", "the path has 4200 bytes"},
	}
}

// layout makes what places looks at.
const layout = `mkdir -p /srv/real/sub; echo x > /srv/file; ln -s real /srv/link; ln -s /srv/link /srv/again
ln -s file /srv/tofile; ln -s /missing /srv/nowhere; ln -s loop /srv/loop`

func check(t *testing.T, e sandbox.Engine, img sandbox.Image) {
	t.Helper()
	looker, ok := e.(sandbox.Looker)
	if !ok {
		t.Fatal("the engine does not look at images")
	}
	looks := mountPoints{Engine: looker}
	for _, p := range places() {
		for exact, want := range map[bool]string{true: p.exact, false: p.loose} {
			fault, err := looks.Fault(t.Context(), img, p.path, exact)
			switch {
			case err != nil:
				t.Errorf("%.40s: %v", p.path, err)
			case want == "" && fault != nil:
				t.Errorf("%.40s, exact %t: %v", p.path, exact, fault)
			case want != "" && (!errors.Is(fault, sandbox.ErrUnusable) || !strings.Contains(fault.Error(), want)):
				t.Errorf("%.40s, exact %t: %v, want %q", p.path, exact, fault, want)
			}
		}
	}
}

// TestMountPoints: every engine sees the same of an image.
func TestMountPoints(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		check(t, e, enginetest.Script(t, e, enginetest.Image(t, e), layout))
	})
}

// TestMountPointsInMemory is [TestMountPoints] for the engine of tests.
func TestMountPointsInMemory(t *testing.T) {
	t.Parallel()
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(to)} }
	e := sandboxtest.New(sandboxtest.Config{Root: fstest.MapFS{
		"srv/real/sub": {Mode: fs.ModeDir | 0o755}, "srv/file": {Data: []byte("x")}, "srv/link": link("real"), "srv/again": link("/srv/link"),
		"srv/tofile": link("file"), "srv/nowhere": link("/missing"), "srv/loop": link("loop"),
	}})
	img, err := e.Image(t.Context(), "img")
	if err != nil {
		t.Fatal(err)
	}
	check(t, e, img)
}

// failing is an engine that looks once, after an error.
type failing struct{ asked int }

func (f *failing) Look(context.Context, sandbox.Image, string) (sandbox.Sight, error) {
	if f.asked++; f.asked == 1 {
		return sandbox.Sight{}, errors.New("the engine is busy")
	}
	return sandbox.Sight{Type: sandbox.RegularFile}, nil
}

// TestMountPointsAskedOnce: what an engine failed to say is asked again and no fault of the
// image's; what it said is not.
func TestMountPointsAskedOnce(t *testing.T) {
	t.Parallel()
	engine := &failing{}
	looks := mountPoints{Engine: engine}
	img := sandbox.Image{ID: "sha256:1"}
	if fault, err := looks.Fault(t.Context(), img, "/app", true); fault != nil || err == nil || errors.Is(err, sandbox.ErrUnusable) {
		t.Errorf("a busy engine: %v, %v", fault, err)
	}
	for range 3 {
		if fault, err := looks.Fault(t.Context(), img, "/app", true); !errors.Is(fault, sandbox.ErrUnusable) || err != nil {
			t.Errorf("%v, %v", fault, err)
		}
	}
	if engine.asked != 2 {
		t.Errorf("the engine was asked %d times", engine.asked)
	}
	if fault, err := new(mountPoints).Fault(t.Context(), img, "/app", true); fault != nil || err != nil {
		t.Errorf("without an engine: %v, %v", fault, err)
	}
}
