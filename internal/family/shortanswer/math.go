package shortanswer

import (
	"context"
	"errors"
	"strings"

	"securebench/internal/family"
	"securebench/internal/family/mathmatch"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
	"securebench/internal/verdict"
	"securebench/internal/wheels"
)

// mathJudge scores a row whose answers are mathematical expressions.
type mathJudge struct {
	*key
	golds    *mathmatch.Key
	comparer *mathmatch.Comparer
	c        family.Case
}

var _ textmatch.CutJudge = (*mathJudge)(nil)

// newMathJudge reads the golds of a row with eval.match {type: math}.
func newMathJudge(k *key, golds []string, comparer *mathmatch.Comparer, c family.Case) (*mathJudge, error) {
	read, err := mathmatch.NewKey(golds, k.question)
	if err != nil {
		return nil, err
	}
	return &mathJudge{k, read, comparer, c}, nil
}

// Judge finds the expression that a candidate states and has it compared.
func (j *mathJudge) Judge(ctx context.Context, candidate string) (family.Verdict, error) {
	return j.judge(ctx, candidate, false)
}

// JudgeCutOff does so for a candidate that was cut off.
func (j *mathJudge) JudgeCutOff(ctx context.Context, candidate string) (family.Verdict, error) {
	return j.judge(ctx, candidate, true)
}

// Silent reports whether a reply states no expression.
func (j *mathJudge) Silent(candidate string) bool {
	return answer.Silent(answer.Read(candidate, j.question, j.options), expressions{})
}

func (j *mathJudge) judge(ctx context.Context, candidate string, cut bool) (family.Verdict, error) {
	metadata := j.metadata(candidate)
	metadata["library"] = mathLibrary()
	stated, reason, message := j.stated(candidate, cut)
	if reason != "" {
		return textmatch.Fail(reason, message, metadata), nil
	}
	r, err := j.comparer.Compare(ctx, j.c, j.golds, stated)
	if f, ok := errors.AsType[*family.Failure](err); ok {
		v := family.VerdictOf(f)
		v.Containment, v.Metadata = verdict.Passive, verdict.NewMetadata(metadata)
		return v, nil
	}
	switch {
	case err != nil:
		return family.Verdict{}, err
	case r.Index < 0:
		return textmatch.Fail(r.Reason, r.Message, metadata), nil
	}
	metadata["match_strategy"], metadata["matched_answer_index"] = "math", r.Index
	return textmatch.Pass(metadata), nil
}

// mathLibrary names what compares, for records.
func mathLibrary() string {
	set := wheels.MathVerify()
	return set.Name + " " + set.Version + " " + set.Digest()
}

// stated returns the expression that a reply states.
func (j *mathJudge) stated(candidate string, cut bool) (string, verdict.Reason, string) {
	reply := answer.Read(candidate, j.question, j.options)
	if reply.Blank() {
		return "", verdict.EmptyCandidate, "the candidate is blank"
	}
	if j.marker != "" {
		var ok bool
		if reply, ok = j.afterMarker(reply); !ok {
			return "", verdict.WrongAnswer, "the last line does not contain the marker"
		}
	}
	got, reason, message := answer.Decide(reply, expressions{}, cut)
	if reason != "" {
		return "", reason, message
	}
	return got.Value, "", ""
}

// expressions reads what statements state as a mathematical expression, in the way in
// which it was written. Whether it is understood whole is for [mathmatch.Key] to say.
type expressions struct{}

var _ answer.Reader[string] = expressions{}

// formulas are parts of a sentence that are set as mathematics.
var formulas = lazyregexp.New(`\$\$.+?\$\$|\$[^$]+\$|\\\(.+?\\\)|\\\[.+?\\\]`)

// Read returns what a form encloses, or what follows a mark: the formula there if there
// is one among words that say nothing else, or all of it.
func (expressions) Read(q *answer.Question, st answer.Statement) answer.Reading[string] {
	if st.Denied || strings.TrimSpace(st.Raw) == "" {
		return answer.Reading[string]{}
	}
	switch {
	case st.Rank == answer.Boxed && st.Form:
		return boxedExpression(q, st)
	case st.Form:
		return answer.Reading[string]{Finding: answer.Stated, Value: st.Raw}
	}
	return sentence(q, st.Raw)
}

