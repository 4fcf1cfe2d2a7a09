package capture

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"securebench/internal/task"
)

func newStore(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}

func TestStoreRoundTrip(t *testing.T) {
	s, dir := newStore(t)
	c := New(task.Text, "stdout", []byte("an answer\n"))
	var wg sync.WaitGroup
	for range 8 { // equal candidates are stored once, also at the same time
		wg.Go(func() {
			if err := s.Put(c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Get(c.Digest)
	if err != nil || string(got) != "an answer\n" {
		t.Fatalf("Get = %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("store holds %v (%v), want one file", entries, err)
	}
}

func TestStoreDetectsDamage(t *testing.T) {
	s, dir := newStore(t)
	c := New(task.Code, "file", []byte("x = 1\n"))
	if err := s.Put(c); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, c.Digest[len("sha256:"):])
	if err := os.WriteFile(file, []byte("x = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(c.Digest); !errors.Is(err, ErrDamaged) {
		t.Fatalf("Get of changed bytes = %v, want ErrDamaged", err)
	}
	if err := s.Put(c); err != nil { // a good copy replaces a damaged one
		t.Fatal(err)
	}
	if _, err := s.Get(c.Digest); err != nil {
		t.Fatal(err)
	}
}

func TestStoreRefusesOtherNames(t *testing.T) {
	s, _ := newStore(t)
	for _, sum := range []string{"", "sha256:", "sha256:../../etc/passwd", "md5:00", "sha256:" + string(make([]byte, 64))} {
		if _, err := s.Get(sum); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get(%q) = %v, want a refusal of the name", sum, err)
		}
	}
}
