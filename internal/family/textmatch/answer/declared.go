package answer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"securebench/internal/family/textmatch/vocabulary"
)

// Reasons why what a row declares cannot be used.
var (
	ErrMarks   = errors.New("match.marks must not be blank")
	ErrPattern = errors.New("match.pattern must be a regular expression (RE2) with one group")
)

// ByJudge says that a judge reads the answer of a text that states none by rule.
const ByJudge = "judge"

// Declared is what a row says about where its answers are, in eval.match.
type Declared struct {
	Language []string `json:"language"` // whose vocabularies apply
	Marks    []string `json:"marks"`    // that lead to an answer beside the known ones
	Pattern  *string  `json:"pattern"`  // whose group is an answer of the highest rank
	Extract  string   `json:"extract"`  // [ByJudge], or "" for by rule
}

// Apply adds what is declared to the options of a family and returns the languages.
func (d Declared) Apply(o *Options) (vocabulary.Languages, error) {
	in, err := vocabulary.Parse(d.Language...)
	if err != nil {
		return 0, fmt.Errorf("match.language: %w", err)
	}
	for _, mark := range d.Marks {
		if strings.TrimSpace(mark) == "" {
			return 0, ErrMarks
		}
	}
	o.Marks = d.Marks
	if d.Pattern != nil {
		if o.Pattern, err = regexp.Compile(*d.Pattern); err != nil || o.Pattern.NumSubexp() != 1 {
			return 0, ErrPattern
		}
	}
	return in, nil
}
