package evidence_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/rowset"
	"securebench/internal/sampletest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// second is the second implementation, running: python/securebench/verify.py.
type second struct {
	t   *testing.T
	in  *bufio.Writer
	out *bufio.Reader
}

// found is what an implementation finds in a run.
type found struct {
	Finished bool     `json:"finished"`
	Signer   string   `json:"signer"`
	Records  int64    `json:"records"`
	Problems [][2]any `json:"problems"` // files and lines
	Words    [][3]any `json:"words,omitzero"`
}

// python returns the interpreter that runs it.
func python(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short: nothing is compared with the second implementation of verify")
	}
	name, err := exec.LookPath("python3")
	if err != nil && os.Getenv("SECUREBENCH_TEST_AGENTS") == "require" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("SKIPPED: python3 is missing: nothing is compared with the second implementation of verify")
	}
	return name
}

func newSecond(t *testing.T) *second {
	t.Helper()
	cmd := exec.Command(python(t), "-B", "testdata/second.py", "../../python")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if _, err := io.Copy(io.Discard, out); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("the second implementation: %v", err)
		}
	})
	return &second{t, bufio.NewWriter(in), bufio.NewReader(out)}
}

// verify has the second implementation check a run.
func (s *second) verify(run fstest.MapFS) (got found) {
	s.t.Helper()
	type file struct {
		Kind    string `json:"kind"`
		Content []byte `json:"content"`
	}
	files := map[string]file{}
	for name, f := range run {
		kind := "f"
		if f.Mode.Type() != 0 {
			kind = "?"
		}
		files[name] = file{kind, f.Data}
	}
	line, err := json.Marshal(files)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.t.Fatal(err)
	}
	if err := s.in.Flush(); err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.out.ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("the second implementation gave no answer: %v", err)
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// compare checks a run with both.
func (s *second) compare(what string, run fstest.MapFS) *evidence.Result {
	s.t.Helper()
	res, got := verify(s.t, run), s.verify(run)
	want := found{Finished: !res.Unfinished, Signer: res.Signer.ID, Records: res.Records}
	places := func(f found) string {
		out := map[string]bool{}
		for _, p := range f.Problems {
			out[fmt.Sprint(p[0], ":", p[1])] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(out)), ", ")
	}
	for _, p := range res.Problems {
		want.Problems = append(want.Problems, [2]any{p.File, p.Line})
	}
	if got.Finished != want.Finished || got.Signer != want.Signer || got.Records != want.Records || places(got) != places(want) {
		s.t.Errorf("%s\n  finds %v %q %d %s\n  the second %v %q %d %s\n  %v\n  the second %v", what, want.Finished, want.Signer, want.Records, places(want),
			got.Finished, got.Signer, got.Records, places(got), res.Problems, got.Words)
	}
	return res
}

// published is what may be published of a run.
func published(run fstest.MapFS) fstest.MapFS {
	out := clone(run)
	maps.DeleteFunc(out, func(name string, _ *fstest.MapFile) bool {
		return strings.HasPrefix(name, record.RestrictedName) || strings.HasPrefix(name, record.HistoryName) || name == record.LockName
	})
	return out
}

// TestSecondImplementation changes a published run in ways that are drawn from a fixed
// seed, one at a time. Two programs that were written by themselves find the same: that the
// run does not verify, and in which files and lines.
func TestSecondImplementation(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 6)
	m.attempts = 1
	m.make()
	m.resume()
	o := newMaker(t, 6)
	o.attempts = 1
	o.key = m.key
	original, other := published(snapshot(t, m.dir)), published(snapshot(t, o.make()))
	s := newSecond(t)
	if res := s.compare("the run itself", original); !res.OK() {
		t.Fatal(res.Problems)
	}
	r := rand.New(rand.NewPCG(7, 7))
	names := slices.Sorted(maps.Keys(changes))
	for total := 0; total < mutations() && !t.Failed(); {
		name := names[r.IntN(len(names))]
		run := clone(original)
		if !changes[name](r, run, other) || same(original, run) || operators(run) {
			continue
		}
		total++
		if s.compare(fmt.Sprintf("%s, number %d: %s", name, total, difference(original, run)), run).OK() {
			t.Errorf("%s, number %d, is found by neither", name, total)
		}
	}
}

