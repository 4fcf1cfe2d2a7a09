package merge

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
)

// TestHostileShard puts into the folder of a shard what leads out of it, what never ends,
// and what claims files of the run. The runner that does has the salt, as every shard.
// Nothing outside the folder is read into the run, changed or removed.
func TestHostileShard(t *testing.T) {
	t.Parallel()
	link := func(name, to string) func(*testing.T, *kit, *runner) {
		return func(_ *testing.T, k *kit, r *runner) {
			k.check(os.RemoveAll(r.path(name)), os.Symlink(to, r.path(name)))
		}
	}
	names := func(name string) func(*runner, *record.Line) {
		return func(r *runner, l *record.Line) {
			l.Restricted[0] = record.RawFile{Path: name, Bytes: 2, Digest: r.Salt().Keyed("restricted", l.TaskID, []byte("{}"))}
		}
	}
	for name, tt := range map[string]struct {
		change  func(*runner, *record.Line)
		after   func(*testing.T, *kit, *runner)
		refused bool
		kept    int // of its 8 records
	}{
		"nothing":                        {kept: 8},
		"candidates of the run":          {after: link("candidates", "../../candidates"), refused: true},
		"candidates elsewhere":           {after: link("candidates", "/"), refused: true},
		"the run's secrets":              {after: link("restricted", "../../restricted"), refused: true},
		"outputs of others":              {after: link("restricted/task_1", "../../0.1/restricted/task_0"), refused: true},
		"records of others":              {after: link("candidates.jsonl", "../0.1/candidates.jsonl"), refused: true},
		"a manifest elsewhere":           {after: link("run.json", "../../run.json"), refused: true},
		"a shard that is a link":         {after: link(".", "0.1"), refused: true},
		"a pipe":                         {after: fifo("restricted/task_1/1/agent-stdout"), refused: true},
		"a pipe for records":             {after: fifo("candidates.jsonl"), refused: true},
		"a file of no run":               {after: file("notes", "x"), refused: true},
		"an endless line":                {after: file("candidates.jsonl", strings.Repeat("x", record.MaxLine+100)), kept: 0},
		"a huge manifest":                {after: file("run.json", strings.Repeat(" ", 17<<20)), refused: true},
		"an output of the run's secrets": {change: names("restricted/config.json"), after: file("restricted/config.json", "{}"), kept: 7},
		"an output outside":              {change: names("restricted/../run.json"), kept: 7},
		"an absolute output":             {change: names("/etc/passwd"), kept: 7},
		"a candidate outside":            {change: func(_ *runner, l *record.Line) { l.Digests.Candidate = "sha256:../../../run.json" }, kept: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, 12, 2, 3)
			k.start(0).all("first").end()
			k.start(2).all("third").end()
			r := k.start(1)
			if tt.change != nil {
				r.change = func(l *record.Line) { tt.change(r, l) }
			}
			r.all("hostile").end()
			if tt.after != nil {
				tt.after(t, k, r)
			}
			before := outside(t, k)
			res, err := k.merge()
			after := outside(t, k)
			if tt.refused {
				if kind := fault.KindOf(err); err == nil || kind != fault.Refused && kind != fault.Integrity || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%v", err)
				}
				if before != after {
					t.Errorf("the run changed:\n%s\n%s", before, after)
				}
				return
			}
			k.check(err)
			if res.Summary.Total != 16+tt.kept || res.Parts[1].Kept != tt.kept {
				t.Errorf("%+v", res)
			}
			k.said(tt.kept == 8)
			for _, name := range []string{record.SaltName, record.ConfigName, record.PackName} {
				if text, err := os.ReadFile(filepath.Join(k.dir, name)); err != nil || !strings.Contains(before, digest.Bytes(text)) {
					t.Errorf("%s changed: %q, %v", name, text, err)
				}
			}
		})
	}
}

// outside lists what is in the run's directory, without the lock and the shard.
func outside(t *testing.T, k *kit) string {
	t.Helper()
	var out bytes.Buffer
	k.check(filepath.WalkDir(k.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(name, filepath.Join(k.dir, "shards/1.1")) || strings.HasSuffix(name, "salt") && strings.Contains(name, "shards/") {
			return err
		}
		if out.WriteString(name + "\n"); e.Type().IsRegular() {
			text, err := os.ReadFile(name)
			out.WriteString(digest.Bytes(text) + "\n")
			return err
		}
		return nil
	}))
	return out.String()
}

func fifo(name string) func(*testing.T, *kit, *runner) {
	return func(_ *testing.T, k *kit, r *runner) {
		k.check(os.Remove(r.path(name)), syscall.Mkfifo(r.path(name), 0o600))
	}
}

func file(name, text string) func(*testing.T, *kit, *runner) {
	return func(_ *testing.T, k *kit, r *runner) { k.check(os.WriteFile(r.path(name), []byte(text), 0o600)) }
}
