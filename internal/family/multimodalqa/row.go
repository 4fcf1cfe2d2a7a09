// Package multimodalqa is the multimodal_qa family: a question about pictures or
// documents, with choices or without.
//
// A row with choices is scored by the rules of multiple_choice, any other by those of
// short_answer, under the names that this family has for its values. Three more rules
// compare what a reply states in the ways of benchmarks of charts, documents and
// photographs: relaxed, anls and vqa. All of them read the stated answer, never the
// whole text, and look at no picture: that is the agent's work.
package multimodalqa

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/task"
)

// match is eval.match as a row writes it, as far as this family reads it.
type match struct {
	Type      string         `json:"type"`
	Tolerance jsontext.Value `json:"tolerance"`
	Share     jsontext.Value `json:"relative_tolerance"`
	Threshold *float64       `json:"threshold"`
	answer.Declared
	// These are short_answer's own.
	Marker *string        `json:"marker"`
	Case   *bool          `json:"ignore_case"`
	Extra  jsontext.Value `json:"max_extra_words"`
}

func readMatch(v jsontext.Value) (m match, err error) {
	if len(v) > 0 && v.Kind() != 'n' {
		err = json.Unmarshal(v, &m, json.RejectUnknownMembers(true))
	}
	return m, err
}

// measured reports whether the row is compared by a rule of this family.
func (m match) measured() bool {
	return m.Type == "relaxed" || m.Type == "anls" || m.Type == "vqa"
}

// misused returns the problem with a setting that the row's type does not have.
func (m match) misused() *family.Problem {
	refuse := func(key, types string) *family.Problem {
		return &family.Problem{Path: []string{"eval", "match", key}, Message: "has no effect with this match.type", Fix: "it is for " + types}
	}
	switch {
	case m.Tolerance != nil && m.Type != "" && m.Type != "number" && m.Type != "set":
		return refuse("tolerance", "number, set, or rows without a type")
	case m.Share != nil && m.Type != "relaxed":
		return refuse("relative_tolerance", "relaxed")
	case m.Threshold != nil && m.Type != "anls" && m.Type != "vqa":
		return refuse("threshold", "anls and vqa")
	case !m.measured():
		return nil
	case m.Marker != nil:
		return refuse("marker", "the types that short_answer has")
	case m.Case != nil:
		return refuse("ignore_case", "the types that short_answer has")
	case m.Extra != nil:
		return refuse("max_extra_words", "span")
	}
	return nil
}

// elements returns the members of a list, nil of what is none.
func elements(v jsontext.Value) []jsontext.Value {
	var out []jsontext.Value
	if json.Unmarshal(v, &out) != nil {
		return nil
	}
	return out
}

// shortEval returns a row's hidden values under the names of short_answer.
func shortEval(eval map[string]jsontext.Value) (map[string]jsontext.Value, error) {
	list, err := json.Marshal(golds(eval["answer"]))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	out := map[string]jsontext.Value{"accepted_answers": list}
	var settings map[string]jsontext.Value
	if m := eval["match"]; len(m) > 0 && m.Kind() != 'n' {
		if err := json.Unmarshal(m, &settings); err != nil {
			return nil, fmt.Errorf("reading match: %w", err)
		}
	}
	if t := settings["tolerance"]; t != nil {
		out["tolerance"] = t
		delete(settings, "tolerance")
	}
	if len(settings) > 0 {
		rules, err := json.Marshal(settings, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("reading match: %w", err)
		}
		out["match"] = rules
	}
	return out, nil
}

// shortRow returns what an evaluator sees of a row as short_answer would have it.
func shortRow(v task.EvaluatorView) (task.EvaluatorView, error) {
	eval := map[string]jsontext.Value{}
	var public []task.Resource
	for _, r := range v.Payload() {
		if r.Lane == task.Public {
			public = append(public, r)
			continue
		}
		eval[r.Name] = r.Value
	}
	short, err := shortEval(eval)
	if err != nil {
		return task.EvaluatorView{}, err
	}
	for _, name := range []string{"accepted_answers", "tolerance", "match"} {
		if value := short[name]; value != nil {
			public = append(public, task.Resource{Name: name, Lane: task.Hidden, Value: value})
		}
	}
	t, err := task.New(task.Config{ID: v.ID(), Family: v.Family(), Pack: task.Pack{ID: "row"}, Resources: public})
	if err != nil {
		return task.EvaluatorView{}, fmt.Errorf("reading the row: %w", err)
	}
	return t.Evaluator(), nil
}

// verifier scores rows by the rules that fit them.
type verifier struct {
	family.Verifier         // of rows with choices
	short, measured, judged family.Verifier
}

func newVerifier(r family.Resources) family.Verifier {
	return verifier{multiplechoice.Family().NewVerifier(r), shortanswer.Family().NewVerifier(r),
		textmatch.NewVerifier(judged.Listening(r.Judge, readMeasured)), newJudged(r)}
}

// Open chooses the rules. A row that cannot be read is one that choices are missing of,
// which says so.
func (v verifier) Open(ctx context.Context, c family.Case) family.Session {
	switch {
	case judged.Asks(c.Evaluator):
		return v.judged.Open(ctx, c)
	case hasChoices(c.Evaluator):
		return v.Verifier.Open(ctx, c)
	}
	rules, _ := c.Evaluator.Get("match")
	if m, err := readMatch(rules.Value); err == nil && m.measured() {
		return v.measured.Open(ctx, c)
	}
	short, err := shortRow(c.Evaluator)
	if err != nil {
		return v.Verifier.Open(ctx, c)
	}
	c.Evaluator = short
	return v.short.Open(ctx, c)
}

// Close releases what the rules keep between rows.
func (v verifier) Close(ctx context.Context) error {
	return errors.Join(v.Verifier.Close(ctx), v.short.Close(ctx), v.measured.Close(ctx), v.judged.Close(ctx))
}