// operators reports whether a run has more than what is published, which only the operator
// checks.
func operators(run fstest.MapFS) bool {
	for name := range run {
		if strings.HasPrefix(name, record.RestrictedName+"/") || strings.HasPrefix(name, record.HistoryName+"/") {
			return true
		}
	}
	return false
}

// mutations is how many changes are made: half a minute's worth each night.
func mutations() int {
	if sampletest.Whole() {
		return 10_000
	}
	return 600
}

// TestSecondForgeries: what an operator says of a run with salt and key in hand, and
// candidates of every form. The signatures are right. Both find the same lies, and the same
// honest runs honest.
func TestSecondForgeries(t *testing.T) {
	t.Parallel()
	s, step := newSecond(t), 371
	if sampletest.Whole() {
		step = 37
	}
	for name, tt := range secondForgeries(t) {
		f := tt.forgery
		f.config = `{"agent":"command"}`
		if f.manifest == nil {
			f.manifest = func(*record.Manifest) {}
		}
		if f.line == nil {
			f.line = func(*record.Line) {}
		}
		run := published(forged(t, f))
		if tt.files != nil {
			maps.DeleteFunc(run, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, record.CandidatesName+"/") })
		}
		for file, content := range tt.files {
			run[file] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		}
		if res := s.compare(name, run); !res.Sealed || res.OK() != tt.honest {
			t.Errorf("%s: sealed %t, problems %v", name, res.Sealed, res.Problems)
		}
		for file, content := range tt.files {
			for at := 0; at < min(len(content), 4096) && tt.honest; at += step { // in headers, contents and padding
				changed := clone(run)
				changed[file].Data[at] ^= 1
				if s.compare(fmt.Sprintf("%s, with another byte %d", name, at), changed).OK() {
					t.Errorf("%s: another byte %d is not found", name, at)
				}
			}
		}
	}
}

// TestSecondHostile: bytes that are meant for a parser end no check, and are found by both.
func TestSecondHostile(t *testing.T) {
	t.Parallel()
	original := published(snapshot(t, newMaker(t, 2).make()))
	s := newSecond(t)
	deep := strings.Repeat("[", 100_000)
	for name, text := range map[string]string{"a number without end": `{"format":1e999}`, "a number of many digits": `{"format":` + strings.Repeat("9", 5000) + `}`, "nesting": deep,
		"nesting in an object": `{"engine":` + deep, "not a number": `{"format":NaN}`, "half a character": `{"agent":"\ud800"}`, "no text": "\xff\xfe", "nothing": "", "a list": "[]", "a key twice": `{"agent":"a","agent":"a"}`} {
		for _, file := range []string{record.ManifestName, record.StatementName, record.LinesName} {
			run := clone(original)
			run[file] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
			if res := s.compare(name+" in "+file, run); res.OK() {
				t.Errorf("%s in %s is not found", name, file)
			}
		}
	}
}

// secondForgery is a forgery, with candidates that it brings along.
type secondForgery struct {
	forgery
	files  map[string]string
	honest bool
}

