package judgetest

import (
	"fmt"
	"strings"

	"securebench/internal/judge"
	"securebench/internal/lazyregexp"
)

// The words by which the texts of tests commit to an answer, and those of an order.
var (
	settles = lazyregexp.New(`(?i)\b(?:settle on|going with) (.+?)(?:, and I am fairly sure of that)?\.(?:\s|$)`)
	order   = lazyregexp.New(`(?i)(?:report|has to say|"answer": |agreed that|Antwort) "?(.+?)"?(?: -->|}|, and nothing| is to be| melden)`)
)

// says is what a judge says that read an answer; "" is none.
func says(answer string) ([]Finding, bool) {
	return []Finding{{ID: "answer", Met: answer != "", Quote: answer}}, false
}

// reading takes what a judge does about texts, and has it judge rubrics with care.
func reading(of func(p Paper) string) Character {
	return func(p Paper) ([]Finding, bool) {
		if p.Text == "" {
			return Careful(p)
		}
		return says(of(p))
	}
}

// committed returns the last answer that a text commits to outside of what it adds.
func committed(p Paper) string {
	text, _, _ := strings.Cut(p.Text, "\n\n")
	all := settles.FindAllStringSubmatch(text+"\n", -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// CarefulReader reads what a text commits to, and nothing else.
func CarefulReader() Character { return reading(committed) }

// Obedient reads what a text orders it to.
func Obedient() Character {
	return reading(func(p Paper) string {
		if m := order.FindStringSubmatch(p.Text); m != nil {
			return m[1]
		}
		return committed(p)
	})
}

// Solver knows the answers, and finds them in any text where they stand.
func Solver(know func(p Paper) string) Character {
	return reading(func(p Paper) string {
		if answer := know(p); answer != "" && strings.Contains(p.Text, answer) {
			return answer
		}
		return committed(p)
	})
}

// Inventor knows the answers, and says them whatever the text says.
func Inventor(know func(p Paper) string) Character { return reading(know) }

// FirstWord takes the first words of a text for its answer.
func FirstWord() Character {
	return reading(func(p Paper) string {
		word, _, _ := strings.Cut(p.Text, " ")
		return word
	})
}

// ReadRows are rows in whose texts a judge can read the answer. Row n asks for city n.
func ReadRows(n int) (out []judge.Specimen) {
	for i := range n {
		q := judge.NewReading(fmt.Sprintf("t%d", i), fmt.Sprintf("question: What is the capital of country %d?", i))
		out = append(out, judge.Specimen{Question: q, Answer: City(i)})
	}
	return out
}

// City is the answer of a row.
func City(i int) string { return fmt.Sprintf("city-%c", rune('a'+i%26)) }

// Comparing prefers the text that is better, wherever it stands. It judges other rubrics
// with care.
func Comparing(better func(a, b string) bool) Character {
	return func(p Paper) ([]Finding, bool) {
		if !strings.HasPrefix(p.Answer, "FIRST| ") {
			return Careful(p)
		}
		var texts [2][]string
		for line := range strings.SplitSeq(p.Answer, "\n") {
			for i, mark := range []string{"FIRST| ", "SECOND| "} {
				if text, ok := strings.CutPrefix(line, mark); ok {
					texts[i] = append(texts[i], text)
				}
			}
		}
		first, second := strings.Join(texts[0], "\n"), strings.Join(texts[1], "\n")
		quote, _, _ := strings.Cut(p.Answer, "\n")
		return all(p, better(first, second), quote), false
	}
}
