package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/record"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// The agents that need no agent: their candidate enters at capture and goes
// through the same verification and records as any other.
const (
	OracleName = "oracle"
	NullName   = "null"
	ReplayName = "replay"
)

// given is a production whose candidate is there from the start.
type given struct{ out Produced }

func (g given) Run(context.Context) (Produced, error) { return g.out, nil }
func (g given) Command() ([]string, string)           { return nil, "" }
func (g given) Close(context.Context) error           { return nil }

// isBlank reports whether a production is known to bring nothing to score.
func isBlank(p Production) bool {
	g, ok := p.(given)
	return ok && (g.out.Candidate == nil || len(bytes.TrimSpace(g.out.Candidate.Data)) == 0)
}

// give makes a production of a candidate's bytes under the run's bounds.
func give(agent, from string, kind task.CandidateKind, data []byte, limit int64) given {
	out := Produced{Metadata: map[string]any{
		"harness": agent, "candidate_kind": string(kind), record.OriginKey: from,
	}}
	c, err := capture.Admit(kind, from, data, limit)
	if !errors.As(err, &out.Rejection) {
		out.Candidate = &c
	}
	return given{out}
}

func giveNothing(agent, why string) given {
	return given{Produced{
		Metadata:  map[string]any{"harness": agent},
		Rejection: &capture.Rejection{Reason: verdict.CandidateMissing, Message: why},
	}}
}

// Oracle hands in the row's own reference solution.
type Oracle struct{ Limit int64 }

// Name returns "oracle".
func (Oracle) Name() string { return OracleName }

// Sandboxed is false.
func (Oracle) Sandboxed() bool { return false }

// Prepare takes the reference from the row.
func (o Oracle) Prepare(ctx context.Context, a Attempt) (Production, error) {
	c, ok, err := a.Reference(ctx)
	if err != nil {
		return nil, fmt.Errorf("completing the reference solution: %w", err)
	}
	if !ok {
		return giveNothing(OracleName, "the row has no reference solution"), nil
	}
	return give(OracleName, capture.Given, c.Kind, c.Data, o.Limit), nil
}

// reference returns a row's own solution as a candidate that stands alone.
func reference(ctx context.Context, v family.Verifier, fam family.Family, c family.Case) (family.Candidate, bool, error) {
	if full, ok := v.(family.Completer); ok {
		return full.Complete(ctx, c)
	}
	if fam.Reference == nil {
		return family.Candidate{}, false, nil
	}
	cand, ok := fam.Reference(c.Evaluator)
	return cand, ok, nil
}

// Null hands in nothing: an empty candidate.
type Null struct{}

// Name returns "null".
func (Null) Name() string { return NullName }

// Sandboxed is false.
func (Null) Sandboxed() bool { return false }

// Prepare gives the empty candidate.
func (Null) Prepare(_ context.Context, a Attempt) (Production, error) {
	return give(NullName, capture.Given, a.Task.Extraction().Kind, nil, 0), nil
}

// Replay hands in candidates that a file holds: one JSON object a line with
// task_id, optionally attempt, and one of text and patch.
type Replay struct {
	limit int64
	sum   string
	lines map[replayKey]replayLine
	tasks map[string]bool // that the file has lines of
	seen  map[string]bool // those of them that the pack has
}

type replayKey struct {
	task    string
	attempt int // 0 serves every attempt
}

type replayLine struct {
	kind task.CandidateKind
	data []byte
}

// maxReplayLine is the longest line of a replay file, in bytes.
const maxReplayLine = 64 << 20

