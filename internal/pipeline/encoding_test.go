package pipeline_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// generators draw the parts of messages. Numbers that JSON would round and
// strings that need escapes are among them.
type generators struct{ *rapid.T }

func (g generators) text(name string) string {
	return rapid.StringMatching(`[a-z<>&"\\/é\x00-\x1f]{0,8}`).Draw(g.T, name)
}

func (g generators) bytes(name string) []byte {
	if rapid.Bool().Draw(g.T, "nil "+name) {
		return nil
	}
	return rapid.SliceOf(rapid.Byte()).Draw(g.T, name)
}

func (g generators) number() int64 { return rapid.Int64().Draw(g.T, "number") }

func (g generators) limits() sandbox.Limits {
	return sandbox.Limits{Memory: g.number(), CPUs: rapid.Float64Range(0, math.MaxFloat64).Draw(g.T, "cpus"), Pids: g.number(),
		Disk: g.number(), Files: g.number(), Output: g.number(), Timeout: time.Duration(g.number())}
}

func (g generators) image() sandbox.Image {
	return sandbox.Image{Ref: g.text("ref"), ID: g.text("id"), Digest: g.text("digest"), User: sandbox.User{UID: int(g.number()), GID: 7},
		Env: []string{g.text("env")}, OS: "linux", Arch: g.text("arch")}
}

func (g generators) names(name string) map[string]string {
	if rapid.Bool().Draw(g.T, "nil "+name) {
		return nil
	}
	return rapid.MapOf(rapid.StringMatching("[a-z]{1,3}"), rapid.StringMatching("[a-z]{0,3}")).Draw(g.T, name)
}

func (g generators) metadata() verdict.Metadata {
	return verdict.NewMetadata(map[string]any{"n": g.number(), "s": g.text("value"), "nested": map[string]any{"b": []int{1}, "a": nil}, "f": 0.1})
}

func (g generators) task() task.Task {
	t, err := task.New(task.Config{ID: "t" + g.text("id"), Family: "f", Pack: task.Pack{ID: "p"},
		Environment: task.Environment{Image: g.text("image"), Timeout: time.Duration(g.number()), Env: []string{"A=" + g.text("variable")},
			Checkout: task.Checkout{Dir: g.text("folder"), Commit: g.text("commit")}},
		Extraction: task.Extraction{Mode: task.FromFile, Kind: task.Code, Path: g.text("path")},
		Assets:     []task.Asset{{Path: "a", Mount: "b", ReadOnly: true}},
		Resources: []task.Resource{{Name: "p", Lane: task.Public, Value: jsontext.Value(`{"b":1, "a": 2.50}`)},
			{Name: "e", Lane: task.EvaluationInputs, Value: jsontext.Value(`"` + evaluationCanary + `"`)},
			{Name: "h", Value: jsontext.Value(`"` + hiddenCanary + `"`)}}})
	if err != nil {
		g.Fatal(err)
	}
	return t
}

func (g generators) outcome() sandbox.Outcome {
	return sandbox.Outcome{End: sandbox.OutOfMemory, Seen: []sandbox.End{sandbox.DiskLimit}, ExitCode: int(g.number()),
		Duration: time.Duration(g.number()), StdoutBytes: g.number(), StderrBytes: g.number()}
}

func (g generators) candidate() *candidate.Candidate {
	return &candidate.Candidate{Kind: task.Patch, Digest: g.text("digest"), Size: g.number(), Origin: candidate.Replay, Redacted: rapid.Bool().Draw(g.T, "redacted")}
}

// survives checks that a message is unchanged after encoding and decoding.
func survives[T any](rt *rapid.T, v T) {
	rt.Helper()
	b, err := attempt.Encode(v)
	if err != nil {
		rt.Fatal(err)
	}
	var back T
	if err := attempt.Decode(b, &back); err != nil {
		rt.Fatalf("%s: %v", b, err)
	}
	if !reflect.DeepEqual(v, back) {
		rt.Fatalf("%+v became %+v through %s", v, back, b)
	}
}

