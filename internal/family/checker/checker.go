// Package checker judges answers with a file of the pack: a function in Python that
// gets an answer, the text that it was found in and the row as plain data, and returns a
// score and a reason. It runs in the test sandbox, which nothing of a candidate
// reaches but text.
package checker

import (
	"context"
	_ "embed" // the program
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/family/warm"
	"securebench/internal/sandbox"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/value"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

//go:embed checker.py
var program string

// Name is the name of the measure that a checker gives.
const Name = "checker"

// maxFile is the largest file of a checker, in bytes.
const maxFile = 1 << 20

// Options name a checker in a row.
type Options struct {
	Path   string   `json:"path"` // below the pack's evaluation root
	PassAt *float64 `json:"pass_at"`
}

// Passes reports whether a score is a pass.
func (o Options) Passes(score float64) bool {
	if o.PassAt == nil {
		return score >= 1
	}
	return score >= *o.PassAt
}

// Checkers keeps checkers warm.
type Checkers struct {
	pool  *warm.Pool
	files family.Files
}

// New makes checkers. It starts nothing.
func New(r family.Resources) *Checkers {
	return &Checkers{warm.New(r.Engine, r.RunID, r.Workers), r.Files}
}

// Close ends the checkers' sandboxes.
func (c *Checkers) Close(ctx context.Context) error { return c.pool.Close(ctx) }

// Question is what a checker judges.
type Question struct {
	Answer *string // nil if the text states none
	Text   string
	Row    jsontext.Value // an object
}

// Result is what a checker says.
type Result struct {
	Score  float64
	Reason string // in the pack's words: it may say a hidden value
	// Trace is what a checker that failed left, for its author.
	Trace string
}

// Ask asks a row's checker. A [family.Failure] is the pack's fault; any other error is
// the engine's or this process's.
func (c *Checkers) Ask(ctx context.Context, of family.Case, o Options, q Question) (Result, error) {
	file, err := c.read(o.Path)
	if err != nil {
		return Result{}, family.Fail(verdict.PackFault, "the checker %q cannot be read: %v", o.Path, err)
	}
	answer := value.Value{Kind: value.KindNone}
	if q.Answer != nil {
		answer = value.Text(*q.Answer)
	}
	question := value.Tuple(answer, value.Text(q.Text), value.Text(string(q.Row))).Append(nil)
	if len(question) > value.MaxSize {
		return Result{}, family.Fail(verdict.CandidateTooLarge, "the answer and the row are over 8 MiB")
	}
	said, err := c.pool.Ask(ctx, warm.Program{Role: "checker", Source: program, Data: value.Tuple(value.Text(o.Path), value.Bytes(file)).Append(nil)},
		warm.Request{Image: of.Image, Limits: of.Limits, Time: of.Limits.WithDefaults().Timeout, Question: question})
	if err != nil {
		return blame(err, of)
	}
	return read(said)
}

// Verdict asks a checker about a text, and says what follows.
func (c *Checkers) Verdict(ctx context.Context, of family.Case, o Options, q Question) (family.Verdict, error) {
	r, err := c.Ask(ctx, of, o, q)
	f, failed := errors.AsType[*family.Failure](err)
	switch {
	case err != nil && !failed:
		return family.Verdict{}, err
	case !failed && !o.Passes(r.Score):
		f = family.Fail(verdict.WrongAnswer, "the row's checker does not accept the answer")
	}
	v := family.VerdictOf(f)
	if err == nil {
		v.Measure = &verdict.Measure{Name: Name, Value: r.Score}
	}
	v.Containment, v.Labels, v.Restricted = verdict.Passive, []string{verdict.PackChecker}, r.Restricted()
	return v, nil
}

// Restricted returns what a checker said, which only the operator may read.
func (r Result) Restricted() map[string][]byte {
	out := map[string][]byte{}
	for name, text := range map[string]string{"checker-reason.txt": r.Reason, "checker-traceback.txt": r.Trace} {
		if text != "" {
			out[name] = []byte(text)
		}
	}
	return out
}

// Twins returns candidates that no checker should take: the words of a row's own
// solution in the reverse order, and an answer to anything.
func Twins(s family.Solution, ok bool) ([]family.Twin, error) {
	const advice = "let the checker look at what the answer says"
	out := []family.Twin{{What: `the text is "yes"`, Advice: advice, Candidate: candidate.New(task.Text, candidate.Given, []byte("yes"))}}
	if !ok {
		return out, nil
	}
	text, err := s.Candidate.Bytes()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(text))
	slices.Reverse(words)
	if shuffled := strings.Join(words, " "); len(words) > 1 && shuffled != strings.Join(strings.Fields(string(text)), " ") {
		out = append(out, family.Twin{What: "the words of the solution are in the reverse order", Advice: advice,
			Candidate: candidate.New(task.Text, candidate.Given, []byte(shuffled))})
	}
	return out, nil
}

// blame says whose fault it is that a checker has not answered.
func blame(err error, of family.Case) (Result, error) {
	ended, isEnd := errors.AsType[*warm.EndedError](err)
	switch {
	case errors.Is(err, warm.ErrOverrun):
		return Result{}, family.Fail(verdict.PackFault, "the checker ran longer than the row's %v", of.Limits.WithDefaults().Timeout)
	case errors.Is(err, warm.ErrUnreadable):
		return Result{}, family.Fail(verdict.PackFault, "what the checker's process wrote is no answer")
	case isEnd && ended.Outcome.End == sandbox.OutOfMemory:
		return Result{Trace: string(ended.Stderr)}, family.Fail(verdict.PackFault, "the checker ran out of memory")
	case isEnd:
		return Result{Trace: string(ended.Stderr)}, family.Fail(verdict.PackFault, "the checker's process ended (image %s needs Python 3)", of.Image.Ref)
	}
	return Result{}, fmt.Errorf("asking the row's checker: %w", err)
}

// read reads an answer.
func read(said []byte) (Result, error) {
	d := value.NewDecoder(said)
	parts, kind := d.Tuple(), d.Text()
	switch {
	case kind == "broken" && parts == 2:
		if trace := d.Text(); d.End() == nil {
			return Result{Trace: trace}, family.Fail(verdict.PackFault, "the row's checker failed")
		}
	case kind == "score" && parts == 3:
		text, reason := d.Text(), d.Text()
		score, err := strconv.ParseFloat(text, 64)
		if d.End() == nil && err == nil && score >= 0 && score <= 1 {
			return Result{Score: score, Reason: reason}, nil
		}
	}
	return Result{}, family.Fail(verdict.PackFault, "what the checker's process wrote is no answer")
}

// read reads the file of a checker, as it was when the pack was loaded.
func (c *Checkers) read(path string) ([]byte, error) {
	if c.files.Eval == nil {
		return nil, errors.New("the pack has no evaluation files")
	}
	data, err := source.ReadFileIn(c.files.Eval, path, maxFile)
	if err != nil {
		return nil, err
	}
	if was, ok := c.files.EvalDigests[path]; ok && was != digest.Bytes(data) {
		return nil, workspace.ErrChanged
	}
	return data, nil
}

// Row is a row as a checker sees it: its id, its input, its eval and what else is given.
func Row(id string, values []task.Resource, more map[string]any) (jsontext.Value, error) {
	input, eval := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	for _, r := range values {
		to := eval
		if r.Lane == task.Public {
			to = input
		}
		to[r.Name] = r.Value
	}
	row := map[string]any{"id": id, "input": input, "eval": eval}
	for name, v := range more {
		row[name] = v
	}
	out, err := json.Marshal(row, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("giving the row to its checker: %w", err)
	}
	return out, nil
}
