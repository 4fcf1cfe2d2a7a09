package holder

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a directory and returns a client for it.
func start(t testing.TB, root string) *Client {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(root, far, far) }()
	c := NewClient(near)
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c
}

// names lists an archive.
func names(t testing.TB, r io.Reader) []string {
	t.Helper()
	var out []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%c %s %s%s", h.Typeflag, h.Name, h.Linkname, h.PAXRecords[RecordType]))
	}
}

func list(t testing.TB, c *Client, path string) []string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Get(t.Context(), path, 1<<20, &b); err != nil {
		t.Fatalf("Get(%q): %v", path, err)
	}
	return names(t, &b)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSpecialFiles(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "sub/file"), "x")
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(root, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink("/etc", filepath.Join(root, "outside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(root, "inside")); err != nil {
		t.Fatal(err)
	}
	c := start(t, root)
	want := []string{"6 fifo ", "2 inside sub", "2 outside /etc", "6 sock socket", "5 sub/ ", "0 sub/file "}
	if d := cmp.Diff(want, list(t, c, ".")); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
	for _, path := range []string{"inside/file", "outside/passwd", "sub/file/x", "nothing"} {
		if got := list(t, c, path); got != nil {
			t.Errorf("Get(%q) = %q", path, got)
		}
	}
	if d := cmp.Diff([]string{"2 outside /etc"}, list(t, c, "outside")); d != "" {
		t.Error(d)
	}
}

func TestPutThroughLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "victim"), "untouched")
	for link, target := range map[string]string{"dir": outside, "file": filepath.Join(outside, "victim"), "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, root)
	archive := tarOf(t, map[string]string{"dir/victim": "new", "file": "new", "dangling/x": "new"})
	if err := c.Put(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(outside, "victim")); err != nil || string(b) != "untouched" {
		t.Errorf("outside the tree: %q, %v", b, err)
	}
	if fi, err := os.Lstat(filepath.Join(root, "file")); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the link was not replaced: %v, %v", fi, err)
	}
}

func tarOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRoundTrip puts what get gave into an empty tree and gets it again.
func TestRoundTrip(t *testing.T) {
	word := rapid.StringMatching(`[a-z\n \xff]{1,3}`)
	rapid.Check(t, func(rt *rapid.T) {
		files := make(map[string]string)
		for range rapid.IntRange(0, 8).Draw(rt, "files") {
			// Directories and files have different names, so that none
			// is in the way of another.
			path := "f" + word.Draw(rt, "name")
			for range rapid.IntRange(0, 3).Draw(rt, "depth") {
				path = "d" + word.Draw(rt, "dir") + "/" + path
			}
			files[path] = strings.Repeat("x", rapid.IntRange(0, 200_000).Draw(rt, "size"))
		}
		var first, second bytes.Buffer
		one, two := start(t, t.TempDir()), start(t, t.TempDir())
		if err := one.Put(t.Context(), bytes.NewReader(tarOf(t, files))); err != nil {
			rt.Fatal(err)
		}
		if err := one.Get(t.Context(), ".", 8<<20, &first); err != nil {
			rt.Fatal(err)
		}
		if err := two.Put(t.Context(), bytes.NewReader(first.Bytes())); err != nil {
			rt.Fatal(err)
		}
		if err := two.Get(t.Context(), ".", 8<<20, &second); err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			rt.Fatalf("%q became %q", names(t, &first), names(t, &second))
		}
		got := 0
		for _, n := range names(t, bytes.NewReader(first.Bytes())) {
			if n[0] == '0' {
				got++
			}
		}
		if got != len(files) {
			rt.Fatalf("%d files became %d", len(files), got)
		}
	})
}

func TestTooDeep(t *testing.T) {
	root := t.TempDir()
	dir, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	for range MaxDepth + 1 {
		if err := dir.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		sub, err := dir.OpenRoot("d")
		_ = dir.Close()
		if err != nil {
			t.Fatal(err)
		}
		dir = sub
	}
	_ = dir.Close()
	c := start(t, root)
	if err := c.Get(t.Context(), ".", 1<<20, io.Discard); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("Get: got %v, want ErrTooLarge", err)
	}
}

