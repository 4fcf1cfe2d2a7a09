package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test start itself as another process that fetches.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SECUREBENCH_TEST_FETCH_INTO"); dir != "" {
		fmt.Println(fetchInto(dir, os.Getenv("SECUREBENCH_TEST_FETCH_FROM")))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func fetchInto(dir, registry string) string {
	c, err := OpenCache(dir, env(registry))
	if err != nil {
		return err.Error()
	}
	r, err := c.Resolve(context.Background(), of(Codex), "0.1.0", amd64(), func(string) {})
	return fmt.Sprint(r.Digest, " ", err)
}

// another starts a process that fetches Codex 0.1.0.
func another(t *testing.T, dir, registry string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := exec.Command(exe), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), "SECUREBENCH_TEST_FETCH_INTO="+dir, "SECUREBENCH_TEST_FETCH_FROM="+registry)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, out
}

// TestProcesses: of several processes that want the same release, one fetches it,
// and all have it.
func TestProcesses(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	started, release := make(chan struct{}, 9), make(chan struct{})
	reg.set(nil, func() { started <- struct{}{}; <-release })
	var all []*exec.Cmd
	var outs []*bytes.Buffer
	for range 3 {
		cmd, out := another(t, dir, reg.URL)
		all, outs = append(all, cmd), append(outs, out)
	}
	<-started // one has half of the tarball
	c := open(t, dir, reg.URL)
	said := make(chan string, 9)
	mine := make(chan error, 1)
	var got Release
	go func() {
		var err error
		got, err = c.Resolve(context.Background(), of(Codex), "0.1.0", amd64(), func(s string) { said <- s })
		mine <- err
	}()
	if text := <-said; !strings.Contains(text, "another process fetches codex 0.1.0: waiting") {
		t.Errorf("said %q", text)
	}
	close(release)
	if err := <-mine; err != nil {
		t.Fatal(err)
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil || outs[i].String() != got.Digest+" <nil>\n" {
			t.Errorf("process %d: %v, %s", i, err, outs[i])
		}
	}
	if n := reg.count("/tarballs/"); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

// TestKilled: a process that is killed while it fetches leaves nothing that
// counts as a release, and what it leaves is removed by the next one. A process
// that still fetches is not disturbed.
func TestKilled(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	started, release := make(chan struct{}, 9), make(chan struct{})
	reg.set(nil, func() { started <- struct{}{}; <-release })
	t.Cleanup(func() { close(release) })
	cmd, _ := another(t, dir, reg.URL)
	<-started
	unfinished := func() int {
		names, err := filepath.Glob(filepath.Join(dir, ".new-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	c := open(t, dir, reg.URL)
	if err := c.sweep(context.Background()); err != nil || unfinished() != 1 {
		t.Fatalf("while the process lives, its work is gone: %v, %d", err, unfinished())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if entries, err := c.List(); err != nil || len(entries) != 0 || unfinished() != 1 {
		t.Errorf("after its end: %v, %v, %d", entries, err, unfinished())
	}
	reg.set(nil, nil)
	if _, _, err := resolve(c, Codex, "0.1.0", amd64()); err != nil || unfinished() != 0 {
		t.Errorf("the next one: %v, %d", err, unfinished())
	}
}

// TestInterrupted: an operator who gives up leaves nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	reg.set(nil, func() { cancel(); <-release })
	t.Cleanup(func() { close(release) })
	_, err := open(t, dir, reg.URL).Resolve(ctx, of(Codex), "0.1.0", amd64(), func(string) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
