package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/attended"
	"securebench/internal/awaittest"
	"securebench/internal/digest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/verdict"
)

// tree adds a tree for agents in an image to what the hub has.
func (f *fleet) tree(content, image string) remote.Tree {
	f.Helper()
	file, err := os.Create(filepath.Join(f.TempDir(), "tree"))
	if err == nil {
		_, err = io.WriteString(file, content)
	}
	if err != nil {
		f.Fatal(err)
	}
	t := remote.Tree{Key: "tree", Title: "a tree", Images: []string{image}, Digest: digest.Bytes([]byte(content)), Size: int64(len(content))}
	if f.o.Trees == nil {
		f.o.Trees = map[string]*os.File{}
	}
	f.o.Trees[t.Digest] = file
	return t
}

// reading is a site whose agents read trees.
func reading(cache string, trees ...remote.Tree) (site, func(*worker.Options), chan string) {
	var set worker.Setting
	got := make(chan string, 16)
	read := func(ctx context.Context, req agent.Request, tree remote.Tree) error {
		in, err := set.Tree(ctx, keyOf(req.View.ID()), tree)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(in)
		got <- string(b)
		return errors.Join(err, in.Close())
	}
	s := site{produce: func(ctx context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		for _, t := range trees {
			if err := read(ctx, req, t); err != nil {
				return attempt.Produced{}, attempt.Failed(err, verdict.PhasePrepare)
			}
		}
		return s.answer(req)
	}}
	return s, func(o *worker.Options) {
		open := o.Open
		o.Cache, o.Open = cache, func(ctx context.Context, with worker.Setting) (worker.Site, error) {
			set = with
			return open(ctx, with)
		}
	}, got
}

// TestTree: a worker fetches a tree once, with the ticket of its job, and keeps it: the
// next worker there needs no hub for it. What is damaged meanwhile is fetched again.
func TestTree(t *testing.T) {
	t.Parallel()
	f, cache := newFleet(t), t.TempDir()
	text := strings.Repeat(rand.Text(), 1<<14)
	tree := f.tree(text, "sha256:1")
	p := f.o.Orders[remote.Produce]
	p.Trees = []remote.Tree{tree}
	f.o.Orders[remote.Produce] = p
	h := f.open()
	sent := func() int64 { h.mu.Lock(); defer h.mu.Unlock(); return h.tally.out }
	f.start(f.invite("v", remote.Verify), site{})
	for i, name := range []string{"first", "second", "third"} {
		s, set, got := reading(cache, tree)
		w := f.start(f.invite(name, remote.Produce), s, set)
		was := sent()
		_, err := f.attempt(t.Context(), h, name)
		if name == "third" { // its copy is damaged
			if err == nil || !strings.Contains(err.Error(), "damaged") || attempt.ClassOf(err) != attempt.Infrastructure {
				t.Errorf("%v", err)
			}
			<-got
			_, err = f.attempt(t.Context(), h, name)
		}
		if content := <-got; err != nil || content != text {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
		if fetched := sent()-was >= tree.Size; fetched != (i != 1) {
			t.Errorf("%s: the hub has sent %d bytes", name, sent()-was)
		}
		w.stop()
		_ = w.ended(t)
		if name == "second" {
			f.damage(filepath.Join(cache, "trees"))
		}
	}
}

// damage changes the only file in a folder, but not its size.
func (f *fleet) damage(dir string) {
	f.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		f.Fatalf("%v, %v", entries, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, entries[0].Name()), os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteAt([]byte("?"), 1000)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
}

// TestTreeOverBadWire: a tree arrives whole although its connections are lost.
func TestTreeOverBadWire(t *testing.T) {
	t.Parallel()
	f, bad := newFleet(t), &wire{every: 40}
	text := strings.Repeat(rand.Text(), 1<<15)
	tree := f.tree(text, "sha256:1")
	p := f.o.Orders[remote.Produce]
	p.Trees = []remote.Tree{tree}
	f.o.Orders[remote.Produce] = p
	h := f.open()
	f.start(f.invite("v", remote.Verify), site{})
	s, set, got := reading(t.TempDir(), tree)
	f.start(f.invite("p", remote.Produce), s, set, over(bad))
	if _, err := f.attempt(t.Context(), h, "task"); err != nil {
		t.Fatal(err)
	}
	if content := <-got; content != text {
		t.Errorf("%d bytes", len(content))
	}
	bad.mu.Lock()
	defer bad.mu.Unlock()
	if len(bad.conns) < 4 {
		t.Errorf("%d connections: none was lost", len(bad.conns))
	}
}

// TestWrongTree: content with another digest than the order's, or of another size, is an
// error of that attempt, and nothing of it is kept.
func TestWrongTree(t *testing.T) {
	t.Parallel()
	f, cache := newFleet(t), t.TempDir()
	good, bad, long := f.tree("a good tree", "sha256:1"), f.tree("a tree that was changed", "sha256:1"), f.tree("a tree that grew", "sha256:1")
	if err := os.WriteFile(f.o.Trees[bad.Digest].Name(), []byte("a tree that was damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	long.Size--
	p := f.o.Orders[remote.Produce]
	p.Trees = []remote.Tree{good, bad, long}
	f.o.Orders[remote.Produce] = p
	h := f.open()
	for name, tree := range map[string]remote.Tree{"changed": bad, "longer": long, "no digest": {Digest: "sha256:../../x", Size: 3}, "not of the job": {Digest: digest.Bytes(nil), Size: 3}} {
		s, set, _ := reading(cache, tree)
		w := f.start(f.invite(strings.ReplaceAll(name, " ", "-"), remote.Produce), s, set)
		ctx, stop := attended.WithTimeout(t.Context(), awaittest.Hung)
		_, err := f.attempt(ctx, h, name)
		hung := ctx.Err() != nil
		stop()
		if err == nil || attempt.ClassOf(err) != attempt.Infrastructure || hung {
			t.Errorf("%s: %v", name, err)
		}
		w.stop()
		_ = w.ended(t)
		if left, _ := os.ReadDir(filepath.Join(cache, "trees")); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
	s, set, got := reading(cache, good)
	f.start(f.invite("good", remote.Produce), s, set)
	f.start(f.invite("v", remote.Verify), site{})
	if _, err := f.attempt(t.Context(), h, "good"); err != nil || <-got != "a good tree" {
		t.Errorf("the honest twin: %v", err)
	}
}
