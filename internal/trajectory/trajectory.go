// Package trajectory is the one form of what an agent did, step by step, whatever
// program it is: its messages, the calls of tools, what these returned, and what each
// answer of its model took.
//
// Steps are lines of JSON. Their texts were written by agents and models, so they are
// bounded, redacted, and ASCII; only [Read] of what [Recorder] wrote returns them.
package trajectory

import (
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// File is the name of the raw file with an agent's steps.
const File = "steps.jsonl"

// By says whose word a step is.
type By string

// Who speaks.
const (
	Model By = "model" // its provider's answer
	Agent By = "agent" // a request: what the agent's program says that users, tools and others said
	Relay By = "relay" // what passes the requests on
)

// Kind is what a step is.
type Kind string

// The kinds.
const (
	Message   Kind = "message"
	Reasoning Kind = "reasoning" // that the provider shows
	Call      Kind = "call"      // of a tool, with its arguments
	Result    Kind = "result"    // of a call, as the agent returns it to the model
	Answer    Kind = "answer"    // ends what one answer of the model said
	Error     Kind = "error"     // a request without an answer
)

// Step is one step. What a kind does not have is zero.
type Step struct {
	At   time.Time `json:"at"`
	By   By        `json:"by"`
	Kind Kind      `json:"kind"`
	// Role is that of a message in a request, such as system or user; assistant is a
	// message of the model's that no answer had.
	Role string `json:"role,omitzero"`
	Call string `json:"call,omitzero"` // the call's name for its result, if it has one
	Name string `json:"name,omitzero"` // of the tool
	Text string `json:"text,omitzero"`
	// Bytes is how long the text is, if that is not all of it.
	Bytes  int64 `json:"bytes,omitzero"`
	Failed bool  `json:"failed,omitzero"` // the tool, as the agent says
	// Of an answer, or an error:
	Model     string `json:"model,omitzero"`
	Status    int    `json:"status,omitzero"` // that the agent got
	Reason    string `json:"reason,omitzero"` // why there is no answer, or not all of it
	Took      int64  `json:"took_ms,omitzero"`
	Waited    int64  `json:"waited_ms,omitzero"` // a part of it, for a busy provider
	Usage     *Usage `json:"usage,omitzero"`
	Estimated bool   `json:"estimated,omitzero"` // the usage
}

// Usage is what an answer used, in tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"` // with the cached
	Cached int64 `json:"cached_input_tokens,omitzero"`
	Output int64 `json:"output_tokens"`
}

// omitted ends the lines of a recorder that left steps out.
type omitted struct {
	N int64 `json:"omitted"`
}

// The bounds of a step, in bytes: of its text, and of its names.
const (
	MaxText = 8 << 10
	maxName = 200
)

// searched is how much of the beginning and of the end of a text is searched for secrets:
// more than is kept.
const searched = 64 << 10

// mark is where a text was cut.
const mark = "\n[...]\n"

// shorten leaves out of a text what is neither kept nor searched.
func (s *Step) shorten() {
	if n := len(s.Text); n > 2*searched {
		s.Bytes, s.Text = int64(n), s.Text[:searched]+mark+s.Text[n-searched:]
	}
}

// bound cuts the step's texts. Of a long text the beginning and the end are kept.
func (s *Step) bound() {
	for _, name := range []*string{&s.Role, &s.Call, &s.Name, &s.Model, &s.Reason} {
		*name = valid(cutName(*name))
	}
	if len(s.Text) > MaxText {
		const tail = MaxText / 4
		s.Bytes = max(s.Bytes, int64(len(s.Text)))
		s.Text = head(s.Text, MaxText-tail-len(mark)) + mark + end(s.Text, tail)
	}
	s.Text = valid(s.Text)
}

func cutName(s string) string {
	if len(s) > maxName {
		return head(s, maxName-3) + "..."
	}
	return s
}

// head is at most the first n bytes, as whole characters.
func head(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// end is at most the last n bytes, as whole characters.
func end(s string, n int) string {
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// sameJSON is the one spelling of a JSON text, or the text if it is none.
func sameJSON(text string) string {
	v := jsontext.Value(text)
	if k := v.Kind(); k != '{' && k != '[' {
		return text
	}
	v = v.Clone()
	if v.Canonicalize() != nil {
		return text
	}
	return string(v)
}
