package codecompletion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/family/codecompletion/analysis"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

// analysisOfRow analyses a row.
func analysisOfRow(t *testing.T, v *Verifier, s spec) (analysed, error) {
	t.Helper()
	c := makeCase(t, s)
	r, err := readRow(c)
	if err != nil {
		t.Fatal(err)
	}
	return v.analyse(t.Context(), c, r)
}

// handedOn hands an object on from name to name, the last one first.
func handedOn(times int) string {
	var b strings.Builder
	for i := range times {
		fmt.Fprintf(&b, "a%d = a%d\n", i, i+1)
	}
	return b.String() + fmt.Sprintf("a%d = f()\n", times)
}

func TestNames(t *testing.T) {
	tests := map[string]struct {
		spec
		want    string // name:kind, in order
		handles bool
	}{
		"entry point alone, helpers stay the prompt's": {spec{entry: "f", tests: "assert f(helper(1)) == 1",
			prompt: "def helper(x):\n    return x\ndef f(x):\n    '''doc'''\n", reference: "def helper(x): return x\ndef f(x): return x\n"}, "f:function", false},
		"entry points": {spec{entry: []string{"g", "f"}, tests: "assert f(g(1))"}, "f:function g:function", false},
		"free names that the reference defines": {spec{tests: "import math\nassert f(math.floor(x))\ny = g(1)\n",
			reference: "import math\ndef f(a): pass\ndef g(a): pass\ndef other(): pass\n"}, "f:function g:function", false},
		"less the prompt's own functions": {spec{tests: "assert f(helper(1))", prompt: "def helper(x):\n    return x + 1\ndef f(x):\n    pass\n",
			reference: "def helper(x): return x + 1\ndef f(x): return x\n"}, "f:function", false},
		"a repair task":                        {spec{tests: "assert f(1)", prompt: "def f(x):\n    return x - 1\n", reference: "def f(x): return x\n"}, "f:function", false},
		"a builtin that the reference shadows": {spec{tests: "assert sum([1]) == len([1])", reference: "def sum(x): return 1\n"}, "sum:function", false},
		"names bound by the tests are theirs": {spec{tests: "def g(): return 1\nfor i in [1]: assert f(i) == g()\n",
			reference: "i = 3\ndef g(): pass\ndef f(x): pass\n"}, "f:function", false},
		"names inside functions of the tests": {spec{tests: "def check():\n    local = 1\n    assert f(local)\ncheck()\n",
			reference: "local = 2\ndef f(x): pass\n"}, "f:function", false},
		"a constant":           {spec{tests: "assert f(LIMIT) == LIMIT", reference: "LIMIT, OTHER = 3, 4\ndef f(x): return x\n"}, "LIMIT:value f:function", false},
		"an assigned function": {spec{tests: "assert f(1) and g(1)", reference: "import functools\nf = lambda x: x\ng = functools.partial(f)\n"}, "f:function g:function", false},
		"a class":              {spec{tests: "assert Node(1).x == 1", reference: "class Node: pass\n"}, "Node:class", true},
		"an object returned":   {spec{tests: "r = f(1)\nassert r.value == 1", reference: "def f(x): pass\n"}, "f:function", true},
		"an object through a parameter": {spec{tests: "def check(candidate):\n    r = candidate(1)\n    assert r.value == 1\ncheck(f)\n",
			reference: "def f(x): pass\n"}, "f:function", true},
		"methods of plain values are no objects": {spec{tests: "r = f(1)\nassert r.strip().upper() == f(2).lower()", reference: "def f(x): pass\n"}, "f:function", false},
		"defined in a block":                     {spec{tests: "assert f(1)", reference: "try:\n    import x\nexcept ImportError:\n    def f(x): pass\n"}, "f:function", false},
		"a reference that continues the prompt":  {spec{tests: "assert f(1)", prompt: "def f(x):\n    '''doc'''\n", reference: "    return x\n"}, "f:function", false},
		"no reference: stubs that the tests name": {spec{tests: "assert f(g(1)) and h",
			prompt: "def f(x):\n    raise NotImplementedError()\ndef g(x):\n    import os\n    ...\ndef k(x): return x\n"}, "f:function g:function", false},
		"no reference: unknown names":    {spec{tests: "import os\nassert f(len([1]), __name__)", prompt: "Write f, please."}, "f:function", false},
		"no reference: prompt functions": {spec{tests: "assert f(1)", prompt: "def f(x):\n    return x - 1\n"}, "f:function", false},
		"objects in a list":              {spec{tests: "assert [n.val for n in f()] == [1]", reference: "def f(): pass\n"}, "f:function", true},
		"objects of a held list":         {spec{tests: "r = f()\nfor i, n in enumerate(r):\n    assert n.val == i", reference: "def f(): pass\n"}, "f:function", true},
		"one of two objects":             {spec{tests: "a, b = f()\nassert b.val == 1", reference: "def f(): pass\n"}, "f:function", true},
		"objects in a dictionary":        {spec{tests: "assert [n.val for k, n in f().Items()] == [1]", reference: "def f(): pass\n"}, "f:function", true},
		"a member":                       {spec{tests: "assert f()[0].val == 1", reference: "def f(): pass\n"}, "f:function", true},
		"plain data in a list":           {spec{tests: "import math\nassert [math.floor(n.real) for n in f()] == [1]", reference: "def f(): pass\n"}, "f:function", false},
		"an object handed on often":      {spec{tests: handedOn(4000) + "assert a0.val == 1", reference: "def f(): pass\n"}, "f:function", true},
		"a stub class":                   {spec{tests: "assert S().get() == 1", prompt: "class S:\n    '''doc'''\n    def get(self):\n        pass\n"}, "S:class", true},
	}
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := analysisOfRow(t, v, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range p.Names {
				got = append(got, n.Name+":"+n.Kind)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" || p.Handles != tc.handles {
				t.Errorf("handles %v, names (-want +got):\n%s", p.Handles, diff)
			}
		})
	}
}