func secondForgeries(t *testing.T) map[string]secondForgery {
	line := func(f func(*record.Line)) secondForgery { return secondForgery{forgery: forgery{line: f}} }
	manifest := func(f func(*record.Manifest)) secondForgery { return secondForgery{forgery: forgery{manifest: f}} }
	out := map[string]secondForgery{
		"an honest run":            {honest: true},
		"another run's records":    line(func(l *record.Line) { l.RunID = "another" }),
		"another agent":            line(func(l *record.Line) { l.Agent = "another" }),
		"another pack":             line(func(l *record.Line) { l.BenchmarkID = "another" }),
		"other inputs":             line(func(l *record.Line) { l.Digests.Config = "sha256:0" }),
		"another image":            line(func(l *record.Line) { l.Digests.Image = "sha256:2" }),
		"an unknown worker":        line(func(l *record.Line) { l.Workers.Verify = "w" }),
		"a row that is not there":  line(func(l *record.Line) { l.Index += 2 }),
		"an attempt too many":      line(func(l *record.Line) { l.Attempt += 2 }),
		"one task for all rows":    line(func(l *record.Line) { l.TaskID = "task/0" }),
		"an attempt twice":         line(func(l *record.Line) { l.Attempt = 1 }),
		"passed and failed":        line(func(l *record.Line) { l.Passed = !l.Passed }),
		"passed, with a failure":   line(func(l *record.Line) { l.Outcome = verdict.Failed }),
		"an unknown status":        line(func(l *record.Line) { l.Status = "excellent" }),
		"a pass without candidate": line(func(l *record.Line) { l.Digests.Candidate = "" }),
		"labels out of order":      line(func(l *record.Line) { l.Labels = []string{"unpinned_image", "heuristic"} }),
		"no label of its image":    line(func(l *record.Line) { l.Labels = nil }),
		"judged, unlabelled":       line(func(l *record.Line) { l.Basis = verdict.Judged }),
		"judged, unplanned":        line(func(l *record.Line) { l.Basis, l.Labels = verdict.Judged, []string{"judged", "unpinned_image"} }),
		"computed by a judge":      line(func(l *record.Line) { l.Judge = &verdict.Judgement{Model: "m"} }),
		"another candidate shown":  line(func(l *record.Line) { l.Candidate.Shown += "." }),
		"a candidate that is gone": line(func(l *record.Line) { l.Digests.Extracted = digest.Bytes([]byte("gone")) }),
		"a digest that is none":    line(func(l *record.Line) { l.Digests.Extracted = "sha256:../../run.json" }),
		"a timeout":                line(func(l *record.Line) { l.ProducerMetadata.Set("timed_out", true) }),
		"domains":                  line(func(l *record.Line) { l.ProducerMetadata.Set("allowed_domains", []string{"example.org"}) }),
		"a label of one record":    line(func(l *record.Line) { l.Labels = []string{"network_enabled", "unpinned_image"} }),
		"a label of the run":       manifest(func(m *record.Manifest) { m.Labels = []string{"custom_limits"} }),
		"sockets":                  manifest(func(m *record.Manifest) { m.Engine = map[string]any{"sockets_unbounded": true} }),
		"a zone":                   manifest(func(m *record.Manifest) { m.Labels = []string{"one_trust_zone"} }),
		"more tasks":               manifest(func(m *record.Manifest) { m.Planned.Tasks++ }),
		"more attempts":            manifest(func(m *record.Manifest) { m.Planned.Attempts++ }),
		"rows beside the plan":     manifest(func(m *record.Manifest) { m.Selection = &rowset.Selection{Rows: rowset.Set{{0, 0}}} }),
		"rows out of order": manifest(func(m *record.Manifest) {
			m.Planned.LeftOut, m.Selection = 5, &rowset.Selection{Rows: rowset.Set{{4, 4}, {0, 0}}}
		}),
		"another format":        manifest(func(m *record.Manifest) { m.Format = 2 }),
		"a worker with no role": manifest(func(m *record.Manifest) { m.Workers = []record.Worker{{ID: "w"}} }),
		"the honest judge": {honest: true, forgery: forgery{manifest: func(m *record.Manifest) { m.Planned.Judged = 2 }, line: func(l *record.Line) {
			l.Basis, l.Labels = verdict.Judged, []string{"judged", "unpinned_image"}
			l.Judge = &verdict.Judgement{Model: "m", API: "chat", Prompt: 1, Votes: []verdict.Vote{{Passed: true, Met: []bool{true}, Tokens: 5, Prompt: "p", Asked: 1}}, Passed: 1}
		}}},
		"two judges": {forgery: forgery{manifest: func(m *record.Manifest) { m.Planned.Judged = 2 }, line: func(l *record.Line) {
			l.Basis, l.Labels = verdict.Judged, []string{"judged", "unpinned_image"}
			l.Judge = &verdict.Judgement{Model: "m" + l.TaskID}
		}}},
		"an honest worker": {honest: true, forgery: forgery{manifest: func(m *record.Manifest) {
			m.Workers = []record.Worker{{ID: "w", Roles: []string{"verify"}, First: "a", Last: "b", Jobs: 3}}
		}, line: func(l *record.Line) { l.Workers.Verify = "w" }}},
		"a worker in another role": {forgery: forgery{manifest: func(m *record.Manifest) {
			m.Workers = []record.Worker{{ID: "w", Roles: []string{"verify"}, First: "a", Last: "b", Jobs: 3}}
		}, line: func(l *record.Line) { l.Workers.Produce = "w" }}},
	}
	maps.Copy(out, secondCandidates(t))
	return out
}

