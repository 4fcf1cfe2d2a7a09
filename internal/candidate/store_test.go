package candidate_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/task"
)

func newStore(t *testing.T) (*candidate.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := candidate.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}

func TestStoreRoundTrip(t *testing.T) {
	s, dir := newStore(t)
	c := candidate.New(task.Text, candidate.Stdout, []byte("an answer\n"))
	var wg sync.WaitGroup
	for range 8 { // equal candidates are stored once, also at the same time
		wg.Go(func() {
			if _, err := s.Put(c.Kind, c.Origin, strings.NewReader("an answer\n")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	found, err := s.Find(candidate.Candidate{Kind: c.Kind, Digest: c.Digest, Origin: c.Origin})
	if err != nil || found.Size != c.Size || !found.Said() {
		t.Fatalf("found %+v, %v", found, err)
	}
	if got, err := found.Bytes(); err != nil || string(got) != "an answer\n" {
		t.Fatalf("read %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("store holds %v (%v), want one file", entries, err)
	}
}

func TestStoreDetectsDamage(t *testing.T) {
	s, dir := newStore(t)
	put := func() candidate.Candidate {
		c, err := s.Put(task.Code, candidate.File, strings.NewReader("x = 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := put()
	file := filepath.Join(dir, c.Digest[len("sha256:"):])
	if err := os.WriteFile(file, []byte("x = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Bytes(); !errors.Is(err, candidate.ErrDamaged) {
		t.Fatalf("reading changed bytes: %v, want ErrDamaged", err)
	}
	if err := s.Check(c.Digest); !errors.Is(err, candidate.ErrDamaged) {
		t.Fatalf("checking changed bytes: %v, want ErrDamaged", err)
	}
	put() // a good copy replaces a damaged one
	if _, err := c.Bytes(); err != nil {
		t.Fatal(err)
	}
}

func TestStoreRefusesOtherNames(t *testing.T) {
	s, _ := newStore(t)
	for _, sum := range []string{"", "sha256:", "sha256:../../etc/passwd", "md5:00", "sha256:" + string(make([]byte, 64))} {
		if _, err := s.Find(candidate.Candidate{Digest: sum}); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("finding %q: %v, want a refusal of the name", sum, err)
		}
	}
}
