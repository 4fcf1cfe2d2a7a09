package viewer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/attest"
	"securebench/internal/browsertest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/gateway/ledger"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(browsertest.Tests{M: m}) }

// runMaker makes runs as the command does, without any task.
type runMaker struct {
	t        testing.TB
	dir      string
	name     string // of the pack, the agent and the run
	tasks    int
	attempts int
	key      attest.PrivateKey
	// change changes the record of an attempt before it is written.
	change func(d *record.Dir, l *record.Line)
	open   bool   // it is not signed
	build  string // that scores
}

func newMaker(t testing.TB, dir string, tasks int) *runMaker {
	t.Helper()
	key, err := attest.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return &runMaker{t: t, dir: dir, name: filepath.Base(dir), tasks: tasks, attempts: 1, key: key}
}

func (m *runMaker) check(errs ...error) {
	m.t.Helper()
	if err := errors.Join(errs...); err != nil {
		m.t.Fatal(err)
	}
}

// make makes a run and returns its directory.
func (m *runMaker) make() string {
	m.t.Helper()
	d := m.begin()
	man, _, err := record.ReadManifest(d.FS())
	m.check(err)
	var lines []*record.Line
	for i := range m.tasks * m.attempts {
		l := m.line(man.Digests, d.Salt(), i/m.attempts, i%m.attempts+1)
		if m.change != nil {
			m.change(d, l)
		}
		if l.Digests.Candidate == "" {
			m.store(d, l, task.Text, []byte("an answer"))
		}
		lines = append(lines, l)
	}
	m.check(d.Append(lines...))
	if !m.open {
		m.check(evidence.Seal(context.Background(), d, man, m.key))
	}
	m.check(d.Close())
	return m.dir
}

// begin begins a run.
func (m *runMaker) begin() *record.Dir {
	m.t.Helper()
	config := []byte(`{"agent":"command"}`)
	sum := func(s string) string { return digest.Bytes([]byte(s)) }
	p := pack.Digests{Manifest: sum("m"), Tasks: sum("t"), PublicAssets: sum("p"), EvalAssets: sum("e")}
	d, err := record.Open(m.dir)
	m.check(err)
	m.check(d.Begin(false), d.WriteConfig(config), d.WritePack(record.PackDigests{Pack: p.Sum(), Tasks: p.Tasks, PublicAssets: p.PublicAssets, EvalAssets: p.EvalAssets}))
	salt := d.Salt()
	man := record.Manifest{
		Format: record.ManifestFormat, RunID: m.name, Started: "2026-01-02T03:04:05Z", Agent: m.name, Pack: record.PackInfo{ID: m.name, Version: 1},
		Planned: record.Planned{Tasks: m.tasks, Attempts: m.attempts}, Images: map[string]string{}, Labels: []string{}, Version: "test", SaltDigest: d.SaltDigest(), ResumedFrom: []record.Resumption{},
		Digests: record.RunDigests{Manifest: p.Manifest, Public: sum("public"), Config: digest.Bytes(config), Verifier: sum("v" + m.build),
			Pack: salt.Keyed("pack", "", []byte(p.Sum())), Assets: salt.Keyed("assets", "", []byte(p.PublicAssets+p.EvalAssets))},
	}
	m.check(d.WriteManifest(&man))
	return d
}

// line is the record of an attempt: every fourth passes.
func (m *runMaker) line(run record.RunDigests, salt digest.Salt, index, attempt int) *record.Line {
	id := fmt.Sprintf("task/%d", index)
	l := &record.Line{
		RunID: m.name, TaskID: id, BenchmarkID: m.name, TaskType: []string{"short_answer", "multiple_choice"}[index%2], Status: "failed", Outcome: "failed", FailureReason: "wrong_answer",
		ProducerMetadata: verdict.NewMetadata(map[string]any{"exit_code": 0}), Verified: true, VerifierMetadata: verdict.NewMetadata(map[string]any{"verifier": "short_answer"}),
		Summary: []task.ResourceSummary{{Name: "question", Kind: "text", Visibility: "public", Value: []byte(`"What is it?"`)}},
		Index:   index, Attempt: attempt, Agent: m.name, Containment: "passive", Labels: []string{},
		Digests: record.Digests{Pack: run.Pack, Assets: run.Assets, Config: run.Config, Verifier: run.Verifier, Row: salt.Keyed("row", id, []byte(id))},
		Timings: map[verdict.Phase]int64{"total": int64(index)},
	}
	if index%4 == 0 {
		l.Status, l.Outcome, l.Passed, l.FailureReason = "passed", "passed", true, ""
	}
	return l
}

