package evidence_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/sampletest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maker makes runs as the command does, without any task.
type maker struct {
	t        testing.TB
	dir      string
	tasks    int
	attempts int
	runID    string
	key      attest.PrivateKey
}

func newKey(t testing.TB) attest.PrivateKey {
	t.Helper()
	key, err := attest.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newMaker(t testing.TB, tasks int) *maker {
	return &maker{t: t, dir: filepath.Join(t.TempDir(), "out"), tasks: tasks, attempts: 2, runID: "run", key: newKey(t)}
}

func (m *maker) check(errs ...error) {
	m.t.Helper()
	if err := errors.Join(errs...); err != nil {
		m.t.Fatal(err)
	}
}

var plainDigests = pack.Digests{Manifest: digest.Bytes([]byte("m")), Tasks: digest.Bytes([]byte("t")),
	PublicAssets: digest.Bytes([]byte("p")), EvalAssets: digest.Bytes([]byte("e"))}

// manifest is the run.json of a run in d.
func (m *maker) manifest(d *record.Dir, config []byte) record.Manifest {
	return record.Manifest{
		Format: record.ManifestFormat, RunID: m.runID, Started: "2026-01-02T03:04:05Z", Agent: "command",
		Pack: record.PackInfo{ID: "pack", Version: 1}, Planned: record.Planned{Tasks: m.tasks, Attempts: m.attempts},
		Digests: m.runDigests(d, config), Images: map[string]string{"img": "sha256:1"}, Labels: []string{},
		Version: "test", SaltDigest: d.SaltDigest(), ResumedFrom: []record.Resumption{},
	}
}

func (m *maker) runDigests(d *record.Dir, config []byte) record.RunDigests {
	salt, p := d.Salt(), plainDigests
	return record.RunDigests{Manifest: p.Manifest, Public: digest.Bytes([]byte("public")), Config: digest.Bytes(config),
		Pack: salt.Keyed("pack", "", []byte(p.Sum())), Assets: salt.Keyed("assets", "", []byte(p.PublicAssets+p.EvalAssets)), Verifier: digest.Bytes([]byte("v"))}
}

func (m *maker) writeInputs(d *record.Dir, config []byte) error {
	p := plainDigests
	return errors.Join(d.WriteConfig(config), d.WritePack(record.PackDigests{Pack: p.Sum(), Tasks: p.Tasks, PublicAssets: p.PublicAssets, EvalAssets: p.EvalAssets}))
}

// line is an attempt's record; its candidate and raw output are stored.
func (m *maker) line(d *record.Dir, run record.RunDigests, index, attempt int) *record.Line {
	id := "task/" + strconv.Itoa(index)
	data := fmt.Sprintf("candidate of %s, %d\n%s", id, index%7, strings.Repeat("x", index%5*100))
	store, err := candidate.OpenStore(d.StorePath())
	m.check(err)
	defer store.Close()
	c, err := store.Put(task.Text, candidate.Stdout, strings.NewReader(data))
	m.check(err)
	raw, _, err := d.Restrict(id, fmt.Sprintf("task_%d/%d/agent-stdout", index, attempt), []byte(data))
	m.check(err)
	l := &record.Line{
		RunID: m.runID, TaskID: id, BenchmarkID: "pack", TaskType: "short_answer", Status: "passed", Outcome: "passed",
		Candidate: record.Candidate{Kind: task.Text, Shown: data}, ProducerStdout: data, ProducerMetadata: verdict.NewMetadata(map[string]any{"exit_code": 0, "timeout_seconds": 2.5}),
		Summary:  []task.ResourceSummary{{Name: "question", Kind: "text", Visibility: "public", Value: []byte(`"é <?>\ud83d\ude00"`)}},
		Verified: true, Passed: true, VerifierMetadata: verdict.NewMetadata(map[string]any{"verifier": "short_answer"}),
		Index: index, Attempt: attempt, Agent: "command", Containment: "passive", Labels: []string{"unpinned_image"},
		Digests: record.Digests{Pack: run.Pack, Assets: run.Assets, Config: run.Config, Verifier: run.Verifier,
			Row: d.Salt().Keyed("row", id, []byte(id)), Image: "sha256:1", Candidate: c.Digest},
		Timings: map[verdict.Phase]int64{"total": int64(index)}, Restricted: []record.RawFile{raw},
	}
	if index == 3 {
		x, err := store.Put(task.Text, candidate.Stdout, strings.NewReader("taken from "+data))
		m.check(err)
		l.Digests.Extracted = x.Digest
	}
	switch {
	case index%4 == 1 && index != 5:
		l.Status, l.Outcome, l.Passed, l.FailureReason = "failed", "failed", false, "wrong_answer"
	case index%9 == 5:
		l.Status, l.Outcome, l.Passed, l.Verified, l.FailureReason = "pending", "infrastructure", false, false, "infrastructure_error"
		l.Retries = []record.Retry{{Candidate: c.Digest, Error: "the engine stumbled", Phase: "verifier"}}
	}
	return l
}

// make makes a whole run and returns its directory.
func (m *maker) make() string {
	m.t.Helper()
	config := []byte(`{"agent":"command"}`)
	d, err := record.Open(m.dir)
	m.check(err)
	m.check(d.Begin(false), m.writeInputs(d, config))
	man := m.manifest(d, config)
	m.check(d.WriteManifest(&man))
	for i := range m.tasks {
		for n := 1; n <= m.attempts; n++ {
			m.check(d.Append(m.line(d, man.Digests, i, n)))
		}
	}
	trace, err := d.Trace()
	m.check(err)
	_, err = trace.Write([]byte("what an agent said\n"))
	m.check(err, trace.Close(), evidence.Seal(context.Background(), d, man, m.key), d.Close())
	return m.dir
}

// resume drops the infrastructure errors of a run and records them again, so
// that it has a history.
func (m *maker) resume() {
	m.t.Helper()
	d, err := record.Open(m.dir)
	m.check(err)
	former, err := d.Former()
	m.check(err)
	plan, err := former.Review(func(string) error { return nil }, func(record.Entry) string { return "" })
	m.check(err)
	if plan.Rerun[record.Unfinished] == 0 || len(plan.Rerun) != 1 {
		m.t.Fatalf("the review found %v", plan.Rerun)
	}
	man := former.Manifest
	man.ResumedFrom = append(man.ResumedFrom, plan.Resumption("2026-01-02T04:00:00Z"))
	kept := map[string]bool{}
	m.check(plan.EachKept(func(e record.Entry) { kept[fmt.Sprint(e.Index, " ", e.Attempt)] = true }))
	m.check(d.Continue(plan, &man), m.writeInputs(d, []byte(`{"agent":"command"}`)))
	for i := range m.tasks {
		for n := 1; n <= m.attempts; n++ {
			if kept[fmt.Sprint(i, " ", n)] {
				continue
			}
			l := m.line(d, man.Digests, i, n)
			l.Status, l.Outcome, l.Passed, l.FailureReason, l.Verified, l.Retries = "passed", "passed", true, "", true, nil
			m.check(d.Append(l))
		}
	}
	m.check(evidence.Seal(context.Background(), d, man, m.key), d.Close())
}

// snapshot reads a directory into memory.
func snapshot(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		out[filepath.ToSlash(rel)] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verify(t testing.TB, fsys fs.FS) *evidence.Result {
	t.Helper()
	res, err := evidence.Verify(t.Context(), fsys, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestVerify(t *testing.T) {
	m := newMaker(t, 12)
	dir := m.make()
	for _, when := range []string{"made", "resumed"} {
		run := snapshot(t, dir)
		res := verify(t, run)
		if !res.OK() || res.Records != 24 || res.Signer != m.key.Public() || res.Published {
			t.Fatalf("%s: %+v", when, res)
		}
		maps.DeleteFunc(run, func(name string, _ *fstest.MapFile) bool {
			return strings.HasPrefix(name, record.RestrictedName) || strings.HasPrefix(name, record.HistoryName) || name == record.LockName
		})
		if res := verify(t, run); !res.OK() || !res.Published {
			t.Fatalf("published, %s: %+v", when, res.Problems)
		}
		if when == "made" {
			m.resume()
		}
	}
}

// change is one way to change a run. It returns false where it changed
// nothing.
type change func(r *rand.Rand, run, other fstest.MapFS) bool

// changes are the mutations that every verification must detect.
var changes = map[string]change{
	"byte": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		f := run[pick(r, run)]
		if len(f.Data) == 0 {
			return false
		}
		f.Data[r.IntN(len(f.Data))] ^= byte(1 + r.IntN(255))
		return true
	},
	"bit": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		f := run[pick(r, run)]
		if len(f.Data) == 0 {
			return false
		}
		f.Data[r.IntN(len(f.Data))] ^= 1 << r.IntN(8)
		return true
	},
	"statement byte": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		f := run[record.StatementName]
		f.Data[r.IntN(len(f.Data))] = byte(32 + r.IntN(95))
		return true // or nothing changed: the comparison shows it
	},
	"insert": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		f := run[pick(r, run)]
		f.Data = slices.Insert(f.Data, r.IntN(len(f.Data)+1), byte(r.IntN(256)))
		return true
	},
	"truncate": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		f := run[pick(r, run)]
		if len(f.Data) == 0 {
			return false
		}
		f.Data = f.Data[:r.IntN(len(f.Data))]
		return true
	},
	"missing": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		name := pick(r, run)
		delete(run, name)
		return name != record.LockName
	},
	"extra": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		where := []string{"", "candidates/", "restricted/", "restricted/task_1/1/", "candidates/x/", "history/", "workspaces/", "x/"}
		name := where[r.IntN(len(where))] + []string{"notes", ".hidden", strings.Repeat("a", 64), "run.json"}[r.IntN(4)]
		if run[name] != nil {
			return false
		}
		run[name] = &fstest.MapFile{Data: []byte("{}"), Mode: 0o644}
		return true
	},
	"link": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		run[pick(r, run)].Mode = fs.ModeSymlink | 0o777
		return true
	},
	"swap files": func(r *rand.Rand, run, _ fstest.MapFS) bool {
		a, b := pick(r, run), pick(r, run)
		same := bytes.Equal(run[a].Data, run[b].Data)
		run[a].Data, run[b].Data = run[b].Data, run[a].Data
		return !same
	},
	"file of another run": func(r *rand.Rand, run, other fstest.MapFS) bool {
		name := pick(r, other)
		if strings.HasPrefix(name, record.HistoryName) || run[name] != nil && bytes.Equal(run[name].Data, other[name].Data) {
			return false
		}
		run[name] = other[name]
		return true
	},
	"drop line": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte {
		n := r.IntN(len(l))
		return slices.Delete(l, n, n+1)
	}),
	"swap lines": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte {
		a, b := r.IntN(len(l)), r.IntN(len(l))
		l[a], l[b] = l[b], l[a]
		return l
	}),
	"repeat line": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte {
		return slices.Insert(l, r.IntN(len(l)+1), l[r.IntN(len(l))])
	}),
	"line of another run": lines(func(r *rand.Rand, l, other [][]byte) [][]byte {
		l[r.IntN(len(l))] = other[r.IntN(len(other))]
		return l
	}),
	"added line of another run": lines(func(r *rand.Rand, l, other [][]byte) [][]byte {
		return slices.Insert(l, r.IntN(len(l)+1), other[r.IntN(len(other))])
	}),
	"splice": lines(func(r *rand.Rand, l, other [][]byte) [][]byte {
		n := r.IntN(len(l))
		return append(slices.Clone(l[:n]), other[min(n, len(other)):]...)
	}),
	"cut lines": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte { return l[:r.IntN(len(l))] }),
	"reverse": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte {
		slices.Reverse(l)
		return l
	}),
	"failed to passed": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte {
		n := r.IntN(len(l))
		for from, to := range map[string]string{`"score": 0.0`: `"score": 1.0`, `"passed": false`: `"passed": true`, `"verification_status": "failed"`: `"verification_status": "passed"`} {
			l[n] = bytes.Replace(l[n], []byte(from), []byte(to), 1)
		}
		return l
	}),
	"rechained": lines(func(r *rand.Rand, l, _ [][]byte) [][]byte {
		l = slices.Delete(l, 0, 1+r.IntN(3))
		return rechain(l)
	}),
}