func TestTestsThatDoNotParse(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	for _, tests := range []string{"assert (", "x = '\x00'", strings.Repeat("(", 100_000)} {
		s.tests = tests
		if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Pending || got.Reason != verdict.PackFault {
			t.Errorf("%.20q: %s", tests, describe(got))
		}
	}
	if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
		t.Errorf("the next row: %s", describe(got))
	}
}

// TestTextsThatDoNotCompile: texts that the parser takes and the compiler does not are
// the row's fault, end no sandbox, and are known from then on.
func TestTextsThatDoNotCompile(t *testing.T) {
	e := newLocalEngine(t)
	v := withWorkers(t, e, 1)
	for range 2 {
		for _, tests := range []string{"nonlocal x\n", "def g(a, a): pass\n", "assert add(\n", "\x00"} {
			s := add()
			s.tests = tests
			if _, err := analysisOfRow(t, v, s); !errors.Is(err, analysis.ErrBroken) {
				t.Errorf("%q: %v", tests, err)
			}
		}
	}
	if n := e.count(analysis.Role); n != 1 {
		t.Errorf("%d analysis sandboxes, want one", n)
	}
}

func TestPendingRows(t *testing.T) {
	v := newTestVerifier(t, deadEngine{})
	for name, s := range map[string]spec{
		"unknown source":   {source: "secret-name"},
		"another language": {tests: "x", language: "go"},
		"bad entry point":  {tests: "x", entry: 3},
	} {
		got := verify(t, v, makeCase(t, s), "x")
		if got.Outcome != verdict.Pending || got.Reason != verdict.NoVerifier || got.Score() != 0 || strings.Contains(got.Message, "secret") {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}

// TestReferenceIsCompleted: a reference that continues the prompt is put behind
// it; every candidate is a whole module as given.
func TestReferenceIsCompleted(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "def f(x):\n    '''Doubles x.'''\n", reference: "    return 2 * x\n", tests: "assert f(2) == 4\n", entry: "f"}
	c := makeCase(t, s)
	whole, ok, err := v.Complete(t.Context(), c)
	if err != nil || !ok || content(t, whole) != s.prompt+s.reference {
		t.Errorf("completed to %q, %v, %v", content(t, whole), ok, err)
	}
	for candidate, want := range map[string]verdict.Outcome{
		content(t, whole):       verdict.Passed,
		s.reference:             verdict.Failed, // a body alone is no module, also when it is the reference's
		"    return x + x\n":    verdict.Failed,
		s.prompt:                verdict.Failed,
		s.prompt + "    return": verdict.Failed,
	} {
		if got := verify(t, v, c, candidate); got.Outcome != want {
			t.Errorf("%q: %s", candidate, describe(got))
		}
	}
	s.reference = "def f(x): return 2 * x\n"
	if whole, ok, err := v.Complete(t.Context(), makeCase(t, s)); err != nil || !ok || content(t, whole) != s.reference {
		t.Errorf("a whole reference became %q, %v, %v", content(t, whole), ok, err)
	}
	s.reference = ""
	if _, ok, err := v.Complete(t.Context(), makeCase(t, s)); ok || err != nil {
		t.Errorf("no reference gave %v, %v", ok, err)
	}
}

// listeningEngine remembers what the boxes of each role are sent.
type listeningEngine struct {
	*localEngine
	mu   sync.Mutex
	sent map[string]*bytes.Buffer
}

type listeningBox struct {
	sandbox.Box
	engine *listeningEngine
	role   string
}

func (e *listeningEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := e.localEngine.Open(ctx, spec)
	return listeningBox{box, e, spec.Labels.Role}, err
}

func (b listeningBox) Run(ctx context.Context, s sandbox.Streams) (sandbox.Outcome, error) {
	s.Stdin = io.TeeReader(s.Stdin, b)
	return b.Box.Run(ctx, s)
}

func (b listeningBox) Write(p []byte) (int, error) {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if b.engine.sent[b.role] == nil {
		b.engine.sent[b.role] = new(bytes.Buffer)
	}
	return b.engine.sent[b.role].Write(p)
}

// TestWhoHoldsTheReference: the reference goes to the analysis alone, tests also to
// the test box, and the candidate to its own.
func TestWhoHoldsTheReference(t *testing.T) {
	e := &listeningEngine{localEngine: newLocalEngine(t), sent: make(map[string]*bytes.Buffer)}
	v := newTestVerifier(t, e)
	s := add()
	s.reference += "# only the reference has this\n"
	s.tests += "# only the tests have this\n"
	if got := verify(t, v, makeCase(t, s), "def add(a, b): return a + b # only the candidate has this\n"); got.Outcome != verdict.Passed {
		t.Fatal(describe(got))
	}
	for text, holders := range map[string][]string{
		"only the reference has this": {analysis.Role},
		"only the tests have this":    {analysis.Role, roleTest},
		"only the candidate has this": {roleCandidate},
	} {
		var got []string
		for _, role := range slices.Sorted(maps.Keys(e.sent)) {
			if bytes.Contains(e.sent[role].Bytes(), []byte(text)) {
				got = append(got, role)
			}
		}
		if diff := cmp.Diff(holders, got); diff != "" {
			t.Errorf("what %s (-want +got):\n%s", text, diff)
		}
	}
}

// TestOneAnalystForAll: rows of all sessions are analysed in one sandbox, each once.
// A text that ends its process spoils no other row.
func TestOneAnalystForAll(t *testing.T) {
	e := newLocalEngine(t)
	v := withWorkers(t, e, 4)
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			s := add()
			s.tests += fmt.Sprintf("# %d\n", i%6)
			if _, err := analysisOfRow(t, v, s); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := e.count(analysis.Role); n != 1 {
		t.Errorf("%d analysis sandboxes, want one", n)
	}
	bomb := add()
	bomb.limits.Memory = 128 << 20
	bomb.tests = "x = [" + strings.Repeat("1,", 1<<20) + "]\n"
	if got := verify(t, withWorkers(t, e, 1), makeCase(t, bomb), bomb.reference); got.Outcome != verdict.Pending || got.Reason != verdict.PackFault {
		t.Errorf("tests that need more memory than there is: %s", describe(got))
	}
	if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
		t.Errorf("the next row: %s", describe(got))
	}
}

