package preview

import (
	"fmt"
	"strconv"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/task"
)

// Sizes are what the attempts that remain may use of their provider, judging by the
// sizes of the pack, where no records say more.
type Sizes struct {
	InputTokens  Range `json:"input_tokens"`
	OutputTokens Range `json:"output_tokens"`
	// MicroUSD is the cost, absent without a price.
	MicroUSD *Range `json:"cost_microusd,omitzero"`
	Basis    string `json:"basis"`
}

// Range has what is least and what is most, which is absent if nothing bounds it.
type Range struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most,omitzero"`
}

// How sizes become tokens. A token is 2 bytes of some languages and 5 of English; a file
// takes as few tokens as a small picture does, or as many as a large one or a page.
const (
	mostBytes, leastBytes = 5, 2
	leastFile, mostFile   = 80, 3000
	leastAnswer           = 16
	// usualAnswer is how long an answer may be if nobody says, as budgets set aside.
	usualAnswer = 4096
)

// sizer adds up the sizes of tasks.
type sizer struct {
	asking       *setup.Asking // nil without a provider
	tasks        int64
	bytes, files int64
}

func (s *sizer) add(v task.AgentView) {
	if s.asking == nil {
		return
	}
	bytes, files := s.asking.First(v)
	s.tasks, s.bytes, s.files = s.tasks+1, s.bytes+int64(bytes), s.files+int64(files)
}

// sizes scales the sum to the attempts that remain.
func (s *sizer) sizes(p *Preview) *Sizes {
	if s.asking == nil || s.tasks == 0 || p.Remaining == 0 || p.Estimate != nil {
		return nil
	}
	n := int64(p.Remaining)
	scaled := func(sum int64) int64 { return sum * n / s.tasks }
	answer, said := s.asking.MaxTokens, "max_tokens"
	if answer == 0 {
		answer, said = usualAnswer, fmt.Sprint(usualAnswer)
	}
	out := &Sizes{Basis: fmt.Sprintf("one request an attempt, %d to %d bytes a token, answers of %d tokens to %s", leastBytes, mostBytes, leastAnswer, said),
		InputTokens:  Range{scaled(s.bytes/mostBytes + leastFile*s.files), scaled(s.bytes/leastBytes + mostFile*s.files)},
		OutputTokens: Range{n * min(leastAnswer, answer), n * answer}}
	if !s.asking.Once {
		out.Basis = fmt.Sprintf("one request an attempt at least, %d bytes a token, answers of %d tokens", mostBytes, leastAnswer)
		out.InputTokens.Most, out.OutputTokens.Most = 0, 0
	}
	if price := s.asking.Price; price != nil {
		cost := func(in, written int64) int64 { return int64(float64(in)*price.Input + float64(written)*price.Output) }
		out.MicroUSD = &Range{cost(out.InputTokens.Least, out.OutputTokens.Least), cost(out.InputTokens.Most, out.OutputTokens.Most)}
	}
	out.bound(s.asking.Most, n)
	return out
}

// bound keeps the most to the budget of each attempt.
func (s *Sizes) bound(b harness.Budget, attempts int64) {
	least := func(most *int64, bound int64) {
		if bound > 0 && (*most == 0 || *most > bound) {
			*most = bound
		}
	}
	least(&s.InputTokens.Most, b.Tokens*attempts)
	least(&s.OutputTokens.Most, b.Tokens*attempts)
	if s.MicroUSD != nil {
		least(&s.MicroUSD.Most, int64(b.Cost*1e6)*attempts)
	}
}

// lines shows the cost and the tokens.
func (s *Sizes) lines(line func(name, format string, args ...any)) {
	cost := "unknown, since the model has no price"
	if s.MicroUSD != nil {
		cost = s.MicroUSD.text(func(n int64) string { return fmt.Sprintf("%.4g", float64(n)/1e6) }) + " USD"
	}
	line("cost", "%s", cost)
	tokens := func(n int64) string { return strconv.FormatInt(n, 10) }
	line("", "%s tokens of input, %s of output", s.InputTokens.text(tokens), s.OutputTokens.text(tokens))
	line("", "by sizes: %s", s.Basis)
}

// text writes a range, whose ends it writes with show.
func (r Range) text(show func(int64) string) string {
	if r.Most == 0 {
		return "at least " + show(r.Least)
	}
	return show(r.Least) + " to " + show(r.Most)
}
