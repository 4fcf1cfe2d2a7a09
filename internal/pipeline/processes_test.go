package pipeline_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent"
	"securebench/internal/agent/harness"
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/family/shortanswer"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// The environment of a process that runs one stage.
const (
	stageEnv = "SECUREBENCH_TEST_STAGE"
	storeEnv = "SECUREBENCH_TEST_STORE"
)

// runStage is a process whose only input is an encoded request on standard
// input.
func runStage(name string) int {
	err := map[string]func(context.Context) error{"produce": runProduce, "verify": runVerify}[name](context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runProduce(ctx context.Context) error {
	var req agent.Request
	if err := readRequest(&req); err != nil {
		return err
	}
	h, err := commandHarness()
	if err != nil {
		return err
	}
	engine := newEngine(worker)
	frames := &frameSink{w: os.Stdout}
	w := &attempt.Local{Store: frames, Agent: &agent.Harness{Runner: agent.Runner{RunID: "test", Checkouts: &checkouts{engine: engine},
		Producer: &produce.Producer{Harness: h, Env: os.LookupEnv, Engine: engine}}}}
	p, err := w.Produce(ctx, req)
	if err = errors.Join(err, w.Release(ctx, record.AttemptKey{Task: req.View.ID(), Attempt: req.Attempt})); err != nil {
		return err
	}
	b, err := attempt.Encode(p)
	if err != nil {
		return err
	}
	return errors.Join(frames.end(), frames.write(b))
}

func runVerify(ctx context.Context) error {
	var req attempt.Verification
	if err := readRequest(&req); err != nil {
		return err
	}
	store, err := candidate.OpenStore(os.Getenv(storeEnv))
	if err != nil {
		return err
	}
	defer store.Close()
	v, err := (&attempt.Local{Store: store, Verifiers: stageVerifiers()}).Verify(ctx, req)
	if err != nil {
		return err
	}
	b, err := attempt.Encode(v)
	if err == nil {
		_, err = os.Stdout.Write(b)
	}
	return err
}

func readRequest(v any) error {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	return attempt.Decode(b, v)
}

// frameSink streams candidates in frames: each has a length before it, and an
// empty one ends the content.
type frameSink struct{ w io.Writer }

func (*frameSink) Find(c candidate.Candidate) (candidate.Candidate, error) {
	return c, errors.New("the process that produces stores nothing")
}

func (f *frameSink) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	sum, err := candidate.Copy(kind, content, frameWriter{f})
	return candidate.Candidate{Kind: kind, Digest: sum, Origin: origin}, err
}

type frameWriter struct{ *frameSink }

func (f frameWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return len(p), f.write(p)
}

func (f *frameSink) write(p []byte) error {
	err := binary.Write(f.w, binary.BigEndian, uint32(len(p)))
	if err == nil {
		_, err = f.w.Write(p)
	}
	return err
}

func (f *frameSink) end() error { return f.write(nil) }

// frames is the other end of a frameSink.
type frames struct {
	r    *bufio.Reader
	left uint32
	done bool
}

func (f *frames) Read(p []byte) (int, error) {
	if f.done {
		return 0, io.EOF
	}
	if f.left == 0 {
		if err := binary.Read(f.r, binary.BigEndian, &f.left); err != nil {
			return 0, err
		}
		if f.done = f.left == 0; f.done {
			return 0, io.EOF
		}
	}
	n, err := f.r.Read(p[:min(len(p), int(f.left))])
	f.left -= uint32(n)
	return n, err
}

// worker is the agent of these tests: it prints what its task asks and leaves
// it in a tree.
func worker(ctx context.Context, p *sandboxtest.Process) int {
	if len(p.Args) > 1 && p.Args[1] == "solve" { // a row's own program
		return writeTree(p.Dir, "4")
	}
	data, err := os.ReadFile(filepath.Join(p.Dir, "securebench", "public", "question.json"))
	var question string
	if err != nil || json.Unmarshal(data, &question) != nil {
		return 1
	}
	fmt.Fprintln(p.Stderr, "working")
	if repo, err := p.Path("/testbed", true); err == nil {
		return changeRepository(repo, question)
	}
	return answers(ctx, p) + writeTree(p.Dir, question)
}

func writeTree(dir, answer string) int {
	if os.MkdirAll(filepath.Join(dir, "out", "more"), 0o755) != nil || os.WriteFile(filepath.Join(dir, "out", "answer"), []byte(answer), 0o640) != nil {
		return 1
	}
	return 0
}

func commandHarness() (harness.Harness, error) {
	cfg, err := source.ParseYAML("tester.yaml", []byte("command: [agent]\ntimeout_seconds: 5\n"))
	if err != nil {
		return nil, err
	}
	h, problems := harness.ParseCommand(config.Harness{Type: "command", Config: cfg})
	return h, problems.Err()
}

// treeFamily is a family whose candidates are trees and whose solutions are
// programs.
func treeFamily() family.Family {
	return family.Family{Name: "tree_family", NeedsImage: true, VerifySeconds: 5,
		NewVerifier: func(family.Resources) family.Verifier { return treeVerifier{} },
		Reference: func(v task.EvaluatorView) (family.Solution, bool) {
			r, ok := v.Get("solution")
			text, _ := r.Text()
			return family.Solution{Command: strings.Fields(text)}, ok
		}}
}

// treeVerifier passes a tree whose file answer holds the hidden gold.
type treeVerifier struct{ gold string }

func (treeVerifier) Open(_ context.Context, c family.Case) family.Session {
	r, _ := c.Evaluator.Get("gold")
	text, _ := r.Text()
	return treeVerifier{text}
}

func (treeVerifier) Close(context.Context) error { return nil }

func (v treeVerifier) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	r, err := c.Open()
	if err != nil {
		return family.Verdict{}, err
	}
	defer r.Close()
	out := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Message: "the tree has another answer", Containment: verdict.Passive,
		Metadata: verdict.NewMetadata(map[string]any{"files": 0, "share": 0.5}), Labels: []string{"tree"},
		Restricted: map[string][]byte{"log.txt": {0, 0xff}}}
	_, err = candidate.ReadTree(r, candidate.Bounds{Bytes: 1 << 20, Files: 100}, func(e candidate.Entry, content io.Reader) error {
		b, err := io.ReadAll(content)
		if e.Path == "workspace/out/answer" && string(b) == v.gold {
			out = family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive, Metadata: out.Metadata, Restricted: out.Restricted}
		}
		return err
	})
	return out, err
}