// rechain numbers and chains lines again, as anybody could.
func rechain(l [][]byte) [][]byte {
	prev := record.Genesis
	for i, line := range l {
		_, rest, _ := strings.Cut(string(line), `"prev": "`)
		was := rest[:strings.IndexByte(rest, '"')]
		_, rest, _ = strings.Cut(string(line), `"seq": `)
		seq := rest[:strings.IndexByte(rest, ',')]
		s := strings.Replace(string(line), `"prev": "`+was, `"prev": "`+prev, 1)
		l[i] = []byte(strings.Replace(s, `"seq": `+seq, `"seq": `+strconv.Itoa(i), 1))
		prev = digest.Bytes(l[i])
	}
	return l
}

// pick chooses a file.
func pick(r *rand.Rand, run fstest.MapFS) string {
	names := slices.Sorted(maps.Keys(run))
	return names[r.IntN(len(names))]
}

// lines changes the file of records line by line.
func lines(f func(r *rand.Rand, l, other [][]byte) [][]byte) change {
	split := func(b []byte) [][]byte { return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) }
	return func(r *rand.Rand, run, other fstest.MapFS) bool {
		file := run[record.LinesName]
		before := file.Data
		file.Data = append(bytes.Join(f(r, split(bytes.Clone(before)), split(other[record.LinesName].Data)), []byte("\n")), '\n')
		return !bytes.Equal(before, file.Data)
	}
}

