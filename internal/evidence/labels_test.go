package evidence_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"securebench/internal/attest"
	"securebench/internal/config"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// forgery is what an operator who holds salt and key says of a run.
type forgery struct {
	config   string
	manifest func(*record.Manifest)
	line     func(*record.Line)
}

// forged makes a run as an operator would who holds salt and key.
func forged(t *testing.T, f forgery) fstest.MapFS {
	t.Helper()
	m := newMaker(t, 2)
	d, err := record.Open(m.dir)
	m.check(err)
	raw := []byte(f.config)
	m.check(d.Begin(false), m.writeInputs(d, raw))
	man := m.manifest(d, raw)
	f.manifest(&man)
	m.check(d.WriteManifest(&man))
	var counts verdict.ByBasis[attest.Counts]
	for i := range m.tasks {
		for n := 1; n <= m.attempts; n++ {
			l := m.line(d, man.Digests, i, n)
			f.line(l)
			m.check(d.Append(l))
			if of := counts.Of(l.Basis); l.Passed {
				of.Passed++
			} else {
				of.Failed++
			}
		}
	}
	m.check(d.Close())
	run := snapshot(t, m.dir)
	var tree attest.Tree
	lines := run[record.LinesName].Data
	for l := range strings.Lines(string(lines)) {
		tree.Add([]byte(strings.TrimSuffix(l, "\n")))
	}
	s := attest.Statement{Predicate: attest.Predicate{RunID: man.RunID, Ended: man.Started, Planned: attest.Planned(man.Planned), Records: 4,
		Counts: *counts.Of(verdict.Computed), Judged: *counts.Of(verdict.Judged), MerkleRoot: tree.Root()}}
	for _, name := range []string{record.LinesName, record.ManifestName} {
		s.Subject = append(s.Subject, attest.Subject{Name: name, Digest: map[string]string{"sha256": strings.TrimPrefix(digest.Bytes(run[name].Data), "sha256:")}})
	}
	signed, err := attest.Sign(s, m.key)
	m.check(err)
	run[record.StatementName] = &fstest.MapFile{Data: signed, Mode: 0o644}
	return run
}

