package packlint_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"securebench/internal/families"
	"securebench/internal/packlint"
	"securebench/internal/sandbox"
)

// fileIn is a file of a layer.
type fileIn struct{ name, content string }

// layerOf makes a layer of files.
func layerOf(t testing.TB, how compression.Compression, files ...fileIn) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.content))})
		if err == nil {
			_, err = io.WriteString(w, f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithCompression(how))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// saved is an engine whose images are these, as it saves them.
func saved(t testing.TB, images map[string]v1.Image) packlint.Export {
	t.Helper()
	return func(_ context.Context, ref, file string) (string, error) {
		img, ok := images[ref]
		if !ok {
			return "", sandbox.ErrImageMissing
		}
		tag, err := name.NewTag(ref)
		if err == nil {
			err = tarball.WriteToFile(file, tag, img)
		}
		return "", err
	}
}

func imageWith(t testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err == nil {
		img, err = mutate.ConfigFile(img, configOf(t, img, config))
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func configOf(t testing.TB, img v1.Image, config v1.Config) *v1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Config = "linux", runtime.GOARCH, config
	return c
}

const (
	layersManifest = "id: p\nversion: 1\nasset_roots: {public: assets, eval: eval}\n"
	layersRow      = `{"id":"a","family":"terminal_task","input":{"instruction":"Write the sum to /app/report.json."},"eval":{"checker":{"source":"pytest","path":"t/test_outputs.py"},` +
		`"solution":{"path":"s/solution.py"},"expected_state":{"flag":"FLAG{93ac21d7be604f18}"}},"environment":{"image":"localhost/p/own:1"}}` + "\n"
	flag = "FLAG{93ac21d7be604f18}"
)

// inLayers returns the warnings about an image that the pack's task runs in.
func inLayers(t *testing.T, rows string, export packlint.Export) (string, error) {
	t.Helper()
	p, dir := packOf(t, layersManifest, rows, map[string]string{"images/own/Dockerfile": "FROM scratch\n", "images/other/Dockerfile": "FROM scratch\n",
		"eval/t/test_outputs.py": leakTests, "eval/s/solution.py": leakSolution, "eval/t/data.csv": strings.Repeat("a,1\nb,2\n", 40)})
	temp := t.TempDir()
	found, err := packlint.Layers(t.Context(), p, families.All(), export, temp)
	if left, e := os.ReadDir(temp); e != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, e)
	}
	var out []string
	for _, f := range found {
		out = append(out, strings.ReplaceAll(f.Error(), dir+"/", ""))
	}
	return strings.Join(out, "\n"), err
}

// TestLayers puts what a row hides into the image that its agent runs in. Digests of files,
// which are the weak comparison, know the first two alone. An image with the files of honest
// work has none of it.
func TestLayers(t *testing.T) {
	t.Parallel()
	starter := fileIn{"app/main.py", "import json\nfrom pathlib import Path\n\n# write /app/report.json: see t/test_outputs.py\n"}
	plain := func(content string) v1.Image {
		return imageWith(t, v1.Config{}, layerOf(t, compression.None, starter), layerOf(t, compression.GZip, fileIn{"opt/x", content}))
	}
	const tests, solution = "the evaluation file t/test_outputs.py", "the evaluation file s/solution.py"
	const second = "images/own/Dockerfile: image localhost/p/own:1: layer 2 of 2, the file opt/x "
	for name, c := range map[string]struct {
		img  v1.Image
		want string // "" is nothing
		weak bool   // by digests alone it is found as well
	}{
		"the tests":    {plain(leakTests), second + "has " + tests, true},
		"the solution": {plain(leakSolution), second + "has " + solution, true},
		"deleted by a later layer": {imageWith(t, v1.Config{}, layerOf(t, compression.None, fileIn{"opt/x", leakTests}), layerOf(t, compression.None, fileIn{"opt/.wh.x", ""})),
			"layer 1 of 2, the file opt/x has " + tests, true},
		"a layer of zstd":          {imageWith(t, v1.Config{}, layerOf(t, compression.ZStd, fileIn{"opt/x", "#" + leakTests})), "layer 1 of 1, the file opt/x has " + tests, false},
		"with more around it":      {plain("x = 1\n" + leakTests + "y = 2\n"), second + "has " + tests, false},
		"in a large file":          {plain(strings.Repeat("\x00\x01", 1<<19-200) + leakTests + strings.Repeat("\x02", 3<<20)), second + "has " + tests, false},
		"at the end of one":        {plain(strings.Repeat("ab", 1<<20) + strings.TrimSpace(leakTests)), second + "has " + tests, false},
		"reformatted":              {plain(reformatted), second + "has the words, in another order, of " + tests, false},
		"its lines in any order":   {plain(shuffle(leakTests)), second + "has the lines, in another order, of " + tests, false},
		"in a zip archive":         {plain(zipOf(t, "a/b.py", leakTests)), second[:len(second)-1] + ", in it a/b.py has " + tests, false},
		"in an archive within one": {plain(gzipOf(t, tarOf(t, "a.zip", zipOf(t, "b.py", "\n"+leakSolution)))), "in it a.zip/b.py has " + solution, false},
		"in a document":            {plain(zipOf(t, "word/document.xml", "<w:t>"+flag+"</w:t>", "[Content_Types].xml", "<Types/>")), second[:len(second)-1] + ", in it word/document.xml has eval.expected_state of task a", false},
		"within a document's part": {plain(zipOf(t, "[Content_Types].xml", "<Types/>", "a.xml", gzipOf(t, flag))), second[:len(second)-1] + ", in it a.xml has eval.expected_state of task a", false},
		"in a document's links":    {plain(zipOf(t, "[Content_Types].xml", "<Types/>", "ppt/_rels/a.rels", "<a b='"+flag+"'/>")), second[:len(second)-1] + ", in it ppt/_rels/a.rels has eval.expected_state of task a", false},
		"behind a false head":      {plain("\x1f\x8b" + leakTests), second + "has " + tests, false},
		"behind a false archive":   {plain("PK\x03\x04" + leakTests), second + "has " + tests, false},
		"in UTF-16":                {plain(utf16Of(leakTests)), second + "is the same as " + tests, false},
		"a hidden value":           {plain("secret=" + flag + "\n"), second + "has eval.expected_state of task a", false},
		"data":                     {plain(strings.Repeat("a,1\nb,2\n", 40)), second + "has the evaluation file t/data.csv", true},
		"in a variable": {imageWith(t, v1.Config{Env: []string{"HINT=" + flag}}, layerOf(t, compression.None, starter)),
			"image localhost/p/own:1: its configuration has eval.expected_state of task a", false},
		"in a label": {imageWith(t, v1.Config{Labels: map[string]string{"note": flag}}, layerOf(t, compression.None, starter)),
			"its configuration has eval.expected_state of task a", false},
		"in a name": {imageWith(t, v1.Config{}, layerOf(t, compression.None, fileIn{"opt/" + flag, ""})), "the name of \"opt/" + flag + "\" has eval.expected_state", false},

		"honest":                          {plain("print('hello')\n"), "", false},
		"the start of the tests":          {plain(leakTests[:len(leakTests)-40]), "", false},
		"names of files":                  {plain("pytest t/test_outputs.py && python s/solution.py\n"), "", false},
		"the instruction":                 {plain("Write the sum to /app/report.json."), "", false},
		"other data":                      {plain(strings.Repeat("a,1\nb,3\n", 40)), "", false},
		"a document":                      {plain(zipOf(t, "[Content_Types].xml", "<Types/>", "word/document.xml", "<w:t>Write the sum to /app/report.json.</w:t>")), "", false},
		"a program with the same licence": {plain(licence + "print('hello, world')\n"), "", false},
	} {
		got, err := inLayers(t, layersRow, saved(t, map[string]v1.Image{"localhost/p/own:1": c.img}))
		if err != nil || (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, c.want)
		}
		if byDigest(t, c.img) != c.weak {
			t.Errorf("%s: digests of files find it: %v, want %v", name, !c.weak, c.weak)
		}
	}
}