func TestManyFiles(t *testing.T) {
	root := t.TempDir()
	for i := range 3000 {
		write(t, filepath.Join(root, fmt.Sprint(i)), "")
	}
	c := start(t, root)
	var b bytes.Buffer
	if err := c.Get(t.Context(), ".", 1<<20, &b); !errors.Is(err, sandbox.ErrTooLarge) || b.Len() > 0 {
		t.Errorf("Get: got %v after %d bytes, want ErrTooLarge before the first", err, b.Len())
	}
	if got := list(t, c, "17"); len(got) != 1 {
		t.Errorf("afterwards got %q", got)
	}
}

func TestLimitIsExact(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "f"), strings.Repeat("x", 1000))
	c := start(t, root)
	const size = 512 + 1024 + 1024 // header, content, end
	for limit, fits := range map[int64]bool{size: true, size - 1: false, 512: false, 0: false, -1: false} {
		var b bytes.Buffer
		err := c.Get(t.Context(), ".", limit, &b)
		if fits != (err == nil) || !fits && !errors.Is(err, sandbox.ErrTooLarge) || int64(b.Len()) > max(limit, 0) {
			t.Errorf("limit %d: got %v and %d bytes", limit, err, b.Len())
		}
	}
}

// TestCancel ends a request that the server never answers.
func TestCancel(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	c := NewClient(near)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := c.Usage(ctx); !errors.Is(err, cause) {
		t.Errorf("Usage: got %v, want the cause", err)
	}
	// The stream is closed.
	if _, err := c.Usage(t.Context()); !errors.Is(err, cause) {
		t.Errorf("Usage afterwards: got %v", err)
	}
}

func TestConcurrentRequests(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "f"), strings.Repeat("x", 300_000))
	c := start(t, root)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.Usage(t.Context()); err != nil {
				t.Error(err)
			}
			if err := c.Get(t.Context(), ".", 1<<20, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// hostile returns a client of a server that answers as h does.
func hostile(t testing.TB, h http.HandlerFunc) *Client {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- wire.Serve(far, far, h, 4, 4) }()
	c := NewClient(near)
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c
}

// says answers with data and a result.
func says(data, result string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", trailer)
		_, _ = io.WriteString(w, data)
		w.Header().Set(trailer, url.PathEscape(result))
	}
}

func TestClientRefuses(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"nothing":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no result":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") },
		"cut":            func(w http.ResponseWriter, _ *http.Request) { says("x", "{}")(w, nil); panic(http.ErrAbortHandler) },
		"a refusal":      func(w http.ResponseWriter, _ *http.Request) { wire.Answer(w, errors.New("no")) },
		"another status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"no JSON":        says("", "ok"),
		"unknown member": says("", `{"verdict":"passed"}`),
		"repeated":       says("", `{"code":"","code":"x"}`),
		"two values":     says("", `{}{}`),
		"escaped badly":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(http.TrailerPrefix+trailer, "%zz") },
		"a long result":  says("", `{"code":"error","message":"`+strings.Repeat("x", 2*wire.MaxReply)+`"}`),
		"too much":       says(strings.Repeat("x", 65), "{}"),
		"unknown code":   says("", `{"code":"fine"}`),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			c := hostile(t, h)
			if err := c.Get(t.Context(), ".", 64, &b); err == nil || errors.Is(err, sandbox.ErrTree) || b.Len() > 64 {
				t.Errorf("got %v and %d bytes", err, b.Len())
			}
			if _, err := c.Usage(t.Context()); err == nil || !strings.Contains(err.Error(), "the workspace's stream broke") {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	c := hostile(t, says("x", `{"code":"too_large"}`))
	if err := c.Get(t.Context(), ".", 64, io.Discard); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("an honest answer: %v", err)
	}
}

