package packimage_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/fault"
	"securebench/internal/packimage"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
)

// makePack writes files below the folder images of a pack.
func makePack(t *testing.T, files map[string]string) packimage.Pack {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, "images", name), text)
	}
	return packimage.Pack{Dir: dir, ID: "p", Version: 2}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// chain is a pack in which c is built from b, and b from a.
func chain(t *testing.T) packimage.Pack {
	return makePack(t, map[string]string{
		"a/Dockerfile": "from localhost/p/b:2\nRUN true\n",
		"b/Dockerfile": "# FROM localhost/p/a:2\nFROM debian\nCOPY --chown=0:0 --from=localhost/p/c:2 /x /x\n",
		"c/Dockerfile": "FROM --platform=linux/amd64 localhost/other/b:2 AS x\nFROM localhost/p/a:3\n",
	})
}

func names(images []packimage.Image) (out []string) {
	for _, img := range images {
		out = append(out, img.Name)
	}
	return out
}

func TestBasesComeFirst(t *testing.T) {
	p := chain(t)
	all, err := p.Images()
	if want := []string{"c", "b", "a"}; err != nil || !slices.Equal(names(all), want) {
		t.Errorf("%v, %v; want %v", names(all), err, want)
	}
	some, err := p.Images("b")
	if want := []string{"c", "b"}; err != nil || !slices.Equal(names(some), want) {
		t.Errorf("b alone: %v, %v; want %v", names(some), err, want)
	}
	for ref, want := range map[string]bool{"localhost/p/a:2": false, "localhost/p/a:1": true, "localhost/p/nope:2": true, "localhost/p/a": true, "localhost/q/a:2": false, "a:2": false} {
		if p.Claims(ref) != want {
			t.Errorf("%s: claimed: %t", ref, !want)
		}
	}
	if !p.Makes("localhost/p/a:2") {
		t.Error("the pack does not make its own image")
	}
	for _, ref := range []string{"localhost/p/a:3", "localhost/p/a", "localhost/q/a:2", "localhost/p/../p/a:2", "p/a:2", "localhost/p/none:2", ""} {
		if p.Makes(ref) {
			t.Errorf("the pack makes %q", ref)
		}
	}
}

