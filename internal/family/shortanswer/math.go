package shortanswer

import (
	"context"
	"errors"
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/family/mathmatch"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
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

// newMathJudge reads the golds of a row with eval.match {type: math}.
func newMathJudge(k *key, golds []string, comparer *mathmatch.Comparer, c family.Case) (*mathJudge, error) {
	read, err := mathmatch.NewKey(golds, k.question)
	if err != nil {
		return nil, err
	}
	return &mathJudge{k, read, comparer, c}, nil
}

// Score finds the expression that a candidate states and has it compared.
func (j *mathJudge) Score(ctx context.Context, candidate string, cut bool) (family.Verdict, error) {
	metadata := j.metadata(candidate)
	metadata["library"] = mathLibrary()
	stated, reason, message := j.stated(candidate, cut)
	if reason != "" {
		return textmatch.Fail(reason, message, metadata), nil
	}
	r, err := j.comparer.Compare(ctx, j.c, j.golds, stated.Value)
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

// Silent reports whether a reply states no expression.
func (j *mathJudge) Silent(candidate string) bool {
	return answer.Silent(j.read(candidate), expressions{})
}

// stated returns the expression that a reply states.
func (j *mathJudge) stated(candidate string, cut bool) (answer.Reading[string], verdict.Reason, string) {
	reply, ok := j.marked(candidate)
	if !ok {
		return answer.Reading[string]{}, verdict.WrongAnswer, noMarker
	}
	return answer.Decide(reply, expressions{}, cut)
}

// mathLibrary names what compares, for records.
func mathLibrary() string {
	set := wheels.MathVerify()
	return set.Name + " " + set.Version + " " + set.Digest()
}

// expressions reads what statements state as a mathematical expression, in the way in
// which it was written. Whether it is understood whole is for [mathmatch.Key] to say.
type expressions struct{}

var _ answer.Reader[string] = expressions{}

// formulas are parts of a sentence that are set as mathematics.
var formulas = lazyregexp.New(`\$\$(.+?)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]`)

// Read returns what a form encloses, or what follows a mark: the formula there if there
// is one among words that say nothing else, or all of it.
func (expressions) Read(q *answer.Question, st answer.Statement) answer.Reading[string] {
	switch {
	case strings.TrimSpace(st.Raw) == "":
		return answer.Reading[string]{}
	case st.Rank == answer.Boxed && st.Form:
		return boxedExpression(q, st)
	case st.Form:
		return answer.Reading[string]{Finding: answer.Stated, Value: st.Raw}
	case frames(q, st.Text):
		return answer.Reading[string]{} // "Final answer: The" of "Final answer: The final answer is 5."
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
	if words := q.Words(after); len(words) > 0 && words[0].Start == 0 && (mathmatch.IsPercent(words[0].Text) || words[0].Kind == vocabulary.Letters && q.Is(words[0], vocabulary.Unit)) {
		stated, after = stated+`\text{ `+words[0].Text+"}", after[words[0].End:]
	}
	if q.Around(st.Before, after) {
		return answer.Reading[string]{Finding: answer.Unclear, Why: "a word beside the form denies or doubts it"}
	}
	return answer.Reading[string]{Finding: answer.Stated, Value: stated}
}

// What must not touch a box: what ends a value, or an operator, before it; an operator, a
// power or a value behind it.
var (
	endsValue     = lazyregexp.New(`[0-9)\]}!%]$`)
	touchesBefore = lazyregexp.New(`[-+−*/^_√×·÷±≈≠<>≤≥0-9({]$`)
	touchesAfter  = lazyregexp.New(`^(?:[-+−]? ?[0-9]|[+−*/^_×·÷±!=≈≠<>≤≥}])`)
)

// frames reports whether a text has nothing but words that frame an answer. A single
// letter may be a symbol.
func frames(q *answer.Question, text string) bool {
	words := 0
	for _, w := range q.Words(text) {
		switch {
		case w.Sign() == ':' || w.Sign() == ',':
		case len(w.Text) > 1 && q.Is(w, vocabulary.Frame|vocabulary.Conclusion):
			words++
		default:
			return false
		}
	}
	return words > 0
}

// sentence reads a sentence, or what of one follows a mark: its last formula, or what
// follows its last link, where all that stands before it is understood. Whether what
// stands behind it is a unit is for [mathmatch.Key] to say.
func sentence(q *answer.Question, raw string) answer.Reading[string] {
	closed := func(s string) bool { return q.Closed(q.Words(answer.Plain(s)), vocabulary.Harmless) }
	stated := func(s string) answer.Reading[string] { return answer.Reading[string]{Finding: answer.Stated, Value: s} }
	found := formulas.FindAllStringIndex(raw, -1)
	last := []int{0, 0}
	if n := len(found); n > 0 {
		last = found[n-1]
	}
	formula, behind := raw[last[0]:last[1]], raw[last[1]:]
	if formula != "" && closed(raw[:last[0]]) {
		if closed(behind) {
			return stated(formula)
		}
		if !strings.ContainsAny(behind, `=0123456789`) {
			return stated(undelimited(formula) + `\text{` + answer.Plain(behind) + "}")
		}
	}
	if len(raw) > compare.MaxSentence {
		return stated(raw)
	}
	plain, after := answer.PlainAfter(raw)
	words := q.Words(plain)
	for i := len(words) - 1; i > 0; i-- {
		if w := words[i]; w.Kind == vocabulary.Letters && q.Is(w, vocabulary.Link) && q.Closed(words[:i], vocabulary.Harmless) {
			if rest := after(w.End); answer.Plain(rest) == strings.TrimSpace(plain[w.End:]) {
				return stated(undelimited(rest))
			}
		}
	}
	return stated(raw)
}

// undelimited is a text without the delimiters of its formulas.
func undelimited(s string) string { return formulas.ReplaceAllString(s, " $1$2$3$4 ") }

// lastSaid is the last sentence of a line but for courtesies, if no other one has a value,
// else the line.
func lastSaid(q *answer.Question, l answer.Line) string {
	n := len(l.Sentences) - 1
	for n > 0 && q.Courteous(l.Sentences[n].Words) {
		n--
	}
	for _, s := range l.Sentences[:n] {
		if strings.ContainsAny(s.Raw, `$\=0123456789`) {
			return l.Source
		}
	}
	if len(l.Sentences) == 1 {
		return l.Source
	}
	return l.Sentences[n].Raw
}

// Unmarked reads the last line that is more than a courtesy.
func (expressions) Unmarked(r *answer.Reply) (answer.Reading[string], int) {
	for i := len(r.Lines) - 1; i >= 0; i-- {
		l := r.Lines[i]
		if len(l.Sentences) == 0 || i > 0 && r.Question.Courteous(l.Sentences[0].Words) {
			continue
		}
		if slices.ContainsFunc(l.Sentences, func(s answer.Sentence) bool { return s.Void }) {
			why := "the last line has a mark that leads to nothing"
			return answer.Reading[string]{Finding: answer.Unclear, Why: why}, i
		}
		got := sentence(r.Question, lastSaid(r.Question, l))
		got.Line = true
		return got, i
	}
	return answer.Reading[string]{}, 0
}

// Join returns the first of two expressions that are written alike, but for layout.
func (expressions) Join(a, b string) (string, bool) { return a, mathmatch.Same(a, b) }

// Other reports whether a sentence after the answer takes it back.
func (expressions) Other(q *answer.Question, s answer.Sentence, _ string, near bool) bool {
	return q.Retracts(s.Words) && (near || q.Denies(s.Words) || len(s.Words) < 6)
}
