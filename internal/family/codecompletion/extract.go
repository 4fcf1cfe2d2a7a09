package codecompletion

import (
	"context"
	_ "embed" // the extractor's program

	"securebench/internal/verdict"
)

//go:embed extract.py
var extractSource []byte

// The ways in which code is taken from what an agent said, as records name
// them.
const (
	asIs      = "as_is"      // all of it, and not a byte is changed
	allText   = "text"       // all that is left without reasoning and stop tokens
	oneFence  = "fence"      // the one fenced block
	lastFence = "last_fence" // the last of several that binds a proxied name
	openFence = "open_fence" // a block that has no end
)

// extraction is what code a candidate was found to have.
type extraction struct {
	how       string
	code      []byte // nil is the candidate's own bytes
	completed bool   // the prompt's last definition stands in front
}

// extract takes the code from what an agent said. That happens in the
// worker's box, with trusted code, before any of the candidate's runs.
func (w *worker) extract(ctx context.Context, words []byte, prompt string, p plan) (extraction, error) {
	if len(words)+len(prompt) > maxSource { // they share a frame
		return extraction{}, &failure{verdict.CandidateTooLarge, "the candidate and the prompt are over 8 MiB"}
	}
	r, err := w.ask(ctx, "extract", bytesValue(extractSource), bytesValue(words), stringValue(prompt), p.nameList())
	if err != nil {
		return extraction{}, err
	}
	switch {
	case r.kind == "large":
		return extraction{}, &failure{verdict.CandidateTooLarge, "the candidate's code is over 8 MiB"}
	case r.kind == "raise":
		return extraction{}, &failure{verdict.TestsFailed, "no code can be taken from what the candidate says"}
	case r.kind != "value" || r.parts != 1:
		return extraction{}, violation("an extraction of no known form")
	}
	return readExtraction(r.d)
}

func readExtraction(d *decoder) (extraction, error) {
	n := d.tuple()
	x := extraction{how: d.str()}
	code := d.value(1)
	x.completed = d.bool()
	bare := x.how == asIs
	switch {
	case n != 3 || d.end() != nil:
	case bare && code.kind == kindNone && !x.completed:
		return x, nil
	case !bare && code.kind == kindBytes && (x.how == allText || x.how == oneFence || x.how == lastFence || x.how == openFence):
		x.code = append([]byte{}, code.atom...) // not nil, and not the frame
		return x, nil
	}
	return extraction{}, violation("an extraction of no known form")
}

// nameList encodes the names alone.
func (p plan) nameList() value {
	out := value{kind: kindList}
	for _, n := range p.names {
		out.items = append(out.items, stringValue(n.name))
	}
	return out
}