// TestChangesAreFound changes a run in many ways, one at a time: a run that
// was resumed, with its statement, store, restricted folder and history. The
// run is small, since every change costs a whole verification.
func TestChangesAreFound(t *testing.T) {
	m := newMaker(t, 6)
	m.attempts = 1
	m.make()
	m.resume()
	o := newMaker(t, 6)
	o.attempts = 1
	o.key = m.key // another run of the same operator counts as another run
	original, other := snapshot(t, m.dir), snapshot(t, o.make())
	if res := verify(t, original); !res.OK() {
		t.Fatal(res.Problems)
	}
	// Each verification allocates a megabyte and keeps nothing: without this
	// the collector takes more time than the verifications.
	defer debug.SetGCPercent(debug.SetGCPercent(2000))
	t.Run("kinds", func(t *testing.T) { changeInShards(t, original, other) })
}

// changeInShards makes the changes on all cores.
func changeInShards(t *testing.T, original, other fstest.MapFS) {
	const shards = 4
	manyChanges := 2_000
	switch {
	case sampletest.Whole():
		manyChanges = 10_000
	case testing.Short():
		manyChanges = 400
	}
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			findChanges(t, rand.New(rand.NewPCG(1, shard)), manyChanges/shards, original, other)
		})
	}
}

// findChanges makes n changes, each to a copy of the run, and checks that each
// is detected and that every kind occurs.
func findChanges(t *testing.T, r *rand.Rand, n int, original, other fstest.MapFS) {
	names := slices.Sorted(maps.Keys(changes))
	made := map[string]int{}
	for total := 0; total < n; {
		name := names[r.IntN(len(names))]
		run := clone(original)
		if !changes[name](r, run, other) || same(original, run) {
			continue
		}
		total++
		made[name]++
		if res := verify(t, run); res.OK() {
			t.Fatalf("%s (number %d) was not found: %s", name, total, difference(original, run))
		}
	}
	for _, name := range names {
		if made[name] < n/400 {
			t.Errorf("only %d changes of kind %q were made", made[name], name)
		}
	}
}

