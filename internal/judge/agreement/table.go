package agreement

import (
	"fmt"
	"io"

	"securebench/internal/console"
	"securebench/internal/redact"
)

// WriteTable writes the result for a terminal.
func (r *Result) WriteTable(w io.Writer) error {
	sum, err := r.Digest()
	if err != nil {
		return err
	}
	t := console.NewTable(w)
	line := func(name, format string, args ...any) {
		t.Line("%s\t%s", name, redact.Escape(fmt.Sprintf(format, args...)))
	}
	line("judge", "%s, which answers as %s, %d votes, %s", r.Model, r.Answer, r.Votes, r.Decide)
	line("pack", "%s", r.Pack)
	if x := r.Texts; x != nil {
		line("accuracy", "%s", x.Accuracy)
		line("kappa", "%s", kappa(x.Kappa))
		line("false passes", "%s of what people fail", x.FalsePasses)
		line("false fails", "%s of what people pass", x.FalseFails)
		line("length", "false passes: %s of the longer half, %s of the shorter half", x.LongFalse, x.ShortFalse)
		line("no decision", "%d", x.Void)
	}
	if x := r.Pairs; x != nil {
		line("accuracy", "%s", x.Accuracy)
		line("kappa", "%s", kappa(x.Kappa))
		line("position", "%s the same place in both orders, %d of them the first", x.Position, x.FirstPlace)
		line("length", "the longer one chosen: %s; by people %s", x.Longer, x.PeopleLonger)
		line("ties", "%d", x.Ties)
	}
	cost := "no price is known"
	if n, ok := r.Usage["cost_microusd"]; ok {
		cost = fmt.Sprintf("%.6f USD", float64(n)/1e6)
	}
	line("cost", "%s, %d input and %d output tokens, %s", console.Plural(int(r.Usage["requests"]), "request"), r.Usage["input_tokens"], r.Usage["output_tokens"], cost)
	err = t.Flush()
	if err == nil {
		_, err = fmt.Fprintf(w, "\ndigest %s\n", sum) // whole, for judge.trusted
	}
	if err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

// String shows the share with its interval.
func (s Share) String() string {
	return fmt.Sprintf("%d of %d, %.1f %% %s", s.N, s.Of, 100*s.Rate, s.Interval)
}

func kappa(k *float64) string {
	if k == nil {
		return "unknown: one of the two decided everything alike"
	}
	return fmt.Sprintf("%.3f", *k)
}