// TestMessagesSurviveEncoding: messages between stages are encoded and decoded
// without loss.
func TestMessagesSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := generators{rt}
		tk, user := g.task(), &sandbox.User{UID: 1, GID: int(g.number())}
		if rapid.Bool().Draw(rt, "own user") {
			user = nil
		}
		repo := &sandbox.ImageFolder{Image: g.image(), Path: g.text("repository")}
		if rapid.Bool().Draw(rt, "no repository") {
			repo = nil
		}
		survives(rt, produce.Request{View: tk.Agent(), Image: g.image(), User: user, Limits: g.limits(), Expect: g.names("expect"),
			Labels: sandbox.Labels{Run: g.text("run"), Task: tk.ID(), Attempt: 3, Role: "agent"}, Command: []string{g.text("command")}, Files: g.bytes("files"), Checkout: repo, Used: map[string]int64{"n": g.number()}})
		survives(rt, produce.Result{Outcome: g.outcome(), Timeout: time.Duration(g.number()), Ran: time.Duration(g.number()), Stdout: g.bytes("stdout"), Stderr: g.bytes("stderr"),
			Argv: []string{g.text("argv")}, Extract: tk.Extraction(), Target: g.text("target"), Public: g.names("public"), Metadata: g.metadata(), Usage: map[string]int64{"n": g.number()}})
		survives(rt, capture.Request{Extraction: tk.Extraction(), Outcome: g.outcome(), Limit: g.number(), Public: g.names("public"),
			Workdir: g.text("workdir"), Captured: task.Captured{Roots: []string{g.text("root")}, Filesystem: true, Exclude: []string{g.text("exclude")}}, ScoreTimeouts: true,
			Tree: candidate.Bounds{Bytes: g.number(), Files: g.number()}, Stdout: g.bytes("stdout"), Stderr: g.bytes("stderr")})
		survives(rt, capture.Result{Candidate: g.candidate(), Stdout: g.bytes("stdout"), Stderr: g.bytes("stderr"), Metadata: g.metadata()})
		survives(rt, capture.Result{Rejection: candidate.Reject(verdict.InvalidUTF8, "%s", g.text("message")), Limit: sandbox.PidsLimit})
		survives(rt, agent.Request{View: tk.Agent(), Attempt: 2, Dir: g.text("dir"), Image: g.image(), Captured: tk.Captured(),
			Solution: &agent.Solution{Kind: task.Patch, Data: g.bytes("data"), Command: []string{g.text("command")}, Path: g.text("path")}})
		shown := tk.Agent().Presented(nil, g.text("mark"))
		survives(rt, agent.Request{View: tk.Agent(), Shown: []*task.AgentView{nil, &shown}, Used: map[string]int64{"n": g.number()}, Attempt: 1, Image: g.image(), Captured: tk.Captured()})
		survives(rt, attempt.Produced{Candidate: g.candidate(), Path: g.text("path"), Argv: []string{g.text("argv")}, End: sandbox.TimedOut, ExitCode: int(g.number()),
			Timeout: time.Duration(g.number()), Capabilities: []sandbox.Capability{sandbox.Chown}, DiskSampled: true, Labels: []string{g.text("label")}, Metadata: g.metadata(),
			Usage: map[string]int64{"n": g.number()}, Stdout: g.text("stdout"), Stderr: g.text("stderr"), Raw: map[string][]byte{"a": {0, 0xff}}, Took: attempt.Timings{"producer": g.number()}})
		survives(rt, attempt.Produced{Rejection: candidate.Reject(verdict.InvalidUTF8, "%s", g.text("message")), Limit: sandbox.PidsLimit, Refusal: g.text("refusal")})
		seed := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "seed"))
		survives(rt, attempt.Verification{Candidate: *g.candidate(), Case: family.Case{Attempt: 2, Sandbox: tk.TestSandbox(), Evaluator: tk.Evaluator(),
			Image: g.image(), Limits: g.limits(), Seed: seed, Lazy: rapid.Bool().Draw(rt, "lazy")}})
		survives(rt, family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Message: g.text("message"), Phase: "import", Containment: verdict.Split,
			Labels: []string{g.text("label")}, Metadata: g.metadata(), Extraction: g.text("extraction"), Extracted: g.bytes("extracted"),
			Waited: time.Duration(g.number()), Restricted: map[string][]byte{"a": {0, 0xff}}})
	})
}

// TestRequestRefusesOtherLanes: a produce request cannot contain a hidden
// value.
func TestRequestRefusesOtherLanes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tk := generators{rt}.task()
		evaluator, err := attempt.Encode(tk.Evaluator())
		if err != nil {
			rt.Fatal(err)
		}
		var req produce.Request
		if err := attempt.Decode([]byte(`{"view":`+string(evaluator)+`,"image":{},"labels":{},"limits":{}}`), &req); err == nil {
			rt.Fatal("a request contains hidden values")
		}
	})
}
