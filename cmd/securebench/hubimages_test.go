package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	containers "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"securebench/internal/sandbox/enginetest"
)

const answering = `package main

import "fmt"

func main() { fmt.Println(4) }
`

// answeringImage is an image of one program, which answers a question.
func answeringImage(t *testing.T) v1.Image {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	write(t, source, answering)
	file, err := enginetest.Built("answering", "build", source)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, {Name: "answer", Mode: 0o755, Size: int64(len(program))}} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		img, err = mutate.ConfigFile(img, configured(t, img))
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// configured is the configuration of an image for this machine, with a user by number.
func configured(t *testing.T, img v1.Image) *v1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Config.User = "linux", runtime.GOARCH, "1000:1000"
	return c
}

// refusesAbsent fails unless a run refuses to try an agent's program in an image that it
// does not have.
func refusesAbsent(f *machines, dir, host string) {
	f.Helper()
	tester := filepath.Join(dir, "program.yaml")
	write(f.T, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out-program}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
sandbox: {engine: native}
harness: {type: codex, config: {model: gpt-1, base_url: "http://%s"}}
`, ownRun("hub-absent"), host))
	res := securebench(f.T, append([]string{"OPENAI_API_KEY=sk-0123456789abcdef"}, f.env...), "run", tester, "--hub", "127.0.0.1:0", "-q")
	if line := errorLine(f.T, res); res.code != exitRefused || !strings.Contains(line, "is not on this machine, on which the program of the codex harness is tried in it") {
		f.Errorf("exit %d: %s", res.code, line)
	}
}

// TestHubPulls: a run and its workers have none of the images. The run reads of them in
// their registry, and the workers pull what it has read of, by digest: one from the
// registry, which refuses at first, one from a mirror.
func TestHubPulls(t *testing.T) {
	t.Parallel()
	enginetest.Native(t)
	var refuse, layers atomic.Int64
	inner := containers.New(containers.Logger(log.New(io.Discard, "", 0)))
	serve := func(count *atomic.Int64) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
				count.Add(1)
			}
			if strings.Contains(r.URL.Path, "/manifests/") && r.Method == http.MethodGet && refuse.Add(-1) >= 0 {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			inner.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	var mirrored atomic.Int64
	host, mirror := serve(&layers), serve(&mirrored)
	ref, err := imagename.ParseReference(host + "/answering:1")
	if err == nil {
		err = remote.Push(ref, answeringImage(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, f := t.TempDir(), newMachines(t)
	tester := filepath.Join(dir, "tester.yaml")
	var rows strings.Builder
	for i := range 6 {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n", i)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: pulled\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+ref.Name()+"\n")
	write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
sandbox: {engine: native}
harness: {type: command, config: {command: [/answer]}}
`, ownRun("hub-pulls")))
	out := filepath.Join(t.TempDir(), "out")
	env := f.env
	f.env = append(env[:len(env):len(env)], "SECUREBENCH_IMAGES="+filepath.Join(t.TempDir(), "images"))
	refusesAbsent(f, dir, host)
	layers.Store(0)
	run, addr := f.run(tester, "-o", out)
	if layers.Load() != 1 {
		t.Errorf("the run read %d blobs of the registry, and needs the configuration only", layers.Load())
	}
	refuse.Store(2)
	var workers []*member
	for i, more := range [][]string{nil, {"--image-mirror", mirror}} {
		f.env = append(env[:len(env):len(env)], "SECUREBENCH_IMAGES="+filepath.Join(t.TempDir(), "images"))
		workers = append(workers, f.start(append([]string{"worker", "--engine", "native", "--slots", "1", "--hub", addr, "--credentials", f.invite(fmt.Sprint("w", i), "produce,verify")}, more...)...))
	}
	f.ends(run, exitDone)
	pulled := 0
	for i, w := range workers {
		f.ends(w, exitDone)
		if strings.Contains(w.out.String(), "pulling image "+[]string{host, mirror}[i]+"/answering@sha256:") {
			pulled++
		}
	}
	if pulled == 0 || mirrored.Load()+layers.Load() < 3 {
		t.Errorf("%d workers pulled an image", pulled)
	}
	sameVerdicts(t, out, map[string]string{"t0": "passed passed ", "t1": "passed passed ", "t2": "passed passed ", "t3": "passed passed ", "t4": "passed passed ", "t5": "passed passed "})
	f.must("verify", out)
}
