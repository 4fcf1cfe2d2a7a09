package model

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/upstream"
)

// called is a call of a tool in an answer, whose arguments are JSON as the provider wrote
// it.
type called struct{ name, arguments string }

// calls are those of an answer as they come, by the provider's number.
type calls struct {
	list []*pendingCall
	at   map[int64]int
}

type pendingCall struct {
	id              string
	name, arguments strings.Builder
}

// piece adds to a call. A piece without a number begins a call if it has a name, and
// belongs to the last one otherwise.
func (c *calls) piece(number *int64, id string, name, arguments upstream.Text) {
	i, known := len(c.list)-1, len(c.list) > 0 && (name == "" || id != "" && id == c.list[len(c.list)-1].id)
	if number != nil {
		i, known = c.at[*number]
	}
	if known && id != "" && c.list[i].id != "" && id != c.list[i].id {
		known = false // some servers number all calls 0
	}
	if !known {
		i = len(c.list)
		c.list = append(c.list, &pendingCall{id: id})
	} else if id != "" && id == c.list[i].id {
		name = "" // some repeat it with each piece
	}
	if number != nil {
		if c.at == nil {
			c.at = map[int64]int{}
		}
		c.at[*number] = i
	}
	c.list[i].name.WriteString(string(name))
	c.list[i].arguments.WriteString(string(arguments))
}

// all returns the calls.
func (c *calls) all() (out []called) {
	for _, p := range c.list {
		out = append(out, called{p.name.String(), p.arguments.String()})
	}
	return out
}

// stated returns the answer with its calls as its text: a JSON list of objects with
// arguments and name. What the model said beside them is kept apart. Arguments that are no
// strict JSON object stay the text that they are.
func (a Answer) stated() Answer {
	if len(a.calls) == 0 {
		return a
	}
	if len(a.calls) == 1 {
		a.Called = a.calls[0].arguments
	}
	b := []byte{'['}
	for i, c := range a.calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"arguments":`...)
		b = append(b, argumentsOf(c.arguments)...)
		b = append(b, `,"name":`...)
		b = append(b, quoted(c.name)...)
		b = append(b, '}')
	}
	a.Beside, a.Text, a.calls = a.Text, string(append(b, ']')), nil
	return a
}

// argumentsOf writes arguments with their keys in order, and numbers and texts as they
// are.
func argumentsOf(text string) jsontext.Value {
	v := jsontext.Value(strings.TrimSpace(text))
	if len(v) == 0 {
		return jsontext.Value("{}") // a tool without parameters
	}
	if v.Kind() != '{' || v.Format(jsontext.ReorderRawObjects(true), jsontext.EscapeForHTML(true)) != nil {
		return quoted(text)
	}
	return v
}

// quoted is a text as JSON, without characters that could be read as tags.
func quoted(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // bytes that are no text are replaced
	v := jsontext.Value(b)
	_ = v.Format(jsontext.EscapeForHTML(true)) // it is JSON
	return v
}

// function is a tool as the APIs of OpenAI have it.
type function struct {
	Type        string         `json:"type,omitzero"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      *bool          `json:"strict,omitzero"`
}

// functions are the tools of a question.
func functions(tools []harness.Tool) (out []function) {
	for _, t := range tools {
		out = append(out, function{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out
}
