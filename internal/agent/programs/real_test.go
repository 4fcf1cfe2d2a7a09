package programs

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"securebench/internal/agent/agenttest"
	"securebench/internal/fault"
)

// TestRealRegistry asks the registry that this machine's npm client uses. It
// reads metadata alone; where the agents' programs are required, it also fetches
// those, several hundred megabytes, into the cache that other tests use, and a
// registry that does not answer is a failure.
func TestRealRegistry(t *testing.T) {
	if agenttest.Current() == agenttest.Never {
		t.Skip("SKIPPED: SECUREBENCH_TEST_AGENTS=never: no registry is asked")
	}
	required, dir := agenttest.Current() == agenttest.Require, ""
	if !required {
		dir = t.TempDir()
	}
	c, err := OpenCache(dir, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for _, p := range []Program{Codex, ClaudeCode} {
		for _, on := range []Platform{amd64(), {OS: "linux", Arch: "arm64"}} {
			f := &fetcher{Cache: c, of: of(p), program: p, on: on, progress: func(string) {}}
			if err := f.open(); err != nil {
				t.Fatal(err)
			}
			defer f.client.Close()
			version, err := f.tagged(ctx, "latest")
			if fault.KindOf(err) == fault.Infrastructure && !required {
				t.Skipf("NOT TESTED: no registry answers: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := f.find(ctx, version)
			if err != nil || !strings.HasPrefix(b.integrity, "sha512-") {
				t.Errorf("%s %s: %+v, %v", p, version, b, err)
			}
			if _, err := f.find(ctx, "0.0.99999"); fault.KindOf(err) != fault.Config {
				t.Errorf("a version that does not exist: %v", err)
			}
		}
		if required {
			checkReal(ctx, t, c, p)
		}
	}
}

// checkReal fetches a program, at the second try if the first fails, and looks for
// it in the stream.
func checkReal(ctx context.Context, t *testing.T, c *Cache, p Program) {
	t.Helper()
	versions := agenttest.Versions(string(p))
	newest := versions[len(versions)-1]
	r, err := c.Resolve(ctx, of(p), newest, amd64(), func(s string) { t.Log(s) })
	if fault.KindOf(err) == fault.Infrastructure {
		r, err = c.Resolve(ctx, of(p), newest, amd64(), func(s string) { t.Log(s) })
	}
	if err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(c.WriteTar(r, pw)) }()
	found := false
	for in := tar.NewReader(pr); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found = found || h.Name == of(p).Start && h.Mode&0o111 == 0o111
	}
	if !found {
		t.Errorf("%s has no %s", r.Title(), of(p).Start)
	}
}
