package multiplechoice

import (
	"cmp"
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/reply"
)

const (
	maxLeads  = 4                        // repeated leads
	maxPraise = 8                        // words that say that a choice is right
	markup    = textmatch.Markup + "\"'" // between the parts of a lead
)

// Words that call a choice right or wrong. Fillers may stand with praise.
const (
	rightWords textmatch.List = " correct right true answer "
	praise                    = rightWords + "best "
	wrongWords textmatch.List = " wrong incorrect false untrue mistaken "
	fillers    textmatch.List = " clearly therefore thus definitely obviously the my final most only likely accurate appropriate" +
		" choice option one statement response to be indeed our "
)

// findLead finds the first word that leads to a choice.
func findLead(s string) (before, after string, ok bool) {
	before, after, lead := textmatch.FindWord(s, "final answer", "answer", "choice", "option")
	return before, after, lead != ""
}

// cutLead removes a lead from the beginning of s.
func cutLead(s string) (rest string, ok bool) {
	return textmatch.CutAny(s, "final answer", "answer", "choice", "option", "letter")
}

// framed reports whether only frame words stand before the first lead of s, if
// it has one.
func framed(s string) bool {
	before, _, ok := findLead(s)
	return !ok || !slices.ContainsFunc(textmatch.Words(before, -1), func(w string) bool { return !textmatch.Frame.Has(w) })
}

// led returns the choice after the first lead of s.
func (k key) led(s string) set {
	before, rest, ok := findLead(s)
	if !ok || reply.Denied(k.question, before) || k.labels(before) != 0 {
		return 0
	}
	return k.afterLead(rest)
}

// stated returns the choice that a sentence states in words, also where a reason
// follows: by a lead that nothing denies ("option C", "the correct answer is
// C"), as "C is correct", or as "I choose C".
func (k key) stated(s string) set {
	for _, clause := range [...]string{s, cutReason(s)} {
		opened := cutOpening(clause)
		if c := cmp.Or(k.led(clause), k.praised(opened), k.picked(opened)); c != 0 {
			return c
		}
	}
	return 0
}

// praised returns the choice of "C is correct" and the like.
func (k key) praised(s string) set {
	at := 0
	for range maxLeads {
		before, after, is := textmatch.FindWord(s[at:], "is", "must be", "should be", "would be", "has to be", "seems", "appears")
		if is == "" {
			return 0
		}
		if isPraise(after) {
			head := strings.TrimLeft(s[:at+len(before)], markup)
			if rest, ok := textmatch.CutFold(head, "the"); ok {
				head = strings.TrimLeft(rest, markup)
			}
			if rest, ok := cutLead(head); ok {
				return k.exact(rest)
			}
			return k.exact(s[:at+len(before)])
		}
		at = len(s) - len(after)
	}
	return 0
}

// isPraise reports whether s says of what stands before it that it is the
// answer, and nothing else.
func isPraise(s string) bool {
	words := textmatch.Words(s, maxPraise+1)
	return len(words) <= maxPraise && slices.ContainsFunc(words, praise.Has) &&
		!slices.ContainsFunc(words, func(w string) bool { return !praise.Has(w) && !fillers.Has(w) })
}

// picked returns the choice of "I choose C", "it is C" and the like.
func (k key) picked(s string) set {
	rest := strings.TrimLeft(s, markup)
	if after, ok := textmatch.CutAny(rest, "i would", "i'd", "i’d", "i will", "i'll", "i’ll", "i must", "i am", "i'm", "i’m", "i have", "i",
		"we", "let's", "let’s"); ok {
		rest = strings.TrimLeft(after, " ")
	}
	rest, ok := textmatch.CutAny(rest, "choose", "chose", "choosing", "pick", "picked", "picking", "select", "selected", "selecting",
		"go with", "went with", "going with", "going for", "go for", "vote for", "opt for", "opting for", "say", "guess", "answer",
		"it is", "it's", "it’s", "it must be", "that is", "that's", "that’s", "that would be", "this is", "my pick", "my guess", "my selection")
	if !ok {
		return 0
	}
	rest = strings.TrimLeft(rest, " :")
	if after, ok := textmatch.CutFold(rest, "the"); ok {
		rest = strings.TrimLeft(after, " ")
	}
	if before, after, as := textmatch.FindWord(rest, "as"); as != "" && isPraise(after) { // as my final answer
		rest = before
	}
	return k.afterLead(rest)
}

// afterLead reads what follows a lead. Before anything is taken for a part of
// the lead, the rest is tried as it stands. A rest that is the text of several
// choices in normal form may be just one of them without a part of the lead.
func (k key) afterLead(rest string) set {
	got, is, separator := set(0), false, false
	for n := 1; ; {
		rest = strings.TrimLeft(rest, " ")
		c := k.exact(rest)
		if got = cmp.Or(got&c, got, c); got != 0 && !got.several() {
			return got
		}
		rest = strings.TrimLeft(rest, markup)
		if after, ok := cutLead(rest); ok && n < maxLeads {
			rest = after
			n, is, separator = n+1, false, false
		} else if after, ok := reply.CutCopula(rest); ok && !is && !separator {
			rest, is = after, true
		} else if after, ok := reply.CutAdverb(rest); ok && is {
			rest = after
		} else if rest != "" && (rest[0] == ':' || rest[0] == '-') && !isMinus(rest) && !separator {
			rest, separator = rest[1:], true
		} else {
			return got
		}
	}
}

// cutOpening removes from s the clauses and words before a statement: everything
// up to its last comma, "so", "therefore" and the like.
func cutOpening(s string) string {
	if i := strings.LastIndexByte(s, ','); i >= 0 && !doubts(s[i:]) {
		s = s[i+1:]
	}
	for {
		s = strings.TrimLeft(s, markup)
		after, ok := textmatch.CutAny(s, "so", "thus", "hence", "therefore", "then", "and", "finally", "overall", "clearly",
			"i think", "i believe", "i conclude", "that")
		if !ok || !strings.HasPrefix(after, " ") || strings.TrimSpace(after) == "" {
			return s
		}
		s = after
	}
}

// cutReason returns s up to a clause that gives a reason, unless that denies
// what it follows.
func cutReason(s string) string {
	if _, rest, which := textmatch.FindWord(s, "which is", "which was", "which would be", "as it is", "as that is"); which != "" && denies(rest) {
		return s
	}
	before, after, word := textmatch.FindWord(s, "because", "since", "due to", "given that")
	if word != "" && textmatch.CountWords(after, 2) == 2 {
		return strings.TrimRight(before, " ,;—–-")
	}
	for _, link := range [...]string{", as ", ", which "} {
		if i := strings.Index(s, link); i > 0 {
			return s[:i]
		}
	}
	return s
}

// denies reports whether a clause after "which is" says that a choice is wrong.
func denies(s string) bool {
	for i, w := range textmatch.Words(s, 4) {
		if wrongWords.Has(w) || i > 0 && rightWords.Has(w) && textmatch.HasNegator(s) {
			return true
		}
	}
	return false
}

// cutAside returns s without a remark in brackets or after "as", if that mentions
// no other choice and no doubt.
func (k key) cutAside(s string) string {
	head, aside, found := strings.Cut(s, " (")
	if !found {
		head, aside, found = strings.Cut(s, " as ")
	}
	if !found || k.mentions(aside)&^k.mentions(head) != 0 || doubts(aside) {
		return s
	}
	return head
}

// doubts reports whether a word of s is one of doubt.
func doubts(s string) bool { return textmatch.HasDoubt(s[:min(len(s), maxReason)]) }
