package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/digest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// shop has files of a pack, and counts what is asked of it.
type shop struct {
	mu    sync.Mutex
	has   map[string]string // content by digest
	asked []string
	wait  chan struct{} // nil does not wait
}

func (s *shop) add(files map[string]remote.File, name, content string) {
	sum := digest.Bytes([]byte(content))
	files[name], s.has[sum] = remote.File{Digest: sum, Size: int64(len(content)), Executable: strings.HasSuffix(name, ".sh")}, content
}

func (s *shop) get(_ context.Context, r remote.Role, sum string) (io.ReadCloser, error) {
	s.mu.Lock()
	content, ok := s.has[sum]
	s.asked = append(s.asked, string(r)+" "+content)
	s.mu.Unlock()
	if s.wait != nil {
		<-s.wait
	}
	if !ok {
		return nil, errNo{"the ticket has no such content"}
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

// open makes the assets of a worker with roles.
func (s *shop) open(t *testing.T, dir string, orders map[remote.Role]remote.Order, most int64) *assets {
	t.Helper()
	a, err := openAssets(dir, orders, &assets{most: most, get: s.get})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.close() })
	return a
}

// TestAssets: a worker has the files that its calls have needed, each fetched once and
// whole, and none of another role.
func TestAssets(t *testing.T) {
	t.Parallel()
	s := &shop{has: map[string]string{}}
	o := remote.Order{Public: map[string]remote.File{}, Eval: map[string]remote.File{}}
	s.add(o.Public, "data/a.txt", "public a")
	s.add(o.Public, "data/b.sh", "public b")
	s.add(o.Eval, "tests/x.py", "tests")
	produce := remote.Order{Public: o.Public}
	dir := t.TempDir()
	both := s.open(t, dir, map[remote.Role]remote.Order{remote.Produce: produce, remote.Verify: o}, 1<<20)
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) != 0 || len(s.asked) != 0 {
		t.Errorf("before any call: %v, %v, %v", left, s.asked, err)
	}
	s.wait = make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := both.bring([]string{"data/b.sh"}, []string{"tests/x.py"}); err != nil {
				t.Error(err)
			}
		})
	}
	close(s.wait)
	all.Wait()
	if len(s.asked) != 2 {
		t.Errorf("asked for %q", s.asked)
	}
	for name, want := range map[string]string{"public/data/b.sh": "public b", "eval/tests/x.py": "tests"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "public/data/b.sh")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "public/data/a.txt")); err == nil {
		t.Error("a file is here that no call has needed")
	}
	agents := s.open(t, t.TempDir(), map[remote.Role]remote.Order{remote.Produce: produce}, 1<<20)
	if err := agents.bring(nil, []string{"tests/x.py"}); err == nil || len(s.asked) != 2 {
		t.Errorf("a worker for agents brings evaluation files: %v, %q", err, s.asked)
	}
	if err := agents.bring([]string{"data/a.txt"}, nil); err != nil || s.asked[2] != "produce public a" {
		t.Errorf("%v, %q", err, s.asked)
	}
}

// TestAssetsChanged: a file that is not what the run has loaded is the pack's fault, one
// that the hub refuses or whose way ends is not; nothing of either is left.
func TestAssetsChanged(t *testing.T) {
	t.Parallel()
	s := &shop{has: map[string]string{}}
	o := remote.Order{Public: map[string]remote.File{}}
	s.add(o.Public, "good", "good")
	s.add(o.Public, "changed", "was")
	s.has[o.Public["changed"].Digest] = "is"
	o.Public["gone"] = remote.File{Digest: "sha256:0", Size: 1}
	dir := t.TempDir()
	a := s.open(t, dir, map[remote.Role]remote.Order{remote.Produce: o}, 1<<20)
	if err := a.bring([]string{"good"}, nil); err != nil {
		t.Error(err)
	}
	if err := a.bring([]string{"changed"}, nil); !errors.Is(err, workspace.ErrChanged) || attempt.Failed(err, verdict.PhasePrepare).Class != attempt.PackFault {
		t.Errorf("changed: %v", err)
	}
	if err := a.bring([]string{"gone"}, nil); err == nil || attempt.Failed(err, verdict.PhasePrepare).Class != attempt.Infrastructure {
		t.Errorf("gone: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, publicDir)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestAssetsBounded: what was not needed for the longest time goes when there is too much,
// and comes again; what was needed a moment ago stays.
func TestAssetsBounded(t *testing.T) {
	t.Parallel()
	s := &shop{has: map[string]string{}}
	o := remote.Order{Public: map[string]remote.File{}}
	names := []string{}
	for i := range 6 {
		name := fmt.Sprint("file", i)
		names = append(names, name)
		s.add(o.Public, name, string(bytes.Repeat([]byte{byte('a' + i)}, 100)))
	}
	dir := t.TempDir()
	a := s.open(t, dir, map[remote.Role]remote.Order{remote.Verify: o}, 250)
	if err := a.bring(names[:4], nil); err != nil || a.size != 400 {
		t.Fatalf("%d bytes, %v: what a call needs has gone", a.size, err)
	}
	for i, name := range names[:4] {
		a.public.here[name] = time.Now().Add(-time.Hour + time.Duration(i)*time.Minute)
	}
	if err := a.bring(names[:1], nil); err != nil { // it is needed again
		t.Fatal(err)
	}
	if err := a.bring(names[4:5], nil); err != nil || a.size != 200 {
		t.Fatalf("%d bytes, %v", a.size, err)
	}
	for i, name := range names {
		if _, err := os.Stat(filepath.Join(dir, publicDir, name)); (err == nil) != (i == 0 || i == 4) {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked := len(s.asked)
	if err := a.bring(names[1:2], nil); err != nil || len(s.asked) != asked+1 {
		t.Errorf("%v", err)
	}
}
