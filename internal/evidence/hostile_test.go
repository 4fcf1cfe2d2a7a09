package evidence_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
)

// TestHostileDirectory: entries of an untrusted directory may not be regular
// files. A check still ends, and names them.
func TestHostileDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short; the race detector makes it many times slower")
	}
	pipe := func(name string) error { return unix.Mkfifo(name, 0o644) }
	link := func(name string) error {
		return os.Symlink(filepath.Join(filepath.Dir(name), "..", record.TraceName), name)
	}
	loop := func(name string) error { return os.Symlink(filepath.Base(name), name) }
	folder := func(name string) error { return os.Mkdir(name, 0o755) }
	large := func(name string) error {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(1 << 40) // sparse
	}
	for kind, put := range map[string]func(string) error{"pipe": pipe, "link": link, "loop": loop, "folder": folder, "large": large} {
		for _, name := range []string{record.ManifestName, record.StatementName, record.LinesName, record.LockName, record.TraceName,
			record.SaltName, record.PackName, record.ConfigName, "candidate", "raw", "candidates", "restricted"} {
			if kind == "large" && (name == record.LinesName || name == record.TraceName) {
				continue // those are streams: a long one takes long
			}
			if kind == "folder" && (name == "candidates" || name == "restricted") {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				dir := newMaker(t, 2).make()
				target := filepath.Join(dir, name)
				switch name {
				case "candidate":
					stored, err := filepath.Glob(filepath.Join(dir, "candidates", "*"))
					if err != nil || len(stored) == 0 {
						t.Fatal(stored, err)
					}
					target = stored[0]
				case "raw":
					target = filepath.Join(dir, "restricted", "task_1", "1", "agent-stdout")
				}
				if err := os.RemoveAll(target); err != nil {
					t.Fatal(err)
				}
				if err := put(target); err != nil {
					t.Fatal(err)
				}
				if res := verifyDir(t, dir); res.OK() {
					t.Error("not found")
				}
			})
		}
	}
}

// verifyDir checks a directory, which must not take long.
func verifyDir(t *testing.T, dir string) *evidence.Result {
	t.Helper()
	done := make(chan *evidence.Result, 1)
	go func() {
		run, err := evidence.OpenRun(dir)
		if err != nil {
			t.Error(err)
			done <- &evidence.Result{}
			return
		}
		defer run.Close()
		res, err := run.Verify(t.Context(), evidence.Options{})
		if err != nil {
			res = &evidence.Result{Problems: []evidence.Problem{{What: err.Error()}}}
		}
		done <- res
	}()
	select {
	case res := <-done:
		return res
	case <-time.After(awaittest.Hung):
		t.Fatal("verification does not end")
		return nil
	}
}

// TestHostileArchive: an archive that unpacks to more than its size.
func TestHostileArchive(t *testing.T) {
	m := newMaker(t, 2)
	m.make()
	write := func(method uint16) string {
		var buf bytes.Buffer
		z := zip.NewWriter(&buf)
		w, err := z.CreateHeader(&zip.FileHeader{Name: "securebench-run/run.json", Method: method})
		m.check(err)
		_, err = w.Write([]byte(strings.Repeat(" ", 1<<20)))
		m.check(err, z.Close())
		name := filepath.Join(t.TempDir(), "run.zip")
		m.check(os.WriteFile(name, buf.Bytes(), 0o644))
		return name
	}
	if _, err := evidence.OpenRun(write(zip.Deflate)); err == nil || !strings.Contains(err.Error(), "it is compressed") {
		t.Errorf("error %v", err)
	}
	run, err := evidence.OpenRun(write(zip.Store))
	m.check(err)
	defer run.Close()
	if res, err := run.Verify(t.Context(), evidence.Options{}); err == nil && res.OK() {
		t.Error("accepted")
	}
}