// byDigest is the weak comparison.
func byDigest(t *testing.T, img v1.Image) (found bool) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for in := tar.NewReader(r); ; {
			if _, err := in.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, hidden := range []string{leakTests, leakSolution, strings.Repeat("a,1\nb,2\n", 40)} {
				found = found || sha256.Sum256(content) == sha256.Sum256([]byte(hidden))
			}
		}
	}
	return found
}

// TestLayersOfOthers: an image is searched for what the tasks hide whose agents run in it.
func TestLayersOfOthers(t *testing.T) {
	t.Parallel()
	other := strings.NewReplacer(`"id":"a"`, `"id":"b"`, "own:1", "other:1", flag, "FLAG{0000000000000000}", "t/test_outputs.py", "x/none.py", "s/solution.py", "x/none.py").Replace(layersRow)
	leaky := imageWith(t, v1.Config{}, layerOf(t, compression.None, fileIn{"x", leakTests + flag}))
	if got, err := inLayers(t, layersRow+other, saved(t, map[string]v1.Image{"localhost/p/other:1": leaky})); err != nil ||
		!strings.HasPrefix(got, "images/own/Dockerfile: image localhost/p/own:1 is not in Docker, and was not searched (build it with: securebench pack build ") || !strings.HasSuffix(got, " --rebuild)") {
		t.Errorf("%q, %v", got, err)
	}
	// What a row of another image names is that row's, in either form.
	for _, eval := range []string{`{"checker":{"path":"t/test_outputs.py"}}`, `{"tests":{"code":{"path":"t/test_outputs.py"}}}`} {
		own := `{"id":"a","family":"f","input":{},"eval":{"secret":"` + flag + `"},"environment":{"image":"localhost/p/own:1"}}` + "\n"
		other := `{"id":"b","family":"f","input":{},"eval":` + eval + `,"environment":{"image":"localhost/p/other:1"}}` + "\n"
		images := map[string]v1.Image{"localhost/p/own:1": imageWith(t, v1.Config{}, layerOf(t, compression.None, fileIn{"x", leakTests})), "localhost/p/other:1": leaky}
		if got, err := inLayers(t, own+other, saved(t, images)); err != nil || strings.Contains(got, "own/Dockerfile") || !strings.Contains(got, "images/other/Dockerfile: image localhost/p/other:1: layer 1 of 1, the file x has ") {
			t.Errorf("%s: %q, %v", eval, got, err)
		}
	}
	if got, err := inLayers(t, strings.ReplaceAll(layersRow, "localhost/p/own:1", "python:3"), saved(t, nil)); got != "" || err != nil {
		t.Errorf("an image that the pack does not make: %q, %v", got, err)
	}
}

// TestLayersDamaged: what cannot be read is not passed for clean.
func TestLayersDamaged(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"no archive": "x", "nothing": ""} {
		_, err := inLayers(t, layersRow, func(_ context.Context, _, file string) (string, error) {
			return "", os.WriteFile(file, []byte(content), 0o600)
		})
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(tarOf(t, "a", strings.Repeat("x", 4000))[:2000])), nil
	}, tarball.WithCompression(compression.None))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inLayers(t, layersRow, saved(t, map[string]v1.Image{"localhost/p/own:1": imageWith(t, v1.Config{}, cut)})); err == nil || !strings.Contains(err.Error(), "the layer is damaged") {
		t.Errorf("a layer that was cut: %v", err)
	}
}
