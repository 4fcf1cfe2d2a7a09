package imagestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
)

const envWorker = "SECUREBENCH_TEST_STORE"

// TestWorker is what TestKilled starts and kills: it adds, uses, removes and prunes
// images until it is killed or its input ends.
func TestWorker(t *testing.T) {
	dir := os.Getenv(envWorker)
	if dir == "" {
		t.Skip("TestKilled starts it")
	}
	go func() {
		var b [1]byte
		os.Stdin.Read(b[:])
		os.Exit(3) // the test has ended
	}()
	s := openStore(t, dir)
	fmt.Println("ready")
	for {
		n := rand.IntN(6)
		ref := fmt.Sprint("x", n)
		if _, err := s.Add(t.Context(), numbered(t, n), Addition{Ref: ref}); err != nil {
			t.Fatal(err)
		}
		img, release, err := s.Use(ref)
		if err == nil {
			if got := contents(t, img); got != wholeOf(n) {
				t.Fatalf("image %d is %.200s", n, got)
			}
			if err := s.Remove(img.ID); err == nil {
				t.Fatal("an image in use was removed")
			}
			err = release()
		}
		if err != nil && !errors.Is(err, sandbox.ErrImageMissing) {
			t.Fatal(err)
		}
		switch rand.IntN(4) {
		case 0:
			_, err = s.Prune(t.Context(), rand.IntN(3) == 0)
		case 1:
			if err = s.Remove(ref); errors.Is(err, sandbox.ErrImageMissing) || err != nil && strings.Contains(err.Error(), "in use") {
				err = nil
			}
		default:
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// numbered makes an image that shares layers with others.
func numbered(t testing.TB, n int) v1.Image {
	return imageOf(t, tarOf(t, filesOf(0)...), tarOf(t, filesOf(1+n%3)...), tarOf(t, filesOf(4+n)...))
}

func filesOf(layer int) (out []string) {
	for i := range 30 {
		out = append(out, fmt.Sprintf("f%02d=%d", i, layer))
	}
	return out
}

// wholeOf is what contents says of an image of numbered.
func wholeOf(n int) string {
	var out []string
	for i, layer := range []int{0, 1 + n%3, 4 + n} {
		for _, f := range filesOf(layer) {
			out = append(out, fmt.Sprintf("%d:%s", i, f))
		}
	}
	return strings.Join(out, " ")
}

// TestKilled kills processes that work on one store at random points. The store
// then has whole images only, a process can go on at once, and after pruning
// nothing of the killed ones is left.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	const rounds = 15
	for range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var workers []*exec.Cmd
		for range 2 {
			workers = append(workers, startWorker(ctx, t, dir))
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		cancel() // kills them
		for _, w := range workers {
			if err := w.Wait(); w.ProcessState.ExitCode() != -1 {
				t.Fatalf("a worker ended by itself: %v\n%.2000s", err, w.Stdout)
			}
		}
		images, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, img := range images {
			n := -1
			if _, err := fmt.Sscanf(img.Ref, "x%d:latest", &n); err != nil || contents(t, img) != wholeOf(n) {
				t.Fatalf("image %+v is not whole: %v", img, err)
			}
		}
		if rand.IntN(3) > 0 {
			continue // what is left meets the next workers
		}
		if _, err := s.Prune(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		onlyImages(t, s, len(images))
	}
	if _, err := s.Prune(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	nothing(t, s)
}

// onlyImages checks that a store has images, their layers, and nothing else.
func onlyImages(t *testing.T, s *Store, count int) {
	t.Helper()
	x, err := s.readIndex()
	if err != nil {
		t.Fatal(err)
	}
	layers, err1 := s.names(layersDir)
	unfinished, err2 := s.names(UnfinishedDir)
	if err := errors.Join(err1, err2); err != nil || len(x.Images) != count || len(layers) != len(x.layers()) || len(unfinished) != 0 {
		t.Errorf("%d images of %d, layers %d of %d, unfinished %v, %v", len(x.Images), count, len(layers), len(x.layers()), unfinished, err)
	}
}

// startWorker starts a process and waits until it has opened the store.
func startWorker(ctx context.Context, t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	w := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWorker$")
	w.Env = append(os.Environ(), envWorker+"="+dir)
	ready := &waiting{found: make(chan struct{})}
	w.Stdout, w.Stderr = ready, ready
	in, err := w.StdinPipe()
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	select {
	case <-ready.found:
	case <-time.After(awaittest.Hung):
		t.Fatal("a worker cannot open the store")
	}
	return w
}

// waiting keeps output and reports its first byte.
type waiting struct {
	text  bytes.Buffer
	found chan struct{}
}

func (w *waiting) Write(p []byte) (int, error) {
	if w.text.Len() == 0 {
		close(w.found)
	}
	return w.text.Write(p)
}

func (w *waiting) String() string { return w.text.String() }
