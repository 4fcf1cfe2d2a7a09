package commit

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/durable"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestAppendWaits: a record is written after what it refers to, and not at all if that
// does not come to the disk.
func TestAppendWaits(t *testing.T) {
	dir, err := record.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := dir.Begin(false); err != nil {
		t.Fatal(err)
	}
	store, err := candidate.OpenStore(dir.StorePath())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, flusher := &Committer{Dir: dir, Store: store}, durable.Flusher{}
	lines := func() int {
		text, err := os.ReadFile(dir.LinesPath())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	line := &record.Line{TaskID: "t", Attempt: 1, Status: verdict.StatusPending}
	slow, written := make(chan struct{}), make(chan error)
	entry := Entry{line, &Draft{flushes: []*durable.Flush{nil, flusher.Go(func() error { <-slow; return nil })}}}
	go func() { written <- c.Append(Entry{Line: line}, entry) }()
	select {
	case err := <-written:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if n := lines(); n > 0 {
		t.Errorf("%d lines before what they refer to", n)
	}
	close(slow)
	if err := <-written; err != nil || lines() != 2 {
		t.Fatalf("%d lines, %v", lines(), err)
	}
	entry.Draft = &Draft{flushes: []*durable.Flush{flusher.Go(func() error { return fs.ErrInvalid })}}
	for range 2 { // the error is not forgotten
		if err := c.Append(Entry{Line: line}, entry); !errors.Is(err, ErrOutput) || !errors.Is(err, fs.ErrInvalid) || lines() != 2 {
			t.Errorf("%d lines, %v", lines(), err)
		}
	}
	put, err := c.Put(task.Text, candidate.Stdout, strings.NewReader("answer"))
	if err != nil || put.Flush().Wait() != nil {
		t.Errorf("a candidate: %v", err)
	}
	if again, err := c.Put(task.Text, candidate.Stdout, strings.NewReader("answer")); err != nil || again.Digest != put.Digest || again.Flush().Wait() != nil {
		t.Errorf("the same once more: %v", err)
	}
}