// store stores a candidate.
func (m *runMaker) store(d *record.Dir, l *record.Line, kind task.CandidateKind, data []byte) {
	m.t.Helper()
	s, err := candidate.OpenStore(d.StorePath())
	m.check(err)
	defer s.Close()
	c, err := s.Put(kind, candidate.Stdout, bytes.NewReader(data))
	m.check(err)
	shown := record.Inline(data)
	if kind == task.Workspace {
		shown = c.Digest
	}
	l.Candidate, l.Digests.Candidate = record.Candidate{Kind: kind, Shown: shown}, c.Digest
}

// restrict stores raw output of an attempt.
func (m *runMaker) restrict(d *record.Dir, l *record.Line, name string, data []byte) {
	m.t.Helper()
	raw, _, err := d.Restrict(l.TaskID, fmt.Sprintf("task_%d/%d/%s", l.Index, l.Attempt, name), data)
	m.check(err)
	l.Restricted = append(l.Restricted, raw)
}

// steps are those of an agent that says a text everywhere.
func steps(text string) []byte {
	r := trajectory.NewRecorder(nil)
	r.Asked(time.Unix(1, 0), func(add func(trajectory.Step) bool) {
		add(trajectory.Step{Kind: trajectory.Message, Role: "user", Text: text})
	})
	r.Answered([]trajectory.Step{{Kind: trajectory.Call, Call: "c", Name: text, Text: text}},
		trajectory.Step{By: trajectory.Model, Kind: trajectory.Answer, At: time.Unix(2, 0), Model: text, Reason: text, Usage: &trajectory.Usage{Input: 3, Output: 2}})
	r.Asked(time.Unix(3, 0), func(add func(trajectory.Step) bool) {
		add(trajectory.Step{Kind: trajectory.Result, Call: "c", Text: text, Failed: true})
	})
	return r.Lines()
}

// requests are decisions about a target.
func requests(target string) []byte {
	var l ledger.Ledger
	l.Add(ledger.Entry{Gate: ledger.Proxy, Method: "CONNECT", Target: target, Reason: "domain", Status: 403, Began: time.Unix(1, 0)})
	l.Add(ledger.Entry{Gate: ledger.Relay, Method: "POST", Target: "/v1/messages", Allowed: true, Status: 200, Sent: 10, Received: 2000, Began: time.Unix(2, 0), Took: time.Second})
	return l.Lines()
}

// tree is a stored tree with files.
func tree(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := candidate.NewTreeWriter(&b, candidate.Bounds{Bytes: 1 << 20, Files: 100})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.Add(candidate.Entry{Path: name, Mode: 0o644, Size: int64(len(files[name]))}, strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// trusting are options with which any signer counts.
func trusting() Options {
	return Options{Trust: evidence.Trust{AnySigner: true, Getenv: func(string) string { return "" }}, Families: families.All()}
}

// serve serves the runs below a folder until the test ends, and returns the address.
func serve(t testing.TB, dir string) string {
	t.Helper()
	l, err := OpenLibrary(dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	return serveLibrary(t, l)
}

// serveLibrary serves runs until the test ends, and returns the address.
func serveLibrary(t testing.TB, l *Library) string {
	t.Helper()
	s := &Server{Library: l, Version: "0"}
	if err := s.Listen(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Address()
}