func clone(run fstest.MapFS) fstest.MapFS {
	out := make(fstest.MapFS, len(run))
	for name, f := range run {
		out[name] = &fstest.MapFile{Data: bytes.Clone(f.Data), Mode: f.Mode}
	}
	return out
}

func same(a, b fstest.MapFS) bool { return difference(a, b) == "" }

func difference(a, b fstest.MapFS) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		switch f := b[name]; {
		case f == nil:
			return name + " is missing"
		case f.Mode != a[name].Mode:
			return name + " has another type"
		case !bytes.Equal(f.Data, a[name].Data):
			return name + " differs"
		}
	}
	for name := range b {
		if a[name] == nil {
			return name + " is new"
		}
	}
	return ""
}

// TestProblemsAreExact: every problem is reported with its position.
func TestProblemsAreExact(t *testing.T) {
	dir := newMaker(t, 4).make()
	original := snapshot(t, dir)
	stored := ""
	for name := range original {
		if strings.HasPrefix(name, "candidates/") {
			stored = cmp.Or(stored, name)
		}
	}
	taken := ""
	for name, f := range original {
		if strings.HasPrefix(name, "candidates/") && bytes.HasPrefix(f.Data, []byte("taken from")) {
			taken = cmp.Or(taken, name)
		}
	}
	at := func(line int, from, to string) func(fstest.MapFS) {
		return func(run fstest.MapFS) {
			l := bytes.SplitAfter(run[record.LinesName].Data, []byte("\n"))
			l[line-1] = bytes.Replace(l[line-1], []byte(from), []byte(to), 1)
			run[record.LinesName].Data = bytes.Join(l, nil)
		}
	}
	for name, c := range map[string]struct {
		change func(fstest.MapFS)
		want   string
	}{
		"a score":  {at(3, `"passed": false`, `"passed": true`), "candidates.jsonl:3: not a record in canonical form"},
		"a word":   {at(2, `"agent": "command"`, `"agent": "commanD"`), "candidates.jsonl:2: it is of another run than run.json"},
		"a digest": {at(2, `"config": "sha256:`, `"config": "sha257:`), "candidates.jsonl:2: it is bound to other inputs than run.json"},
		"no chain": {func(run fstest.MapFS) {
			at(2, `"exit_code": 0`, `"exit_code": 1`)(run)
			maps.DeleteFunc(run, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, record.RestrictedName+"/") })
		}, "candidates.jsonl:2: changed since line 3 was written: its digest is sha256:"},
		"mac":           {at(2, `"exit_code": 0`, `"exit_code": 1`), "candidates.jsonl:2: its MAC is wrong"},
		"duplicate key": {at(1, `"agent": "command"`, `"agent": "command", "agent": "command"`), "candidates.jsonl:1: not a record: "},
		"other case":    {at(1, `"agent": `, `"Agent": `), "candidates.jsonl:1: not a record: "},
		"trailing":      {at(1, "}\n", "} {}\n"), "candidates.jsonl:1: not a record: "},
		"cut":           {func(run fstest.MapFS) { f := run[record.LinesName]; f.Data = f.Data[:len(f.Data)-1] }, "candidates.jsonl:8: cut short"},
		"last line": {func(run fstest.MapFS) {
			f := run[record.LinesName]
			f.Data = f.Data[:bytes.LastIndexByte(f.Data[:len(f.Data)-1], '\n')+1]
		}, "candidates.jsonl: row 3, attempt 2 has no record"},
		"candidate":           {func(run fstest.MapFS) { run[stored].Data[0]++ }, "candidate sha256:" + strings.TrimPrefix(stored, "candidates/") + ": it is not what its name says"},
		"lost candidate":      {func(run fstest.MapFS) { delete(run, stored) }, "candidate sha256:" + strings.TrimPrefix(stored, "candidates/") + " is missing"},
		"what was taken":      {func(run fstest.MapFS) { run[taken].Data[0]++ }, "candidate sha256:" + strings.TrimPrefix(taken, "candidates/") + ": it is not what its name says"},
		"lost what was taken": {func(run fstest.MapFS) { delete(run, taken) }, "candidate sha256:" + strings.TrimPrefix(taken, "candidates/") + " is missing"},
		"extra candidate":     {func(run fstest.MapFS) { run["candidates/x"] = &fstest.MapFile{} }, "candidates/x: not named by any record"},
		"extra file":          {func(run fstest.MapFS) { run["notes.txt"] = &fstest.MapFile{} }, "notes.txt: not part of a run"},
		"manifest": {func(run fstest.MapFS) {
			run[record.ManifestName].Data = bytes.Replace(run[record.ManifestName].Data, []byte(`"attempts":2`), []byte(`"attempts":1`), 1)
		}, "it is about another run than run.json: \"run\" with 4 planned tasks, 2 attempts each and 0 rows left out, there it is \"run\" with 4 planned tasks, 1 attempts each"},
		"salt":          {func(run fstest.MapFS) { run[record.SaltName].Data[3]++ }, "restricted/salt: missing or changed"},
		"no salt":       {func(run fstest.MapFS) { delete(run, record.SaltName) }, "restricted/salt: missing or changed"},
		"pack digests":  {func(run fstest.MapFS) { run[record.PackName].Data[60]++ }, "restricted/pack.json"},
		"configuration": {func(run fstest.MapFS) { run[record.ConfigName].Data[3]++ }, "restricted/config.json: missing, or its digest is not that in run.json"},
		"raw output":    {func(run fstest.MapFS) { run["restricted/task_1/1/agent-stdout"].Data[3]++ }, "candidates.jsonl:3: restricted/task_1/1/agent-stdout does not match its digest in the record"},
		"no raw output": {func(run fstest.MapFS) { delete(run, "restricted/task_1/1/agent-stdout") }, "candidates.jsonl:3: reading raw output: restricted/task_1/1/agent-stdout: file does not exist"},
		"trace":         {func(run fstest.MapFS) { run[record.TraceName].Data[3]++ }, "agent-trace.log: changed since it was signed"},
		"no trace":      {func(run fstest.MapFS) { delete(run, record.TraceName) }, "agent-trace.log: missing, though it was signed"},
		"lock":          {func(run fstest.MapFS) { run[record.LockName].Data = []byte("x") }, "run.lock: not an empty file"},
		"history":       {func(run fstest.MapFS) { run["history/x"] = &fstest.MapFile{} }, "history: it did not exist when the run was signed"},
		"history, published": {func(run fstest.MapFS) {
			maps.DeleteFunc(run, func(n string, _ *fstest.MapFile) bool { return strings.HasPrefix(n, "restricted") })
			run["history/x"] = &fstest.MapFile{}
		}, "restricted: missing, while history exists"},
	} {
		t.Run(name, func(t *testing.T) {
			run := clone(original)
			c.change(run)
			res := verify(t, run)
			for _, p := range res.Problems {
				if strings.Contains(p.String(), c.want) {
					return
				}
			}
			t.Errorf("problems %q, want %q", res.Problems, c.want)
		})
	}
}

