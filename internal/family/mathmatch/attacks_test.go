package mathmatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/family/warm"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/value"
)

// lab is a comparer on a real engine, and its parts.
type lab struct {
	*Comparer
	c      family.Case
	engine sandbox.Engine
}

func newLab(t testing.TB) lab {
	t.Helper()
	e := enginetest.Open(t)
	wheels := enginetest.MathVerify(t, e)
	c := New(family.Resources{Engine: e, RunID: enginetest.Run("math"), Workers: 1, MathVerify: wheels})
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return lab{c, family.Case{Image: enginetest.Image(t, e)}, e}
}

// reads is the lab with another program in its case sandboxes.
func (l lab) reads(t *testing.T, program string) lab {
	t.Helper()
	cases := warm.New(l.engine, enginetest.Run("reads"), 1)
	t.Cleanup(func() {
		if err := cases.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	l.Comparer = &Comparer{cases: cases, oracles: l.oracles, library: l.library, reader: program}
	return l
}

// ask asks a program of a test in the oracle's place.
func (l lab) ask(t testing.TB, role, source, question string) string {
	t.Helper()
	kind, payload, err := l.Comparer.ask(t.Context(), l.c, l.oracles, role, source, value.Tuple(value.Text("5"), value.Text(question)))
	if err != nil {
		t.Fatal(err)
	}
	return kind + payload
}

// key makes the key of one gold answer.
func key(t testing.TB, gold string) *Key {
	t.Helper()
	k, err := NewKey([]string{gold}, answer.Ask("What is it?", "", vocabulary.Every))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bySrepr is a weak oracle: it takes an expression as SymPy's own srepr writes it, and
// reading that evaluates.
const bySrepr = `
def answer(question):
    gold, written = question
    return ("equal" if verify([read(gold)], [sympy.sympify(written)], timeout_seconds=None) else "different", "")
serve(answer, EXAMPLES)
`

// takenOver is a case sandbox that runs the candidate's code: it says what the candidate
// wants.
const takenOver = `
def answer(latex):
    return ("tree", latex)
serve(answer, EXAMPLES)
`

// TestSandboxes has what needs sandboxes, which take seconds to start.
func TestSandboxes(t *testing.T) {
	l := newLab(t)
	t.Run("compare", l.compares)
	t.Run("overrun", l.overruns)
	t.Run("library as it comes", l.libraryAsItComes)
	t.Run("taken over", l.takenOver)
	t.Run("no Python", l.noPython)
}

// takenOver: a candidate that took the case sandbox over could run code where the gold
// answer is if that read what SymPy writes. Here its message is checked, and no text of
// it is evaluated; the honest message passes.
func (l lab) takenOver(t *testing.T) {
	payload, works := "", false
	for level := 1; level < 16 && !works; level++ { // of the stack, in which the question is
		payload = fmt.Sprintf("sympify(__import__('sys')._getframe(%d).f_locals['question'][0])", level)
		works = l.ask(t, "math_weak", bySrepr, payload) == "equal"
	}
	if !works {
		t.Error("the attack does not work on a weak oracle")
	}
	l = l.reads(t, takenOver)
	for _, said := range []string{payload, `["Symbol","` + payload + `"]`, `["sympify","` + payload + `"]`, `["Apply","__import__",["Symbol","os"]]`, `["Integer","` + payload + `"]`} {
		if got, err := l.parse(t.Context(), l.c, said); err != nil || got.failed == nil || got.tree != nil {
			t.Errorf("%s is passed on: %+v, %v", said, got, err)
		}
	}
	got, err := l.parse(t.Context(), l.c, `["Integer","5"]`)
	if err != nil || got.failed != nil {
		t.Fatalf("an honest message: %+v, %v", got, err)
	}
	if equal, err := l.equal(t.Context(), l.c, "5", got.tree); err != nil || !equal {
		t.Errorf("an honest message: %v, %v", equal, err)
	}
}

// plainly is a weak reader: the library as it comes, whose other configuration hands a
// candidate's text to Python's eval.
const plainly = `
from math_verify import parse
def answer(question):
    gold, text = question
    return ("equal" if verify(parse(gold, parsing_timeout=None), parse(text, parsing_timeout=None), timeout_seconds=None) else "different", "")
serve(answer, EXAMPLES)
`

// libraryAsItComes: what the library accepts of a text as it comes is refused here.
func (l lab) libraryAsItComes(t *testing.T) {
	accepted, weak := 0, warm.New(l.engine, enginetest.Run("weak"), 1) // beside ours, which would make room for it each time
	defer weak.Close(context.Background())
	for gold, answers := range map[string][]string{
		"5": {`$5\text{ is wrong}$`, `$\neq 5$`, `$x \neq 5$`, `$\approx 5$`, `$5=5$`, `the answer is not 5`}, "120": {`$120\text{ million}$`, `$120\%$`}, "1989": {`$1989\text{ BC}$`}, "3": {`$5=3$`, `$1 2$`},
	} {
		for _, answer := range answers {
			kind, _, err := l.Comparer.ask(t.Context(), l.c, weak, "math_weak", plainly, value.Tuple(value.Text("$"+gold+"$"), value.Text(answer)))
			if err != nil {
				t.Fatal(err)
			}
			if kind == "equal" {
				accepted++
			}
			if r, err := l.Compare(t.Context(), l.c, key(t, gold), answer); err != nil || r.Index >= 0 {
				t.Errorf("%s for %s: %+v, %v", answer, gold, r, err)
			}
		}
		if r, err := l.Compare(t.Context(), l.c, key(t, gold), "$"+gold+"$"); err != nil || r.Index != 0 {
			t.Errorf("the honest answer %s: %+v, %v", gold, r, err)
		}
	}
	if accepted < 7 {
		t.Errorf("the library accepts %d of them: the test shows little", accepted)
	}
}

// noPython: an image in which nothing can compare is the row's fault.
func (l lab) noPython(t *testing.T) {
	l = l.reads(t, "raise SystemExit(3)\n")
	_, err := l.Compare(t.Context(), l.c, key(t, "5"), "5")
	if f, ok := errors.AsType[*family.Failure](err); !ok || !strings.Contains(f.Message, "Python 3.10") {
		t.Errorf("got %v", err)
	}
}

// library times the library itself: reading both and comparing.
const library = `
import time
def answer(question):
    gold, text = question
    start = time.perf_counter()
    verify([read(gold)], [read(text)], timeout_seconds=None)
    return ("equal", str(time.perf_counter() - start))
serve(answer, EXAMPLES)
`

// typical are pairs of accepted answers and answers, in which N is a number.
var typical = [][2]string{{`\frac{N}{7}`, `N/7`}, {`N\sqrt{3}`, `N√3`}, {`N`, `N`}, {`x^2+Nx+1`, `x^2 + Nx + 1`}, {`(-\infty,N]`, `(-\infty, N]`}, {`N\pi`, `N\pi`}, {`(N,4)`, `(N, 4)`},
	{`\{1,N\}`, `N, 1`}, {`-\frac{N}{2}`, `-\frac{N}{2}`}, {`N`, `14`}, {`\frac{7}{N}`, `7/N`}, {`3+Ni`, `3+Ni`}, {`\begin{pmatrix}1\\N\end{pmatrix}`, `\begin{pmatrix}1\\N\end{pmatrix}`}, {`N`, `\frac{1}{N}`}, {`1000N`, `1,000N`}, {`N`, `x = N`}}

// numbered is a typical pair with a number, so that nothing is read from a cache.
func numbered(pair [2]string, n int) (gold, answer string) {
	r := strings.NewReplacer("N", strconv.Itoa(n))
	return r.Replace(pair[0]), r.Replace(pair[1])
}

// BenchmarkMath compares typical answers, beside the library in a sandbox that reads
// and compares them itself.
func BenchmarkMath(b *testing.B) {
	l := newLab(b)
	if _, err := l.Compare(b.Context(), l.c, key(b, "5"), "6"); err != nil { // both sandboxes start
		b.Fatal(err)
	}
	var ours, theirs []time.Duration
	n := 100
	for b.Loop() {
		for _, pair := range typical {
			gold, said := numbered(pair, n)
			k := key(b, gold)
			start := time.Now()
			if _, err := l.Compare(b.Context(), l.c, k, said); err != nil {
				b.Fatal(err)
			}
			ours = append(ours, time.Since(start))
			n++
		}
	}
	b.StopTimer()
	weak := warm.New(l.engine, enginetest.Run("bare"), 1)
	defer weak.Close(b.Context())
	for i := range ours {
		gold, said := numbered(typical[i%len(typical)], n+i)
		_, took, err := l.Comparer.ask(b.Context(), l.c, weak, "math_bare", library, value.Tuple(value.Text(gold), value.Text(strings.ReplaceAll(said, "√", `\sqrt `))))
		if err != nil {
			b.Fatal(err)
		}
		s, err := strconv.ParseFloat(took, 64)
		if err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Duration(s*float64(time.Second)))
	}
	at := func(d []time.Duration, q float64) float64 {
		slices.Sort(d)
		return d[int(q*float64(len(d)-1))].Seconds() * 1e3
	}
	b.ReportMetric(at(ours, 0.5), "p50-ms")
	b.ReportMetric(at(ours, 0.95), "p95-ms")
	b.ReportMetric(at(ours, 0.5)/at(theirs, 0.5), "ratio")
}
