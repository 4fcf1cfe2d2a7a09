package pipeline_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/agent"
	"securebench/internal/families"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion"
	"securebench/internal/family/freeresponse"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/preferencepair"
	"securebench/internal/family/repopatch"
	"securebench/internal/family/shortanswer"
	"securebench/internal/family/terminaltask"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// TestNoHiddenByteLeaks is the invariant that everything else rests on: for
// random packs, no value of a hidden or evaluation lane is readable in the
// agent's sandbox or in what a process that produces is sent, nor published in
// an event or a record, in any encoding.
func TestNoHiddenByteLeaks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPack(rt)
		seen := runPack(t, rt, p)
		if len(seen) == 0 {
			rt.Fatal("nothing was searched")
		}
		for where, data := range seen {
			for _, c := range p.canaries {
				for what, form := range forms(c) {
					if bytes.Contains(data, form) {
						rt.Fatalf("canary %s occurs in %s, %s", c, where, what)
					}
				}
			}
		}
		for _, c := range p.public {
			if !bytes.Contains(seen["the agent's sandbox"], []byte(c)) && p.runs {
				rt.Fatalf("the public value %s did not reach the agent: the test looks in the wrong place", c)
			}
			if !bytes.Contains(seen["a request to produce"], []byte(c)) {
				rt.Fatalf("the public value %s is in no request: the test looks in the wrong place", c)
			}
		}
	})
}

// forms returns the encodings in which a value could occur. Base64 is searched
// for inside longer base64, at any alignment.
func forms(c string) map[string][]byte {
	reversed := []byte(c)
	slices.Reverse(reversed)
	lower := hex.EncodeToString([]byte(c))
	out := map[string][]byte{"plain": []byte(c), "reversed": reversed, "upper case": []byte(strings.ToUpper(c)),
		"hex": []byte(lower), "upper-case hex": []byte(strings.ToUpper(lower))}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "url-safe base64": base64.RawURLEncoding} {
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), c...))
			out[fmt.Sprintf("%s after %d bytes", name, shift)] = []byte(text[(8*shift+5)/6 : 8*(shift+len(c))/6])
		}
	}
	return out
}

// TestFormsAreFound shows that a value is found in every form inside other
// text.
func TestFormsAreFound(t *testing.T) {
	const value = "cnry1hid~?>abcdef"
	for before := range 3 {
		text := []byte("xyz"[:before] + value + "!")
		plant := base64.StdEncoding.EncodeToString(text) + base64.URLEncoding.EncodeToString(text)
		for what, form := range forms(value) {
			if strings.HasSuffix(what, fmt.Sprintf("base64 after %d bytes", before)) && !strings.Contains(plant, string(form)) {
				t.Errorf("%s is not found in %s", what, plant)
			}
		}
	}
	reversed := []byte(value)
	slices.Reverse(reversed)
	plant := value + strings.ToUpper(value) + string(reversed) + fmt.Sprintf("%x %X", value, value)
	for what, form := range forms(value) {
		if !strings.Contains(what, "base64") && !strings.Contains(plant, string(form)) {
			t.Errorf("%s is not found in %s", what, plant)
		}
	}
}

// randomPack is a pack with the lists of its hidden and public values.
type randomPack struct {
	manifest, rows string
	assets         map[string]string
	canaries       []string // hidden and evaluation values
	public         []string // public values of rows whose agent runs
	runs           bool
}

// draw makes canaries: each is unique in the whole pack.
type draw struct {
	*rapid.T
	n    int
	pack *randomPack
}

func (d *draw) hidden() string {
	d.n++
	c := fmt.Sprintf("cnry%dhid%s", d.n, rapid.StringMatching(`[a-z]{12}`).Draw(d.T, "hidden"))
	d.pack.canaries = append(d.pack.canaries, c)
	return c
}

func (d *draw) open(runs bool) string {
	d.n++
	c := fmt.Sprintf("cnry%dpub%s", d.n, rapid.StringMatching(`[a-z]{12}`).Draw(d.T, "public"))
	if runs {
		d.pack.public = append(d.pack.public, c)
	}
	return c
}