// secondCandidates are texts and trees of every form, each honest and with a lie.
func secondCandidates(t *testing.T) map[string]secondForgery {
	out := map[string]secondForgery{}
	add := func(name string, kind task.CandidateKind, content, sum, shown string, honest bool) {
		out[name] = secondForgery{honest: honest, files: map[string]string{"candidates/" + strings.TrimPrefix(sum, "sha256:"): content},
			forgery: forgery{line: func(l *record.Line) {
				l.Candidate, l.Digests.Candidate = record.Candidate{Kind: kind, Shown: shown}, sum
			}}}
	}
	for name, text := range map[string]string{
		"no bytes": "", "bytes": "a\xffb\xe2\x82c\xed\xa0\x80", "long": strings.Repeat("é\U0001f600x", 20_000), "long bytes": strings.Repeat("\xffabc€", 20_000),
		"just long enough": strings.Repeat("x", record.InlineLimit), "just too long": strings.Repeat("x", record.InlineLimit+1), "many bytes": strings.Repeat("\xfe", 3000),
		"few bytes": strings.Repeat("\xfe", 2048), "like an archive": strings.Repeat("\x00", 512) + "text", "like a tree": strings.Repeat("\x00", 257) + "ustar" + strings.Repeat("x", 600)} {
		add("a text: "+name, task.Text, text, digest.Bytes([]byte(text)), record.Inline([]byte(text)), true)
	}
	add("a patch, shown with a blank more", task.Patch, "a", digest.Bytes([]byte("a")), "a ", false)
	posing := "securebench tree 2\n"
	add("the digest of an empty tree", task.Text, posing, digest.Bytes([]byte(posing)), posing, false)
	for name, entries := range trees() {
		archive, sum := treeOf(t, entries)
		add("a tree: "+name, task.Workspace, archive, sum, sum, true)
		if name == "small" {
			add("a tree, shown as another", task.Workspace, archive, sum, digest.Bytes(nil), false)
			add("a tree with a longer end", task.Workspace, archive+strings.Repeat("\x00", 512), sum, sum, false)
		}
	}
	return out
}

// trees are trees with entries of every kind, and names of every length.
func trees() map[string][]candidate.Entry {
	deep := strings.Repeat("folder-of-some-length/", 6)
	return map[string][]candidate.Entry{
		"empty": nil,
		"small": {{Path: "app", Mode: fs.ModeDir | 0o750, UID: 1000, GID: 1000}, {Path: "app/a.py", Mode: 0o644, UID: 1000, GID: 1000, Size: 600}, {Path: "app/link", Mode: fs.ModeSymlink | 0o777, Target: "a.py"},
			{Path: "app.py", Mode: 0o755, Size: 512}, {Path: "gone", Deleted: true}},
		"long names": {{Path: deep + strings.Repeat("x", 90), Mode: 0o644, Size: 1}, {Path: deep + strings.Repeat("x", 110), Mode: 0o644, Size: 1}, {Path: deep + "y", Mode: fs.ModeDir | 0o755},
			{Path: deep + "z", Mode: fs.ModeSymlink | 0o777, Target: strings.Repeat("t", 120)}},
		"long and gone": {{Path: strings.Repeat("d", 98) + "/ab", Mode: fs.ModeDir | 0o700}, {Path: deep + strings.Repeat("x", 90), Deleted: true}},
		"other letters": {{Path: "a/ünïcode", Mode: 0o600, Size: 3}, {Path: "a/日本", Mode: fs.ModeDir | 0o700}, {Path: "a/日本/é", Mode: fs.ModeSymlink | 0o777, Target: "ü"}},
		"owners":        {{Path: "a", Mode: 0o600, UID: 1<<21 - 1, GID: 1 << 21, Size: 1}, {Path: "b", Mode: 0o600, UID: 1 << 31, Size: 1}},
	}
}

