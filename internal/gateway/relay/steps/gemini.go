package steps

import (
	"cmp"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
	"securebench/internal/trajectory"
)

// Gemini is the dialect of Google's Gemini API. Its calls have names, and seldom an id.
func Gemini() *Dialect {
	return &Dialect{asked: geminiAsked, event: geminiEvent, whole: func(a *Answer, body jsontext.Value) { geminiEvent(a, "", body) }}
}

// geminiPart is a part of a content. Clients spell names in two ways.
type geminiPart struct {
	Text      upstream.Text  `json:"text"`
	Thought   jsontext.Value `json:"thought"`
	Call      geminiCall     `json:"functionCall"`
	CallOld   geminiCall     `json:"function_call"`
	Result    geminiCall     `json:"functionResponse"`
	ResultOld geminiCall     `json:"function_response"`
	Inline    geminiData     `json:"inlineData"`
	InlineOld geminiData     `json:"inline_data"`
}

type geminiCall struct {
	ID       upstream.Text  `json:"id"`
	Name     upstream.Text  `json:"name"`
	Args     jsontext.Value `json:"args"`
	Response jsontext.Value `json:"response"`
}

type geminiData struct {
	Type    upstream.Text `json:"mimeType"`
	TypeOld upstream.Text `json:"mime_type"`
}

// step is that of a part, of no kind if it is none.
func (p geminiPart) step(role upstream.Text) trajectory.Step {
	if role == "model" {
		role = "assistant"
	}
	call, data := p.Call, cmp.Or(p.Inline.Type+p.Inline.TypeOld, p.InlineOld.Type+p.InlineOld.TypeOld)
	if call.Name == "" {
		call = p.CallOld
	}
	returned := p.Result
	if returned.Name == "" {
		returned = p.ResultOld
	}
	switch {
	case call.Name != "":
		return trajectory.Step{Kind: trajectory.Call, Call: string(call.ID), Name: string(call.Name), Text: cmp.Or(compact(call.Args), "{}")}
	case returned.Name != "":
		return trajectory.Step{Kind: trajectory.Result, Call: string(returned.ID), Name: string(returned.Name), Text: compact(returned.Response)}
	case p.Text != "" && p.Thought.Kind() == 't':
		return trajectory.Step{Kind: trajectory.Reasoning, Text: string(p.Text)}
	case p.Text != "":
		return trajectory.Step{Kind: trajectory.Message, Role: string(role), Text: string(p.Text)}
	case data != "":
		return trajectory.Step{Kind: trajectory.Message, Role: string(role), Text: "[" + string(data) + "]"}
	}
	return trajectory.Step{}
}

// geminiContent is what somebody says.
type geminiContent struct {
	Role  upstream.Text  `json:"role"`
	Parts jsontext.Value `json:"parts"`
}

// steps calls add with those of a content, as long as that wants more.
func (c geminiContent) steps(add func(trajectory.Step) bool) bool {
	more := true
	wire.Elements(listed(c.Parts), func(v jsontext.Value) bool {
		if s := read[geminiPart](v).step(c.Role); s.Kind != "" {
			more = add(s)
		}
		return more
	})
	return more
}

// listed returns a list, also where an object stands for a list of one.
func listed(v jsontext.Value) jsontext.Value {
	if v.Kind() != '{' {
		return v
	}
	return slices.Concat(jsontext.Value("["), v, jsontext.Value("]"))
}

// geminiAsked returns the parts of a request.
func geminiAsked(body jsontext.Value) iter.Seq[trajectory.Part] {
	return func(yield func(trajectory.Part) bool) {
		for _, name := range []string{"systemInstruction", "system_instruction"} {
			v := wire.Member(body, name)
			if !yield(trajectory.Part{Place: "gemini system", Raw: v, Steps: func(add adder) bool {
				c := read[geminiContent](v)
				c.Role = "system"
				return c.steps(add)
			}}) {
				return
			}
		}
		parts("gemini", listed(wire.Member(body, "contents")), yield, func(v jsontext.Value, add adder) bool {
			c := read[geminiContent](v)
			c.Role = cmp.Or(c.Role, "user")
			return c.steps(add)
		})
	}
}

// geminiEvent reads an event: an answer with the next parts. Texts of a kind that follow
// each other are one.
func geminiEvent(a *Answer, _ string, data jsontext.Value) {
	wire.Elements(wire.Member(data, "candidates"), func(v jsontext.Value) bool {
		key, content := number(wire.Member(v, "index")), geminiContent{Parts: wire.Member(wire.Member(v, "content"), "parts")}
		return content.steps(func(s trajectory.Step) bool {
			last := a.open[key]
			if last != nil && last.step.Kind == s.Kind && (s.Kind == trajectory.Message || s.Kind == trajectory.Reasoning) {
				a.piece(key, s.Kind, upstream.Text(s.Text))
				return true
			}
			return a.begin(key, s) != nil
		})
	})
}
