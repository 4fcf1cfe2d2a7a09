package readbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"securebench/internal/artifact"
	"securebench/internal/awaittest"
	"securebench/internal/family"
	"securebench/internal/family/readbox"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// open starts a box that may read for a time.
func open(tb testing.TB, e sandbox.Engine, limit time.Duration) *readbox.Box {
	tb.Helper()
	b, err := readbox.Open(tb.Context(), e, sandbox.Labels{Run: enginetest.Run("readbox")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	b.Time = limit
	return b
}

func read(tb testing.TB, b *readbox.Box, t artifact.Type, text string) (*artifact.File, error) {
	tb.Helper()
	return b.Read(tb.Context(), t, int64(len(text)), strings.NewReader(text))
}

// TestRead: files are read one after the other, on each engine, in a sandbox that has no
// image. One that is not of its type does not end it.
func TestRead(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		b := open(t, e, awaittest.Hung)
		for range 2 {
			f, err := read(t, b, artifact.CSV, "a,b\n1,2\n")
			if err != nil || len(f.Table.Rows) != 2 || f.Table.Rows[1][1] != "2" {
				t.Fatalf("%+v, %v", f, err)
			}
			_, err = read(t, b, artifact.CSV, "a,\"b\n")
			if u, ok := errors.AsType[*readbox.Unreadable](err); !ok || u.Why == "" {
				t.Fatalf("an open quote: %v", err)
			}
		}
		long := strings.Repeat("0123456789abcdef", 1<<18) // several frames each way
		if f, err := read(t, b, artifact.Text, long); err != nil || *f.Text != long {
			t.Fatalf("4 MiB: %v", err)
		}
		if f, err := read(t, b, artifact.Text, ""); err == nil && f.Bytes != 0 {
			t.Errorf("nothing: %+v", f)
		}
	})
}

// TestBeaten: a parser that a file has got the better of ends with its sandbox, on each
// engine, and the next file is read in the next one.
func TestBeaten(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		for kind, want := range map[artifact.Type]verdict.Reason{
			"hang":  verdict.VerificationTimeout,
			"spin":  verdict.VerificationTimeout,
			"bomb":  verdict.OutOfMemory,
			"panic": verdict.ArtifactUnreadable,
			"lie":   verdict.ArtifactUnreadable,
		} {
			limit := awaittest.Hung
			if want == verdict.VerificationTimeout {
				limit = 3 * time.Second // it never answers
			}
			b := open(t, e, limit)
			f, err := read(t, b, kind, "x")
			var failed *family.Failure
			if !errors.As(readbox.Failure(err, "a"), &failed) || failed.Reason != want {
				t.Errorf("%s: %+v, %v; want %s", kind, f, err, want)
			}
			if f, err := read(t, open(t, e, awaittest.Hung), artifact.CSV, "a\n1\n"); err != nil || len(f.Table.Rows) != 2 {
				t.Errorf("after %s: %+v, %v", kind, f, err)
			}
		}
	})
}

// TestContentFails: content that cannot be read is no fault of the file.
func TestContentFails(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e enginetest.Engine) {
		b := open(t, e, awaittest.Hung)
		_, err := b.Read(t.Context(), artifact.Text, 10, strings.NewReader("short"))
		var failed *family.Failure
		if err == nil || errors.As(readbox.Failure(err, "a"), &failed) {
			t.Errorf("content that ends early: %v", err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	e := enginetest.Open(b)
	var text strings.Builder
	for text.Len() < 1<<20 {
		text.WriteString("12345,some words,6.75,2024-01-01\n")
	}
	for b.Loop() {
		box, err := readbox.Open(b.Context(), e, sandbox.Labels{Run: enginetest.Run("readbox")})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := box.Read(b.Context(), artifact.CSV, int64(text.Len()), strings.NewReader(text.String())); err != nil {
			b.Fatal(err)
		}
		if err := box.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	e := enginetest.Open(b)
	for b.Loop() {
		box, err := readbox.Open(b.Context(), e, sandbox.Labels{Run: enginetest.Run("readbox")})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := box.Read(b.Context(), artifact.Text, 1, strings.NewReader("a")); err != nil {
			b.Fatal(err)
		}
		if err := box.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWarm(b *testing.B) {
	e := enginetest.Open(b)
	var text strings.Builder
	for text.Len() < 1<<20 {
		text.WriteString("12345,some words,6.75,2024-01-01\n")
	}
	box, err := readbox.Open(b.Context(), e, sandbox.Labels{Run: enginetest.Run("readbox")})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = box.Close(b.Context()) }()
	for b.Loop() {
		if _, err := box.Read(b.Context(), artifact.CSV, int64(text.Len()), strings.NewReader(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}
