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

	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/family/shortanswer"
	"securebench/internal/harness"
	"securebench/internal/pipeline/agent"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/stage"
	"securebench/internal/pipeline/verify"
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

// produced is what a process that produces and captures sends after the
// content of the candidate.
type produced struct {
	Result   produce.Result `json:"result"`
	Captured capture.Result `json:"captured"`
}

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
	var req produce.Request
	if err := readRequest(&req); err != nil {
		return err
	}
	h, err := commandHarness()
	if err != nil {
		return err
	}
	p := &produce.Producer{Harness: h, Env: os.LookupEnv, Engine: newEngine(worker)}
	s, err := p.Prepare(ctx, req, nil)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	var out produced
	if out.Result, err = s.Run(ctx); err != nil {
		return err
	}
	frames := &frameSink{w: os.Stdout}
	take := capture.Stage{Sink: frames}
	if req.Checkout != nil { // read from the image here as well
		base, err := (&checkouts{engine: p.Engine}).Get(ctx, req.Checkout.Image, req.Checkout.Path)
		if err != nil {
			return err
		}
		take.Checkout = &capture.Checkout{Space: s.Checkout(), Tree: base.Tree, Tracked: base.Tracked, Ignore: base.Ignore}
	}
	take.Base, take.Root = s.Base(), s.Root()
	out.Captured, err = take.Capture(ctx, bounds.Request(out.Result), s.Workspace())
	if err != nil {
		return err
	}
	b, err := stage.Encode(out)
	if err != nil {
		return err
	}
	return errors.Join(frames.end(), frames.write(b))
}

func runVerify(ctx context.Context) error {
	var req verify.Request
	if err := readRequest(&req); err != nil {
		return err
	}
	store, err := candidate.OpenStore(os.Getenv(storeEnv))
	if err != nil {
		return err
	}
	defer store.Close()
	v, err := verify.Stage{Store: store, Verifiers: stageVerifiers()}.Verify(ctx, req)
	if err != nil {
		return err
	}
	b, err := stage.Encode(v)
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
	return stage.Decode(b, v)
}

// frameSink streams candidates in frames: each has a length before it, and an
// empty one ends the content.
type frameSink struct{ w io.Writer }

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

var bounds = agent.Bounds{}

func commandHarness() (harness.Harness, error) {
	cfg, err := source.ParseYAML("tester.yaml", []byte("command: [agent]\ntimeout_seconds: 5\n"))
	if err != nil {
		return nil, err
	}
	h, problems := harness.Parse(config.Harness{Type: "command", Config: cfg})
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

// remoteAgent produces and captures in another process.
type remoteAgent struct {
	agent.Runner
	seen func(request []byte)
}

func (*remoteAgent) Name() string    { return "command" }
func (*remoteAgent) Sandboxed() bool { return true }

func (r *remoteAgent) Prepare(_ context.Context, a agent.Request, out agent.Output) (agent.Production, error) {
	request := r.Request(a)
	if c := a.View.Environment().Checkout; c.Dir != "" {
		base, err := r.Checkouts.Get(context.Background(), a.Image, c.Dir)
		if err != nil {
			return nil, err
		}
		request.Checkout = &base.Folder
		base.Release()
	}
	req, err := stage.Encode(request)
	if err != nil {
		return nil, err
	}
	r.seen(req)
	return &remoteProduction{r, a, out.Sink, req, capture.Result{}}, nil
}

type remoteProduction struct {
	*remoteAgent
	attempt agent.Request
	sink    candidate.Sink
	request []byte
	left    capture.Result
}

func (p *remoteProduction) Run(ctx context.Context) (produce.Result, error) {
	var out produced
	err := spawn(ctx, "produce", "", p.request, func(r io.Reader) error {
		br := bufio.NewReader(r)
		c, err := p.sink.Put(p.attempt.View.Extraction().Kind, "", &frames{r: br})
		if err != nil {
			return err
		}
		rest, err := io.ReadAll(br)
		if err == nil && len(rest) < 4 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = stage.Decode(rest[4:], &out)
		}
		if err == nil && c.Digest != out.Captured.Candidate.Digest {
			err = errors.New("the content is not what was captured")
		}
		if err == nil {
			c.Origin = out.Captured.Candidate.Origin
			out.Captured.Candidate = &c
		}
		return err
	})
	p.left = out.Captured
	if err == nil {
		p.Complete(p.attempt, &out.Result)
	}
	return out.Result, err
}

func (p *remoteProduction) Capture(context.Context) (capture.Result, error) { return p.left, nil }
func (*remoteProduction) Command() ([]string, string)                       { return nil, "" }
func (*remoteProduction) Close(context.Context) error                       { return nil }

// remoteVerifier verifies in another process, which opens the store itself.
type remoteVerifier struct {
	store string
	seen  func(request []byte)
	c     family.Case
}

func (v remoteVerifier) Open(_ context.Context, c family.Case) family.Session {
	v.c = c
	return v
}

func (remoteVerifier) Close(context.Context) error { return nil }

func (v remoteVerifier) Verify(ctx context.Context, c candidate.Candidate) (out family.Verdict, err error) {
	req, err := stage.Encode(verify.Request{Case: v.c, Candidate: c})
	if err != nil {
		return out, err
	}
	v.seen(req)
	err = spawn(ctx, "verify", v.store, req, func(r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return stage.Decode(b, &out)
	})
	return out, err
}

// TestStagesInTheirOwnProcesses: attempts whose stages run in separate
// processes, from encoded requests, have the same records as attempts in one
// process. The producing process gets no byte of a non-public lane.
func TestStagesInTheirOwnProcesses(t *testing.T) {
	b := newBench(t, worker)
	b.cfg.Families["tree_family"], b.cfg.Families["patch_family"] = treeFamily(), patchFamily()
	b.cfg.Verifiers = stageVerifiers()
	b.cfg.Workers = 1
	prepared := &checkouts{engine: b.engine}
	b.cfg.Agent.(*agent.Harness).Checkouts = prepared
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
	var toProduce, toVerify [][]byte
	b.cfg.Agent = &remoteAgent{agent.Runner{RunID: "test", Checkouts: prepared}, func(r []byte) { toProduce = append(toProduce, r) }}
	for name := range b.cfg.Verifiers {
		b.cfg.Verifiers[name] = remoteVerifier{store: b.dir.StorePath(), seen: func(r []byte) { toVerify = append(toVerify, r) }}
	}
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
			if bytes.Contains(all(toProduce), form) {
				t.Errorf("the producing process gets %s, %s", c, what)
			}
		}
		if !bytes.Contains(all(toVerify), []byte(c)) {
			t.Errorf("the verifying process does not get %s: the test looks in the wrong place", c)
		}
	}
	if len(toProduce) != 4 || len(toVerify) != 4 {
		t.Errorf("%d and %d requests", len(toProduce), len(toVerify))
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
