package preferencepair

import (
	"fmt"
	"strings"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
	"securebench/internal/verdict"
)

// A reader reads verdicts as multiple_choice reads choices, and in the forms that judges
// use beside those.
type reader struct {
	*compare.Choices
	question *answer.Question
	options  answer.Options
}

// asked is the question that every pair asks, whose words change no verdict.
const asked = "Which of the two candidates, responses, outputs or answers of the assistants is the better one, the winner, preferred, preferable, " +
	"stronger or superior overall, slightly, much or significantly, or is it a tie?"

// newReader returns the reader of verdicts, which is the same for all rows.
func newReader() (reader, error) {
	choices, err := compare.NewChoices(labels())
	if err != nil {
		return reader{}, fmt.Errorf("preparing the verdicts: %w", err)
	}
	return reader{choices, answer.Ask(asked, "", vocabulary.Every), answer.Options{Labels: true, Marks: marks()}}, nil
}

// marks lead to a verdict, beside those of every answer.
func marks() []string {
	var out []string
	for _, noun := range []string{"verdict", "preference", "preferred candidate", "preferred response", "preferred output", "better candidate", "better response",
		"better output", "better answer", "winner", "judgment", "judgement"} {
		out = append(out, noun+":", noun+" is:", noun+" is")
	}
	return out
}

// The forms of verdicts that are written in another way before they are read.
var (
	// brackets are the marks that judges are asked for, such as [[A]] and [[A>>B]].
	brackets = lazyregexp.New(`\[\[\s*([A-Ca-c]|[Tt]ie|TIE|[AB]\s*(?:>{1,2}|<{1,2}|=)\s*[AB])\s*\]\]`)
	// names are what a candidate is called before its label.
	names = lazyregexp.New(`\b(?:[Oo]utput|[Rr]esponse|[Aa]ssistant|[Aa]nswer|[Cc]andidate|[Mm]odel|[Cc]ompletion)(?:[ _]?\(([ABab])\)|[ _]([AB])\b|_([ab])\b)`)
	// wins, prefers and reasons are sentences that name the better one, with what they say
	// beside that: the verb, the candidate that it is better than, and why.
	wins    = lazyregexp.New(`(Option \([ABab]\)) wins\b`)
	prefers = lazyregexp.New(`\b(?:prefer|favou?r|pick) (Option \([ABab]\)|[AB]\b)(?: (?:over|to) (?:Option \([ABab]\)|[AB]\b))?`)
	than    = lazyregexp.New(`\b(better|stronger|preferable|preferred|superior)((?: overall)?) (?:than|to|over) (?:Option \([ABab]\)|[AB]\b)`)
	reasons = lazyregexp.New(`\b(is (?:the |slightly |significantly |much )*(?:better|stronger|preferable|preferred|superior)(?: one| candidate| response| output| answer| overall)?),? (?:because|since) [^.\n]*`)
	// elements hold a verdict alone on its lines.
	elements = lazyregexp.New(`(?im)^[ \t]*<verdict>\s*([^<\n]*?)\s*</verdict>[ \t]*$`)
	// comparisons, draws and graded are whole lines, with at most a mark before them: what
	// else is there may deny them. A alone is a label nowhere else, and how much better one
	// is does not matter.
	comparisons = lazyregexp.New(`^([ \t*_]*(?:(?:My |my )?(?:Final |final )?(?:Verdict|verdict|Answer|answer|Preference|preference)(?: is)?[ \t*_]*:)?[ \t*_]*)` +
		`(?:Option \()?([AB])\)?[ \t]*(>{1,2}|<{1,2}|=)[ \t]*(?:Option \()?([AB])\)?([ \t*_.]*)$`)
	draws  = lazyregexp.New(`(?i)(\b(?:it['’]s|it is) a |(?:^|:)[ \t*_"]*)draw(\b[ \t*_".!]*)$`)
	graded = lazyregexp.New(`^([ \t*_]*)([AB]) is (?:(?:slightly|marginally|somewhat|clearly|significantly|much|far|a bit|a little) )?` +
		`(?:better|stronger|preferable|superior)(?: overall)?(?: (?:than|to) [AB])?([ \t*_.!]*)$`)
	// sure is what may stand before a mark, and nothing else, though it has a word that
	// denies.
	sure = lazyregexp.New(`(?i)^\W*(?:without|beyond) (?:a|any) doubt\W*$`)
	// members are names of JSON members that hold a verdict.
	members = lazyregexp.New(`(?i)"(?:preference|preferred|winner|better|best|verdict|judge?ment)"(\s*:)`)
)

