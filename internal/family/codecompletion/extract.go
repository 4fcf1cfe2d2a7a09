package codecompletion

import (
	"context"
	_ "embed" // the extractor's program
	"slices"

	"securebench/internal/family"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

//go:embed extract.py
var extractSource []byte

// The ways in which code is taken from an agent's text, as records name them.
const (
	asIs      = "as_is"      // all of it, and not a byte is changed
	allText   = "text"       // all that is left without reasoning and stop tokens
	oneFence  = "fence"      // the one fenced block
	lastFence = "last_fence" // the last of several that binds a proxied name
	openFence = "open_fence" // a block that has no end
	fences    = "fences"     // one of several, with what it needs of the others
	inTags    = "tags"       // between tags such as [PYTHON] and [/PYTHON]
	fromLines = "lines"      // a program between lines of prose
)

// extraction is the code that was found in a candidate.
type extraction struct {
	how       string
	code      []byte // nil is the candidate's own bytes
	completed bool   // the prompt's last definition is put in front
}

// extract takes the code from an agent's text. That happens in the candidate box,
// with trusted code, before any of the candidate's code runs.
func (b *candidateBox) extract(ctx context.Context, text []byte, prompt string, a analysed) (extraction, error) {
	if len(text)+len(prompt) > maxSource { // they share a frame
		return extraction{}, family.Fail(verdict.CandidateTooLarge, "the candidate and the prompt are over 8 MiB")
	}
	r, err := b.ask(ctx, "extract", value.Bytes(extractSource), value.Bytes(text), value.Text(prompt), a.List())
	if err != nil {
		return extraction{}, err
	}
	switch {
	case r.kind == "large":
		return extraction{}, family.Fail(verdict.CandidateTooLarge, "the candidate's code is over 8 MiB")
	case r.kind == "raise":
		return extraction{}, family.Fail(verdict.TestsFailed, "no code can be taken from the candidate's text")
	case r.kind != "value" || r.parts != 1:
		return extraction{}, violation("an extraction of an unknown form")
	}
	return readExtraction(r.d)
}

func readExtraction(d *value.Decoder) (extraction, error) {
	n := d.Tuple()
	x := extraction{how: d.Text()}
	code := d.Value()
	x.completed = d.Bool()
	bare := x.how == asIs
	switch {
	case n != 3 || d.End() != nil:
	case bare && code.Kind == value.KindNone && !x.completed:
		return x, nil
	case !bare && code.Kind == value.KindBytes && slices.Contains([]string{allText, oneFence, lastFence, openFence, fences, inTags, fromLines}, x.how):
		x.code = append([]byte{}, code.Atom...) // not nil, and not the frame
		return x, nil
	}
	return extraction{}, violation("an extraction of an unknown form")
}