// TestAnalystOfAnotherMind: an analysis sandbox that does not work or does not keep to
// the protocol is no fault of the row's, and the next row has a fresh one.
func TestAnalystOfAnotherMind(t *testing.T) {
	ready := string(frame.Append(nil, value.Text("ready").Append(nil)))
	answer := func(parts ...value.Value) string {
		return string(frame.Append(nil, value.Tuple(parts...).Append(nil)))
	}
	no := value.Value{Kind: value.KindList}
	for name, c := range map[string]struct {
		says    []string // the greeting, then answers
		want    string
		isFault bool // of the row's
	}{
		"no greeting":        {[]string{""}, "starting the analysis's Python", false},
		"another greeting":   {[]string{answer(value.Text("hello"))}, "an unknown greeting", false},
		"no frames":          {[]string{ready, "\xff\xff\xff\xff"}, "invalid frame", false},
		"another answer":     {[]string{ready, answer(value.Text("analysis"), value.Bool(true))}, "reading the answer", false},
		"an answer too long": {[]string{ready, answer(value.Text("broken"), value.Bool(true))}, "reading the answer", false},
		"names of no form":   {[]string{ready, answer(value.Text("analysis"), value.Value{Kind: value.KindList, Items: []value.Value{no}}, value.Bool(false), value.Bool(false), value.Text("whole"))}, "reading the answer", false},
		"its end":            {[]string{ready, ""}, "the row's tests do not parse", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: analysis.Role}
			e.script = func(_ int64, w wire) {
				for i, say := range c.says {
					if i > 0 {
						w.receive()
					}
					if say == "" {
						panic(io.EOF)
					}
					w.raw(say)
				}
				w.receive()
			}
			v := newTestVerifier(t, e)
			for i := range 2 {
				_, err := analysisOfRow(t, v, add())
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, analysis.ErrBroken) != c.isFault {
					t.Errorf("%v, want %q", err, c.want)
				}
				tries := 1
				if c.isFault {
					tries = 2 // the first could have been a signal from outside
				}
				if n := e.boxes.Load(); n != int64(tries*(i+1)) {
					t.Errorf("%d sandboxes for %d rows", n, i+1)
				}
			}
		})
	}
}

// TestAnalystKilledOnce: an analysis sandbox that is killed costs a row nothing.
func TestAnalystKilledOnce(t *testing.T) {
	t.Parallel()
	e := &scriptedEngine{localEngine: newLocalEngine(t), role: analysis.Role}
	e.script = func(n int64, w wire) {
		w.raw(string(frame.Append(nil, value.Text("ready").Append(nil))))
		w.receive()
		if n == 1 {
			panic(io.EOF)
		}
		name := value.Tuple(value.Text("add"), value.Text("function"))
		w.raw(string(frame.Append(nil, value.Tuple(value.Text("analysis"), value.Value{Kind: value.KindList, Items: []value.Value{name}},
			value.Bool(false), value.Bool(false), value.Text("whole")).Append(nil))))
		w.receive()
	}
	if a, err := analysisOfRow(t, newTestVerifier(t, e), add()); err != nil || !a.Has("add") || e.boxes.Load() != 2 {
		t.Errorf("%+v, %v with %d sandboxes", a, err, e.boxes.Load())
	}
}