func drawPack(rt *rapid.T) randomPack {
	p := randomPack{manifest: "id: canary\nversion: 1\ndefaults:\n  environment: {image: img}\n", assets: map[string]string{}}
	d := &draw{T: rt, pack: &p}
	var rows strings.Builder
	for i := range rapid.IntRange(1, 4).Draw(rt, "rows") {
		row := d.row(i)
		b, err := json.Marshal(row)
		if err != nil {
			rt.Fatal(err)
		}
		rows.Write(append(b, '\n'))
	}
	p.rows = rows.String()
	return p
}

// row draws one row of a random family. Values that agents see and values
// that they may not see are canaries, at every depth that the formats allow.
func (d *draw) row(i int) map[string]any {
	fam := rapid.SampledFrom([]string{"short_answer", "multiple_choice", "free_response", "code_completion",
		"repo_patch", "terminal_task", "tool_call", "preference_pair", "something_new"}).Draw(d.T, "family")
	var input, eval map[string]any
	runs := true
	switch fam {
	case "short_answer":
		input = map[string]any{"question": d.open(true), "context": map[string]any{"nested": []any{d.open(true)}}}
		eval = map[string]any{"accepted_answers": []any{d.hidden(), d.hidden()}, "match": map[string]any{"type": "text", "marker": d.hidden()}}
	case "multiple_choice":
		input = map[string]any{"question": d.open(true), "choices": []any{d.open(true), d.open(true)}}
		eval = map[string]any{"answer": "B"}
	case "free_response":
		input = map[string]any{"prompt": d.open(true)}
		eval = map[string]any{"reference_answer": d.hidden(), "rubric": map[string]any{
			"type": "contains_any", "accepted_answers": []any{d.hidden()}, "rejected_answers": []any{d.hidden()}}}
	case "code_completion":
		runs = false
		input = map[string]any{"prompt": d.open(false)}
		eval = map[string]any{"tests": map[string]any{"source": "inline", "code": d.hidden(), "entry_point": "f"}, "reference_solution": d.hidden()}
	case "repo_patch":
		runs = false
		input = map[string]any{"repo": "r", "base_commit": "c", "instructions": d.open(false)}
		eval = map[string]any{"tests": map[string]any{"source": "command", "command": d.hidden(), "workdir": "/testbed"}, "gold_patch": d.hidden()}
	case "terminal_task":
		input = map[string]any{"instructions": d.open(false)}
		eval = map[string]any{"checker": map[string]any{"command": []any{"sh", "-c", d.hidden()}, "image": d.hidden() + ":1"}, "expected_state": map[string]any{"x": []any{d.hidden()}},
			"run_tests": map[string]any{"key": d.hidden()}, "solution": map[string]any{"command": d.hidden()},
			"capture": map[string]any{"roots": []any{"/workspace", "/srv/" + d.hidden()}, "exclude": []any{"/srv/" + d.hidden()}},
			"start":   map[string]any{"command": []any{d.hidden()}, "ready": map[string]any{"command": []any{d.hidden()}}}}
	case "preference_pair":
		input = map[string]any{"prompt": d.open(true), "candidate_a": d.open(true), "candidate_b": d.open(true)}
		eval = map[string]any{"preference": "A", "rubric": map[string]any{"key": d.hidden()}}
	default:
		runs = false
		input = map[string]any{"prompt": d.open(false), "tools": []any{}}
		eval = map[string]any{"expected_calls": []any{map[string]any{"name": d.hidden()}}, "unheard_of": d.hidden(), "initial_state": d.hidden()}
	}
	d.pack.runs = d.pack.runs || runs
	return map[string]any{"id": fmt.Sprintf("row/%d", i), "family": fam, "input": input, "eval": eval,
		"metadata": map[string]any{"note": d.hidden(), "answer": d.hidden()}}
}

