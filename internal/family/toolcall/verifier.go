// Package toolcall is the tool_call family: a request, tools, and the calls of them that
// an agent must state. Nothing is called: what the agent writes is read by package calls
// and compared with what the row expects.
//
// By the rule json, arguments satisfy the tool's JSON Schema and each equals an accepted
// value: numbers by their value, texts exactly, lists in order, objects by their members.
// The rule bfcl is that of the Berkeley Function-Calling Leaderboard's own scorer. Calls
// and expectations are matched as many as can be, whatever their order.
//
// A row with a simulator, whose tools an agent calls, is not scored yet.
package toolcall

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/toolcall/calls"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// newVerifier returns the family's verifier. It needs no sandbox.
func newVerifier(family.Resources) family.Verifier {
	return textmatch.NewVerifier((&rows{kept: map[string]*key{}}).read)
}

// rows keeps the rows that were read: their schemas are compiled once, and not for each
// attempt.
type rows struct {
	mu   sync.Mutex
	kept map[string]*key // by what is read
}

// maxKept is the most rows that are kept. Attempts at one come close together.
const maxKept = 64

func (r *rows) read(c family.Case) (textmatch.Scorer, error) {
	tools, list, how := valuesOf(c.Evaluator)
	content := strings.Join([]string{string(tools), string(list), string(how)}, "\x00")
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.kept[content]; k != nil {
		return k, nil
	}
	k, err := newKey(tools, list, how)
	if err != nil {
		return nil, fmt.Errorf("reading the expected calls of task %s: %w", c.Evaluator.ID(), err)
	}
	if len(r.kept) == maxKept {
		clear(r.kept)
	}
	r.kept[content] = k
	return k, nil
}

// keyOf reads what the row of a task expects.
func keyOf(v task.EvaluatorView) (*key, error) { return newKey(valuesOf(v)) }

func valuesOf(v task.EvaluatorView) (tools, list, how jsontext.Value) {
	of := func(name string) jsontext.Value {
		r, _ := v.Get(name)
		return r.Value
	}
	return of("tools"), of("expected_calls"), of("match")
}

// Score scores a candidate. That one which was cut off states no call yet says nothing.
func (k *key) Score(_ context.Context, candidate string, cut bool) (family.Verdict, error) {
	return k.score(candidate, cut), nil
}

func (k *key) score(candidate string, cut bool) family.Verdict {
	said, read := answer.Said(candidate), calls.Read
	if k.match.Rule == ruleBFCL { // whose scorer reads the tokens of a chat as text
		said, read = answer.WithoutReasoning(candidate), calls.ReadOfficial
	}
	if said != candidate && calls.Whole(candidate) {
		said = candidate
	}
	metadata := map[string]any{
		"candidate_answer": textmatch.Excerpt(candidate),
		"expected_answer":  task.Redacted,
	}
	if textmatch.Strip(said) == "" {
		return textmatch.Fail(verdict.EmptyCandidate, "the candidate is blank", metadata)
	}
	list, state := read(said)
	if state != calls.Nothing && len(k.expected) == 0 && k.match.Rule == ruleJSON {
		if rest, ok := calls.WithoutCode(said, k.names()); ok { // a decline may explain itself
			list, state = read(rest)
		}
	}
	metadata["stated_calls"] = len(list)
	switch {
	case state == calls.Ambiguous:
		return textmatch.Fail(verdict.AmbiguousAnswer, "the candidate states several lists of calls that differ", metadata)
	case state == calls.Broken:
		return textmatch.Fail(verdict.WrongAnswer, "what looks like calls cannot be read", metadata)
	case len(list) == 0 && cut:
		return textmatch.Fail(verdict.WrongAnswer, "the candidate was cut off before it stated a call", metadata)
	case state == calls.Nothing && len(k.expected) > 0:
		return textmatch.Fail(verdict.WrongAnswer, "the candidate states no calls in a form that is read", metadata)
	case !k.meets(list):
		return textmatch.Fail(verdict.WrongAnswer, "the candidate states other calls", metadata)
	}
	return textmatch.Pass(metadata)
}