// boxedExpression reads a box with what touches it: a minus sign and a unit belong to it,
// and nothing else of a formula may stand there.
func boxedExpression(q *answer.Question, st answer.Statement) answer.Reading[string] {
	unclear := answer.Reading[string]{Finding: answer.Unclear, Why: "what touches the box belongs to its formula"}
	stated := st.Raw
	before, after := strings.TrimRight(st.Before, " $"), strings.TrimLeft(st.After, " $")
	switch {
	case strings.HasSuffix(st.Before, "-") || strings.HasSuffix(st.Before, "−"):
		if rest := strings.TrimRight(strings.TrimRight(before, "-−"), " "); endsValue.MatchString(rest) {
			return unclear
		}
		stated = "-" + stated
	case touchesBefore.MatchString(before):
		return unclear
	}
	if touchesAfter.MatchString(after) {
		return unclear
	}
	if words := q.Words(after); len(words) > 0 && words[0].Start == 0 && words[0].Kind == vocabulary.Letters && words[0].In(vocabulary.Unit)&q.In != 0 {
		stated, after = stated+`\text{ `+words[0].Text+"}", after[words[0].End:]
	}
	if q.Around(st.Before, after) != nil {
		return answer.Reading[string]{Finding: answer.Unclear, Why: "a word beside the form denies or doubts it"}
	}
	return answer.Reading[string]{Finding: answer.Stated, Value: stated}
}

// What must not touch a box: what ends a value, or an operator, before it; an operator, a
// power or a value behind it.
var (
	endsValue     = lazyregexp.New(`[0-9)\]}!%]$`)
	touchesBefore = lazyregexp.New(`[-+−*/^_√×·÷±≈≠<>≤≥0-9({]$`)
	touchesAfter  = lazyregexp.New(`^(?:[-+−]? ?[0-9]|[+−*/^_×·÷±!%=≈≠<>≤≥}])`)
)

// sentence reads a sentence, or what of one follows a mark.
func sentence(q *answer.Question, raw string) answer.Reading[string] {
	found := formulas.FindAllStringIndex(raw, -1)
	if len(found) == 1 {
		at := found[0]
		before, after := q.Words(answer.Plain(raw[:at[0]])), q.Words(answer.Plain(raw[at[1]:]))
		if q.Closed(before, vocabulary.Harmless) && q.Closed(after, vocabulary.Harmless) {
			return answer.Reading[string]{Finding: answer.Stated, Value: raw[at[0]:at[1]]}
		}
	}
	return answer.Reading[string]{Finding: answer.Stated, Value: raw}
}

// Unmarked reads the last line that is more than a courtesy.
func (expressions) Unmarked(r *answer.Reply) (answer.Reading[string], int) {
	for i := len(r.Lines) - 1; i >= 0; i-- {
		l := r.Lines[i]
		if len(l.Sentences) == 0 || i > 0 && r.Question.Courteous(l.Sentences[0].Words) {
			continue
		}
		for _, s := range l.Sentences {
			if s.Void {
				return answer.Reading[string]{Finding: answer.Unclear, Why: "the last line has a mark that leads to nothing"}, i
			}
		}
		got := sentence(r.Question, l.Source)
		got.Line = true
		return got, i
	}
	return answer.Reading[string]{}, 0
}

// Same reports whether two expressions are written alike, but for layout.
func (expressions) Same(a, b string) bool { return mathmatch.Same(a, b) }

// Both returns the first.
func (expressions) Both(a, _ string) string { return a }

// Other reports whether a sentence after the answer takes it back.
func (expressions) Other(q *answer.Question, s answer.Sentence, _ string, near bool) bool {
	return q.Retracts(s.Words) && (near || q.Denies(s.Words) || len(s.Words) < 6)
}