func TestBadImages(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		id    string
		ask   []string
		want  string
	}{
		"no folder":       {nil, "p", nil, "the pack has no images to build"},
		"no Dockerfile":   {map[string]string{"a/x": ""}, "p", nil, `the Dockerfile of image "a"`},
		"a file":          {map[string]string{"Dockerfile": ""}, "p", nil, "is not a folder"},
		"a name":          {map[string]string{"A b/Dockerfile": ""}, "p", nil, "cannot be an image's name"},
		"an id":           {map[string]string{"a/Dockerfile": ""}, "My Pack", nil, `the id of the pack, "My Pack"`},
		"unknown":         {map[string]string{"a/Dockerfile": ""}, "p", []string{"b"}, `no image "b"`},
		"a circle":        {map[string]string{"a/Dockerfile": "FROM localhost/p/b:2", "b/Dockerfile": "FROM localhost/p/a:2"}, "p", nil, "is built from itself"},
		"from itself":     {map[string]string{"a/Dockerfile": "FROM localhost/p/a:2"}, "p", nil, "is built from itself"},
		"a large file":    {map[string]string{"a/Dockerfile": strings.Repeat("#", 1<<20+1)}, "p", nil, "larger"},
		"a step out":      {map[string]string{"a/Dockerfile": ""}, "p", []string{"../a"}, `no image "../a"`},
		"an empty folder": {map[string]string{"../images/": ""}, "p", nil, "no images"},
	} {
		t.Run(name, func(t *testing.T) {
			delete(c.files, "../images/")
			p := makePack(t, c.files)
			p.ID = c.id
			if _, err := p.Images(c.ask...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// builder is an engine in memory that keeps what it was asked to build.
type builder struct {
	*sandboxtest.Engine
	built map[string]string // reference → what it was built from
	asked []sandbox.Build
	files [][]byte
	fail  error
	arch  string // of what is built
}

func newBuilder() *builder {
	return &builder{Engine: sandboxtest.New(sandboxtest.Config{}), built: map[string]string{}}
}

func (b *builder) Build(_ context.Context, spec sandbox.Build, files io.Reader, log io.Writer) (sandbox.Image, error) {
	data, err := io.ReadAll(files)
	if err = errors.Join(err, b.fail); err != nil {
		return sandbox.Image{}, err
	}
	fmt.Fprint(log, "Step 1\x1b[2J\n")
	b.asked, b.files = append(b.asked, spec), append(b.files, data)
	b.built[spec.Tag] = spec.From
	return b.Image(context.Background(), spec.Tag)
}

func (b *builder) BuiltFrom(_ context.Context, ref string) (string, error) {
	from, ok := b.built[ref]
	if !ok {
		return "", fmt.Errorf("%w", sandbox.ErrImageMissing)
	}
	return from, nil
}

// Image gives an image an id that says what it was built from.
func (b *builder) Image(_ context.Context, ref string) (sandbox.Image, error) {
	if from, ok := b.built[ref]; ok {
		return sandbox.Image{Ref: ref, ID: from, OS: "linux", Arch: b.arch}, nil
	}
	return sandbox.Image{}, sandbox.ErrImageMissing
}

// run builds and returns what was said and logged.
func run(t *testing.T, job packimage.Job, engine sandbox.Engine) (packimage.Result, string, error) {
	t.Helper()
	var said strings.Builder
	job.Say = func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	job.Log = &said
	sum, err := job.Run(t.Context(), func() (sandbox.Engine, error) { return engine, nil })
	return sum, said.String(), err
}

// TestBuildsWhatChanged: a second build keeps every image; after a change to one
// it builds that and what is built from it.
func TestBuildsWhatChanged(t *testing.T) {
	p, b := chain(t), newBuilder()
	sum, said, err := run(t, packimage.Job{Pack: p}, b)
	if err != nil || sum != (packimage.Result{Built: 3}) {
		t.Fatalf("%+v, %v", sum, err)
	}
	if want := "docker build -t localhost/p/c:2 " + filepath.Join(p.Dir, "images", "c") + "\n"; !strings.HasPrefix(said, want) {
		t.Errorf("said %q, want %q first", said, want)
	}
	if strings.Contains(said, "\x1b") || strings.Contains(said, `\x1b`) || !strings.Contains(said, "Step 1") {
		t.Errorf("control characters of a build are shown: %q", said)
	}
	if sum, _, err := run(t, packimage.Job{Pack: p}, b); err != nil || sum != (packimage.Result{Kept: 3}) {
		t.Errorf("again: %+v, %v", sum, err)
	}
	write(t, filepath.Join(p.Dir, "images", "b", "x"), "new")
	if sum, _, err := run(t, packimage.Job{Pack: p}, b); err != nil || sum != (packimage.Result{Built: 2, Kept: 1}) {
		t.Errorf("after a change: %+v, %v", sum, err)
	}
	write(t, filepath.Join(p.Dir, "images", "a", "x"), "new")
	if _, said, err := run(t, packimage.Job{Pack: p}, b); err != nil || !strings.Contains(said, "localhost/p/a:2: replaces the image of that name") || strings.Contains(said, "p/b:2: replaces") {
		t.Errorf("an image of other files is replaced: %q, %v", said, err)
	}
	sum, said, err = run(t, packimage.Job{Pack: p, Names: []string{"c"}, Rebuild: true}, b)
	if err != nil || sum != (packimage.Result{Built: 1}) || !strings.Contains(said, "--no-cache") || !b.asked[len(b.asked)-1].Fresh {
		t.Errorf("built again: %+v, %v, %q", sum, err, said)
	}
}

// TestArchive: the files of an image depend on names and content alone.
func TestArchive(t *testing.T) {
	p, b := makePack(t, map[string]string{"a/Dockerfile": "FROM x", "a/sub/run": "#!"}), newBuilder()
	if err := os.Chmod(filepath.Join(p.Dir, "images/a/sub/run"), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, packimage.Job{Pack: p}, b); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Hour)
	if err := errors.Join(os.Chtimes(filepath.Join(p.Dir, "images/a/Dockerfile"), now, now), os.Chmod(filepath.Join(p.Dir, "images/a/sub/run"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if sum, _, err := run(t, packimage.Job{Pack: p}, b); err != nil || sum.Kept != 1 {
		t.Errorf("after a change of times: %+v, %v", sum, err)
	}
	var got []string
	for tr := tar.NewReader(bytes.NewReader(b.files[0])); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%c %s %o %d", h.Typeflag, h.Name, h.Mode, h.ModTime.Year()))
	}
	if diff := cmp.Diff([]string{"0 Dockerfile 644 1980", "5 sub/ 755 1980", "0 sub/run 755 1980"}, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestBuildFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, packimage.Pack, *builder)
		kind   fault.Kind
		want   string
	}{
		"a link":                      {func(t *testing.T, p packimage.Pack, _ *builder) { link(t, p, "/etc/passwd") }, fault.Pack, "images/a"},
		"a near link":                 {func(t *testing.T, p packimage.Pack, _ *builder) { link(t, p, "Dockerfile") }, fault.Pack, "images/a"},
		"images is a link":            {func(t *testing.T, p packimage.Pack, _ *builder) { away(t, p, "images") }, fault.Pack, "images is a symbolic link, not a folder"},
		"an image's folder is a link": {func(t *testing.T, p packimage.Pack, _ *builder) { away(t, p, "images/a") }, fault.Pack, "images/a is not a folder"},
		"a step":                      {func(_ *testing.T, _ packimage.Pack, b *builder) { b.fail = errors.New("step 2 failed") }, fault.Engine, "step 2 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			p, b := makePack(t, map[string]string{"a/Dockerfile": "FROM x"}), newBuilder()
			c.change(t, p, b)
			_, _, err := run(t, packimage.Job{Pack: p}, b)
			if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v (%s), want %q (%s)", err, fault.KindOf(err), c.want, c.kind)
			}
		})
	}
	_, _, err := run(t, packimage.Job{Pack: chain(t)}, sandboxtest.New(sandboxtest.Config{}))
	if fault.KindOf(err) != fault.Engine || !strings.Contains(err.Error(), "cannot build images") {
		t.Errorf("an engine that cannot build: %v", err)
	}
}

// away moves a folder out of the pack and leaves a link to it.
func away(t *testing.T, p packimage.Pack, name string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if err := errors.Join(os.Rename(filepath.Join(p.Dir, name), out), os.Symlink(out, filepath.Join(p.Dir, name))); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, p packimage.Pack, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(p.Dir, "images/a/link")); err != nil {
		t.Fatal(err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job := packimage.Job{Pack: chain(t), Say: func(string, ...any) {}, Log: io.Discard}
	_, err := job.Run(ctx, func() (sandbox.Engine, error) { return newBuilder(), nil })
	if fault.KindOf(err) != fault.Interrupted {
		t.Errorf("got %v", err)
	}
}

// FuzzDockerfile: what a Dockerfile says never makes the order of images wrong:
// an image comes after each that it uses.
func FuzzDockerfile(f *testing.F) {
	f.Add("FROM localhost/p/b:2", "FROM scratch")
	f.Add("FROM localhost/p/b:2", "COPY --from=localhost/p/a:2 . .")
	f.Fuzz(func(t *testing.T, a, b string) {
		images, err := makePack(t, map[string]string{"a/Dockerfile": a, "b/Dockerfile": b}).Images()
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, img := range images {
			for _, ref := range img.Uses {
				if !seen[ref] {
					t.Errorf("%s comes before %s", img.Ref, ref)
				}
			}
			seen[img.Ref] = true
		}
		if len(images) != 2 {
			t.Errorf("%d images", len(images))
		}
	})
}

// TestOtherPlatform: an image that the engine's machine cannot run is built by mistake.
func TestOtherPlatform(t *testing.T) {
	for arch, want := range map[string]string{"amd64": "", "": "", "arm64": "it is for linux/arm64, and this machine runs linux/amd64"} {
		b := newBuilder()
		b.arch = arch
		_, _, err := run(t, packimage.Job{Pack: chain(t)}, b)
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Dockerfile") || fault.KindOf(err) != fault.Pack) {
			t.Errorf("%q: %v, want %q", arch, err, want)
		}
	}
}
