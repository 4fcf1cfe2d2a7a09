package progress_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/progress"
)

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); n != len(text) || err != nil {
		t.Errorf("wrote %d of %d bytes, %v", n, len(text), err)
	}
}

func TestTrace(t *testing.T) {
	var b bytes.Buffer
	tr := progress.NewTrace(&b, 0)
	out, errs := tr.Writer("a/1", "stdout"), tr.Writer("evil\nid | x", "stderr")
	write(t, out, "first\r\nsec")
	write(t, errs, "\x1b[2Jb/2 | forged\n\n")
	write(t, out, "ond\rsecurebench: PASS\n\xffrest")
	for _, w := range []io.Closer{out, errs} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := `a/1 | first
"evil\nid | x" | stderr: \x1b[2Jb/2 | forged
"evil\nid | x" | stderr: ` + `
a/1 | second\x0dsecurebench: PASS
a/1 | \xffrest
`
	if d := cmp.Diff(want, b.String()); d != "" || tr.Err() != nil {
		t.Errorf("%v, -want +got:\n%s", tr.Err(), d)
	}
}

func TestTraceIsBoundedByTask(t *testing.T) {
	var b bytes.Buffer
	tr := progress.NewTrace(&b, 100)
	noisy := tr.Writer("noisy", "stdout")
	for range 1000 {
		write(t, noisy, strings.Repeat("x", 30)+"\n")
	}
	again := tr.Writer("noisy", "stderr") // another attempt has no new budget
	write(t, again, "more\n")
	write(t, tr.Writer("quiet", "stdout"), "still here\n")
	line := "noisy | " + strings.Repeat("x", 30) + "\n"
	want := line + line + "noisy | [cut: the trace of a task has at most 100 bytes]\nquiet | still here\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestTraceError(t *testing.T) {
	full := errors.New("disk full")
	tr := progress.NewTrace(writerFunc(func([]byte) (int, error) { return 0, full }), 0)
	write(t, tr.Writer("t", "stdout"), "a\nb\n")
	if !errors.Is(tr.Err(), full) {
		t.Errorf("error %v", tr.Err())
	}
}

func TestTraceConcurrent(t *testing.T) {
	var b bytes.Buffer
	tr := progress.NewTrace(&b, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			w := tr.Writer("t", "stdout")
			for range 100 {
				write(t, w, "line\n")
			}
		})
	}
	wg.Wait()
	if got := strings.Count(b.String(), "t | line\n"); got != 400 {
		t.Errorf("%d whole lines, want 400", got)
	}
}

func collect(limit int, pieces ...string) []string {
	var got []string
	l := progress.NewLines(limit, func(s string) { got = append(got, s) })
	for _, p := range pieces {
		_, _ = io.WriteString(l, p)
	}
	_ = l.Close()
	return got
}

func TestLines(t *testing.T) {
	tests := []struct {
		limit  int
		pieces []string
		want   []string
	}{
		{10, []string{"a\nb\r\n\nc"}, []string{"a", "b", "", "c"}},
		{10, []string{"a", "b", "\n", ""}, []string{"ab"}},
		{4, []string{"abcdefghij\n"}, []string{"abcd", "efgh", "ij"}},
		{4, []string{"abcd\nefgh", "\n"}, []string{"abcd", "efgh"}},
		{4, []string{"abcd", "e"}, []string{"abcd", "e"}},
		{0, []string{"ab\n"}, []string{"a", "b"}},
		{10, nil, nil},
	}
	for _, tc := range tests {
		if d := cmp.Diff(tc.want, collect(tc.limit, tc.pieces...)); d != "" {
			t.Errorf("%q with limit %d, -want +got:\n%s", tc.pieces, tc.limit, d)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\r\nccccccccc\n", 4, 3)
	f.Fuzz(func(t *testing.T, text string, limit, cut int) {
		limit = min(max(limit, 1), 1000)
		cut = min(max(cut, 0), len(text))
		whole := collect(limit, text)
		if d := cmp.Diff(whole, collect(limit, text[:cut], text[cut:])); d != "" {
			t.Errorf("the cut at %d shows:\n%s", cut, d)
		}
		total := 0
		for _, l := range whole {
			total += len(l)
			if len(l) > limit || strings.Contains(l, "\n") {
				t.Errorf("line %q with limit %d", l, limit)
			}
		}
		if ends := strings.Count(text, "\n") + strings.Count(text, "\r"); total > len(text) || total < len(text)-ends {
			t.Errorf("%d bytes became %d", len(text), total)
		}
	})
}