// runPack runs the pack with an agent that reads everything it can reach, and
// returns what the agent and the outside world saw.
func runPack(t *testing.T, rt *rapid.T, p randomPack) map[string][]byte {
	var mu sync.Mutex
	var sandboxed bytes.Buffer
	b := newBench(t, func(_ context.Context, proc *sandboxtest.Process) int {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&sandboxed, proc.Args, proc.Env, proc.Spec.Labels, proc.Spec.Workdir)
		readTree(rt, proc.Dir, &sandboxed)
		fmt.Fprintln(proc.Stdout, "Answer: A")
		return 0
	})
	tasks, err := compilePack(t, b, p)
	if err != nil {
		rt.Fatal(err)
	}
	var requests bytes.Buffer
	for _, tk := range tasks {
		req, err := attempt.Encode((&agent.Runner{RunID: "test"}).Request(agent.Request{View: tk.Agent(), Attempt: 1}))
		if err != nil {
			rt.Fatal(err)
		}
		requests.Write(req)
	}
	if _, err := b.run(t.Context(), tasks...); err != nil {
		rt.Fatal(err)
	}
	var published bytes.Buffer
	for name, data := range publishedFiles(rt, b.out) {
		fmt.Fprintf(&published, "%s\n%s\n", name, data)
	}
	return map[string][]byte{"the agent's sandbox": sandboxed.Bytes(), "a request to produce": requests.Bytes(),
		"what is published": published.Bytes(), "an event": fmt.Append(nil, b.events.all)}
}

func compilePack(t *testing.T, b *bench, p randomPack) ([]task.Task, error) {
	dir := t.TempDir()
	for name, text := range map[string]string{"manifest.yaml": p.manifest, "tasks.jsonl": p.rows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	b.families = family.NewRegistry(append(families.Deferred(), codecompletion.Family(), shortanswer.Family(), multiplechoice.Family(),
		freeresponse.Family(), repopatch.Family(), terminaltask.Family(), preferencepair.Family())...)
	b.cfg.Families = b.families
	b.cfg.Verifiers["terminal_task"] = changesVerifier{} // which runs nothing
	b.cfg.Verifiers["free_response"] = freeresponse.NewVerifier(family.Resources{})
	b.cfg.Verifiers["preference_pair"] = preferencepair.Family().NewVerifier(family.Resources{})
	loc, err := pack.Locate(dir)
	if err != nil {
		return nil, err
	}
	loaded, err := compile.Load(t.Context(), loc, b.families, nil)
	if err != nil {
		return nil, err
	}
	var out []task.Task
	for row, err := range loaded.Rows(t.Context()) {
		if err != nil {
			return nil, err
		}
		compiled, err := loaded.Compiler.Task(row)
		if err != nil {
			return nil, err
		}
		out = append(out, compiled)
	}
	return out, nil
}

func readTree(rt *rapid.T, dir string, w *bytes.Buffer) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintln(w, path)
		w.Write(data)
		return err
	})
	if err != nil {
		rt.Fatal(err)
	}
}

// publishedFiles are those of a run directory that may be published.
func publishedFiles(rt *rapid.T, dir string) map[string][]byte {
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "restricted" || d.Name() == "history") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		out[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		rt.Fatal(err)
	}
	return out
}

// TestCanariesAreSeenWhereTheyLeak shows that the property can fail: it
// detects a hidden value that is given to an agent.
func TestCanariesAreSeenWhereTheyLeak(t *testing.T) {
	b := newBench(t, func(_ context.Context, p *sandboxtest.Process) int {
		fmt.Fprintln(p.Stdout, "the hidden value is cnry1hidleak")
		return 0
	})
	if _, err := b.run(t.Context(), question(t, "q", "?", `"cnry1hidleak"`)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(b.dir.LinesPath())
	if err != nil || !bytes.Contains(data, []byte("cnry1hidleak")) {
		t.Errorf("what an agent prints must be in its record: %s, %v", data, err)
	}
}