func treeTask(t *testing.T, id, question string) task.Task {
	t.Helper()
	quoted := jsontext.Value(fmt.Sprintf("%q", question))
	tk, err := task.New(task.Config{ID: id, Family: "tree_family", Pack: task.Pack{ID: "pack", Version: 1},
		Environment: task.Environment{Image: "img", OldLayout: true}, Row: []byte(id),
		Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace, Path: "out"},
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: quoted},
			{Name: "note", Lane: task.EvaluationInputs, Value: jsontext.Value(`"` + evaluationCanary + `"`)},
			{Name: "gold", Lane: task.Hidden, Value: jsontext.Value(`"4"`)}, {Name: "solution", Lane: task.Hidden, Value: jsontext.Value(`"agent solve"`)},
			{Name: "why", Lane: task.Hidden, Value: jsontext.Value(`"` + hiddenCanary + `"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

const (
	hiddenCanary     = "cnry7hidqpwoeiru"
	evaluationCanary = "cnry8evalzmxncbv"
)

func stageVerifiers() map[string]family.Verifier {
	return map[string]family.Verifier{"tree_family": treeVerifier{}, "patch_family": patchVerifier{}, "short_answer": shortanswer.Family().NewVerifier(family.Resources{})}
}

// spawn runs a stage in a process of its own.
func spawn(ctx context.Context, name, store string, request []byte, read func(io.Reader) error) error {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), stageEnv+"="+name, storeEnv+"="+store)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = read(out)
	if waited := cmd.Wait(); waited != nil {
		return fmt.Errorf("%s: %w: %s", name, waited, &stderr)
	}
	return err
}

// remote makes each call in a process of its own, which gets nothing but the encoded
// request.
type remote struct {
	store               attempt.Store
	dir                 string // of the store
	toProduce, toVerify [][]byte
}

func (*remote) Ahead(context.Context, *agent.Request, *family.Case) {}
func (*remote) Release(context.Context, record.AttemptKey) error    { return nil }

func (w *remote) Produce(ctx context.Context, request agent.Request) (out attempt.Produced, err error) {
	req, err := attempt.Encode(request)
	if err != nil {
		return out, err
	}
	w.toProduce = append(w.toProduce, req)
	err = spawn(ctx, "produce", "", req, func(r io.Reader) error {
		br := bufio.NewReader(r)
		c, err := w.store.Put(request.View.Extraction().Kind, "", &frames{r: br})
		if err != nil {
			return err
		}
		rest, err := io.ReadAll(br)
		if err == nil && len(rest) < 4 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = attempt.Decode(rest[4:], &out)
		}
		if err == nil && c.Digest != out.Candidate.Digest {
			err = errors.New("the content is not what was captured")
		}
		if err == nil {
			c.Origin = out.Candidate.Origin
			out.Candidate = &c
		}
		return err
	})
	return out, err
}

// Verify is made by a process that opens the store itself.
func (w *remote) Verify(ctx context.Context, request attempt.Verification) (out family.Verdict, err error) {
	req, err := attempt.Encode(request)
	if err != nil {
		return out, err
	}
	w.toVerify = append(w.toVerify, req)
	err = spawn(ctx, "verify", w.dir, req, func(r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return attempt.Decode(b, &out)
	})
	return out, err
}

// TestCallsInTheirOwnProcesses: attempts whose calls are made in separate
// processes, from encoded requests, have the same records as attempts in one
// process. The producing process gets no byte of a non-public lane.
func TestCallsInTheirOwnProcesses(t *testing.T) {
	b := newBench(t, worker)
	b.cfg.Families["tree_family"], b.cfg.Families["patch_family"] = treeFamily(), patchFamily()
	b.cfg.Verifiers = stageVerifiers()
	b.cfg.Workers = 1
	b.cfg.Agent.(*agent.Harness).Checkouts = &checkouts{engine: b.engine}
	b.cfg.TaskDir = func(id string) string { return id }
	text, err := task.New(task.Config{ID: "text", Family: "short_answer", Pack: task.Pack{ID: "pack", Version: 1},
		Environment: task.Environment{Image: "img"}, Row: []byte("text"), Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(`"5 é <>"`)},
			{Name: "accepted_answers", Lane: task.Hidden, Value: jsontext.Value(`["` + hiddenCanary + `"]`)}}})
	if err != nil {
		t.Fatal(err)
	}
	tasks := []task.Task{treeTask(t, "right", "4"), treeTask(t, "wrong", "5"), text, patchTask(t, "patch", "4")}
	if _, err := b.run(t.Context(), tasks...); err != nil {
		t.Fatal(err)
	}
	one := b.lines()
	w := &remote{store: b.cfg.Store, dir: b.dir.StorePath()}
	b.cfg.Worker = w
	if _, err := b.run(t.Context(), tasks...); err != nil {
		t.Fatal(err)
	}
	two := b.lines()[len(one):]
	for _, lines := range [][]map[string]any{one, two} {
		dropTimes(lines)
	}
	if d := cmp.Diff(one, two); d != "" {
		t.Errorf("records (-one process +two):\n%s", d)
	}
	if one[3]["outcome"] != "passed" || !strings.Contains(fmt.Sprint(one[3]["candidate_patch"]), "+++ b/fix.py") ||
		!strings.Contains(fmt.Sprint(one[3]["producer_metadata"]), "ignored_paths:[__pycache__/fix.pyc]") {
		t.Errorf("the record of the patch is %v", one[3])
	}
	if one[0]["outcome"] != "passed" || one[1]["outcome"] != "failed" || one[2]["outcome"] != "failed" {
		t.Errorf("outcomes %v, %v, %v", one[0]["outcome"], one[1]["outcome"], one[2]["outcome"])
	}
	if w, _ := one[0]["candidate_workspace"].(string); w == "" || w != one[0]["digests"].(map[string]any)["candidate"] {
		t.Errorf("candidate_workspace is %v, want the tree's digest", one[0]["candidate_workspace"])
	}
	all := func(requests [][]byte) []byte { return bytes.Join(requests, nil) }
	for _, c := range []string{hiddenCanary, evaluationCanary} {
		for what, form := range forms(c) {
			if bytes.Contains(all(w.toProduce), form) {
				t.Errorf("the producing process gets %s, %s", c, what)
			}
		}
		if !bytes.Contains(all(w.toVerify), []byte(c)) {
			t.Errorf("the verifying process does not get %s: the test looks in the wrong place", c)
		}
	}
	if len(w.toProduce) != 4 || len(w.toVerify) != 4 {
		t.Errorf("%d and %d requests", len(w.toProduce), len(w.toVerify))
	}
}

// dropTimes removes what differs between two runs of the same attempts.
func dropTimes(lines []map[string]any) {
	for _, l := range lines {
		for _, key := range []string{"timings_ms", "seq", "mac", "prev"} {
			delete(l, key)
		}
		raw, _ := l["restricted"].([]any)
		for _, f := range raw { // it holds timings
			if f, _ := f.(map[string]any); strings.HasSuffix(fmt.Sprint(f["path"]), "verdict.json") {
				delete(f, "digest")
			}
		}
	}
}