// plainly writes the verdicts of a text in the forms of answers. It reports false for one
// with marks in brackets or comparisons that differ, or a verdict in words that is another
// than theirs. Where there is a mark, boxes are of what is judged.
func plainly(text string) (string, bool) {
	text = elements.ReplaceAllString(answer.Said(text), "Verdict: $1")
	mark, one := "", true
	text = brackets.ReplaceAllStringFunc(text, func(s string) string {
		s = strings.ToUpper(strings.Join(strings.Fields(strings.Trim(s, "[]")), ""))
		one = one && (mark == "" || mark == s)
		mark = s
		return openMark + bracketed(s) + "}"
	})
	if last := strings.LastIndex(text, openMark); last >= 0 {
		// A mark may be quoted: it does not beat another verdict in words.
		for _, m := range plain.Regexp().FindAllStringSubmatch(names.ReplaceAllString(text, "Option ($1$2$3)"), -1) {
			one = one && strings.EqualFold(m[1], bracketed(mark))
		}
		text = text[strings.LastIndexAny(text[:last], "\r\n")+1:] // all marks are the same
		text = held.ReplaceAllString(strings.ReplaceAll(boxes.Replace(text), openMark, `\boxed{`), `$1"$2"`)
	}
	text, same := lines(names.ReplaceAllString(text, "Option ($1$2$3)"))
	for _, form := range []struct {
		has  string // what no text without is of this form
		is   *lazyregexp.Regexp
		with string
	}{
		{"", prefers, "choose $1"}, {" wins", wins, "$1 is better"}, {" than ", than, "$1$2"}, {" to ", than, "$1$2"}, {" over ", than, "$1$2"},
		{"because ", reasons, "$1"}, {"since ", reasons, "$1"}, {`"`, members, `"answer"$1`},
	} {
		if strings.Contains(text, form.has) {
			text = form.is.ReplaceAllString(text, form.with)
		}
	}
	return text, one && same
}

// maxLine is the longest line that is a verdict as a whole.
const maxLine = 80

// lines writes whole lines that are verdicts in the form of answers. It reports false for
// comparisons that differ.
func lines(text string) (string, bool) {
	label, same := "", true
	all := strings.Split(text, "\n")
	for i, line := range all {
		if len(line) > maxLine {
			continue
		}
		if m := comparisons.FindStringSubmatch(line); m != nil && m[2] != m[4] {
			got := bracketed(m[2] + m[3] + m[4])
			same = same && (label == "" || label == got)
			label, line = got, m[1]+got+m[5]
		}
		line = draws.ReplaceAllString(line, "${1}tie$2")
		all[i] = graded.ReplaceAllString(line, "${1}Option ($2) is better$3")
	}
	return strings.Join(all, "\n"), same
}

// held is a mark that is the value of a member, and plain is a verdict in words that ends
// a line.
var (
	held  = lazyregexp.New(`("[a-z_]+"\s*:\s*)"\\boxed\{(A|B|C|tie)\}"`)
	plain = lazyregexp.New(`(?im)\b(?:verdict|winner)\W{0,6}(?:is\W{0,6})?(?:Option \()?([AB])\b\W*$`)
)

// openMark stands for the beginning of a mark in brackets until other boxes are gone. What
// has it already reads as a mark only beside one, of which it would be another.
const openMark = "\ue010mark{"

var boxes = strings.NewReplacer(`\boxed`, `\mbox`, `\fbox`, `\mbox`) //nolint:gochecknoglobals // a constant

// bracketed returns the label that a mark in brackets names.
func bracketed(s string) string {
	sign := strings.IndexAny(s, "<>=")
	switch {
	case len(s) == 1:
		return s
	case sign < 0 || s[sign] == '=':
		return "tie"
	case s[sign] == '>':
		return s[:1]
	}
	return s[len(s)-1:]
}

// verdict returns what a text says of the presentation, or why it says nothing. Cut says
// that the text was cut off.
func (r reader) verdict(text string, cut bool) (compare.Set, verdict.Reason, string) {
	text, one := plainly(text)
	reply := answer.Read(text, r.question, r.options)
	switch {
	case reply.Blank:
		return 0, verdict.EmptyCandidate, "the text is blank"
	case !one:
		return 0, verdict.AmbiguousAnswer, "the text has different marks in brackets, or a verdict in words beside them"
	}
	got, reason, message := answer.Decide(reply, r, cut)
	switch {
	case reason != "":
		return 0, reason, message
	case got.Value.Several():
		return 0, verdict.AmbiguousAnswer, "the text gives several verdicts at once"
	}
	return got.Value, "", ""
}

// Read reads what a mark leads to, or a form encloses. A mark in brackets is a verdict
// whatever is said of the candidates beside it, unless the words before it deny it.
func (r reader) Read(q *answer.Question, st answer.Statement) answer.Reading[compare.Set] {
	if st.Rank != answer.Boxed {
		return r.Choices.Read(q, st)
	}
	if before := strings.TrimRight(st.Before, " *_`"); !strings.HasSuffix(before, ":") {
		words := q.Words(before)
		if !sure.MatchString(before) && q.Opposes(words[max(0, len(words)-2):], nil) {
			return answer.Reading[compare.Set]{Finding: answer.Unclear, Why: "a word before the verdict denies it"}
		}
	}
	st.Before, st.After = "", ""
	return r.Choices.Read(q, st)
}