func TestHistoryIsBound(t *testing.T) {
	m := newMaker(t, 6)
	m.make()
	m.resume()
	original := snapshot(t, m.dir)
	for name := range original {
		if !strings.HasPrefix(name, record.HistoryName) {
			continue
		}
		run := clone(original)
		run[name].Data = append(run[name].Data, 'x')
		res := verify(t, run)
		if res.OK() || !slices.ContainsFunc(res.Problems, func(p evidence.Problem) bool { return p.File == name }) {
			t.Errorf("%s changed: problems %v", name, res.Problems)
		}
	}
	maps.DeleteFunc(original, func(n string, _ *fstest.MapFile) bool { return strings.HasPrefix(n, record.HistoryName) })
	if res := verify(t, original); res.OK() {
		t.Error("a deleted history is not reported")
	}
}

// TestSealNoticesChanges: a run that changed while it worked is not signed.
func TestSealNoticesChanges(t *testing.T) {
	m := newMaker(t, 2)
	d, err := record.Open(m.dir)
	m.check(err)
	defer d.Close()
	m.check(d.Begin(false), m.writeInputs(d, []byte("{}")))
	man := m.manifest(d, []byte("{}"))
	m.check(d.WriteManifest(&man))
	for i := range m.tasks {
		for n := 1; n <= m.attempts; n++ {
			m.check(d.Append(m.line(d, man.Digests, i, n)))
		}
	}
	before, err := os.ReadFile(d.LinesPath())
	m.check(err)
	m.check(os.WriteFile(d.LinesPath(), bytes.Replace(before, []byte(`"passed": false`), []byte(`"passed": true`), 1), 0o644))
	if err := evidence.Seal(context.Background(), d, man, m.key); !errors.Is(err, record.ErrIntegrity) {
		t.Errorf("error %v, want ErrIntegrity", err)
	}
	m.check(os.WriteFile(d.LinesPath(), before[:bytes.LastIndexByte(before[:len(before)-1], '\n')+1], 0o644))
	if err := evidence.Seal(context.Background(), d, man, m.key); !errors.Is(err, record.ErrIntegrity) {
		t.Errorf("error %v, want ErrIntegrity", err)
	}
	m.check(os.WriteFile(d.LinesPath(), before, 0o644))
	m.check(evidence.Seal(context.Background(), d, man, m.key))
}