// TestBrokenEnds: an error of the caller's reader or writer ends its request only.
func TestBrokenEnds(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "f"), strings.Repeat("x", 1<<19))
	c, broken := start(t, root), errors.New("broken")
	archive := tarOf(t, map[string]string{"a": strings.Repeat("x", 1<<20)})
	if err := c.Put(t.Context(), io.MultiReader(bytes.NewReader(archive[:1<<19]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("Put: %v", err)
	}
	if err := c.Get(t.Context(), ".", 1<<22, failing{broken}); !errors.Is(err, broken) {
		t.Errorf("Get: %v", err)
	}
	if got := list(t, c, "f"); !slices.Equal(got, []string{"0 f "}) {
		t.Errorf("afterwards: %q", got)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzClient(f *testing.F) {
	f.Add("archive", `{}`)
	f.Add("", `{"code":"too_large"}`)
	f.Add("", `{"usage":{"bytes":1,"bytes_limit":2,"inodes":3,"inodes_limit":4}}`)
	f.Fuzz(func(t *testing.T, data, result string) {
		var b bytes.Buffer
		err := hostile(t, says(data, result)).Get(t.Context(), ".", 100, &b)
		if b.Len() > 100 || err == nil && (b.String() != data || !strings.Contains(result, "{")) {
			t.Errorf("got %d bytes and %v", b.Len(), err)
		}
	})
}

// FuzzServe checks that no request leaves the tree and that every one gets an answer.
func FuzzServe(f *testing.F) {
	archive := tarOf(f, map[string]string{"a/b": "x"})
	f.Add(http.MethodPut, "tree", archive)
	f.Add(http.MethodPost, "removals", []byte("a/../../x\x00"))
	f.Add(http.MethodPost, "archive", []byte(`{"path":"../x","limit":100}`))
	f.Add(http.MethodPost, "archive", []byte(`{"path":".","limit":9999}`))
	f.Add(http.MethodGet, "usage", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		if !slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodPost}, method) {
			t.Skip()
		}
		around := t.TempDir()
		root := filepath.Join(around, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- Serve(root, far, far) }()
		conn, err := wire.Dial(near)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(); <-done }()
		path = "/" + url.PathEscape(path)
		_, err = conn.Ask(t.Context(), method, path, bytes.NewReader(body), 1<<20)
		var refused *wire.Refusal
		if err != nil && !errors.As(err, &refused) && !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("a request got no answer: %v", err)
		}
		entries, err := os.ReadDir(around)
		if err != nil || len(entries) != 1 {
			t.Fatalf("beside the tree: %v, %v", entries, err)
		}
		open(t, root)
	})
}

// open makes a tree removable.
func open(t testing.TB, root string) {
	t.Helper()
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return nil
	})
}

func TestEntryName(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "a/b/": "a/b", "./a": "a", "a//b": "a/b", ".": ".", "./": ".", "a/./b": "a/b", "..a": "..a"} {
		if got, err := entryName(in); err != nil || got != want {
			t.Errorf("entryName(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "/", "/a", "..", "a/..", "../a", "a/../../b", "a\x00b"} {
		if got, err := entryName(in); err == nil {
			t.Errorf("entryName(%q) = %q", in, got)
		}
	}
}

// TestChmodByName does what kernels before 6.6 make of chmod where there is no /proc.
func TestChmodByName(t *testing.T) {
	top, outside := t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(top)
	err = errors.Join(err, root.MkdirAll("a/closed", 0o755), root.Mkdir("open", 0o755), root.Symlink(outside, "link"),
		root.Symlink("open", "near"), root.WriteFile("file", nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, ok := range map[string]bool{"a/closed": true, "open": true, ".": true, "a": true,
		"file": true, "link": false, "near": false, "none": false, "link/x": false, "..": false} {
		if err := chmodByName(root, name, 0o700); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := root.Stat(name); ok && (err != nil || info.Mode().Perm() != 0o700) {
			t.Errorf("%s has %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() == 0o700 {
		t.Errorf("a link led to %v, %v", info, err)
	}
}
