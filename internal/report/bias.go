package report

import (
	"fmt"
	"maps"
	"slices"

	"securebench/internal/console"
)

// Bias counts the attempts of one basis whose verdicts may have gone as something that
// should not decide them, such as the position of what is compared.
type Bias struct {
	Name     string  `json:"name"`
	Decided  int     `json:"decided"`  // attempts that went that way
	Attempts int     `json:"attempts"` // for which that is known
	Share    float64 `json:"share"`
}

// biases counts biases in the order of their names.
func biases(tasks []*task) (out []Bias) {
	by := map[string]*Bias{}
	for _, t := range tasks {
		for _, a := range t.attempts {
			if a.Outcome == repeated || a.Outcome == inconsistent {
				continue
			}
			for name, decided := range a.Biases {
				if by[name] == nil {
					by[name] = &Bias{Name: name}
				}
				by[name].Attempts++
				if decided {
					by[name].Decided++
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		b := *by[name]
		b.Share = Rounded(float64(b.Decided) / float64(b.Attempts))
		out = append(out, b)
	}
	return out
}

// of says how many of the attempts it is about went that way.
func (b Bias) of() string { return fmt.Sprintf("%d of %d", b.Decided, b.Attempts) }

// biases shows what may have decided beside the worth of candidates.
func (t *table) biases(s *Section) {
	if len(s.Biases) == 0 {
		return
	}
	t.Line("\n%s\tDECIDED\tSHARE", t.title("BIAS", s))
	for _, b := range s.Biases[:min(len(s.Biases), maxGroups)] {
		t.Line("  %s\t%s\t%s", console.Cell(b.Name, maxWord), b.of(), Percent(b.Share))
	}
}
