// Package agreement compares the decisions of a judge with those of people, so that a
// judge is chosen by evidence: how often the two agree, by chance or not, what it lets
// pass, and whether the place or the length of a text sways it.
package agreement

import (
	"slices"

	"securebench/internal/report"
)

// Choice is which of two texts is better.
type Choice int

// The choices. The zero value is neither: a tie, or no decision.
const (
	Neither Choice = iota
	First
	Second
)

// Other is the same choice of the two texts in the other order.
func (c Choice) Other() Choice {
	switch c {
	case First:
		return Second
	case Second:
		return First
	}
	return Neither
}

// Text is a text that people and a judge decided on.
type Text struct {
	Passed bool // by people
	Judged bool // by the judge; a text without a decision did not pass
	Void   bool // the judge gave no decision
	Bytes  int
}

// Pair is two texts of which people prefer one, and what a judge chose.
type Pair struct {
	Preferred Choice // by people
	// Given is the judge's choice of the texts in their order, and Turned in the other:
	// First is then the second text.
	Given, Turned Choice
	Bytes         [2]int
}

// sum is the choice of a judge over both orders, as JudgeBench takes it: a choice in one
// of them is enough, unless the other contradicts it.
func (p Pair) sum() Choice {
	votes := map[Choice]int{First: 1, Second: -1}
	switch n := votes[p.Given] + votes[p.Turned.Other()]; {
	case n > 0:
		return First
	case n < 0:
		return Second
	}
	return Neither
}

// Share is a part of a number, with its rate and 95 % interval.
type Share struct {
	N        int             `json:"n"`
	Of       int             `json:"of"`
	Rate     float64         `json:"rate"`
	Interval report.Interval `json:"interval_95"` // Wilson's
}

// share computes the rest.
func share(n, of int) Share {
	rate := 0.0
	if of > 0 {
		rate = float64(n) / float64(of)
	}
	return Share{N: n, Of: of, Rate: report.Rounded(rate), Interval: report.Wilson(rate, of).Rounded()}
}

// Texts is the agreement on texts that each passed or failed.
type Texts struct {
	Accuracy Share `json:"accuracy"` // decisions that are those of people
	// Kappa is Cohen's, absent where people or the judge decided everything alike.
	Kappa       *float64 `json:"kappa,omitzero"`
	FalsePasses Share    `json:"false_passes"` // passes of the judge, of what people fail
	FalseFails  Share    `json:"false_fails"`  // fails of the judge, of what people pass
	Void        int      `json:"void"`         // texts without a decision, which count as fails
	// LongFalse are false passes among the longer half of what people fail, ShortFalse
	// those among the shorter half.
	LongFalse  Share `json:"false_passes_of_longer_half"`
	ShortFalse Share `json:"false_passes_of_shorter_half"`
}

// Pairs is the agreement on pairs.
type Pairs struct {
	Accuracy Share `json:"accuracy"` // choices over both orders that are those of people
	// Kappa is Cohen's over the three choices.
	Kappa *float64 `json:"kappa,omitzero"`
	Ties  int      `json:"ties"` // pairs of which the judge chose neither
	// Position are pairs of which the judge chose the same place in both orders, and
	// FirstPlace those of them with the first.
	Position   Share `json:"position_bias"`
	FirstPlace int   `json:"position_bias_first"`
	// Longer are choices of the longer text, of those pairs that have one and of which
	// the judge chose one; PeopleLonger is that of people.
	Longer       Share `json:"longer_chosen"`
	PeopleLonger Share `json:"longer_chosen_by_people"`
}

// OfTexts compares decisions on texts.
func OfTexts(all []Text) Texts {
	var right, passes, let, void, failed int
	table := counts{}
	for _, t := range all {
		judged := t.Judged && !t.Void
		table.add(int(boolean(t.Passed)), int(boolean(judged)))
		if judged == t.Passed {
			right++
		}
		if t.Void {
			void++
		}
		switch {
		case t.Passed:
			passes++
			if !judged {
				failed++
			}
		case judged:
			let++
		}
	}
	out := Texts{Accuracy: share(right, len(all)), Kappa: table.kappa(), FalsePasses: share(let, len(all)-passes), FalseFails: share(failed, passes), Void: void}
	out.LongFalse, out.ShortFalse = byLength(all)
	return out
}

func boolean(b bool) int8 {
	if b {
		return 1
	}
	return 0
}

// byLength divides what people fail at its median length.
func byLength(all []Text) (long, short Share) {
	var lengths []int
	for _, t := range all {
		if !t.Passed {
			lengths = append(lengths, t.Bytes)
		}
	}
	slices.Sort(lengths)
	middle := 0
	if n := len(lengths); n > 0 {
		middle = lengths[(n-1)/2]
	}
	var n, of [2]int
	for _, t := range all {
		if t.Passed {
			continue
		}
		half := boolean(t.Bytes > middle)
		of[half]++
		if t.Judged && !t.Void {
			n[half]++
		}
	}
	return share(n[1], of[1]), share(n[0], of[0])
}

// OfPairs compares choices between texts.
func OfPairs(all []Pair) Pairs {
	var right, ties, position, first, long, decided, theirs, longer int
	table := counts{}
	for _, p := range all {
		chosen := p.sum()
		table.add(int(p.Preferred), int(chosen))
		if chosen == p.Preferred {
			right++
		}
		if chosen == Neither {
			ties++
		}
		if p.Given != Neither && p.Given == p.Turned {
			position++
			if p.Given == First {
				first++
			}
		}
		if p.Bytes[0] == p.Bytes[1] {
			continue
		}
		longest := First
		if p.Bytes[1] > p.Bytes[0] {
			longest = Second
		}
		if chosen != Neither {
			decided++
			if chosen == longest {
				long++
			}
		}
		if p.Preferred != Neither {
			longer++
			if p.Preferred == longest {
				theirs++
			}
		}
	}
	return Pairs{Accuracy: share(right, len(all)), Kappa: table.kappa(), Ties: ties, Position: share(position, len(all)), FirstPlace: first,
		Longer: share(long, decided), PeopleLonger: share(theirs, longer)}
}

// counts is how often people (rows) and a judge (columns) decided so.
type counts [3][3]int

func (c *counts) add(people, judge int) { c[people][judge]++ }

// kappa is the agreement beyond chance: J. Cohen, "A coefficient of agreement for nominal
// scales", Educational and Psychological Measurement 20 (1960), 37-46. It is nil where
// chance alone would agree always.
func (c *counts) kappa() *float64 {
	var n, agree, chance float64
	for i := range c {
		var row, column float64
		for k := range c {
			row, column = row+float64(c[i][k]), column+float64(c[k][i])
		}
		n, agree, chance = n+row, agree+float64(c[i][i]), chance+row*column
	}
	if n == 0 || chance == n*n {
		return nil
	}
	kappa := report.Rounded((agree/n - chance/(n*n)) / (1 - chance/(n*n)))
	return &kappa
}