// TestLabels takes labels away from a run, or adds some, with salt and key in hand. What
// they follow from is still there. The weak check is the signature, which is right.
func TestLabels(t *testing.T) {
	const settings = `{"agent":"command","limits":{"memory":1073741824,"cpus":1,"pids":256,"disk":268435456,"files":65536,"output":8388608,"candidate":1048576,"produce_seconds_default":0,"verify_seconds":null},"sandbox":{"engine":"","capabilities":["CHOWN"]}`
	def := config.Default().Limits
	limits := record.RunLimits{Memory: def.Memory, CPUs: def.CPUs, Pids: def.Pids, Disk: def.Disk, Files: def.Files, Output: def.Output, Candidate: def.Candidate}
	timedOut := func(l *record.Line) { l.ProducerMetadata.Set("timed_out", true) }
	domains := func(l *record.Line) { l.ProducerMetadata.Set("allowed_domains", []string{"example.org"}) }
	label := func(labels ...string) func(*record.Line) {
		return func(l *record.Line) { l.Labels = slices.Sorted(slices.Values(append(labels, l.Labels...))) }
	}
	for name, tt := range map[string]struct {
		forgery
		want string // the first problem
	}{
		"honest":                        {forgery{}, ""},
		"honest, with settings":         {forgery{config: settings + "}"}, ""},
		"an engine that was not needed": {forgery{config: strings.Replace(settings, `"engine":""`, `"engine":"docker"`, 1) + "}"}, ""},
		"an engine by choice":           {forgery{config: strings.Replace(settings, `"engine":""`, `"engine":"auto"`, 1) + "}", manifest: func(m *record.Manifest) { m.Engine = map[string]any{"name": "docker"} }}, ""},
		"honest timeout":                {forgery{config: settings + `,"score_timeouts":true}`, line: func(l *record.Line) { timedOut(l); label("scored_timeout")(l) }}, ""},
		"honest domains": {forgery{config: settings + `,"harness":{"config":{"allowed_domains":["example.org"]}}}`,
			manifest: func(m *record.Manifest) { m.Labels = []string{"network_enabled"} }, line: func(l *record.Line) { domains(l); label("network_enabled")(l) }}, ""},
		"honest sockets": {forgery{manifest: func(m *record.Manifest) {
			m.Engine, m.Labels = map[string]any{"name": "docker", "sockets_unbounded": true}, []string{"sockets_unbounded"}
		}, line: label("sockets_unbounded")}, ""},
		"no sockets_unbounded": {forgery{manifest: func(m *record.Manifest) {
			m.Engine = map[string]any{"name": "docker", "sockets_unbounded": true}
		}}, "run.json: its label sockets_unbounded is not what it says of its engine"},
		"honest shards": {forgery{manifest: func(m *record.Manifest) {
			m.Labels, m.Shards = []string{"one_trust_zone"}, &record.Shards{Count: 2, Unit: "row", Parts: []record.Part{{Restart: 1}}}
		}}, ""},
		"no one_trust_zone": {forgery{manifest: func(m *record.Manifest) {
			m.Shards = &record.Shards{Count: 2, Unit: "row", Parts: []record.Part{{Restart: 1}}}
		}}, "run.json: its label one_trust_zone is not what it says of its shards"},
		"one_trust_zone without shards": {forgery{manifest: func(m *record.Manifest) { m.Labels = []string{"one_trust_zone"} }}, "run.json: its label one_trust_zone is not what it says of its shards"},
		"honest capability":             {forgery{config: settings + "}", line: label("capability_chown")}, ""},
		"no scored_timeout":             {forgery{line: timedOut}, "candidates.jsonl:1: its label scored_timeout is wrong: by its producer_metadata the agent's time was up"},
		"timeouts do not count": {forgery{config: settings + "}", line: func(l *record.Line) { timedOut(l); label("scored_timeout")(l) }},
			"its label scored_timeout is wrong: by restricted/config.json no such attempt was to be scored"},
		"no network_enabled":          {forgery{line: domains}, "it lacks the label network_enabled: by its producer_metadata the agent could reach hosts"},
		"no network_enabled anywhere": {forgery{config: settings + `,"harness":{"config":{"allowed_domains":["example.org"]}}}`}, "run.json: its label network_enabled is not what restricted/config.json says"},
		"no external_tools":           {forgery{config: settings + `,"harness":{"config":{"allow_external_tools":true}}}`}, "run.json: its label external_tools is not what restricted/config.json says"},
		"no custom_limits in records": {forgery{manifest: func(m *record.Manifest) { m.Labels = []string{"custom_limits"} }}, "its label custom_limits is wrong: run.json has it"},
		"custom_limits in records":    {forgery{line: label("custom_limits")}, "its label custom_limits is wrong: run.json has not"},
		"no custom_limits":            {forgery{manifest: func(m *record.Manifest) { m.Limits.Pids = 1000 }}, "run.json: it lacks the label custom_limits: limit pids: 1000, by default 256"},
		"no unpinned_image":           {forgery{line: func(l *record.Line) { l.Labels = nil }}, "it lacks the label unpinned_image: run.json names its image by a tag"},
		"a capability":                {forgery{config: settings + "}", line: label("capability_sys_ptrace")}, "its label capability_sys_ptrace is wrong: by restricted/config.json that was not granted"},
		"other limits":                {forgery{config: settings + "}", manifest: func(m *record.Manifest) { m.Limits.Pids, m.Labels = 1000, []string{"custom_limits"} }, line: label("custom_limits")}, "run.json: its limits is not what restricted/config.json says"},
		"another model":               {forgery{config: settings + `,"model":"a"}`, manifest: func(m *record.Manifest) { m.Model = "b" }}, "run.json: its model is not what restricted/config.json says"},
		"no program":                  {forgery{config: settings + `,"programs":[{"name":"codex","version":"1","platform":"","integrity":"","digest":""}]}`}, "run.json: its programs is not what restricted/config.json says"},
		"another engine":              {forgery{config: settings + "}", manifest: func(m *record.Manifest) { m.Engine = map[string]any{"name": "native"} }}, "run.json: its engine is not what restricted/config.json says"},
	} {
		f := tt.forgery
		if f.config == "" {
			f.config = `{"agent":"command"}`
		}
		change, edit := f.manifest, f.line
		f.manifest = func(m *record.Manifest) {
			m.Limits = limits
			build, err := record.ThisBuild()
			if m.Digests.Verifier = build; err != nil {
				t.Fatal(err)
			}
			if change != nil {
				change(m)
			}
		}
		f.line = func(l *record.Line) {
			if edit != nil {
				edit(l)
			}
		}
		res := verify(t, forged(t, f))
		if !res.Sealed || len(res.Problems) == 0 != (tt.want == "") || tt.want != "" && !strings.Contains(res.Problems[0].String(), tt.want) {
			t.Errorf("%s: sealed %t, problems %v, want %s", name, res.Sealed, res.Problems, tt.want)
		}
	}
}