// OpenReplay reads a replay file. Errors name file, line and column.
func OpenReplay(path string, limit int64) (*Replay, error) {
	f, err := source.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the replay file: %w", err)
	}
	defer f.Close()
	r := &Replay{limit: limit, lines: map[replayKey]replayLine{}, tasks: map[string]bool{}, seen: map[string]bool{}}
	sum := sha256.New()
	sc := bufio.NewScanner(io.TeeReader(f, sum))
	sc.Buffer(nil, maxReplayLine)
	line := 1
	for ; sc.Scan(); line++ {
		if len(sc.Bytes()) == 0 {
			continue
		}
		if err := r.add(path, line, sc.Bytes()); err != nil {
			return nil, err
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return nil, source.Problemf(source.Pos{File: path, Line: line}, "the line is longer than %d bytes", maxReplayLine)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading the replay file: %w", err)
	}
	r.sum = digest.Format(sum.Sum(nil))
	return r, nil
}

// Digest is that of the file: what is replayed is an input of the run.
func (r *Replay) Digest() string { return r.sum }

func (r *Replay) add(path string, line int, data []byte) error {
	n, err := source.ParseJSON(path, line, data)
	if err != nil {
		return err
	}
	if n.Kind != source.Map {
		return source.Problemf(n.Pos, "a replay line must be an object")
	}
	errs, _ := n.Check("the replay line", false, "task_id", "attempt", "text", "patch", "tree")
	if err := errs.Err(); err != nil {
		return err
	}
	key, val, err := replayEntry(n)
	if err != nil {
		return err
	}
	if _, dup := r.lines[key]; dup {
		return source.Problemf(n.Pos, "task %q has this attempt twice", key.task)
	}
	r.tasks[key.task] = true
	r.lines[key] = val
	return nil
}

func replayEntry(n *source.Node) (key replayKey, val replayLine, err error) {
	id := n.Get("task_id")
	if id == nil || id.Kind != source.String || id.Text == "" {
		return key, val, source.Problemf(n.Pos, "task_id must be a non-empty string")
	}
	key.task = id.Text
	if a := n.Get("attempt"); a != nil {
		i, p := a.Int("attempt", 1, 1<<20)
		if p != nil {
			return key, val, p
		}
		key.attempt = int(i)
	}
	if t := n.Get("tree"); t != nil {
		return key, val, source.Problemf(t.Pos, "a tree cannot be replayed yet: no family with a verifier takes one")
	}
	text, patch := n.Get("text"), n.Get("patch")
	val.kind = task.Text
	if text == nil {
		text, val.kind = patch, task.Patch
	} else if patch != nil {
		return key, val, source.Problemf(patch.Pos, "give one of text and patch, not both")
	}
	if text == nil || text.Kind != source.String {
		return key, val, source.Problemf(n.Pos, "text or patch must be a string")
	}
	val.data = []byte(text.Text)
	return key, val, nil
}

// Seen notes a task of the pack; it is called for each before the run.
func (r *Replay) Seen(taskID string) {
	if r.tasks[taskID] {
		r.seen[taskID] = true
	}
}

// Unmatched counts the lines that no attempt of a task seen will ask for, and
// names the task of the first.
func (r *Replay) Unmatched(attempts int) (n int, first string) {
	for key := range r.lines {
		if r.seen[key.task] && key.attempt <= attempts {
			continue
		}
		if n++; n == 1 || key.task < first {
			first = key.task
		}
	}
	return n, first
}

// Name returns "replay".
func (*Replay) Name() string { return ReplayName }

// Sandboxed is false.
func (*Replay) Sandboxed() bool { return false }

// Prepare finds the attempt's line, or the task's line for every attempt.
func (r *Replay) Prepare(_ context.Context, a Attempt) (Production, error) {
	val, ok := r.lines[replayKey{a.Task.ID(), a.Number}]
	if !ok {
		val, ok = r.lines[replayKey{a.Task.ID(), 0}]
	}
	if !ok {
		return giveNothing(ReplayName, "the replay file has no line for this attempt"), nil
	}
	kind := a.Task.Extraction().Kind
	if (kind == task.Patch) != (val.kind == task.Patch) {
		return giveNothing(ReplayName, fmt.Sprintf("the replay file holds a %s, the family takes a %s", val.kind, kind)), nil
	}
	return give(ReplayName, capture.Replay, kind, val.data, r.limit), nil
}

var errNoProduction = errors.New("production without a candidate, a rejection or a limit")
