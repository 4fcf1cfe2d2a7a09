// Package mathmatch compares a mathematical expression that an answer states with gold
// answers, by the field's own library, Math-Verify with SymPy.
//
// The expression is the candidate's, and the library is large: it computes while it
// reads, and one of its parsers ends in Python's eval. So the work is done in three
// places.
//
//   - This process refuses what a rule says ([refusal]): a text that is no unit of the
//     question, a denial, numbers side by side, another kind of thing than the gold is.
//   - The case sandbox reads the expression as LaTeX and writes it as JSON arrays. It
//     holds no gold answer.
//   - This process holds the arrays to a list of names and sizes ([readTree]), and the
//     oracle sandbox, which reads the gold answer and never a text of the candidate,
//     builds the expression from them without evaluating it and compares.
//
// Both sandboxes stay warm. What takes more than [seconds] of processor time in either
// fails the candidate.
package mathmatch

import (
	"context"
	_ "embed" // the programs
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"securebench/internal/family"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/warm"
	"securebench/internal/sandbox"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

//go:embed serve.py
var serveSource string

//go:embed case.py
var caseSource string

//go:embed oracle.py
var oracleSource string

const (
	// libraries is where the sandboxes have Python's libraries.
	libraries = "/.securebench-python"
	// seconds is how much processor time an answer may take in a sandbox.
	seconds = 5
	// patience is how long it may take on a busy machine.
	patience = 2 * time.Minute
	// memory is what a sandbox has.
	memory = 1 << 30
)

// Comparer compares expressions in warm sandboxes. It is safe for concurrent use.
type Comparer struct {
	cases, oracles *warm.Pool
	library        func(context.Context) (sandbox.Overlay, error)
	reader         string // the program of the case sandbox
}

// New makes a comparer for a family's verifier. It starts nothing. The caller closes it.
func New(r family.Resources) *Comparer {
	return &Comparer{warm.New(r.Engine, r.RunID, r.Workers), warm.New(r.Engine, r.RunID, r.Workers), r.MathVerify, caseSource}
}

// Close ends the sandboxes.
func (c *Comparer) Close(ctx context.Context) error {
	return errors.Join(c.cases.Close(ctx), c.oracles.Close(ctx))
}

// program returns one of the programs with what they share.
func (c *Comparer) program(ctx context.Context, role, source string) (warm.Program, error) {
	if c.library == nil {
		return warm.Program{}, errors.New("there is no engine to compare expressions on")
	}
	tree, err := c.library(ctx)
	if err != nil {
		return warm.Program{}, err
	}
	head := "LIBRARIES, SECONDS, NODES = " + strconv.Quote(libraries) + ", " + strconv.Itoa(seconds) + ", " + strconv.Itoa(maxNodes) + "\n"
	return warm.Program{Role: role, Source: head + serveSource + source, Data: value.Int(memory / 8 * 7).Append(nil),
		Mounts: []sandbox.Mount{{Overlay: tree, Target: libraries, ReadOnly: true}}}, nil
}

// Key is the gold answers of a row, any of which is accepted.
type Key struct {
	golds []stated
	asked *Asked
}

// NewKey reads gold answers, and what is asked.
func NewKey(texts []string, q *answer.Question) (*Key, error) {
	k := &Key{}
	var units []string
	for i, text := range texts {
		g, r := read(text, nil, nil)
		if r != "" {
			return nil, fmt.Errorf("accepted answer %d is no expression: %s", i+1, r)
		}
		units = append(units, g.unit...)
		k.golds = append(k.golds, g)
	}
	k.asked = ask(q, units)
	return k, nil
}

// Result is what came of a comparison.
type Result struct {
	// Index is the gold answer that the expression equals, -1 for none. Then the
	// others say why, in words that reveal no gold answer.
	Index   int
	Reason  verdict.Reason
	Message string
}

func failed(reason verdict.Reason, message string) Result { return Result{-1, reason, message} }

// errOverrun says that a sandbox took too long or too much memory for an expression.
var errOverrun = errors.New("comparing the expression takes too much time or memory")

// errUnreadable says that an expression cannot be parsed, or has parts that are not on
// the list.
var errUnreadable = errors.New("the expression cannot be read")

// Compare compares the expression that an answer states with the gold answers of a key.
// An error is the engine's or this process's.
func (c *Comparer) Compare(ctx context.Context, fc family.Case, k *Key, answer string) (Result, error) {
	none := failed(verdict.WrongAnswer, "the expression is of another kind than the expected one")
	readings := map[string]reading{}
	for i := range k.golds {
		g := &k.golds[i]
		e, r := read(answer, k.asked, g)
		if g.value != nil && e.shape != g.shape {
			g = g.value
			e, r = read(answer, k.asked, g)
		}
		switch {
		case r != "":
			none = failed(verdict.AmbiguousAnswer, string(r))
			continue
		case (e.shape == words || e.shape == based) && e.shape == g.shape && bare(e.text) == bare(g.text):
			return Result{Index: i}, nil
		case e.shape == words || e.shape == based:
			continue
		case !k.asked.fits(*g, e):
			continue
		}
		equal, why, err := c.accepts(ctx, fc, g, e, readings)
		switch {
		case err != nil:
			return Result{}, err
		case equal:
			return Result{Index: i}, nil
		}
		none = failed(verdict.WrongAnswer, why)
	}
	return none, nil
}

// accepts reports whether an expression, and every other side of its chain, equals a gold
// answer, or says why not.
func (c *Comparer) accepts(ctx context.Context, fc family.Case, g *stated, e stated, readings map[string]reading) (equal bool, why string, err error) {
	for _, text := range append([]string{e.text}, e.also...) {
		got, ok := readings[text]
		if !ok {
			if got, err = c.parse(ctx, fc, text); err != nil {
				return false, "", err
			}
			readings[text] = got
		}
		if got.failed != nil || !got.root.fits(e.shape) {
			return false, orUnreadable(got.failed), nil
		}
		equal, err := c.equal(ctx, fc, g.text, got.tree)
		switch {
		case errors.Is(err, errOverrun):
			return false, errOverrun.Error(), nil
		case err != nil:
			return false, "", err
		case !equal && text != g.text: // the library says of 12:00 that it has no value
			return false, "the expression is not the expected one", nil
		}
	}
	return true, "", nil
}

// bare is a text without the braces and spaces of LaTeX.
func bare(s string) string { return strings.NewReplacer("{", "", "}", "", " ", "").Replace(s) }

func orUnreadable(err error) string {
	if err == nil {
		err = errUnreadable
	}
	return err.Error()
}

// reading is what the case sandbox made of an expression.
type reading struct {
	root   node
	tree   []byte
	failed error // the candidate's fault
}

// parse has the case sandbox read an expression, and checks what it wrote.
func (c *Comparer) parse(ctx context.Context, fc family.Case, latex string) (reading, error) {
	kind, payload, err := c.ask(ctx, fc, c.cases, "math_case", c.reader, value.Text(latex))
	switch {
	case errors.Is(err, errOverrun) || err == nil && kind == "overrun":
		return reading{failed: errOverrun}, nil
	case err != nil:
		return reading{}, err
	case kind != "tree":
		return reading{failed: errUnreadable}, nil
	}
	root, tree, err := readTree([]byte(payload))
	if err != nil {
		return reading{failed: errUnreadable}, nil //nolint:nilerr // what is wrong is the candidate's
	}
	return reading{root: root, tree: tree}, nil
}

// equal has the oracle sandbox compare.
func (c *Comparer) equal(ctx context.Context, fc family.Case, gold string, tree []byte) (bool, error) {
	kind, _, err := c.ask(ctx, fc, c.oracles, "math_oracle", oracleSource, value.Tuple(value.Text(gold), value.Text(string(tree))))
	if err != nil {
		return false, err
	}
	switch kind {
	case "equal", "different", "unreadable":
		return kind == "equal", nil
	case "overrun":
		return false, errOverrun
	case "gold":
		return false, family.Fail(verdict.PackFault, "an accepted answer cannot be read as LaTeX")
	}
	return false, errors.New("the oracle sandbox said something that is not its answer")
}

// ask asks a program. What it did wrong after it was ready is the expression's doing.
func (c *Comparer) ask(ctx context.Context, fc family.Case, pool *warm.Pool, role, source string, question value.Value) (kind, payload string, err error) {
	p, err := c.program(ctx, role, source)
	if err != nil {
		return "", "", err
	}
	limits := fc.Limits.WithDefaults()
	limits.Memory = memory
	answer, err := pool.Ask(ctx, p, warm.Request{Image: fc.Image, Limits: limits, Time: patience, Question: question.Append(nil)})
	ended, ok := errors.AsType[*warm.EndedError](err)
	switch {
	case ok && !ended.Started:
		return "", "", family.Fail(verdict.PackFault, "the row's image cannot compare expressions: it needs Python 3.10 or later with its standard library")
	case ok, errors.Is(err, warm.ErrOverrun), errors.Is(err, warm.ErrUnreadable):
		return "", "", errOverrun
	case err != nil:
		return "", "", err
	}
	d := value.NewDecoder(answer)
	if d.Tuple() != 2 {
		d.Fail("an answer has two parts")
	}
	kind, payload = d.Text(), d.Text()
	if d.End() != nil {
		return "", "", errOverrun
	}
	return kind, payload, nil
}

// fits reports whether an expression is of the kind of the gold answer, as far as its
// form says. A percentage and a number are the same where the question asks for one.
func (a *Asked) fits(g, e stated) bool {
	return e.shape == g.shape && (g.percent == e.percent || a.percent)
}