func TestBundle(t *testing.T) {
	m := newMaker(t, 3) // small: every change costs a whole verification
	m.attempts = 1
	m.make()
	write := func() (string, []byte) {
		run, err := evidence.OpenRun(m.dir)
		m.check(err)
		defer run.Close()
		var buf bytes.Buffer
		m.check(evidence.WriteBundle(&buf, run))
		name := filepath.Join(t.TempDir(), "run.zip")
		m.check(os.WriteFile(name, buf.Bytes(), 0o644))
		return name, buf.Bytes()
	}
	name, first := write()
	m.check(os.Chtimes(filepath.Join(m.dir, record.LinesName), time.Unix(1, 0), time.Unix(1, 0)))
	_, second := write()
	if !bytes.Equal(first, second) {
		t.Error("the same run gives a different bundle")
	}
	check := func(data []byte) *evidence.Result {
		m.check(os.WriteFile(name, data, 0o644))
		run, err := evidence.OpenRun(name)
		if err != nil {
			return &evidence.Result{Problems: []evidence.Problem{{What: err.Error()}}}
		}
		defer run.Close()
		res, err := run.Verify(context.Background(), evidence.Options{})
		if err != nil {
			return &evidence.Result{Problems: []evidence.Problem{{What: err.Error()}}}
		}
		return res
	}
	if res := check(first); !res.OK() || !res.Published || res.Records != 3 {
		t.Fatalf("%+v", res)
	}
	most := 23 // bytes from one change to the next
	if testing.Short() {
		most = 400
	}
	for i := 0; i < len(first); i += 1 + i%most {
		changed := bytes.Clone(first)
		changed[i] ^= 1
		if check(changed).OK() {
			t.Fatalf("a change of byte %d of %d is not detected", i, len(first))
		}
	}
	for _, more := range []string{"x", "PK\x05\x06" + strings.Repeat("\x00", 18)} {
		if check(append(bytes.Clone(first), more...)).OK() || check(append([]byte(more), first...)).OK() {
			t.Errorf("%q before or behind the archive is not found", more)
		}
	}
}

