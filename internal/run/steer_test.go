package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/steer"
)

// TestSteered: a run takes orders at the socket in its restricted folder, does what they
// say, and writes them down; what is drained verifies as not finished, and a resume
// completes it, also beside the socket of a run that was killed.
func TestSteered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	goOn := make(chan struct{})
	memory := sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(ctx context.Context, p *sandboxtest.Process) int {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			fmt.Fprintln(p.Stdout, "4")
			return 0
		},
	}})
	b.opts.OpenEngine = openerOf(memory)
	b.opts.Config.MaxWorkers = 1
	b.opts.Steer = func(dir string, obey func(string, int) (pipeline.ControlState, error)) (func() error, error) {
		s, err := steer.Listen(dir, func(o steer.Order) (steer.State, error) {
			is, err := obey(string(o.Act), o.Workers)
			return steer.State{Workers: is.Workers, Running: is.Running}, err
		})
		return s.Close, err
	}
	out := b.opts.Config.OutputDir
	ended := make(chan error, 1)
	go func() {
		r, err := Open(t.Context(), b.opts)
		if err == nil {
			_, err = r.Drive(t.Context())
			err = errors.Join(err, r.Close())
		}
		ended <- err
	}()
	running := func(want int) {
		t.Helper()
		awaittest.Until(t, fmt.Sprintf("%d attempts", want), func() bool {
			s, err := steer.Ask(t.Context(), out, steer.Order{Act: steer.Look})
			return err == nil && s.Running == want
		})
	}
	order := func(o steer.Order) {
		t.Helper()
		if _, err := steer.Ask(t.Context(), out, o); err != nil {
			t.Fatalf("%s: %v", o.Act, err)
		}
	}
	running(1)
	if res := verified(t, out); !res.Unfinished || len(res.Problems) > 0 {
		t.Errorf("a run that goes on does not verify: %v", res.Problems)
	}
	order(steer.Order{Act: steer.Pause})
	goOn <- struct{}{}
	running(0)
	order(steer.Order{Act: steer.Workers, Workers: 2})
	for _, bad := range []steer.Order{{Act: steer.Workers}, {Act: steer.Workers, Workers: pipeline.MaxWorkers + 1}, {Act: "dance"}} {
		if _, err := steer.Ask(t.Context(), out, bad); err == nil {
			t.Errorf("%+v is obeyed", bad)
		}
	}
	order(steer.Order{Act: steer.Resume})
	running(2)
	order(steer.Order{Act: steer.Drain})
	close(goOn)
	if err := <-ended; !errors.Is(err, pipeline.ErrDrained) || fault.KindOf(err) != fault.Interrupted {
		t.Errorf("the run ended with %v", err)
	}
	if res := verified(t, out); !res.Unfinished || len(res.Problems) > 0 || res.Records != 3 {
		t.Errorf("drained: %d records, %v", res.Records, res.Problems)
	}
	acts(t, out)
	link := filepath.Join(t.TempDir(), "l") // the name of a socket is short
	if err := os.Symlink(filepath.Join(out, record.RestrictedName), link); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(link, "control.sock")})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	b.reset()
	b.run(Resume)
	if res := verified(t, out); !res.OK() || res.Records != 6 || !strings.Contains(strings.Join(res.Remarks(nil), "\n"), "while it went on: workers, 2") {
		t.Errorf("resumed: %d records, %v, %q", res.Records, res.Problems, res.Remarks(nil))
	}
	acts(t, out)
	if _, err := os.Lstat(filepath.Join(out, record.ControlName)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the socket is left:", err)
	}
}

func verified(t *testing.T, out string) *evidence.Result {
	t.Helper()
	res, err := evidence.Verify(t.Context(), os.DirFS(out), evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// acts compares what was written down with what was ordered.
func acts(t *testing.T, out string) {
	t.Helper()
	m, _, err := record.ReadManifest(os.DirFS(out))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range m.Steered {
		got = append(got, fmt.Sprint(s.Act, s.Workers))
	}
	if strings.Join(got, " ") != "pause0 workers2 resume0 drain0" {
		t.Errorf("written down: %q", got)
	}
}
