package steps

import (
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
	"securebench/internal/trajectory"
)

// Responses is the dialect of OpenAI's Responses API.
func Responses() *Dialect {
	return &Dialect{asked: responsesAsked, event: responsesEvent, whole: responsesWhole}
}

// item is an element of the input or the output.
type item struct {
	Type    upstream.Text  `json:"type"`
	Role    upstream.Text  `json:"role"`
	Content jsontext.Value `json:"content"`
	Summary jsontext.Value `json:"summary"`
	Name    upstream.Text  `json:"name"`
	CallID  upstream.Text  `json:"call_id"`
	ID      upstream.Text  `json:"id"`
	Output  jsontext.Value `json:"output"`
	Status  upstream.Text  `json:"status"`
	// What a call is to do.
	Arguments jsontext.Value `json:"arguments"`
	Input     jsontext.Value `json:"input"`
	Action    jsontext.Value `json:"action"`
	Operation jsontext.Value `json:"operation"`
}

// steps adds those of an item, and reports whether more are wanted.
func (i item) steps(add func(trajectory.Step) bool) bool {
	kind := string(i.Type)
	switch name, call := strings.CutSuffix(kind, "_call"); {
	case kind == "message", kind == "" && i.Role != "":
		return says(add, i.Role, i.Content)
	case kind == "reasoning":
		text := strings.Join(append(texts(i.Summary), texts(i.Content)...), "\n")
		return strings.TrimSpace(text) == "" || add(trajectory.Step{Kind: trajectory.Reasoning, Text: text})
	case call:
		if i.Name != "" {
			name = string(i.Name)
		}
		text := ""
		for _, v := range []jsontext.Value{i.Arguments, i.Input, i.Action, i.Operation} {
			text += told(v)
		}
		return add(trajectory.Step{Kind: trajectory.Call, Call: string(i.CallID), Name: name, Text: text})
	case strings.HasSuffix(kind, "_output"):
		return add(trajectory.Step{Kind: trajectory.Result, Call: string(i.CallID), Text: result(i.Output),
			Failed: i.Status == "failed" || i.Status == "incomplete"})
	}
	return true
}

// told is a text, or other JSON.
func told(v jsontext.Value) string {
	if v.Kind() == '"' {
		return string(read[upstream.Text](v))
	}
	return compact(v)
}

// responsesAsked returns the parts of a request.
func responsesAsked(body jsontext.Value) iter.Seq[trajectory.Part] {
	return func(yield func(trajectory.Part) bool) {
		for _, part := range []struct{ name, role string }{{"instructions", "system"}, {"input", "user"}} { // of a text
			v := wire.Member(body, part.name)
			text := trajectory.Part{Place: "responses " + part.role, Raw: v, Steps: func(add adder) bool { return says(add, upstream.Text(part.role), v) }}
			if v.Kind() == '"' && !yield(text) ||
				!parts("responses", v, yield, func(v jsontext.Value, add adder) bool { return read[item](v).steps(add) }) {
				return
			}
		}
	}
}

// responsesEvent reads an event. Items come whole at their end.
func responsesEvent(a *Answer, name string, data jsontext.Value) {
	if strings.HasSuffix(name, ".delta") {
		return
	}
	e := read[struct {
		Type     upstream.Text  `json:"type"`
		Item     item           `json:"item"`
		Response jsontext.Value `json:"response"`
	}](data)
	switch e.Type {
	case "response.output_item.done":
		e.Item.steps(a.add)
	case "response.completed", "response.incomplete":
		if len(a.parts) == 0 { // of a server that sends no items
			responsesWhole(a, e.Response)
		}
	}
}

// responsesWhole reads an answer.
func responsesWhole(a *Answer, body jsontext.Value) {
	r := read[struct {
		Output jsontext.Value `json:"output"`
	}](body)
	wire.Elements(r.Output, func(e jsontext.Value) bool { return read[item](e).steps(a.add) })
}
