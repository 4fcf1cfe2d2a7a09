package main

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"securebench/internal/sandbox/enginetest"
)

// forms returns the encodings in which a value may occur. Base64 is searched
// for inside longer base64, at any alignment.
func forms(value string) map[string]string {
	reversed := []byte(value)
	slices.Reverse(reversed)
	lower := hex.EncodeToString([]byte(value))
	out := map[string]string{"plain": value, "reversed": string(reversed), "hex": lower, "upper-case hex": strings.ToUpper(lower)}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "url-safe base64": base64.RawURLEncoding} {
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), value...))
			// The characters at the edges also hold bits of the neighbours.
			out[fmt.Sprintf("%s after %d bytes", name, shift)] = text[(8*shift+5)/6 : 8*(shift+len(value))/6]
		}
	}
	return out
}

// needles are byte strings to search for, with a description of each.
type needles struct {
	pairs  map[[2]byte]bool // that begin a needle: most of the text has none
	bySize map[int]map[string]string
}

func newNeedles() *needles {
	return &needles{pairs: map[[2]byte]bool{}, bySize: map[int]map[string]string{}}
}

// add adds a value in all its forms.
func (n *needles) add(what, value string) {
	for form, s := range forms(value) {
		n.addBytes(what+", "+form, s)
	}
}

// addWindows takes every run of size bytes of a value in all its forms, and
// the value in upper and lower case. All of the value in a form is found as a
// window of it.
func (n *needles) addWindows(what, value string, size int) {
	for i := 0; i+size <= len(value); i++ {
		n.add(fmt.Sprintf("%s[%d:%d]", what, i, i+size), value[i:i+size])
	}
	n.addBytes(what+" in lower case", strings.ToLower(value))
	n.addBytes(what+" in upper case", strings.ToUpper(value))
}

func (n *needles) addBytes(what, s string) {
	n.pairs[[2]byte{s[0], s[1]}] = true
	if n.bySize[len(s)] == nil {
		n.bySize[len(s)] = map[string]string{}
	}
	n.bySize[len(s)][s] = what
}

