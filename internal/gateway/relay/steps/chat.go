package steps

import (
	"iter"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
	"securebench/internal/trajectory"
)

// Chat is the dialect of OpenAI's Chat Completions, as many servers have it.
func Chat() *Dialect {
	return &Dialect{asked: chatAsked, event: chatEvent, whole: chatWhole}
}

// chatMessage is a message, or a piece of one.
type chatMessage struct {
	Role      upstream.Text  `json:"role"`
	Name      upstream.Text  `json:"name"` // of a function that returned it
	Content   jsontext.Value `json:"content"`
	Refusal   upstream.Text  `json:"refusal"`
	Thought   upstream.Text  `json:"reasoning_content"`
	Thinking  jsontext.Value `json:"reasoning"`
	ToolCalls jsontext.Value `json:"tool_calls"`
	Function  chatFunction   `json:"function_call"`
	CallID    upstream.Text  `json:"tool_call_id"`
}

// chatCall is a call of a tool, or a piece of one.
type chatCall struct {
	Index    jsontext.Value `json:"index"`
	ID       upstream.Text  `json:"id"`
	Function chatFunction   `json:"function"`
	Custom   chatFunction   `json:"custom"`
}

type chatFunction struct {
	Name      upstream.Text  `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Input     upstream.Text  `json:"input"`
}

// text is what a function is called with.
func (f chatFunction) text() string { return told(f.Arguments) + string(f.Input) }

// reasoning is what a message says of it; servers have two names for that.
func (m chatMessage) reasoning() upstream.Text {
	if m.Thought != "" || m.Thinking.Kind() != '"' {
		return m.Thought
	}
	return read[upstream.Text](m.Thinking)
}

// steps adds those of a message, and reports whether more are wanted.
func (m chatMessage) steps(add func(trajectory.Step) bool) bool {
	switch m.Role {
	case "tool", "function":
		return add(trajectory.Step{Kind: trajectory.Result, Call: string(m.CallID), Name: string(m.Name), Text: result(m.Content)})
	}
	if text := string(m.reasoning()); text != "" && !add(trajectory.Step{Kind: trajectory.Reasoning, Text: text}) {
		return false
	}
	if !says(add, m.Role, m.Content) || m.Refusal != "" && !add(trajectory.Step{Kind: trajectory.Message, Role: string(m.Role), Text: string(m.Refusal)}) {
		return false
	}
	more := true
	wire.Elements(m.ToolCalls, func(v jsontext.Value) bool {
		c := read[chatCall](v)
		more = add(trajectory.Step{Kind: trajectory.Call, Call: string(c.ID), Name: string(c.Function.Name + c.Custom.Name), Text: c.Function.text() + c.Custom.text()})
		return more
	})
	if m.Function.Name != "" {
		more = more && add(trajectory.Step{Kind: trajectory.Call, Name: string(m.Function.Name), Text: m.Function.text()})
	}
	return more
}

// chatAsked returns the parts of a request.
func chatAsked(body jsontext.Value) iter.Seq[trajectory.Part] {
	return func(yield func(trajectory.Part) bool) {
		parts("chat", wire.Member(body, "messages"), yield, func(v jsontext.Value, add adder) bool { return read[chatMessage](v).steps(add) })
	}
}

// chatEvent reads an event, which has pieces of one or several answers.
func chatEvent(a *Answer, _ string, data jsontext.Value) {
	wire.Elements(wire.Member(data, "choices"), func(v jsontext.Value) bool {
		a.chatPiece(number(wire.Member(v, "index")), read[chatMessage](wire.Member(v, "delta")))
		return true
	})
}

// chatPiece takes a piece of a message.
func (a *Answer) chatPiece(choice string, m chatMessage) {
	a.piece(choice+" reasoning", trajectory.Reasoning, m.reasoning())
	for _, text := range texts(m.Content) {
		a.piece(choice+" content", trajectory.Message, upstream.Text(text))
	}
	a.piece(choice+" refusal", trajectory.Message, m.Refusal)
	wire.Elements(m.ToolCalls, func(v jsontext.Value) bool {
		c := read[chatCall](v)
		key := choice + " call " + number(c.Index)
		if p := a.open[key]; p == nil || c.ID != "" && string(c.ID) != p.step.Call { // some servers number all calls 0
			a.begin(key, trajectory.Step{Kind: trajectory.Call, Call: string(c.ID), Name: string(c.Function.Name + c.Custom.Name)})
		}
		a.piece(key, trajectory.Call, upstream.Text(c.Function.text()+c.Custom.text()))
		return true
	})
	if key := choice + " function"; m.Function.Name != "" && a.open[key] == nil {
		a.begin(key, trajectory.Step{Kind: trajectory.Call, Name: string(m.Function.Name)})
	}
	a.piece(choice+" function", trajectory.Call, upstream.Text(m.Function.text()))
}

// number is a small number of a choice or a call, "0" for anything else.
func number(v jsontext.Value) string {
	n, err := strconv.ParseUint(string(v), 10, 16)
	if err != nil {
		return "0"
	}
	return strconv.FormatUint(n, 10)
}

// chatWhole reads an answer.
func chatWhole(a *Answer, body jsontext.Value) {
	r := read[struct {
		Choices jsontext.Value `json:"choices"`
	}](body)
	wire.Elements(r.Choices, func(v jsontext.Value) bool {
		m := read[struct {
			Message chatMessage `json:"message"`
		}](v).Message
		m.Role = ""
		return m.steps(a.add)
	})
}