// BenchmarkVerify verifies 10,000 records with their candidates and raw
// output.
func BenchmarkVerify(b *testing.B) {
	m := newMaker(b, 10_000)
	m.attempts = 1
	dir := m.make()
	b.ResetTimer()
	for b.Loop() {
		run, err := evidence.OpenRun(dir)
		m.check(err)
		res, err := run.Verify(context.Background(), evidence.Options{})
		m.check(err, run.Close())
		if !res.OK() {
			b.Fatal(res.Problems)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/10000-records")
}

// TestSealTidies: unfinished files of a killed process are removed before the
// run is signed, so that the signed run verifies.
func TestSealTidies(t *testing.T) {
	m := newMaker(t, 6)
	m.make()
	m.resume()
	for _, name := range []string{"history/.new-index.json", ".new-run.json", ".new-statement.dsse.json"} {
		m.check(os.WriteFile(filepath.Join(m.dir, name), nil, 0o644))
	}
	m.check(os.MkdirAll(filepath.Join(m.dir, "restricted", "task", "9"), 0o700), os.MkdirAll(filepath.Join(m.dir, "history", "empty"), 0o700))
	if res := verify(t, os.DirFS(m.dir)); res.OK() {
		t.Error("empty folders and unfinished files are not found")
	}
	d, err := record.Open(m.dir)
	m.check(err)
	former, err := d.Former()
	m.check(err)
	plan, err := former.Review(func(string) error { return nil }, func(record.Entry) string { return "" })
	m.check(err)
	man := former.Manifest
	man.ResumedFrom = append(man.ResumedFrom, plan.Resumption("2026-01-02T05:00:00Z"))
	m.check(d.Continue(plan, &man), os.WriteFile(filepath.Join(m.dir, "history/.new-index.json"), nil, 0o644))
	m.check(evidence.Seal(t.Context(), d, man, m.key), d.Close())
	if res := verifyDir(t, m.dir); !res.OK() {
		t.Error(res.Problems)
	}
}

// TestSealComparesTheManifest: an edit of run.json during the run is detected.
func TestSealComparesTheManifest(t *testing.T) {
	m := newMaker(t, 0)
	d, err := record.Open(m.dir)
	m.check(err)
	defer d.Close()
	m.check(d.Begin(false), m.writeInputs(d, []byte("{}")))
	man := m.manifest(d, []byte("{}"))
	m.check(d.WriteManifest(&man))
	name := filepath.Join(m.dir, record.ManifestName)
	raw, err := os.ReadFile(name)
	m.check(err)
	m.check(os.WriteFile(name, bytes.Replace(raw, []byte(`"former_runs":0`), []byte(`"former_runs":7`), 1), 0o644))
	if err := evidence.Seal(t.Context(), d, man, m.key); !errors.Is(err, record.ErrIntegrity) {
		t.Errorf("error %v, want ErrIntegrity", err)
	}
	m.check(os.WriteFile(name, raw, 0o644), evidence.Seal(t.Context(), d, man, m.key))
}

// TestOtherSpelling: of a line that a tool wrote anew, or that a conversion of text
// changed, the spelling is reported, and what the line says is checked all the same:
// its attempt has a record, and what was changed in it is named.
func TestOtherSpelling(t *testing.T) {
	original := snapshot(t, newMaker(t, 4).make())
	compact := strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace
	for name, c := range map[string]struct {
		change func(line string) string // of the second line
		want   string
		other  string // what else is wrong with it
	}{
		"carriage return": {func(l string) string { return strings.TrimSuffix(l, "\n") + "\r\n" }, "conversion of line ends", ""},
		"byte order mark": {func(l string) string { return "\xef\xbb\xbf" + l }, "byte order mark", ""},
		"compact":         {compact, "spaces, the order of keys or escapes differ", ""},
		"another order": {func(l string) string {
			return `{"usage": ` + "{}" + `, ` + strings.Replace(l[1:], `"usage": {}, `, "", 1)
		}, "the order of keys", ""},
		"compact and changed": {func(l string) string {
			return strings.Replace(compact(l), `"exit_code":0`, `"exit_code":1`, 1)
		}, "spaces, the order of keys or escapes differ", "its MAC is wrong"},
	} {
		run := clone(original)
		lines := strings.SplitAfter(string(run[record.LinesName].Data), "\n")
		before := lines[1]
		if lines[1] = c.change(before); lines[1] == before {
			t.Fatalf("%s: the line is as it was", name)
		}
		run[record.LinesName].Data = []byte(strings.Join(lines, ""))
		var got []string
		for _, p := range verify(t, run).Problems {
			got = append(got, p.String())
		}
		all := strings.Join(got, "\n")
		want := 2 // the line, and the file
		if c.other != "" {
			want++
		}
		if len(got) != want || !strings.Contains(all, "candidates.jsonl:2: not a record in canonical form: ") || !strings.Contains(all, c.want) || !strings.Contains(all, c.other) {
			t.Errorf("%s: %d problems, want %d with %q and %q:\n%s", name, len(got), want, c.want, c.other, all)
		}
	}
}

// shut is a run whose operator's folders this user may not read.
type shut struct{ fs.FS }

func (s shut) Open(name string) (fs.File, error) {
	for _, folder := range []string{record.RestrictedName, record.HistoryName} {
		if name == folder || strings.HasPrefix(name, folder+"/") {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
		}
	}
	return s.FS.Open(name)
}

// TestAnotherUsersRun: a run whose restricted folder cannot be read verifies as a
// published copy, and a change of it is seen as in one.
func TestAnotherUsersRun(t *testing.T) {
	run := snapshot(t, newMaker(t, 3).make())
	res, err := evidence.Verify(t.Context(), shut{run}, evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK() || !res.Published || !slices.ContainsFunc(res.Notes, func(n string) bool { return strings.Contains(n, "another user's") }) {
		t.Errorf("%+v", res)
	}
	run[record.LinesName].Data = bytes.Replace(run[record.LinesName].Data, []byte("passed"), []byte("failed"), 1)
	if res, err = evidence.Verify(t.Context(), shut{run}, evidence.Options{}); err != nil || res.OK() {
		t.Errorf("a changed record: %v, %+v", err, res)
	}
}