// treeOf returns the archive of a tree, and its digest.
func treeOf(t *testing.T, entries []candidate.Entry) (archive, sum string) {
	t.Helper()
	var b strings.Builder
	w := candidate.NewTreeWriter(&b, candidate.Bounds{Bytes: 1 << 20, Files: 100})
	for _, e := range entries {
		if err := w.Add(e, strings.NewReader(strings.Repeat("c", int(e.Size)))); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), sum
}

// TestSecondBundles: the second implementation as a program, with bundles, directories and
// keys.
func TestSecondBundles(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 4)
	run := published(snapshot(t, m.make()))
	var bundle bytes.Buffer
	if err := evidence.WriteBundle(&bundle, run); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		m.check(os.WriteFile(name, data, 0o600))
		return name
	}
	edited := func(name string, edit func([]byte) []byte) string {
		return write(name, edit(bytes.Clone(bundle.Bytes())))
	}
	folder := filepath.Join(dir, "folder")
	m.check(os.CopyFS(folder, run))
	linked := filepath.Join(dir, "linked")
	m.check(os.CopyFS(linked, run), os.Remove(filepath.Join(linked, record.ManifestName)), os.Symlink(filepath.Join(folder, record.ManifestName), filepath.Join(linked, record.ManifestName)))
	mine, other := write("mine.pem", m.key.Public().PEM()), write("other.pem", newKey(t).Public().PEM())
	at := bytes.Index(bundle.Bytes(), []byte("candidate of"))
	for _, tt := range []struct {
		name, run, key string
		code           int
	}{
		{"a bundle", edited("run.zip", func(b []byte) []byte { return b }), "", 0},
		{"a folder", folder, "", 0},
		{"its key", folder, mine, 0},
		{"another key", folder, other, 13},
		{"no key", folder, folder, 2},
		{"a link in the place of a file", linked, "", 13},
		{"a byte more at the end", edited("end.zip", func(b []byte) []byte { return append(b, 0) }), "", 13},
		{"a comment", edited("comment.zip", func(b []byte) []byte { b[len(b)-2] = 1; return append(b, '!') }), "", 13},
		{"bytes before it", edited("before.zip", func(b []byte) []byte { return append([]byte("MZ"), b...) }), "", 13},
		{"another time", edited("time.zip", func(b []byte) []byte { b[10] ^= 1; return b }), "", 13},
		{"another candidate", edited("candidate.zip", func(b []byte) []byte { b[at] ^= 1; return b }), "", 13},
		{"half of it", edited("half.zip", func(b []byte) []byte { return b[:len(b)/2] }), "", 13},
		{"nothing", filepath.Join(dir, "nothing"), "", 2},
	} {
		whose := []string{"--any-signer"}
		if tt.key != "" {
			whose = []string{"--key", tt.key}
		}
		out, err := exec.Command(python(t), append([]string{"-B", "../../python/securebench/verify.py", tt.run}, whose...)...).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if code := exit.ExitCode(); code != tt.code {
				t.Errorf("%s: exit code %d, want %d\n%s", tt.name, code, tt.code, out)
			}
		} else if err != nil || tt.code != 0 {
			t.Errorf("%s: %v, want exit code %d\n%s", tt.name, err, tt.code, out)
		}
		opened, err := evidence.OpenRun(tt.run)
		ok := err == nil
		if ok {
			res, err := opened.Verify(t.Context(), evidence.Options{})
			m.check(err, opened.Close())
			ok = res.OK()
		}
		if tt.key == "" && ok != (tt.code == 0) {
			t.Errorf("%s: the first implementation says %t", tt.name, ok)
		}
	}
}

// TestSecondIsShort: a stranger reads it.
func TestSecondIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../python/securebench/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 400 {
		t.Errorf("it has %d lines", n)
	}
}