// TestForeignStatement: the statement of another run is what is wrong, and a last record
// that was changed is not taken for that.
func TestForeignStatement(t *testing.T) {
	one, other := snapshot(t, newMaker(t, 3).make()), snapshot(t, newMaker(t, 3).make())
	published := func(run fstest.MapFS) fstest.MapFS {
		run = maps.Clone(run)
		maps.DeleteFunc(run, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, record.RestrictedName) })
		return run
	}
	mixed := maps.Clone(one)
	mixed[record.StatementName] = other[record.StatementName]
	for name, run := range map[string]fs.FS{"whole": mixed, "published": published(mixed)} {
		if res := verify(t, run); len(res.Problems) != 1 || res.Problems[0].File != record.StatementName || len(res.Suspect) > 0 {
			t.Errorf("%s: %v", name, res.Problems)
		}
	}
	last := maps.Clone(one)
	data := slices.Clone(last[record.LinesName].Data)
	last[record.LinesName] = &fstest.MapFile{Data: []byte(strings.TrimSuffix(string(data), "\n")[:len(data)-3] + "9}\n"), Mode: 0o644}
	if res := verify(t, published(last)); len(res.Problems) == 0 || res.Problems[0].File != record.LinesName {
		t.Errorf("a changed line: %v", res.Problems)
	}
}

// TestAbout: a run says what it is of, with what a reader should know.
func TestAbout(t *testing.T) {
	m := record.Manifest{Agent: "replay", Model: "gpt-1\x1b", Programs: []record.Program{{Name: "codex", Version: "0.1", Platform: "a"}, {Name: "codex", Version: "0.1", Platform: "b"}},
		Engine: map[string]any{"name": "native", "choice": "as configured"}, Version: "1.0", Digests: record.RunDigests{Verifier: "sha256:1"}}
	var got []string
	for _, f := range evidence.About(m) {
		got = append(got, f.Name+": "+f.Value)
	}
	want := `agent: replay (answers were replayed from a file: only the operator can say where they come from)
model: gpt-1\x1b
program: codex 0.1
engine: native (as configured)
build: 1.0, sha256:1`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("%s, want\n%s", s, want)
	}
	if other, err := evidence.OtherBuild(m); err != nil || !strings.HasPrefix(other, "this program is another build") {
		t.Errorf("%q, %v", other, err)
	}
	var err error
	if m.Digests.Verifier, err = record.ThisBuild(); err != nil {
		t.Fatal(err)
	}
	if other, err := evidence.OtherBuild(m); err != nil || other != "" {
		t.Errorf("the same build: %q, %v", other, err)
	}
}

// TestOwnKey: only the owner of a key is told that it is theirs.
func TestOwnKey(t *testing.T) {
	key := newKey(t).Public()
	for role, own := range map[attest.Role]bool{attest.RoleSigning: true, attest.RoleRetired: true, attest.RoleTrusted: false} {
		s := evidence.Signer{Entry: attest.Entry{Key: key, Role: role}, Known: true}
		if got := s.String(); strings.Contains(got, "your own") != own {
			t.Errorf("%s: %s", role, got)
		}
		if got := s.Public(); got != key.ID {
			t.Errorf("%s, in public: %s", role, got)
		}
	}
}