// in returns the needles that occur in data.
func (n *needles) in(data []byte) (found []string) {
	var begins [1 << 16]bool
	for p := range n.pairs {
		begins[int(p[0])<<8|int(p[1])] = true
	}
	for i := 0; i+1 < len(data); i++ {
		if !begins[int(data[i])<<8|int(data[i+1])] {
			continue
		}
		for size, set := range n.bySize {
			if i+size > len(data) {
				continue
			}
			if what, ok := set[string(data[i:i+size])]; ok {
				found = append(found, what)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// check searches everything that was seen for needles.
func (n *needles) check(t *testing.T, seen map[string][]byte) {
	t.Helper()
	for where, data := range seen {
		if found := n.in(data); len(found) > 0 {
			t.Errorf("%s holds %d hidden texts, such as %s", where, len(found), found[0])
		}
	}
}

// published reads the publishable files of a run, and the statement without
// its envelope.
func published(t *testing.T, out string) map[string][]byte {
	t.Helper()
	seen := map[string][]byte{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "restricted" || d.Name() == "history") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err == nil {
			seen[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(seen["statement.dsse.json"], &envelope); err != nil || len(envelope.Payload) == 0 {
		t.Fatalf("the statement has no payload that can be read: %v", err)
	}
	seen["the payload of the statement"] = envelope.Payload
	return seen
}

// readBack runs the commands that read a finished run and returns their
// output. All of them must succeed, and no output may control a terminal.
func readBack(t *testing.T, out string) map[string][]byte {
	t.Helper()
	bundle := filepath.Join(t.TempDir(), "run.zip")
	seen := map[string][]byte{}
	for _, args := range [][]string{
		{"verify", out}, {"verify", out, "--json"}, {"report", out}, {"report", out, "--json"},
		{"report", out, "--csv"}, {"bundle", out, "-o", bundle}, {"verify", bundle}, {"report", bundle},
	} {
		res := securebench(t, nil, args...)
		if res.code != 0 {
			t.Errorf("%s: exit %d:\n%s%s", args, res.code, res.stdout, res.stderr)
		}
		text := res.stdout + res.stderr
		if strings.Contains(args[len(args)-1], "csv") {
			text = strings.ReplaceAll(text, "\r\n", "\n")
		}
		name := strings.Join(args, " ")
		checkPlain(t, name, text)
		seen[name] = []byte(res.stdout + res.stderr)
	}
	if z, err := zip.OpenReader(bundle); err != nil || len(z.File) < 3 {
		t.Errorf("the bundle is not an archive of a run: %v", err)
	} else {
		z.Close()
	}
	var err error
	if seen["the bundle"], err = os.ReadFile(bundle); err != nil {
		t.Fatal(err)
	}
	return seen
}

// checkPlain checks that a terminal shows the text unchanged: no control
// characters but newlines, nothing invisible, nothing that changes the
// direction.
func checkPlain(t *testing.T, where, text string) {
	t.Helper()
	if i := controlIn(text); i >= 0 {
		t.Errorf("%s: %q at byte %d controls a terminal", where, text[i:min(i+4, len(text))], i)
	}
}

// controlIn returns the index of the first character that a terminal would
// interpret or hide, or -1.
func controlIn(text string) int {
	for i, r := range text {
		if r >= ' ' && r < 0x7f || r == '\n' {
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) {
			return i
		}
	}
	return -1
}

// leakSize is the number of bytes of a hidden value that count as a leak.
const leakSize = 12

// canaries are hidden values by what they are.
type canaries map[string]string

// text returns a new canary. Its letters are those of base64, so that both
// kinds of base64 write it differently.
func (c canaries) text(what string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789~?"
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = letters[b[i]&63]
	}
	c[what] = string(b)
	return c[what]
}

// name returns a new canary that may be the name of a file or a class.
func (c canaries) name(what string) string {
	c[what] = "C" + rand.Text()
	return c[what]
}

// image gives Docker's image another name, a canary. The native engine takes it from there
// before the run, which would say so by that name.
func (c canaries) image(t *testing.T, what, image string) string {
	t.Helper()
	c[what] = "c" + strings.ToLower(rand.Text())
	ref := c[what] + ":1"
	dockerOutput(t, "tag", image, ref)
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", ref).Run() })
	if engineOf(t) == "docker" {
		return ref
	}
	if res := securebench(t, nil, "image", "import", "docker:"+ref); res.code != exitDone {
		t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	remove := command(t, nil, "image", "remove", ref)
	again := exec.Command(remove.Path, remove.Args[1:]...) // the test's context is over then
	again.Env = remove.Env
	t.Cleanup(func() { _ = again.Run() })
	return ref
}

// hiddenRow is a row of a pack and its expected outcome.
type hiddenRow struct {
	id, family      string
	input, eval     map[string]any
	note            string // hidden
	outcome, reason string
	// captured are canaries that must be in the row's raw output, which the
	// operator alone reads.
	captured []string
}

// textRows returns rows of the text families: an agent that fails, one that
// passes with an answer without a canary, and one that crashes.
func textRows(c canaries) (rows []hiddenRow) {
	families := []struct {
		name, right string
		input       func(script string) map[string]any
		eval        func(id string) map[string]any
	}{
		{"short_answer", "an honest answer",
			func(script string) map[string]any { return map[string]any{"question": script} },
			func(id string) map[string]any {
				return map[string]any{"accepted_answers": []any{c.text(id + " accepted"), "an honest answer"}}
			}},
		{"multiple_choice", "B",
			func(script string) map[string]any {
				return map[string]any{"question": script, "choices": []any{"red", "blue"}}
			},
			func(id string) map[string]any { return map[string]any{"answer": []any{c.text(id + " answer"), "B"}} }},
		{"free_response", "an honest answer",
			func(script string) map[string]any { return map[string]any{"prompt": script} },
			func(id string) map[string]any {
				return map[string]any{"reference_answer": c.text(id + " reference"), "rubric": map[string]any{
					"accepted_answers": []any{c.text(id + " accepted"), "an honest answer"}, "rejected_answers": []any{c.text(id + " rejected")}}}
			}},
	}
	for _, f := range families {
		for _, a := range []struct{ id, script, outcome, reason string }{
			{"passes", "echo " + f.right, "passed", ""},
			{"fails", "echo wrong; echo wrong >&2", "failed", "wrong_answer"},
			{"crashes", "kill -9 $$", "no_candidate", "empty_candidate"},
		} {
			id := f.name + "-" + a.id
			rows = append(rows, hiddenRow{id: id, family: f.name, input: f.input(a.script), eval: f.eval(id), outcome: a.outcome, reason: a.reason})
		}
	}
	return rows
}

// talkative is the start of tests that print everything they know: they print
// their source, which contains two canaries, to every stream.
const talkative = `# COMMENT
import os, sys
gold = "GOLD"
source = sys._getframe(1).f_locals["tests"]
assert "COMMENT" in source
for text in (gold, source):
    print(text)
    print(text, file=sys.stderr)
    os.write(1, text.encode())
    os.write(2, text.encode())
`

// codeRows returns rows whose tests and candidates print what they know.
func codeRows(c canaries) (rows []hiddenRow) {
	const honest = "def f(x):\n    return x * x\n"
	for _, r := range []struct {
		id, candidate, tests, outcome, reason string
		captured                              []string
	}{
		{"passes", honest, `assert f(3) == 9, source`, "passed", "", nil},
		{"fails", "def f(x):\n    return 8\n", `assert f(3) == 9, gold + source`, "failed", "tests_failed", []string{"gold", "comment"}},
		{"raises", honest, `f(3); raise type("NAME", (Exception,), {})(gold)`, "failed", "tests_failed", []string{"gold", "name"}},
		{"passes-it-on", "import sys\ndef f(x):\n    print(x)\n    print(x, file=sys.stderr)\n    raise ValueError(x)\n",
			`f(gold)`, "failed", "tests_failed", []string{"gold"}},
		{"asks-by-name", "class f:\n    def __init__(self, x): pass\n    def __getattr__(self, name):\n        print(name)\n        raise AttributeError(name)\n",
			`f(3).NAME`, "failed", "tests_failed", []string{"name"}},
		{"leaves", honest, `f(3); os._exit(3)`, "failed", "tests_failed", nil},
		{"does-not-parse", honest, `def ( gold`, "pending", "pack", nil},
		{"candidate-leaves", "import os\nos._exit(0)\n", `assert f(3) == 9, gold`, "failed", "worker_exited", nil},
	} {
		id := "code-" + r.id
		in := map[string]string{"comment": c.text(id + " comment"), "gold": c.text(id + " gold"), "name": c.name(id + " name")}
		tests := strings.NewReplacer("COMMENT", in["comment"], "GOLD", in["gold"], "NAME", in["name"]).Replace(talkative + r.tests + "\n")
		for i, name := range r.captured {
			r.captured[i] = in[name]
		}
		rows = append(rows, hiddenRow{id: id, family: "code_completion",
			input: map[string]any{"prompt": "cat > candidate.py <<'END'\n" + r.candidate + "END\n"},
			eval: map[string]any{"tests": map[string]any{"source": "inline", "code": tests, "entry_point": "f"},
				"reference_solution": honest + "# " + c.text(id+" reference") + "\n", "canonical_solution": "# " + c.text(id+" canonical") + "\n"},
			outcome: r.outcome, reason: r.reason, captured: r.captured})
	}
	return rows
}

// leakRows are the rows of a pack whose every hidden value is a canary, names
// and contents of evaluation files included.
func leakRows(t *testing.T, dir, image string, c canaries) []hiddenRow {
	t.Helper()
	rows := append(textRows(c), codeRows(c)...)
	file := c.name("the name of an evaluation file") + ".sh"
	rows = append(rows, hiddenRow{id: "file", family: "terminal_task", input: map[string]any{"instructions": "echo wrong"},
		eval: map[string]any{"checker": map[string]any{"source": "script", "path": file},
			"test_files": map[string]any{"x": c.text("a test file")}, "expected_state": c.text("the expected state")},
		outcome: "failed", reason: "tests_failed", captured: []string{c["the name of an evaluation file"]}})
	for outcome, command := range map[string]string{"passed": "true", "failed": "false"} {
		id := "image-" + outcome
		rows = append(rows, hiddenRow{id: id, family: "terminal_task", input: map[string]any{"instructions": "echo work > work"}, outcome: outcome,
			eval: map[string]any{"checker": map[string]any{"command": command + " " + c.text(id+" argument"), "image": c.image(t, id+" image", image)}}})
	}
	rows[slices.IndexFunc(rows, func(r hiddenRow) bool { return r.id == "image-failed" })].reason = "tests_failed"
	if err := os.Mkdir(filepath.Join(dir, "hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hidden", file), c.text("an evaluation file")+"\n")
	for i := range rows {
		rows[i].note = c.text(rows[i].id + " metadata")
	}
	return rows
}

// writePack makes a pack of rows, and a tester YAML that runs command, a list
// in JSON, as the agent.
func writePack(t *testing.T, dir, id, image, command string, rows []hiddenRow) {
	t.Helper()
	var lines bytes.Buffer
	for _, r := range rows {
		b, err := json.Marshal(map[string]any{"id": r.id, "family": r.family, "input": r.input, "eval": r.eval,
			"metadata": map[string]any{"note": r.note}})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), lines.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: "+id+"\nversion: 1\ndefaults:\n  environment:\n    image: "+image+"\n")
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: `+id+`, output_dir: out, max_workers: 2}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
limits: {memory: 256MiB, disk: 64MiB, pids: 64, output: 8MiB, candidate: 1MiB}
harness:
  type: command
  config:
    command: `+command+`
`)
}

// TestNothingHiddenIsPublished: whatever agents, candidates and even the
// checkers of a pack do, no part of a hidden value is in anything that a run
// publishes or shows, in any of the common encodings. Raw output of checkers
// has it, in the folder that the operator keeps.
func TestNothingHiddenIsPublished(t *testing.T) {
	t.Parallel()
	image := enginetest.Image(t, enginetest.Docker(t)).Ref
	dir := t.TempDir()
	c := canaries{}
	rows := leakRows(t, dir, image, c)
	writePack(t, dir, "leak", image, `["sh", "-c", "eval \"$(python3 -c 'import json; t = json.load(open(\"task.json\")); print(t.get(\"question\") or t.get(\"prompt\") or t[\"instructions\"])')\""]`, rows)
	out := filepath.Join(dir, "out")
	res := securebench(t, nil, "run", filepath.Join(dir, "tester.yaml"), "-o", out, "--show-agent-output", "--show-command-output", "--progress", "json")
	if res.code != int(exitPack) { // of the row whose tests do not parse
		t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	records := readRecords(t, filepath.Join(out, "candidates.jsonl"))
	for _, r := range rows {
		checkRow(t, out, r, records[r.id])
	}
	hidden := newNeedles()
	for what, value := range c {
		hidden.addWindows(what, value, leakSize)
	}
	hidden.check(t, published(t, out))
	hidden.check(t, readBack(t, out))
	hidden.check(t, map[string][]byte{"the run's standard output": []byte(res.stdout), "the run's standard error": []byte(res.stderr)})
	checkPlain(t, "the run", res.stdout+res.stderr)
	again := securebench(t, nil, "reverify", out, "--pack", filepath.Join(dir, "tester.yaml"))
	if again.code != 0 {
		t.Errorf("reverify: exit %d:\n%s%s", again.code, again.stdout, again.stderr)
	}
	hidden.check(t, map[string][]byte{"what reverify prints": []byte(again.stdout + again.stderr)})
	t.Run("planted", func(t *testing.T) { checkSearch(t, out, hidden, c["short_answer-fails accepted"]) })
}

// checkRow checks a row's outcome, and that its checker's output was captured.
func checkRow(t *testing.T, out string, r hiddenRow, got []rec) {
	t.Helper()
	if len(got) != 1 || got[0].Outcome != r.outcome || got[0].Reason != r.reason {
		t.Fatalf("%s: %+v, want %s, %s", r.id, got, r.outcome, r.reason)
	}
	var raw []byte
	for _, f := range got[0].Restricted {
		data, err := os.ReadFile(filepath.Join(out, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, data...)
	}
	for _, canary := range r.captured {
		if !bytes.Contains(raw, []byte(canary)) {
			t.Errorf("%s: the raw output does not hold %s: nothing that could leak was captured", r.id, canary)
		}
	}
}

// checkSearch plants a canary in a copy of the run, in every form and in part,
// and checks that the search finds it: otherwise finding nothing would prove
// nothing.
func checkSearch(t *testing.T, out string, hidden *needles, value string) {
	reversed := []byte(value)
	slices.Reverse(reversed)
	plants := map[string]string{"plain": value, "a part": value[7 : 7+leakSize], "reversed": string(reversed),
		"hex": fmt.Sprintf("%x", value), "upper-case hex": fmt.Sprintf("%X", value),
		"lower case": strings.ToLower(value), "a part, reversed": string(reversed[9 : 9+leakSize])}
	for n := range 3 {
		text := []byte("say"[:n] + value + "!")
		plants[fmt.Sprintf("base64 at %d", n)] = base64.StdEncoding.EncodeToString(text)
		plants[fmt.Sprintf("url-safe base64 at %d", n)] = base64.URLEncoding.EncodeToString(text)
		plants[fmt.Sprintf("base64 of a part at %d", n)] = base64.StdEncoding.EncodeToString(text[n+5 : n+5+leakSize])
	}
	for what, plant := range plants {
		for _, file := range []string{"run.json", "candidates.jsonl", "agent-trace.log", "candidates/new", "statement.dsse.json"} {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(out)); err != nil {
				t.Fatal(err)
			}
			plantIn(t, filepath.Join(copied, file), plant)
			found := 0
			for _, data := range published(t, copied) {
				found += len(hidden.in(data))
			}
			if found == 0 {
				t.Errorf("%s in %s was not found", what, file)
			}
		}
	}
}

// plantIn puts a text into a file of a run; for the statement, into its
// payload.
func plantIn(t *testing.T, path, plant string) {
	t.Helper()
	if filepath.Base(path) == "statement.dsse.json" {
		b, err := json.Marshal(map[string]any{"payload": []byte(`{"_type": "` + plant + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, string(b))
		return
	}
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	write(t, path, string(data[:len(data)/2])+plant+string(data[len(data)/2:]))
}
