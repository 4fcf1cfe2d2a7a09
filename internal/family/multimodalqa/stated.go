package multimodalqa

import (
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// maxStated is the most bytes of a stated answer that is compared.
const maxStated = 64 << 10

// texts reads statements as the text that they state, whatever it is. It knows the
// accepted answers only to see how far a statement goes, and which words belong to it.
type texts struct {
	// fits reports whether a text is near enough to an accepted answer.
	fits func(string) bool
	// own has the words of accepted answers, which deny and bound nothing.
	own map[string]bool
}

var _ answer.Reader[string] = texts{}

// newTexts returns a reader for accepted answers.
func newTexts(golds []string, fits func(string) bool) texts {
	t := texts{fits, map[string]bool{}}
	for _, gold := range golds {
		for _, w := range answer.Words(answer.Wide(gold)) {
			t.own[w.Text] = true
		}
	}
	return t
}

// Read reads what a mark leads to, or a form encloses.
func (t texts) Read(q *answer.Question, st answer.Statement) answer.Reading[string] {
	if strings.TrimSpace(st.Text) == "" {
		return answer.Reading[string]{}
	}
	if st.Form {
		if q.Around(st.Before, st.After) {
			return answer.Reading[string]{Finding: answer.Unclear, Why: "a word beside the form denies or doubts it"}
		}
		return t.read(q, st.Text)
	}
	if st.Rest != st.Text {
		if got := t.read(q, st.Rest); got.Finding == answer.Stated && t.fits(got.Value) {
			got.Line = true
			return got
		}
	}
	return t.read(q, st.Text)
}

// amounts are the classes of words that change a number. A text may have them: "mil" is
// a thousand in Spanish, and a misread "Mill".
const amounts = vocabulary.Limit | vocabulary.Approx | vocabulary.Scale

// read returns a text as what is stated, unless it offers several things or takes them
// back.
func (t texts) read(q *answer.Question, s string) answer.Reading[string] {
	if len(s) > maxStated {
		return answer.Reading[string]{Finding: answer.Unexpected, Why: "the answer is too long"}
	}
	words := q.Words(s)
	for i := range words {
		amount := words[i].In(amounts) != 0 && words[i].In(vocabulary.Restrictive&^amounts) == 0
		words[i].Excused = words[i].Excused || t.own[words[i].Text] || amount
	}
	if q.Opposes(nil, words) {
		return answer.Reading[string]{Finding: answer.Unclear, Why: "a word of the answer denies, doubts or bounds it, or offers another"}
	}
	return answer.Reading[string]{Finding: answer.Stated, Value: s}
}

// Unmarked reads the last line that is more than a courtesy.
func (t texts) Unmarked(r *answer.Reply) (answer.Reading[string], int) {
	for n := len(r.Lines) - 1; n >= 0; n-- {
		l := r.Lines[n]
		if len(l.Sentences) == 0 || n > 0 && r.Question.Courteous(l.Sentences[0].Words) {
			continue
		}
		for _, s := range l.Sentences {
			if s.Void {
				return answer.Reading[string]{Why: "the last line has a mark that leads to nothing"}, n
			}
		}
		got := t.read(r.Question, l.Text)
		got.Line = true
		return got, n
	}
	return answer.Reading[string]{Why: "the reply states no answer"}, 0
}

// Join returns the first of two texts that are one answer.
func (texts) Join(a, b string) (string, bool) {
	return a, textmatch.Normalize(a) == textmatch.Normalize(b)
}

// maxBare is the most words of a sentence that is taken for another answer.
const maxBare = 3

// Other reports whether a sentence after the answer takes it back, or is another.
func (t texts) Other(q *answer.Question, s answer.Sentence, _ string, near bool) bool {
	spoken := answer.Spoken(s.Words)
	if q.Retracts(s.Words) {
		return near || q.Denies(s.Words) || spoken < 2*maxBare
	}
	return near && spoken <= maxBare && !q.Courteous(s.Words) && !t.fits(s.Text)
}
