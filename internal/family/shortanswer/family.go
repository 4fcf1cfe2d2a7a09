package shortanswer

import (
	_ "embed" // the schemas
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/capacity"
	"securebench/internal/family"
	"securebench/internal/family/judged"
	"securebench/internal/family/mathmatch"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/judge"
	"securebench/internal/lazyregexp"
	"securebench/internal/task"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes short_answer.
func Family() family.Family {
	return family.Family{
		Name:        "short_answer",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Doubts:      doubtful,
		Lanes: map[string]task.Lane{
			"accepted_answers": task.Hidden,
			"tolerance":        task.Hidden,
			"match":            task.Hidden,
		},
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Instruction: "Answer the question briefly. End with one line of the form \"Answer: …\" " +
			"that holds the answer and nothing else.",
		VerifySeconds:  300,
		Reference:      reference,
		PublicMetadata: []string{"candidate_answer", "expected_answer", "library"},
		Baselines:      append(family.Constants("0", "1", "true", "false", "yes", "no"), family.Echo("question")),
		EvalFiles:      [][]string{{"match", "path"}},
		Boxed:          func(v task.EvaluatorView) bool { return boxed(v) || isMath(v) },
		MathVerify:     isMath,
		Kept:           capacity.Footprint{Boxes: 3}, // of a checker, to read expressions, and to compare them
		JudgeReads:     judged.Reads,
		Canaries:       canaries,
		NewVerifier:    newVerifier,
	}
}

// isMath reports whether a row compares mathematical expressions.
func isMath(v task.EvaluatorView) bool {
	r, _ := v.Get("match")
	m, err := matchOf(r.Value)
	return err == nil && m.Type == byMath
}

// check refuses gold answers that are empty after normalisation, which an empty
// candidate would match, those that are not numbers where the row asks for
// numbers, which nothing would match, and anything else that the verifier cannot
// score.
func check(row family.Row) (out []family.Problem) {
	rules, err := matchOf(row.Eval["match"])
	if err != nil {
		return []family.Problem{{Path: []string{"eval", "match"}, Message: "cannot be read"}}
	}
	if rules.Type == byChecker {
		if rules.Extract != "" {
			return []family.Problem{unread("a checker reads the whole reply")}
		}
		return nil
	}
	for i, gold := range golds(row.Eval["accepted_answers"]) {
		path := []string{"eval", "accepted_answers", strconv.Itoa(i)}
		switch _, isNumber := compare.ParseNumber(gold); {
		case textmatch.Normalize(gold) == "":
			out = append(out, family.Problem{Path: path, Message: "is empty after normalisation",
				Fix: "spaces, quotes and . , ; : at either end are ignored"})
		case rules.Type == byNumber && !isNumber:
			out = append(out, family.Problem{Path: path, Message: "must be a number because eval.match.type is number"})
		}
	}
	if rules.Extract != "" && rules.Marker != nil {
		out = append(out, unread("the marker says where the answer is"))
	}
	if rules.Type == byMath && len(out) == 0 {
		if _, err := mathmatch.NewKey(golds(row.Eval["accepted_answers"]), answer.Ask("", "", vocabulary.Every)); err != nil {
			out = append(out, family.Problem{Path: []string{"eval", "accepted_answers"}, Message: err.Error(),
				Fix: "eval.match.type math wants LaTeX, such as \\frac{3}{4} or (-\\infty, 3]"})
		}
	}
	if _, err := newKey(row.Eval["accepted_answers"], row.Eval["tolerance"], row.Eval["match"], "", ""); err != nil && len(out) == 0 {
		out = append(out, family.Problem{Path: []string{"eval"}, Message: "cannot be scored: " + err.Error()})
	}
	return out
}

// unread is the problem of a row in whose texts no judge can read an answer.
func unread(why string) family.Problem {
	return family.Problem{Path: []string{"eval", "match", judged.Extract}, Message: "has no effect: " + why, Fix: "remove it"}
}

// canaries returns what a judge is tried with that reads the answers to a row.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	sol, ok := reference(v)
	text, err := sol.Candidate.Bytes()
	if !ok || err != nil {
		return judge.Specimen{}, false
	}
	return judged.ReadCanaries(v, string(text), "")
}

// doubtful finds a tolerance that no answer can use, and rows whose comparator is probably
// not the one that their question or their accepted answers call for.
func doubtful(row family.Row) []family.Problem {
	return append(unusedTolerance(row), comparator(row)...)
}

// comparator finds a question for a form whose answers are compared by value, and LaTeX
// that is compared as it is written without the row saying so. Nothing chooses math but
// the row: it needs an image and an engine, and takes one form of a value for another.
func comparator(row family.Row) []family.Problem {
	rules, err := matchOf(row.Eval["match"])
	var question string
	if err != nil || json.Unmarshal(row.Input["question"], &question) != nil {
		return nil // check says so
	}
	asked := form.FindString(question)
	switch {
	case rules.Type == byMath && asked != "":
		return []family.Problem{{Path: []string{"eval", "match", "type"}, Message: "math compares values, and the question asks for a form (" + asked + "): an answer in another form passes",
			Fix: "eval.match.type text compares what is written; or do not ask for the form"}}
	case rules.Type == byDefault && asked == "" && slices.ContainsFunc(golds(row.Eval["accepted_answers"]), latex.MatchString):
		return []family.Problem{{Path: []string{"eval", "accepted_answers"}, Message: "are LaTeX, which is compared as it is written: 0.5 is not \\frac{1}{2}",
			Fix: "eval.match.type math compares values and needs environment.image; eval.match.type text says that the form counts"}}
	}
	return nil
}

var (
	// form are words of a question that ask for a form of a value.
	form = lazyregexp.New(`(?i)\b(?:simplify|simplest form|lowest terms|expand|factor(?:ize|ise)?|rationalize)\b`)
	// latex are commands of LaTeX that write a value which has other forms.
	latex = lazyregexp.New(`\\(?:[dt]?frac|sqrt|pi|cdot|times|begin|cup|infty|le|ge|leq|geq|binom)\b`)
)

// unusedTolerance finds a tolerance that no answer can use.
func unusedTolerance(row family.Row) []family.Problem {
	if row.Eval["tolerance"] == nil {
		return nil
	}
	for _, gold := range golds(row.Eval["accepted_answers"]) {
		if _, ok := compare.ParseNumber(gold); ok {
			return nil
		}
	}
	return []family.Problem{{Path: []string{"eval", "tolerance"}, Message: "has no effect, because no accepted answer is a number",
		Fix: "remove it, or write the answers as numbers"}}
}

// golds returns the accepted answers as texts; a number is its literal. It returns nil for
// anything but a list of strings and numbers.
func golds(list jsontext.Value) []string {
	var values []jsontext.Value
	if json.Unmarshal(list, &values) != nil {
		return nil
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
		if v.Kind() != '0' && json.Unmarshal(v, &out[i]) != nil {
			return nil
		}
	}
	return out
}

// reference answers with the first accepted answer, or with all of them where
// the row wants the whole set, after the marker that the row asks for.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	list, _ := v.Get("accepted_answers")
	answers := golds(list.Value)
	if len(answers) == 0 {
		return family.Solution{}, false
	}
	text := answers[0]
	r, _ := v.Get("match")
	m, err := matchOf(r.Value)
	if err != nil {
		return family.Solution{}, false
	}
	if m.Type == bySet {
		text = strings.Join(answers, "; ")
	}
	if m.Marker != nil {
		text = *m.Marker + " " + text
	}
	return family.Solve(task.Text, text), true
}
